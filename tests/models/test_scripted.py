"""The scripted model: what it answers, and that a killed run meets the same script."""

import asyncio

import pytest

from midstride import Agent, tool
from midstride.core.steps import Lost, Refused
from midstride.errors import DeclarationError, ModelUnavailable
from midstride.models import Scripted
from midstride.stores import MemoryStore
from midstride.testing import SettableClock


@tool.read_only
def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


def agent(script, **more):
    more.setdefault("store", MemoryStore())
    return Agent(Scripted(script), [read], clock=SettableClock(), **more)


def test_a_text_is_the_final_answer():
    result = agent(["Done."]).run("go")
    assert (result.status, result.answer, result.tokens_used) == ("done", "Done.", 110)


def test_pairs_are_calls_and_ids_come_from_the_turn():
    scripted = agent([[("read", {"path": "a"}), ("read", {"path": "b"})], [("read", {"path": "c"})], "Done."])
    scripted.run("go")
    blocks = [m["content"] for m in scripted.model.requests[-1]["messages"] if m["role"] == "assistant"]
    assert [[b["id"] for b in content] for content in blocks] == [["toolu_1_0", "toolu_1_1"], ["toolu_2_0"]]


def test_a_mapping_is_a_whole_response():
    text = {"type": "text", "text": "Half"}
    cut = {"role": "assistant", "content": [text], "stop_reason": "max_tokens"}
    assert agent([cut]).run("go").status == "cut"


def test_a_paused_answer_is_sent_back_whatever_it_ends_with():
    content = [{"type": "text", "text": "I go on."}]
    pausing = agent([{"role": "assistant", "content": content, "stop_reason": "pause_turn"}, "Done."])
    assert pausing.run("go").answer == "I go on.Done."
    assert pausing.model.requests[1]["messages"][-1] == {"role": "assistant", "content": content}


def test_failures_are_what_the_driver_makes_of_them():
    assert agent([Refused("no")]).run("go").why == "no"
    with pytest.raises(ModelUnavailable, match="no answer in 6 tries: away"):
        agent([Lost("away")]).run("go")


def test_a_function_is_told_the_request_and_how_many_came_before():
    seen = []

    def script(request, number):
        seen.append((number, len(request["messages"])))
        return [[("read", {"path": "a"})], "Done."][number]

    assert agent(script).run("go").answer == "Done."
    assert seen == [(0, 1), (1, 3)]


def test_a_resumed_run_meets_the_same_script():
    store, script = MemoryStore(), [[("read", {"path": "a"})], [("read", {"path": "b"})], "Done."]

    def killed_behind_the_first_read(event):
        if getattr(getattr(event, "body", None), "kind", None) == "settled":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent(script, store=store).run("go", "run", watch=killed_behind_the_first_read)
    again = agent(script, store=store)
    assert again.run("go", "run").answer == "Done."
    assert len(again.model.requests) == 2


def test_it_answers_an_asynchronous_program_too():
    assert asyncio.run(agent([[("read", {"path": "a"})], "Done."]).run_async("go")).answer == "Done."


def test_a_script_that_is_too_short_says_so():
    with pytest.raises(DeclarationError, match="the script has 1 answers; the run asks for number 2"):
        agent([[("read", {"path": "a"})]]).run("go")


def test_parameters_go_into_every_request():
    model = Scripted(["Done."], temperature=0)
    Agent(model, store=MemoryStore()).run("go")
    assert [(r["model"], r["max_tokens"], r["temperature"]) for r in model.requests] == [("scripted", 1024, 0)]
