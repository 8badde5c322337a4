"""What an MCP tool answered, as the value that a tool of ours returns: text, blocks, and honest words for the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from midstride.tools.schema import canonical

__all__ = ["error_text", "value_of"]

Json = Any
Block = dict[str, Any]


def value_of(result: Mapping[str, Json]) -> Json:
    """Return the value of a `CallToolResult`, in the protocol's own JSON: a text, or blocks, or None for nothing.

    Structured content that the texts repeat, as the protocol wants it for older clients, is told once.
    """
    content = result.get("content")
    blocks = [_block(item) for item in content] if isinstance(content, list) else []
    structured = result.get("structuredContent")
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    if structured is not None and not _repeats(texts, structured):
        blocks.append(_said(json.dumps(structured, ensure_ascii=False)))
    if not blocks:
        return None
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def error_text(result: Mapping[str, Json]) -> str:
    """Return what a result with `isError` says, as one text."""
    value = value_of(result)
    if isinstance(value, str):
        return value
    said = [block["text"] if block["type"] == "text" else f"[{block['type']}]" for block in value or []]
    return "\n".join(said) or "it did not say why"


def _repeats(texts: list[str], structured: Json) -> bool:
    """Tell whether *texts* hold *structured*, or all that is in it: as JSON, or each item in a text of its own."""
    read = [_read(text) for text in texts]
    # SDKs wrap what is no object into one of one field, "result" or another.
    bare = next(iter(structured.values())) if isinstance(structured, dict) and len(structured) == 1 else structured
    wanted = {_canonical(structured), _canonical(bare)}
    return bool(wanted & {_canonical(v) for v in [*read, *texts]}) or _canonical(bare) in (
        _canonical(read),
        _canonical(texts),
    )


def _read(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _canonical(value: Json) -> str:
    try:
        return canonical(value)
    except ValueError:  # NaN, which Python reads
        return repr(value)


# ---- a block a kind


def _block(item: Json) -> Block:
    kind = item.get("type") if isinstance(item, Mapping) else None
    make = _KINDS.get(kind) if isinstance(kind, str) else None
    try:
        return _said(f"[content of an unknown kind, {kind!r}, was left out]") if make is None else make(item)
    except (KeyError, TypeError, AttributeError):
        return _said(f"[content of kind {kind!r} was left out: it is not as the protocol has it]")


def _said(text: str) -> Block:
    return {"type": "text", "text": text}


def _text(item: Mapping[str, Json]) -> Block:
    return _said(str(item["text"]))


def _image(item: Mapping[str, Json]) -> Block:
    return _base64("image", item.get("mimeType"), item["data"])


def _audio(item: Mapping[str, Json]) -> Block:
    return _said(f"[audio ({item.get('mimeType')}, {_size(item['data'])}) was left out: it cannot be shown here]")


def _link(item: Mapping[str, Json]) -> Block:
    about = [str(item[name]) for name in ("mimeType", "description") if item.get(name)]
    size = [f"{item['size']:,} bytes"] if isinstance(item.get("size"), int) else []
    return _said(f"[a link to the resource {item.get('name') or ''} at {'; '.join([str(item['uri']), *size, *about])}]")


def _resource(item: Mapping[str, Json]) -> Block:
    resource = item["resource"]
    uri, kind = str(resource["uri"]), str(resource.get("mimeType") or "application/octet-stream")
    if "text" in resource:
        source = {"type": "text", "media_type": "text/plain", "data": str(resource["text"])}
        return {"type": "document", "source": source, "title": uri}
    if kind.startswith("image/"):
        return _base64("image", kind, resource["blob"])
    if kind == "application/pdf":
        return _base64("document", kind, resource["blob"]) | {"title": uri}
    return _said(f"[the resource {uri} ({kind}, {_size(resource['blob'])}) was left out: it cannot be shown here]")


def _base64(block: str, media_type: Json, data: Json) -> Block:
    if not isinstance(data, str):
        raise TypeError
    return {"type": block, "source": {"type": "base64", "media_type": media_type, "data": data}}


def _size(data: str) -> str:
    return f"{len(data.rstrip('=')) * 3 // 4:,} bytes"


_KINDS: Mapping[str, Callable[[Mapping[str, Json]], Block]] = {
    "text": _text,
    "image": _image,
    "audio": _audio,
    "resource": _resource,
    "resource_link": _link,
}
