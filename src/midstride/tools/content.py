"""Results of any type made into content that every model API takes and every store can hold.

The neutral form is Anthropic's: a text, or a list of text, image and document blocks. Whatever a tool returns, what
comes out is valid: no blank text, no half of a surrogate pair, no NUL, no number that JSON lacks, nothing endless.
The same value gives the same content in every process. Only an `Exception` is caught here: KeyboardInterrupt and its
kind are a crash, also when they come out of a value's own `__repr__`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from midstride.tools.media import Document, Image
from midstride.tools.pictures import kind_of, pixels_of
from midstride.tools.plain import NODES_MAX, Walk
from midstride.tools.text import (
    TEXT_MAX,
    class_name,
    clean,
    cut,
    decoded,
    plain_str,
)

Block = dict[str, Any]
Keep = Callable[[bytes], str | None]
"""Keeps the whole of a result somewhere and says where; None when it cannot."""

# Below this a cut text would be little more than the note that it was cut.
CAP_MIN = 200
# Anthropic's limit for one image on every platform, in base64 characters (PROTOCOL A44: 10 MB on some, 5 on others).
IMAGE_MAX = 5 * 1024 * 1024
# The longest side that Anthropic takes (A44).
PIXELS_MAX = 8_000
# With more than 20 images in a request the longest side falls to 2,000 pixels (A44): one result stays below.
IMAGES_MAX = 20
# All images and documents of one result, in base64 characters; a whole request may have 32 MB (A46).
MEDIA_MAX = 10 * 1024 * 1024
# More parts than anybody reads; the rest is counted.
PARTS_MAX = 100

# The whole of a result that was cut is kept up to so many bytes; what is larger belongs into a file of the tool's.
WHOLE_MAX = 100_000_000

NOTHING = "(the tool returned nothing)"
EMPTY = "(empty)"
WHITE = "(only white space)"


def content_of(value: Any, cap: int = TEXT_MAX, *, keep: Keep | None = None) -> str | list[Block]:
    """Return *value* as the content of a tool result: a text, or blocks where there is an image or a document.

    At most *cap* characters of text in all (200 at least): head and tail are kept, and the middle says how much is
    missing. The whole of a text that was cut, and bytes that are no UTF-8, are given to *keep*, up to 100 MB, and a
    note on top says where they are. An iterator is read up to 1,000 items, so this belongs where the tool ran, under
    its timeout.
    """
    cap = max(cap, CAP_MIN)
    if value is None:
        return NOTHING
    try:
        parts = _parts(value)
        if parts is not None:
            note = _note(_texts(parts), keep) if sum(map(len, _texts(parts))) > cap else ""
            return [*_blocks(parts, cap), *([_said(note)] if note else [])]
        return _text(value, cap, keep)
    except Exception:
        return class_name(value)


def _text(value: Any, cap: int, keep: Keep | None = None) -> str:
    walk = Walk(cap)
    plain = _worded_json(walk.plain(value))
    note = _note(_all_of(value, walk, plain), keep) if walk.lossy or len(plain) > cap else ""
    return _shown(cut(plain, cap)) + (f"\n{note}" if note else "")


def _worded_json(plain: Any) -> str:
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, allow_nan=False)


# ---- the whole of what is cut


def _all_of(value: Any, walk: Walk, plain: str) -> Iterable[str | bytes]:
    """Return all of *value*, as far as it is still there: an iterator has been read, and is no longer."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return (bytes(value),)
    if isinstance(value, str):
        return (plain_str(value),)
    return (plain if walk.iterated else _worded_json(Walk(WHOLE_MAX, NODES_MAX + WHOLE_MAX // 1_000).plain(value)),)


def _texts(parts: Sequence[Any]) -> list[str]:
    """Return the texts among the parts of a result."""
    return [part if isinstance(part, str) else part["text"] for part in parts if _is_text(part)]


def _is_text(part: Any) -> bool:
    return isinstance(part, str) or (type(part) is dict and part.get("type") == "text" and _is_block(part))


def _note(whole: Iterable[str | bytes], keep: Keep | None) -> str:
    """Let *keep* have the whole of a result; return what the model is told of it."""
    if keep is None:
        return ""
    data = b"\n".join(part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass") for part in whole)
    if len(data) > WHOLE_MAX:
        return f"[The whole, {len(data):,} bytes, was not kept: at most {WHOLE_MAX:,} are]"
    where = keep(data)
    return f"[The whole, {len(data):,} bytes, is kept in {clean(where)}]" if where else ""


_KEPT = re.compile(r"\[The whole, [\d,]+ bytes, is kept in (.+)\]\Z")


def kept_in(text: str) -> str | None:
    """Return where the whole of a result is kept, if *text* is a part of it that says so at its end."""
    found = _KEPT.search(text)
    return found[1] if found else None


def _shown(text: str) -> str:
    """Return *text*, or words for it where it is blank, since the APIs refuse blank text (PROTOCOL A10 to A12, A17)."""
    if text.strip():
        return text
    return WHITE if text else EMPTY


# ---- blocks


def _parts(value: Any) -> Sequence[Any] | None:
    """Return the parts of a result that is to be shown as blocks; None when it is text."""
    if _is_part(value):
        return [value]
    return list(value) if type(value) in (list, tuple) and any(map(_is_part, value)) else None


def _is_part(value: Any) -> bool:
    return type(value) in (Image, Document) or (type(value) is dict and _is_block(value))


def _is_block(block: Block) -> bool:
    """Tell a ready-made block from data that only looks a little like one."""
    kind, source = block.get("type"), block.get("source")
    if kind == "text":
        return isinstance(block.get("text"), str) and block.keys() <= {"type", "text", "citations", "cache_control"}
    if kind not in ("image", "document") or type(source) is not dict:
        return False
    if source.get("type") == "url":
        url = source.get("url")
        return isinstance(url, str) and url.startswith(("https://", "http://"))
    forms = ("base64",) if kind == "image" else ("base64", "text")
    return source.get("type") in forms and isinstance(source.get("data"), str)


def _blocks(parts: Sequence[Any], cap: int) -> list[Block]:
    many = min(PARTS_MAX, cap // 100)  # each text has room to say that it was cut
    blocks = _bounded([_block(part, cap) for part in parts[:many]])
    if len(parts) > many:
        blocks.append(_said(f"[{len(parts) - many:,} more parts were left out]"))
    blocks = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    return _shared(blocks, cap) or [_said(EMPTY)]


def _block(part: Any, cap: int) -> Block:
    if isinstance(part, Image):
        return _image(part)
    if isinstance(part, Document):
        return _document(part)
    if isinstance(part, str):
        return _said(clean(part))
    if not _is_part(part):
        return _said(_text(part, cap))
    return _said(clean(part["text"])) if part["type"] == "text" else _ready(part)


def _ready(block: Block) -> Block:
    """Return a ready-made image or document checked like ours; fields that bind later requests are dropped.

    Those are `cache_control`, of which a request may hold four (A29), and `citations`, equal for all (A42).
    """
    kind, source, title = block["type"], block["source"], block.get("title")
    if source["type"] == "url":
        return _titled({"type": kind, "source": {"type": "url", "url": clean(source["url"])}}, title)
    if source["type"] == "text":
        return _document(Document(source["data"], title=title))
    try:
        data = base64.b64decode(source["data"], validate=True)
    except (binascii.Error, ValueError):
        return _said(f"[{_a(kind)} was left out: its base64 is damaged]")
    return _image(Image(data, "")) if kind == "image" else _document(Document(data, source.get("media_type"), title))


def _image(image: Image) -> Block:
    if not isinstance(image.data, (bytes, bytearray, memoryview)):
        return _said(f"[an image was left out: its data is {class_name(image.data)}, not bytes]")
    data = bytes(image.data)
    kind = kind_of(data)
    if kind is None:
        return _said(f"[an image of {len(data):,} bytes was left out: it is no jpeg, png, gif or webp]")
    size = pixels_of(data, kind)
    if size is None:
        return _said(f"[an image of {len(data):,} bytes was left out: the {kind} is damaged]")
    if max(size) > PIXELS_MAX:
        return _said(f"[an image of {size[0]:,} x {size[1]:,} pixels was left out: at most {PIXELS_MAX:,} a side]")
    source = {"type": "base64", "media_type": f"image/{kind}", "data": base64.b64encode(data).decode("ascii")}
    if len(source["data"]) > IMAGE_MAX:
        return _said(f"[an image of {len(data):,} bytes was left out: it is more than 5 MB in base64]")
    return {"type": "image", "source": source}


def _document(document: Document) -> Block:
    data, media_type = document.data, document.media_type
    if isinstance(data, str) or (isinstance(media_type, str) and media_type.startswith("text/")):
        text = plain_str(data) if isinstance(data, str) else decoded(bytes(data))
        source = {"type": "text", "media_type": "text/plain", "data": _shown(clean(text))}
        return _titled({"type": "document", "source": source}, document.title)
    if not isinstance(data, (bytes, bytearray, memoryview)):
        return _said(f"[a document was left out: its data is {class_name(data)}, neither bytes nor text]")
    data = bytes(data)
    if not data.startswith(b"%PDF-") or b"/Encrypt" in data:
        what = "is encrypted" if data.startswith(b"%PDF-") else "is neither a PDF nor text"
        return _said(f"[a document of {len(data):,} bytes was left out: it {what}]")
    encoded = base64.b64encode(data).decode("ascii")
    source = {"type": "base64", "media_type": "application/pdf", "data": encoded}
    return _titled({"type": "document", "source": source}, document.title)


def _titled(block: Block, title: Any) -> Block:
    if block["type"] == "document" and isinstance(title, str) and title.strip():
        block["title"] = clean(title)[:200]  # a title is one line
    return block


def _said(text: str) -> Block:
    return {"type": "text", "text": text}


def _a(kind: str) -> str:
    return "an image" if kind == "image" else "a document"


def _bounded(blocks: Sequence[Block]) -> list[Block]:
    """Return *blocks* with a note in the place of each image and document that is too much for one result."""
    kept: list[Block] = []
    size = images = 0
    for block in blocks:
        data = 0 if _worded(block) else len(block["source"].get("data", ""))
        image = block["type"] == "image"
        if size + data > MEDIA_MAX or images + image > IMAGES_MAX:
            limit = f"10 MB or {IMAGES_MAX} images"
            kept.append(_said(f"[{_a(block['type'])} was left out: more than {limit} in one result]"))
            continue
        size, images = size + data, images + image
        kept.append(block)
    return kept


def _worded(block: Block) -> tuple[Block, str] | None:
    """Return where a block keeps its text, as a dict and a key; None when it has none."""
    if block["type"] == "text":
        return block, "text"
    return (block["source"], "data") if block["source"]["type"] == "text" else None


def _shared(blocks: list[Block], cap: int) -> list[Block]:
    """Cut the texts so that together they keep to *cap*: the short ones stay whole, the long ones share the rest."""
    places = [place for place in map(_worded, blocks) if place]
    places.sort(key=lambda place: len(place[0][place[1]]))
    for waiting, (where, name) in zip(range(len(places), 0, -1), places, strict=True):
        where[name] = cut(where[name], cap // waiting)
        cap -= len(where[name])
    return blocks
