"""Responses in the background: an answer that was under way when the process died is fetched, not paid for twice."""

import os
import shutil
import signal
import subprocess
import sys
import threading

import openai
import pytest

from midstride import Agent, Limits, tool
from midstride.core.journal import Accepted, Entry, Requested
from midstride.core.steps import Lost
from midstride.drive import Draft, Runs
from midstride.models import OpenAIResponses
from midstride.models.openai_responses import Response
from midstride.stores import SqliteStore
from midstride.testing import Answer, FakeModel, Hold, SettableClock, StreamError, Truncate, calls
from models.openai_scene import DONE, MODEL, Scene


class Background(Scene):
    """The scene over Responses in the background."""

    def __call__(self, server, **more):
        return super().__call__(server, background=True, **more)

    def handles(self):
        return [body.handle for body in self.bodies(Accepted)]


@pytest.fixture(params=["blocking", "async"])
def run(request):
    return Background("openai-responses", request.param)


def posts(server):
    return len(server.requests)


def is_accepted(event):
    return isinstance(event, Entry) and event.body.kind == "accepted"


def test_a_background_answer_is_accepted_before_it_is_heard(run):
    with FakeModel([calls(("note", {"a": {}, "b": 1})), DONE]) as server:
        result = run(server)
    assert (result.answer, result.turns, posts(server)) == ("Done.", 2, 2)
    kinds = [event.body.kind for event in run.heard if isinstance(event, Entry)]
    assert kinds == [
        "started", "taken", "requested", "accepted", "responded", "intended", "settled", "requested", "accepted",
        "responded",
    ]  # fmt: skip
    assert [(r["background"], r["store"], r["stream"]) for r in server.requests] == [(True, True, True)] * 2


def test_the_handle_of_an_answer_is_an_accepted_entry_without_an_index(run):
    with FakeModel([DONE]) as server:
        run(server)
    (entry,) = [entry for entry in run.store.read("run") if entry.body.kind == "accepted"]
    (handle,) = run.handles()
    told = f'{{"response":"{handle["response"]}"}}'
    assert entry.text.endswith(f'"kind":"accepted","turn":1,"index":null,"handle":{told}}}')


def test_an_answer_under_way_when_the_process_died_is_fetched(run):
    def crash(event):
        if is_accepted(event):
            raise KeyboardInterrupt

    with FakeModel([DONE]) as server:
        with pytest.raises(KeyboardInterrupt):
            run(server, watch=crash)
        result = run(server, limits=Limits(turns=1))
    assert (result.answer, result.turns, posts(server)) == ("Done.", 1, 1)
    assert len(run.bodies(Requested)) == len(run.handles()) == 1


def test_a_response_that_the_api_does_not_know_any_more_is_asked_for_anew(run):
    def crash(event):
        if is_accepted(event):
            server.forget_responses()
            raise KeyboardInterrupt

    with FakeModel([DONE]) as server:
        with pytest.raises(KeyboardInterrupt):
            run(server, watch=crash)
        result = run(server)
    assert (result.answer, result.turns, posts(server)) == ("Done.", 2, 2)
    first, gone, second = run.handles()
    assert (first, gone) == (second, None)


def test_a_response_that_the_api_does_not_know_any_more_is_no_way_around_the_limit(run):
    def crash(event):
        if is_accepted(event):
            server.forget_responses()
            raise KeyboardInterrupt

    with FakeModel([DONE]) as server:
        with pytest.raises(KeyboardInterrupt):
            run(server, watch=crash, limits=Limits(turns=1))
        assert run(server, limits=Limits(turns=1)).status == "capped"
    assert posts(server) == 1


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_background_response_that_failed_is_asked_for_anew(run, status):
    failed = Answer("", status, extra={"error": {"code": "server_error", "message": "boom"}})
    with FakeModel([[failed, DONE]]) as server:
        result = run(server)
    assert (result.answer, result.turns, posts(server)) == ("Done.", 2, 2)


def test_a_background_response_that_was_refused_for_good_fails_the_run(run):
    refused = Answer("", "failed", extra={"error": {"code": "invalid_prompt", "message": "no such words"}})
    with FakeModel([refused]) as server:
        result = run(server)
    assert (result.status, posts(server)) == ("failed", 1)
    assert "no such words" in result.why


