"""Whatever a tool returns becomes content that every API takes and every store can hold."""

import base64
import collections
import dataclasses
import itertools
import json
import numbers
import os
import sqlite3
import struct
import subprocess
import sys
import zlib
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, SecretStr, field_serializer

from midstride.tools import Document, Image, content_of, text_of_error


class Colour(Enum):
    RED = "red"
    PAIR = (1, 2)


class Size(IntEnum):
    BIG = 3


class Model(BaseModel):
    day: date
    tags: set[str] = set()
    secret: SecretStr = SecretStr("x")
    hidden: str = Field("h", exclude=True)


@dataclasses.dataclass
class Point:
    x: int
    y: Any = None


class Counted:
    """A number as numpy has them."""

    def __int__(self) -> int:
        return 7


numbers.Integral.register(Counted)
Pair = collections.namedtuple("Pair", "left right")


def png(width: int = 1, height: int = 1, padding: int = 0) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"teXt", bytes(padding)) + chunk(b"IEND", b"")


def image_block(data: bytes, media_type: str = "image/png") -> dict[str, Any]:
    source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


# ---- text


def test_text_stays_as_it_is():
    text = "\x1b[31mred\x1b[0m\u2028next\rback\t\U0001f600 e\u0301"
    assert content_of(text) == text


def test_nul_and_lone_surrogates_are_replaced():
    assert content_of("a\x00b\ud83dc\ude00") == "a\ufffdb\ufffdc\ufffd"


def test_two_halves_of_a_pair_become_their_character():
    assert content_of("a\ud83d" + "\ude00b") == "a\U0001f600b"


def test_bytes_are_decoded_and_what_cannot_be_is_counted():
    assert content_of("grün".encode()) == "grün"
    assert content_of(b"\xff\xfe\x80A\n") == ("\ufffd\ufffd\ufffdA\n\n[3 bytes were not UTF-8 and stand as \ufffd]")
    assert content_of(bytearray(b"a")) == content_of(memoryview(b"a")) == "a"


def test_nothing_is_said_in_words():
    assert content_of(None) == "(the tool returned nothing)"
    assert content_of("") == content_of(b"") == "(empty)"
    assert content_of(" \n\t\u00a0") == "(only white space)"


# ---- data


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (3, "3"),
        (1.5, "1.5"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal("1.50"), "1.50"),
        (Fraction(1, 2), "0.5"),
        (Counted(), "7"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00+00:00"),
        (timedelta(hours=-2), "-2:00:00"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("/tmp/a"), "/tmp/a"),
        (Colour.RED, "red"),
        (Colour.PAIR, "[1, 2]"),
        (Size.BIG, "3"),
        ([], "[]"),
        (["a", "b"], '["a", "b"]'),
        ((1, [2, {"a": None}]), '[1, [2, {"a": null}]]'),
        (range(3), "[0, 1, 2]"),
        (collections.deque([1]), "[1]"),
        ({"ü": b"x", 1: float("inf")}, '{"ü": "x", "1": "Infinity"}'),
        (MappingProxyType({"a": 1}), '{"a": 1}'),
        ({1: 2}.values(), "[2]"),
        (Pair(1, 2), '{"left": 1, "right": 2}'),
        (Point(1, {"a"}), '{"x": 1, "y": ["a"]}'),
        (ValueError("bad"), "ValueError: bad"),
        ([KeyError("k")], "[\"KeyError: 'k'\"]"),
        (Point, "<class 'test_content.Point'>"),
        ({"a": Image(b"", "image/png")}, '{"a": "<Image: return it alone or in a list, and the model can see it>"}'),
    ],
)
def test_data_becomes_text_that_a_model_can_read(value, text):
    assert content_of(value) == text


def test_an_integer_that_python_does_not_write_is_described():
    assert content_of(10**5000) == "<an integer of 16,610 bits>"


def test_a_model_is_shown_as_it_dumps_itself():
    model = Model(day=date(2026, 1, 2), tags={"b", "a"})
    assert content_of(model) == '{"day": "2026-01-02", "tags": ["a", "b"], "secret": "SecretStr(\'**********\')"}'


def test_a_model_that_cannot_dump_itself_is_shown_by_its_repr():
    class Node(BaseModel):
        next: Any = None

        @field_serializer("next")
        def fail(self, value: Any) -> Any:
            raise RuntimeError

    node = Node()
    node.next = node
    assert content_of(node) == "Node(next='<Recursion on Node with id=...>')"
    assert content_of(RootModel[list[int]]([1])) == '{"root": [1]}'


