"""What a tool may return beside data: a picture, a document."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for the model to see (jpeg, png, gif, webp); where *media_type* and the bytes differ, the bytes win."""

    data: bytes = field(repr=False)
    media_type: str


@dataclass(frozen=True, slots=True)
class Document:
    """A PDF as bytes, or a plain text; *media_type* is `application/pdf` or `text/plain` when not given."""

    data: bytes | str = field(repr=False)
    media_type: str | None = None
    title: str | None = None
