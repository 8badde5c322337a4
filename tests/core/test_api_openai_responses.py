"""How Responses write what the journal needs to know."""

from __future__ import annotations

from typing import Any

import pytest

from core.test_api_openai_chat import BARE, IMAGE, LINK, NOTE, ODD, PDF
from midstride.core.apis import Answered, ModelCall, OpenAIResponses, Usage
from midstride.errors import NotAResponse

API = OpenAIResponses()


def call(name: str = "u", arguments: Any = '{"n":0}', **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "c0", "name": name, "arguments": arguments, **more}


def message(*texts: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": t} for t in texts],
        **more,
    }


def response(*output: Any, status: Any = "completed", **more: Any) -> dict[str, Any]:
    return {"id": "r", "status": status, "output": list(output), **more}


def incomplete(reason: str) -> dict[str, Any]:
    return response(call(), status="incomplete", incomplete_details={"reason": reason})


FAILED = {"code": "server_error", "message": "boom"}
REFUSED = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("text", "str is no response: wanted a response with a list of items"),
        ({"output": None}, "dict is no response"),
        (response("x"), "dict is no response"),
        (response(status="failed", error=FAILED), "the response failed .server_error: boom., so it is none"),
        (response(status="queued"), "the response is 'queued', so it is none yet"),
        (response(status="in_progress"), "the response is 'in_progress'"),
        (response(status=None), "the response is None"),
    ],
)
def test_what_is_no_whole_response_is_refused(given: Any, found: str) -> None:
    with pytest.raises(NotAResponse, match=found):
        API.check(given)


@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_a_response_that_has_ended_is_taken(status: str) -> None:
    API.check(response(message("Hi."), status=status))


@pytest.mark.parametrize(
    ("given", "stop", "reason"),
    [
        (response(message("Hi.")), "final", "completed"),
        (response(message("Hi."), call()), "calls", "completed"),
        (response(call(status="incomplete")), "cut", "completed"),
        (incomplete("max_output_tokens"), "cut", "incomplete (max_output_tokens)"),
        (incomplete("content_filter"), "refused", "incomplete (content_filter)"),
        (response(call(), status="incomplete"), "refused", "incomplete (None)"),
        (response(REFUSED, call()), "refused", "completed (refusal: No.)"),
        (response({"type": "computer_call", "call_id": "c"}, call()), "refused",
         "completed (computer_call: nothing here can answer it)"),
        (response({"type": "tool_search_call", "call_id": None, "execution": "client"}), "refused",
         "completed (tool_search_call: nothing here can answer it)"),
        (response({"type": "tool_search_call", "call_id": None, "execution": "server"}), "final", "completed"),
        (response({"type": "web_search_call", "id": "ws_1"}, message("Hi.")), "final", "completed"),
        (response({"type": "future_item", "content": "x"}, message("Hi.")), "final", "completed"),
    ],
)  # fmt: skip
def test_only_a_completed_response_whose_calls_can_all_be_answered_runs_them(
    given: Any, stop: str, reason: str
) -> None:
    assert (API.stop(given), API.reason(given)) == (stop, reason)


def test_calls_are_read_and_what_cannot_be_read_or_run_says_so() -> None:
    caller = {"type": "program", "caller_id": "p"}
    made = API.calls(
        response(
            call(caller=caller),
            call(arguments="{", caller=None),
            {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select"},
            {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}},
            {"type": "apply_patch_call", "call_id": None, "operation": {"type": "delete_file"}},
            {"type": "mcp_approval_request", "id": "m1", "name": "pay", "arguments": "{}", "server_label": "shop"},
            {"type": "shell_call", "call_id": "c3", "action": {}},
            {"type": "shell_call_output", "call_id": "c3", "output": []},
        )
    )
    assert made[0] == ModelCall("c0", "u", {"n": 0}, {"caller": caller})
    assert (made[1].arguments, made[1].echo, made[1].problem is None) == ("{", {}, False)
    only = "this program runs function tools only, and this is a"
    kinds = [(one.id, one.name, one.arguments, one.echo, one.problem) for one in made[2:]]
    assert kinds == [
        ("c1", "sql", "select", {"type": "custom_tool_call"}, f"{only} custom_tool_call"),
        ("c2", "shell", {"commands": ["ls"]}, {"type": "shell_call"}, f"{only} shell_call"),
        ("", "apply_patch", {"type": "delete_file"}, {"type": "apply_patch_call"}, f"{only} apply_patch_call"),
        ("m1", "pay", {}, {"type": "mcp_approval_request"},
         "nobody here can approve a call of the server 'shop', so it was not run"),
    ]  # fmt: skip
    assert API.calls(response({"type": "custom_tool_call"}))[0].arguments is None