def test_a_class_without_a_name_is_an_object():
    class Nameless(type):
        @property
        def __name__(cls) -> str:
            raise RuntimeError

    class Mute(metaclass=Nameless):
        def __repr__(self) -> str:
            raise RuntimeError

    assert content_of(Mute()) == "<object>"


def test_a_database_row_is_shown_with_its_columns():
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    assert content_of(connection.execute("select 1 as a, 'x' as b").fetchall()) == '[{"a": 1, "b": "x"}]'
    connection.close()


def test_sets_are_sorted():
    assert content_of({10, 9, 1}) == "[1, 9, 10]"
    assert content_of({"b", "a"}) == '["a", "b"]'
    assert content_of({frozenset({2, 1}), "a", 3}) == '[3, [1, 2], "a"]'


def test_keys_that_look_alike_in_json_are_both_kept():
    assert content_of({1: "a", "1": "b"}) == '{"1": "a", "1\'": "b"}'
    assert content_of({None: 1, "null": 2}) == '{"null": 1, "null\'": 2}'


def test_addresses_are_not_shown():
    assert content_of(object()) == "<object object at 0x...>"
    assert content_of([object()]) == '["<object object at 0x...>"]'
    assert content_of("it is at 0x7f00") == "it is at 0x7f00"


def test_cycles_are_named():
    cycle: list[Any] = [1]
    cycle.append({"again": cycle})
    assert content_of(cycle) == '[1, {"again": "<cycle>"}]'
    shared = [1]
    assert content_of([shared, shared]) == "[[1], [1]]"


def test_depth_ends_somewhere():
    deep: list[Any] = []
    for _ in range(50_000):
        deep = [deep]
    assert content_of(deep) == "[" * 32 + '"<too deep>"' + "]" * 32


def test_a_value_that_unfolds_without_end_is_cut():
    wide: list[Any] = ["x" * 1000]
    for _ in range(60):
        wide = [wide, wide]
    assert len(content_of(wide)) <= 100_000


def test_an_iterator_is_read_and_has_an_end():
    assert content_of(n for n in range(3)) == "[0, 1, 2]"
    assert json.loads(str(content_of(itertools.count())))[-2:] == [999, "<more>"]


