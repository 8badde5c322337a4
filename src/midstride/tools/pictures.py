"""What a picture's first bytes say of it: its kind, and its width and height."""

from __future__ import annotations


def kind_of(data: bytes) -> str | None:
    """Return png, jpeg, gif or webp by the first bytes of *data*; None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    return "webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def pixels_of(data: bytes, kind: str) -> tuple[int, int] | None:
    """Return width and height, or None when the picture's head is damaged."""
    if kind == "png":
        size = _big(data[16:20]), _big(data[20:24])
    elif kind == "gif":
        size = _little(data[6:8]), _little(data[8:10])
    else:
        size = _pixels_of_jpeg(data) if kind == "jpeg" else _pixels_of_webp(data)
    return None if 0 in size else size


def _pixels_of_jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame header (ITU T.81, table B.1)
            return _big(data[at + 7 : at + 9]), _big(data[at + 5 : at + 7])
        at += 1 if marker == 0xFF else 2 + _big(data[at + 2 : at + 4])
    return 0, 0


def _pixels_of_webp(data: bytes) -> tuple[int, int]:
    form, at = data[12:16], data[20:30]
    if len(at) < 10:
        return 0, 0
    if form == b"VP8X":
        return _little(at[4:7]) + 1, _little(at[7:10]) + 1
    if form == b"VP8 ":
        return _little(at[6:8]) & 0x3FFF, _little(at[8:10]) & 0x3FFF
    if form == b"VP8L":
        bits = _little(at[1:5])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return 0, 0


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