def test_a_line_that_breaks_before_the_answer_was_accepted_is_a_request_like_any_other(run):
    with FakeModel([[Truncate(0), DONE]]) as server:
        assert (run(server).turns, posts(server)) == (2, 2)


@pytest.mark.parametrize("reply", [StreamError(after_events=1), Truncate(after_events=1)])
def test_a_line_that_breaks_behind_it_costs_nothing(run, reply):
    with FakeModel([reply]) as server:
        result = run(server)
    assert (result.answer, result.turns, posts(server)) == ("This answer does not arrive whole.", 1, 1)


def test_what_breaks_while_an_answer_is_fetched_is_never_paid_for():
    torn = Response(fetched=True)
    assert torn.end() == Lost("the stream of an answer under way ended before it was whole")
    assert torn.add({"type": "error", "code": "invalid_prompt", "message": "no"}) == torn.end()


def test_an_api_that_is_not_there_while_an_answer_is_fetched_is_waited_out():
    with openai.OpenAI(api_key="k", base_url="http://127.0.0.1:9/v1") as client:
        model = OpenAIResponses(MODEL, background=True, client=client)
        lost = model.ask({}, lambda event: None, {"response": "resp_1"})
    assert (type(lost), lost.paid) == (Lost, False)


def test_a_run_that_is_called_off_keeps_the_answer_that_was_out_and_records_no_handle(run):
    def cancel(event):
        if isinstance(event, Draft) and not server.fetched:
            Runs(run.store).cancel("run")

    with FakeModel([DONE]) as server:
        result = run(server, watch=cancel)
    assert (result.status, run.handles(), posts(server)) == ("cancelled", [], 1)
    assert run.store.read("run")[-1].body.kind == "responded"


PROGRAM = """
import sys
from midstride import Agent
from midstride.models import OpenAIResponses
Agent(OpenAIResponses("gpt-next", background=True), store=sys.argv[1]).run("hi", id="run")
"""


def test_a_process_killed_in_the_middle_of_a_background_answer_has_paid_once(tmp_path):
    go_on, url = threading.Event(), f"sqlite:{tmp_path}/runs.db"
    with FakeModel([Hold(go_on, DONE, after_events=3)]) as server:
        named = {"OPENAI_BASE_URL": server.url + "/v1", "OPENAI_API_KEY": "k"}
        paths = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        child = subprocess.Popen([sys.executable, "-c", PROGRAM, url], env={**named, **paths})
        try:
            server.wait_for_fetches(2, 60.0)  # it has looked, and hears the stream of what is under way
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        go_on.set()
        with openai.OpenAI(api_key="k", base_url=server.url + "/v1") as client:
            model = OpenAIResponses(MODEL, background=True, client=client)
            result = Agent(model, store=url, clock=SettableClock()).run("hi", id="run")
    assert (result.answer, result.turns, posts(server)) == ("Done.", 1, 1)
    store = SqliteStore(tmp_path / "runs.db")
    kinds = [entry.body.kind for entry in store.read("run")]
    store.close()
    assert kinds == ["started", "taken", "requested", "accepted", "taken", "responded"]


def test_calls_of_an_answer_under_way_at_a_backup_may_have_begun_since(tmp_path):
    """The original goes on and acts; the backup holds the same answer's handle, and is said to be one."""
    sent = []

    @tool
    def mail(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    original, backup = tmp_path / "runs.db", tmp_path / "backup.db"
    go_on = threading.Event()

    def crash(event):
        if is_accepted(event):
            raise KeyboardInterrupt

    with FakeModel([Hold(go_on, calls(("mail", {"to": "ann"})), after_events=3), DONE]) as server:
        with openai.OpenAI(api_key="k", base_url=server.url + "/v1") as client:

            def agent(path):
                model = OpenAIResponses(MODEL, background=True, client=client)
                return Agent(model, [mail], store=f"sqlite:{path}", clock=SettableClock())

            with pytest.raises(KeyboardInterrupt):
                agent(original).run("hi", id="run", watch=crash)
            shutil.copy(original, backup)
            go_on.set()
            assert agent(original).run("hi", id="run").answer == "Done."
            restored = agent(backup).resume("run", restored=True)
    assert (sent, restored.status, len(restored.doubts)) == (["ann"], "done", 1)