def test_an_iterator_that_fails_keeps_what_it_gave():
    assert (
        content_of(1 // n for n in (1, 0))
        == '[1, "<stopped by ZeroDivisionError: integer division or modulo by zero>"]'
    )


def test_an_async_generator_is_only_named():
    async def later():
        yield 1

    assert str(content_of(later())).endswith("later at 0x...>")


def test_a_list_too_long_to_show_says_how_much_is_left():
    text = str(content_of(list(range(1_000_000)), cap=10**9))
    assert text.endswith(', "<950,001 more>"]')


def test_a_dict_too_long_to_show_says_that_there_is_more():
    text = str(content_of(dict.fromkeys(range(60_000)), cap=10**9))
    assert text.endswith(', "<cut>": "<more>"}')
    assert content_of({1: 2}.keys()) == "[1]"


SETS = """
from midstride.tools import content_of
print(content_of({"one", "two", "three", ("a", 1), frozenset({"x", "y"})}))
print(content_of([{"a", "b", "c"}, object(), print, lambda: 1]))
"""


def test_the_same_value_gives_the_same_text_in_every_process():
    texts = {
        subprocess.run(
            [sys.executable, "-c", SETS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1


# ---- the cap


def test_a_huge_text_keeps_head_and_tail_and_says_what_is_missing():
    text = str(content_of("a" * 25_000_000 + "b" * 25_000_000))
    assert len(text) <= 100_000
    assert text.startswith("a" * 49_000)
    assert text.endswith("b" * 49_000)
    assert "\n[... 49,900,047 characters were cut here ...]\n" in text


def test_the_note_counts_what_is_cut():
    text = str(content_of("x" * 1_000, cap=300))
    assert text.count("x") == 258
    assert "\n[... 742 characters were cut here ...]\n" in text


def test_a_text_at_the_cap_is_whole():
    assert content_of("x" * 100_000) == "x" * 100_000


def test_a_cut_does_not_split_a_character():
    assert "\ufffd" not in content_of("\U0001f600" * 1_000, cap=200)


def test_a_huge_string_inside_data_is_cut_too():
    text = str(content_of({"out": "x" * 5_000_000, "code": 1}))
    assert len(text) <= 100_000
    assert text.endswith('"code": 1}')


def test_short_texts_stay_whole_beside_a_long_one():
    blocks = content_of(["short", "x" * 10_000, text_block("also short")], cap=1_000)
    assert isinstance(blocks, list)
    assert (blocks[0], blocks[2]) == (text_block("short"), text_block("also short"))
    assert sum(len(block["text"]) for block in blocks) == 999


# ---- images and documents


def test_an_image_becomes_a_block():
    assert content_of(Image(png(), "image/png")) == [image_block(png())]


def test_a_list_with_an_image_becomes_blocks():
    assert content_of(["see:", Image(png(), "image/png"), {"n": 1}, None]) == [
        text_block("see:"),
        image_block(png()),
        text_block('{"n": 1}'),
        text_block("null"),
    ]


def test_the_bytes_say_what_an_image_is():
    assert content_of(Image(png(), "image/jpeg")) == [image_block(png(), "image/png")]


JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08" + struct.pack(">HH", 20, 30) + b"\x01"
GIF = b"GIF89a" + struct.pack("<HH", 30, 20)
WEBP = b"RIFF\x00\x00\x00\x00WEBP"
LOSSY = WEBP + b"VP8 " + bytes(4) + b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", 30, 20)
LOSSLESS = WEBP + b"VP8L" + bytes(4) + b"\x2f" + struct.pack("<I", 29 | 19 << 14) + bytes(5)
EXTENDED = WEBP + b"VP8X" + bytes(8) + (29).to_bytes(3, "little") + (19).to_bytes(3, "little")


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (JPEG, "image/jpeg"),
        (GIF, "image/gif"),
        (LOSSY, "image/webp"),
        (LOSSLESS, "image/webp"),
        (EXTENDED, "image/webp"),
    ],
)
def test_every_kind_of_image_that_the_api_knows_is_shown(data, media_type):
    assert content_of(Image(data, media_type)) == [image_block(data, media_type)]


@pytest.mark.parametrize("data", [JPEG[:8], GIF[:7], LOSSY[:20], WEBP + b"ABCD" + bytes(20), png()[:16]])
def test_a_damaged_image_becomes_words(data):
    (block,) = content_of(Image(data, "image/png"))
    assert "is damaged]" in block["text"]  # type: ignore[index]


def test_an_image_of_another_kind_becomes_words():
    assert content_of(Image(b"BM1234", "image/bmp")) == [
        text_block("[an image of 6 bytes was left out: it is no jpeg, png, gif or webp]")
    ]
    assert content_of(Image("abc", "image/png")) == [  # type: ignore[arg-type]
        text_block("[an image was left out: its data is <str>, not bytes]")
    ]


def test_an_image_too_large_for_the_api_becomes_words():
    assert content_of(Image(png(8_001, 20), "image/png")) == [
        text_block("[an image of 8,001 x 20 pixels was left out: at most 8,000 a side]")
    ]
    data = png(padding=4_000_000)
    assert content_of(Image(data, "image/png")) == [
        text_block(f"[an image of {len(data):,} bytes was left out: it is more than 5 MB in base64]")
    ]


def test_more_images_than_a_result_can_hold_become_words():
    blocks = content_of([Image(png(), "image/png")] * 21)
    assert [block["type"] for block in blocks] == ["image"] * 20 + ["text"]  # type: ignore[index]
    large = content_of([Image(png(padding=3_000_000), "image/png")] * 3)
    assert [block["type"] for block in large] == ["image", "image", "text"]  # type: ignore[index]


def test_more_parts_than_anybody_reads_are_counted():
    blocks = content_of([Image(b"", "image/png"), *map(str, range(200))])
    assert (len(blocks), blocks[-1]) == (101, text_block("[101 more parts were left out]"))


def test_documents_are_pdf_or_text():
    data = base64.b64encode(b"%PDF-1.7").decode()
    assert content_of(Document(b"%PDF-1.7", title="A\x00")) == [
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": data},
            "title": "A\ufffd",
        }
    ]
    source = {"type": "text", "media_type": "text/plain", "data": "# a\ufffd"}
    assert content_of(Document("# a\x00", "text/markdown", " ")) == [{"type": "document", "source": source}]
    assert content_of(Document(b"# a\xff", "text/markdown"))[0]["source"]["data"].startswith("# a\ufffd\n[1 ")  # type: ignore[index]


def test_documents_that_the_api_refuses_become_words():
    assert content_of(Document(b"PK34")) == [
        text_block("[a document of 4 bytes was left out: it is neither a PDF nor text]")
    ]
    assert content_of(Document(b"%PDF-1.7 /Encrypt")) == [
        text_block("[a document of 17 bytes was left out: it is encrypted]")
    ]
    assert content_of(Document(7)) == [  # type: ignore[arg-type]
        text_block("[a document was left out: its data is <int>, neither bytes nor text]")
    ]
    (block,) = content_of(Document(b"%PDF-" + bytes(8_000_000)))
    assert "more than 10 MB" in block["text"]  # type: ignore[index]


def test_a_text_document_is_never_blank_and_is_cut_like_text():
    (blank,) = content_of(Document(""))
    (long,) = content_of(Document("x" * 5_000), cap=500)
    assert blank["source"]["data"] == "(empty)"  # type: ignore[index]
    assert len(long["source"]["data"]) == 500  # type: ignore[index]


# ---- ready-made blocks


def test_ready_made_blocks_pass_made_safe():
    cached = {"type": "text", "text": "a\x00", "cache_control": {"type": "ephemeral"}}
    linked = {"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}}
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}, "title": "t"}
    assert content_of([cached, image_block(png()), linked, document]) == [
        text_block("a\ufffd"),
        image_block(png()),
        linked,
        document,
    ]
    pdf = {"type": "base64", "media_type": "application/pdf", "data": base64.b64encode(b"%PDF-").decode()}
    assert content_of({"type": "document", "source": pdf}) == [{"type": "document", "source": pdf}]


