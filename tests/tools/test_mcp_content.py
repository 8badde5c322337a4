"""What an MCP tool answered, as a result of ours: each kind of content, and honest words for what cannot be shown."""

import base64

import pytest

from midstride.tools import content_of
from midstride.tools.mcp.content import error_text, value_of
from midstride.tools.mcp.schema import GivenSchema
from midstride.tools.schema import Problem

GIF = base64.b64encode(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;").decode()
PDF = base64.b64encode(b"%PDF-1.7\n%%EOF").decode()


def shown(*content, **more):
    return content_of(value_of({"content": list(content), **more}))


def text(words):
    return {"type": "text", "text": words}


def test_one_text_is_a_text_and_more_are_blocks():
    assert shown(text("hi")) == "hi"
    assert shown(text("hi"), text("ho")) == [text("hi"), text("ho")]
    assert shown() == "(the tool returned nothing)"


def test_a_picture_is_a_picture_and_a_damaged_one_is_said_to_be():
    image = {"type": "image", "data": GIF, "mimeType": "image/png"}
    assert shown(image) == [{"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": GIF}}]
    assert shown(image | {"data": "%%%"}) == [text("[an image was left out: its base64 is damaged]")]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, "[audio (audio/wav, 3 bytes) was left out: it c"),
        ({"type": "video", "data": "AAAA"}, "[content of an unknown kind, 'video', was left out]"),
        ({"type": "image"}, "[content of kind 'image' was left out: it is not as the protocol has it]"),
        ("a text alone", "[content of an unknown kind, None, was left out]"),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain", "size": 1200},
            "[a link to the resource a at file:///a; 1,200 bytes; text/plain]",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA", "mimeType": "font/ttf"}},
            "[the resource file:///a (font/ttf, 3 bytes) was left out: it cannot be shown here]",
        ),
    ],
)
def test_what_cannot_be_shown_is_told_of(item, words):
    assert shown(item).startswith(words)


def test_a_resource_with_a_text_or_a_pdf_is_a_document():
    [document] = shown({"type": "resource", "resource": {"uri": "file:///a", "text": "hi"}})
    assert (document["type"], document["title"], document["source"]["data"]) == ("document", "file:///a", "hi")
    [document] = shown({"type": "resource", "resource": {"uri": "a:b", "blob": PDF, "mimeType": "application/pdf"}})
    assert (document["title"], document["source"]["media_type"]) == ("a:b", "application/pdf")
    [image] = shown({"type": "resource", "resource": {"uri": "a:b", "blob": GIF, "mimeType": "image/gif"}})
    assert image["type"] == "image"


def test_structured_content_is_told_once():
    assert shown(structuredContent={"b": 1}) == '{"b": 1}'
    assert shown(text('{ "b" : 1 }'), structuredContent={"b": 1}) == '{ "b" : 1 }'
    assert shown(text("sent"), structuredContent={"result": "sent"}) == "sent"
    assert shown(text("1"), text("2"), structuredContent={"result": [1, 2]}) == [text("1"), text("2")]
    assert shown(text("warm"), structuredContent={"degrees": 20}) == [text("warm"), text('{"degrees": 20}')]


def test_an_error_is_one_text():
    assert error_text({"content": [text("no"), {"type": "image", "data": GIF}]}) == "no\n[image]"
    assert error_text({"content": []}) == "it did not say why"


# ---- schemas of servers

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where."},
        "edits": {"type": "array", "items": {"type": "object", "required": ["old", "new"]}, "maxItems": 2},
    },
    "required": ["path", "edits"],
    "additionalProperties": False,
}


def problem(arguments, schema=SCHEMA):
    found = GivenSchema.of("edit", schema, "tool 'edit'").validate(arguments)
    assert isinstance(found, Problem)
    return found.text.splitlines()[1:]


def test_a_problem_says_where_and_what():
    assert problem({}) == ["- edits: is missing", "- path: is missing"] or problem({}) == [
        "- path: is missing",
        "- edits: is missing",
    ]
    assert problem({"path": 5, "edits": []}) == ["- path: is not of type 'string', got 5"]
    assert problem({"path": "a", "edits": [{"old": "b"}]}) == ["- edits[0].new: is missing"]
    assert problem({"path": "a", "edits": [], "mode": 1}) == ["- mode: is unknown; the parameters are: path, edits"]


def digest(schema):
    return GivenSchema.of("edit", schema, "tool 'edit'").digest


def test_other_words_are_no_other_schema_and_another_type_is():
    worded = SCHEMA | {
        "title": "Edit",
        "required": ["edits", "path"],
        "$schema": "http://json-schema.org/draft-07/schema#",
    }
    assert digest(worded) == digest(SCHEMA)
    assert digest(SCHEMA | {"required": ["path"]}) != digest(SCHEMA)
    titled = {"type": "object", "properties": {"title": {"type": "string"}}}
    assert digest(titled) != digest({"type": "object", "properties": {}})


def test_nothing_that_a_schema_refers_to_is_fetched():
    schema = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/schema.json"}}}
    found = GivenSchema.of("edit", schema, "tool 'edit'").validate({"a": 1})
    assert "its arguments cannot be checked" in found.text


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "object", "properties": {"$filter": {}}}, "parameter '$filter' of tool 'edit' has a name that the"),
        (
            {"type": "object", "properties": {"a": {"type": "strin"}}},
            "the input schema of tool 'edit' is no JSON schema",
        ),
    ],
)
def test_a_schema_that_no_api_takes_is_refused_when_the_tools_are_asked_for(schema, why):
    with pytest.raises(TypeError) as caught:
        GivenSchema.of("edit", schema, "tool 'edit'")
    assert why in str(caught.value)
    assert "leave the tool out, with only=" in str(caught.value)
