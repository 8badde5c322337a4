"""Pictures and documents in base64, looked at without decoding more than is needed and without any library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
BITS = {ord(letter): f"{value:06b}" for value, letter in enumerate(ALPHABET)}


class Picture(NamedTuple):
    """A picture's media type, and its width and height; 0 where the bytes do not tell them."""

    media_type: str
    width: int = 0
    height: int = 0

    @property
    def side(self) -> int:
        """The longer side."""
        return max(self.width, self.height)


def picture(data: str) -> Picture | None:
    """Return what the base64 text of a picture shows; None if it is none of the four kinds that are taken."""
    if not _is_base64(data):
        return None
    head = piece(data, 0, 32)
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return Picture("image/png", _big(head[16:20]), _big(head[20:24]))
    if head.startswith((b"GIF87a", b"GIF89a")):
        return Picture("image/gif", _little(head[6:8]), _little(head[8:10]))
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return Picture("image/webp", *_webp(head))
    if head.startswith(b"\xff\xd8\xff"):
        return Picture("image/jpeg", *_jpeg(data))
    return None


def _is_base64(data: str) -> bool:
    bare = data.rstrip("=")
    return not bare.strip(ALPHABET) and len(bare) % 4 != 1 and len(data) - len(bare) < 3


def piece(data: str, start: int, stop: int) -> bytes:
    """Decode the bytes from *start* to *stop* of a base64 text."""
    first = start // 3
    letters = data[first * 4 : -(-stop // 3) * 4].rstrip("=")
    bits = letters.translate(BITS)
    whole = len(bits) // 8
    decoded = int(bits[: whole * 8] or "0", 2).to_bytes(whole, "big")
    return decoded[start - first * 3 : stop - first * 3]


def _big(number: bytes) -> int:
    return int.from_bytes(number, "big")


def _little(number: bytes) -> int:
    return int.from_bytes(number, "little")


def _webp(head: bytes) -> tuple[int, int]:
    # The three forms of the WebP container: extended, lossless, lossy.
    if head[12:16] == b"VP8X":
        return _little(head[24:27]) + 1, _little(head[27:30]) + 1
    if head[12:16] == b"VP8L":
        packed = _little(head[21:25])
        return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF


FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""JPEG markers of a frame, which holds the size."""
SEGMENTS_MAX = 1000
"""Segments in front of the frame that are looked at; a picture has some dozens."""


def _jpeg(data: str) -> tuple[int, int]:
    at = 2
    for _ in range(SEGMENTS_MAX):
        segment = piece(data, at, at + 9)
        if len(segment) < 9 or segment[0] != 0xFF:
            break
        if segment[1] in FRAMES:
            return _big(segment[7:9]), _big(segment[5:7])
        at += 2 + _big(segment[2:4])
    return 0, 0


def is_encrypted(data: str) -> bool:
    """Tell whether the base64 text of a PDF file names /Encrypt, as an encrypted file does."""
    return any(letters in data for letters in ENCRYPT)


def _anywhere(name: bytes) -> Mapping[str, int]:
    # A name inside base64 text is written in one of three ways, by where it begins; the letters that it shares with
    # its neighbours are left out.
    found = {}
    for before in range(3):
        bits = "".join(f"{byte:08b}" for byte in name)
        skipped = -before * 8 % 6
        inner = bits[skipped:]
        letters = [inner[i : i + 6] for i in range(0, len(inner) - 5, 6)]
        found["".join(ALPHABET[int(six, 2)] for six in letters)] = before
    return found


ENCRYPT = _anywhere(b"/Encrypt")