def test_empty_text_blocks_are_dropped():
    assert content_of([text_block(""), "", " ", text_block("a")]) == [text_block("a")]
    assert content_of([text_block(" ")]) == [text_block("(empty)")]


def test_a_ready_made_image_with_damaged_base64_becomes_words():
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "a-b"}}
    assert content_of(block) == [text_block("[an image was left out: its base64 is damaged]")]


@pytest.mark.parametrize(
    "data",
    [
        {"type": "text"},
        {"type": "text", "text": 1},
        {"type": "text", "text": "a", "id": 3},
        {"type": "image", "source": "a.png"},
        {"type": "image", "source": {"type": "url", "url": "file:///etc"}},
        {"type": "document", "source": {"type": "file", "file_id": "f"}},
        {"type": ["text"]},
    ],
)
def test_data_that_only_looks_like_a_block_is_shown_as_data(data):
    assert content_of(data) == json.dumps(data)
    assert content_of([data]) == json.dumps([data])


# ---- errors


def test_an_error_is_its_class_and_message():
    assert text_of_error(ValueError("no such file")) == "ValueError: no such file"
    assert text_of_error(TimeoutError()) == "TimeoutError"
    assert text_of_error(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_an_errors_text_is_safe_and_short():
    assert text_of_error(ValueError("a\x00\ud800")) == "ValueError: a\ufffd\ufffd"
    assert text_of_error(ValueError(object())) == "ValueError: <object object at 0x...>"
    assert len(text_of_error(ValueError("x" * 1_000_000))) <= 4_000


def test_a_group_of_errors_names_its_members():
    group = ExceptionGroup("two", [ValueError("a"), ExceptionGroup("one", [KeyError("b")])])
    assert text_of_error(group) == (
        "ExceptionGroup: two (2 sub-exceptions): ValueError: a; ExceptionGroup: one (1 sub-exception): KeyError: 'b'"
    )


def test_an_error_that_cannot_be_shown_is_still_named():
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert text_of_error(Mute()) == "Mute: (its message cannot be shown)"


# ---- whatever the value


def evil(*names: str, base: type = object) -> Any:
    def fail(self: Any, *args: Any) -> Any:
        raise RuntimeError("no")

    return type("Evil", (base,), dict.fromkeys(names, fail))


class Endless(list[Any]):
    def __iter__(self) -> Any:
        return itertools.count()


class Liar:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("no")

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


METHODS = ("__repr__", "__str__", "__iter__", "__len__", "__getitem__", "items", "keys", "__eq__", "strip")
EVIL = [
    evil("__repr__", "__str__")(),
    evil("__getattribute__")(),
    evil(*METHODS, base=dict)({"a": 1}),
    evil(*METHODS, base=list)([1]),
    evil(*METHODS, base=str)("text"),
    evil(*METHODS, base=bytes)(b"bytes"),
    evil("__int__", "__repr__", "__index__", base=int)(5),
    evil("__float__", "__repr__", "__sub__", base=float)(5.0),
    evil("__str__", "__repr__", base=Exception)("x"),
    evil("__next__", "__iter__")(),
    Endless([1]),
    Liar(),
    10**10_000,
    b"\xff",
    Image(None, 3),  # type: ignore[arg-type]
    Document(None, 3, 4),  # type: ignore[arg-type]
    Point(1, object()),
    memoryview(b"abcdef")[::2],
    {"type": "image", "source": {"type": "base64", "data": "AAAA"}},
]
LEAVES = (
    st.integers(0, len(EVIL) - 1).map(lambda number: EVIL[number])
    | st.text(st.characters(categories=None))
    | st.floats()
    | st.integers()
    | st.binary()
    | st.none()
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.none(), inner)
        | st.builds(Point, inner, inner)
        | st.builds(text_block, st.text())
        | st.builds(lambda items: iter(items), st.lists(inner))
    ),
    max_leaves=20,
)