def test_a_response_joins_as_its_items_verbatim() -> None:
    items = [{"type": "reasoning", "id": "rs_1", "encrypted_content": "x", "content": None}, call(**{"async": False})]
    assert API.joins(response(*items)) == items
    assert API.begun(items) == ""


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([message("a", "b"), message("c")], "abc"),
        ([message("Let me see.", phase="commentary"), message("Done.", phase="final_answer")], "Done."),
        ([message("Let me see.", phase="commentary")], "Let me see."),
        ([call(), {**REFUSED, "content": [*REFUSED["content"], {"type": "output_text", "text": None}, "x"]}], ""),
    ],
)
def test_the_text_of_an_answer_is_that_of_its_messages_without_commentary(items: Any, text: str) -> None:
    assert API.text(response(*items)) == text


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        (None, Usage()),
        (
            {
                "input_tokens": 100,
                "output_tokens": 7,
                "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
            },
            Usage(107, 10, 7, 60, 30),
        ),
    ],
)
def test_input_tokens_hold_the_cached_ones(usage: Any, wanted: Usage) -> None:
    assert API.usage(response(usage=usage)) == wanted


def output_of(content: Any, *, is_error: bool = False, **echo: Any) -> Any:
    (item,) = API.results([Answered("c0", content, is_error, echo)])
    return item


def test_each_result_is_an_item_that_says_itself_whether_it_is_an_error() -> None:
    assert output_of("fine") == {"type": "function_call_output", "call_id": "c0", "output": "fine"}
    assert output_of("boom", is_error=True)["output"] == "Error: boom"
    assert output_of("Outcome unknown: x", is_error=True)["output"] == "Outcome unknown: x"
    assert output_of([])["output"] == "(empty)"
    assert output_of([NOTE, BARE])["output"] == "Note\nwords\nbare"
    caller = {"type": "program", "caller_id": "p"}
    assert output_of("fine", caller=caller)["caller"] == caller


def test_a_result_with_more_than_text_is_a_list_of_parts() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "auto"}
    file = {"type": "input_file", "filename": "Plan.pdf", "file_data": "data:application/pdf;base64,JVBE"}
    link = {"type": "input_file", "file_url": "https://e.org/a.pdf"}
    odd = {"type": "input_text", "text": '{"type":"search_result","title":"é"}'}
    lead = {"type": "input_text", "text": "Error:"}
    assert output_of([IMAGE, PDF, LINK, ODD])["output"] == [image, file, link, odd]
    assert output_of([IMAGE], is_error=True)["output"] == [lead, image]
    said = output_of([{"type": "text", "text": "boom"}, IMAGE], is_error=True)["output"]
    assert said == [{"type": "input_text", "text": "Error: boom"}, image]
    assert output_of(None)["output"] == [{"type": "input_text", "text": "null"}]


def test_calls_that_nothing_runs_are_answered_in_the_form_that_goes_with_them() -> None:
    words = "Failed: no."
    custom, shell, patch, approval = (
        output_of(words, is_error=True, type=kind)
        for kind in ("custom_tool_call", "shell_call", "apply_patch_call", "mcp_approval_request")
    )
    assert custom == {"type": "custom_tool_call_output", "call_id": "c0", "output": words}
    outcome = {"type": "exit", "exit_code": 127}
    assert shell["output"] == [{"stdout": "", "stderr": words, "outcome": outcome}]
    assert patch == {"type": "apply_patch_call_output", "call_id": "c0", "status": "failed", "output": words}
    assert approval == {
        "type": "mcp_approval_response", "approval_request_id": "c0", "approve": False, "reason": words,
    }  # fmt: skip
    assert output_of([ODD], type="custom_tool_call")["output"] == '{"type":"search_result","title":"é"}'


def test_what_the_user_says_is_put_into_the_apis_parts() -> None:
    own = {"type": "input_file", "file_id": "f"}
    lost = {"type": "image", "source": {"type": "file", "file_id": "f"}}
    assert API.say("Hi.") == [{"role": "user", "content": "Hi."}]
    (said,) = API.say([{"type": "text", "text": "Look"}, own, lost])
    assert said["content"] == [{"type": "input_text", "text": "Look"}, own, lost]


def test_a_request_holds_the_system_prompt_as_instructions() -> None:
    tools = API.tools([{"name": "u", "description": "does", "input_schema": {"type": "object"}}])
    function = {"name": "u", "description": "does", "parameters": {"type": "object"}}
    assert tools == [{"type": "function", **function, "strict": False}]
    said = API.say("Hi.")
    whole = {"model": "m", "input": said, "instructions": "Be brief.", "tools": tools}
    assert API.request(said, "Be brief.", tools, {"model": "m"}) == whole
    assert API.request(said, None, [], {"model": "m"}) == {"model": "m", "input": said}
    odd = [{"type": "other"}]
    assert API.request([], odd, [], {})["instructions"] == odd


def test_the_limit_is_doubled_for_a_cut_answer() -> None:
    assert API.roomier({"max_output_tokens": 10, "max_tokens": 3}, 2) == {"max_output_tokens": 40, "max_tokens": 3}
    assert API.roomier({"model": "m"}, 2) == {"model": "m"}