def assert_sendable(content: Any, cap: int) -> None:
    json.dumps(content, allow_nan=False, ensure_ascii=False).encode()
    texts = [content] if isinstance(content, str) else [b["text"] for b in content if b["type"] == "text"]
    assert content
    assert all(text.strip() and "\x00" not in text for text in texts)
    assert sum(map(len, texts)) <= cap


@pytest.mark.parametrize("number", range(len(EVIL)))
def test_no_evil_value_raises(number):
    value = EVIL[number]
    assert_sendable(content_of(value), 100_000)
    assert_sendable(content_of([value]), 100_000)
    assert_sendable(content_of([Image(png(), ""), value]), 100_000)


@settings(deadline=None)  # an endless list is read up to 50,000 values
@given(VALUES, st.integers(-5, 2_000))
def test_no_value_raises_and_all_content_can_be_sent(value, cap):
    assert_sendable(content_of(value, cap), max(cap, 200))


def test_a_crash_inside_a_value_is_a_crash():
    class Stop:
        def __repr__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        content_of(Stop())


# ---- the whole of what is cut


def kept_of(value, cap=200):
    """Return the content of *value*, and what was to be kept of it."""
    kept = []
    content = content_of(value, cap, keep=lambda data: (kept.append(data), "/kept")[1])
    return content, kept


def test_the_whole_of_a_cut_text_is_kept_and_a_note_says_where():
    content, kept = kept_of("x" * 1_000)
    assert content.endswith("x\n[The whole, 1,000 bytes, is kept in /kept]")
    assert kept == [b"x" * 1_000]


def test_what_is_shown_as_it_is_is_not_kept():
    for value in ("short", b"bytes", {"a": 1}, ["a", {"type": "text", "text": "b"}], None, "\x00", ""):
        assert kept_of(value)[1] == []


def test_bytes_that_are_no_text_are_kept_as_they_are():
    assert kept_of(b"\xff\xfeA")[1] == [b"\xff\xfeA"]
    assert kept_of(bytearray(b"\xff"))[1] == [b"\xff"]


def test_half_a_pair_in_a_cut_text_can_be_kept():
    assert kept_of("\ud83d" + "x" * 1_000)[1] == [b"\xed\xa0\xbd" + b"x" * 1_000]


def test_the_whole_of_data_is_its_json():
    assert kept_of({"out": "x" * 1_000, "code": 0})[1] == [b'{"out": "' + b"x" * 1_000 + b'", "code": 0}']


def test_of_an_iterator_what_was_read_is_kept():
    ((kept,),) = [kept_of(iter(["x" * 150, "y" * 150]))[1]]
    assert kept == b'["' + b"x" * 150 + b'", "' + b"y" * 150 + b'"]'


def test_the_texts_of_blocks_are_kept_together():
    content, kept = kept_of([{"type": "text", "text": "x" * 300}, {"type": "text", "text": "y"}])
    assert content[-1] == {"type": "text", "text": "[The whole, 302 bytes, is kept in /kept]"}
    assert kept == [b"x" * 300 + b"\ny"]


def test_what_is_too_large_to_be_kept_says_so(monkeypatch):
    monkeypatch.setattr("midstride.tools.content.WHOLE_MAX", 900)
    content, kept = kept_of("x" * 1_000)
    assert content.endswith("[The whole, 1,000 bytes, was not kept: at most 900 are]")
    assert kept == []


def test_a_whole_that_could_not_be_kept_is_not_spoken_of():
    assert "The whole" not in content_of("x" * 1_000, 200, keep=lambda data: None)
