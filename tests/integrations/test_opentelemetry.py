"""The spans of a run, drawn by the real SDK: what stands below what, what is told, and what never is."""

import asyncio
import os
import sqlite3
import threading
from contextlib import closing

import pytest
from opentelemetry import context, trace
from opentelemetry.trace import SpanKind, StatusCode

from drive.scenes import Killed, agent_of, killed_at_start_of, kinds, says, uses
from integrations.seeing import Seen, is_below
from midstride import AsyncRun, CannotTell, Context, DidNotHappen, Happened, Limits, Run, Runs, tool
from midstride.core.steps import Lost, Refused
from midstride.stores import MemoryStore, SqliteStore
from midstride.testing import SettableClock

USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 300, "cache_creation_input_tokens": 20}


@pytest.fixture
def store():
    return MemoryStore()


@tool.read_only
def read(name: str) -> str:
    """Read."""
    return f"about {name}"


@tool
def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


@tool.idempotent(key_life=3600)
def charge(cents: int) -> str:
    """Charge."""
    return f"charged {cents}"


def verifiable(answer):
    """Return a tool whose verify gives *answer*."""

    @tool.verifiable(timeout=5)
    def issue(title: str) -> str:
        """Open an issue."""
        return f"opened {title}"

    @issue.verify
    def find(title: str):
        if isinstance(answer, Exception):
            raise answer
        return answer

    return issue


# ---- what is drawn


def test_a_run_is_a_span_with_its_requests_and_attempts_below_it(drive, seen, store):
    agent = agent_of([[("read", {"name": "x"})], "Done."], [read], store=store, telemetry=seen.telemetry)
    drive(agent)
    run, first, second = seen.only("invoke_agent"), *seen.spans("chat")
    attempt = seen.only("execute_tool")
    assert [span.name for span in (run, first, attempt)] == ["invoke_agent", "chat scripted", "execute_tool read"]
    assert all(is_below(span, run) for span in (first, second, attempt))
    assert run.parent is None
    assert [span.kind for span in (run, first, attempt)] == [SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL]
    assert [span.status.status_code for span in seen.spans()] == [StatusCode.UNSET] * 4


def test_a_run_says_which_it_is_and_what_it_came_to(drive, seen, store):
    drive(agent_of(["Done."], store=store, telemetry=seen.telemetry), id="letter")
    assert dict(seen.only("invoke_agent").attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.conversation.id": "letter",
        "midstride.resumed": False,
        "midstride.take": 1,
        "midstride.status": "done",
        "midstride.turns": 1,
        "midstride.tokens": 110,
    }


def test_a_request_says_what_was_asked_for_and_what_it_took(drive, seen, store):
    answer = {**says("Done."), "id": "msg_1", "model": "claude-x-20260101", "usage": USAGE}
    agent = agent_of([answer], store=store, telemetry=seen.telemetry)
    agent.model.params = {"model": "claude-x", "max_tokens": 64, "temperature": 1, "metadata": {"user_id": "u"}}
    drive(agent)
    assert dict(seen.only("chat claude-x").attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.conversation.id": "run",
        "gen_ai.request.model": "claude-x",
        "gen_ai.request.max_tokens": 64,
        "gen_ai.request.temperature": 1.0,
        "gen_ai.response.id": "msg_1",
        "gen_ai.response.model": "claude-x-20260101",
        "gen_ai.response.finish_reasons": ("end_turn",),
        "gen_ai.usage.input_tokens": 330,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 300,
        "gen_ai.usage.cache_write.input_tokens": 20,
        "midstride.turn": 1,
    }


def test_an_attempt_says_which_call_it_is_and_its_outcome(drive, seen, store):
    drive(agent_of([[("send", {"to": "ann"})], "Done."], [send], store=store, telemetry=seen.telemetry))
    assert dict(seen.only("execute_tool").attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": "run",
        "gen_ai.tool.name": "send",
        "gen_ai.tool.call.id": "toolu_1_0",
        "gen_ai.tool.type": "function",
        "midstride.turn": 1,
        "midstride.index": 0,
        "midstride.effect": "unsafe",
        "midstride.attempt": 1,
        "midstride.outcome": "ok",
    }


def test_a_run_that_rests_draws_nothing_more(drive, seen, store):
    agent = agent_of(["Done."], store=store, telemetry=seen.telemetry)
    drive(agent)
    before = kinds(store)
    assert drive(agent).answer == "Done."
    assert (len(seen.spans()), kinds(store)) == (2, before)


# ---- what stands below what


def working(tracer, effect, *, is_async):
    """Return a tool that draws a span of its own."""

    def work(to: str, context: Context[sqlite3.Connection]) -> str:
        """Work."""
        with tracer.start_as_current_span("inner"):
            return to

    async def work_async(to: str, context: Context[sqlite3.Connection]) -> str:
        """Work."""
        await asyncio.sleep(0)
        return work(to, context)

    declare = tool(name="work") if effect == "unsafe" else getattr(tool, effect)(name="work")
    return declare(work_async if is_async else work)


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "coroutine"])
@pytest.mark.parametrize("effect", ["read_only", "unsafe", "transactional"])
def test_a_tools_own_spans_stand_below_its_attempt(drive, seen, tmp_path, effect, is_async):
    with closing(SqliteStore(tmp_path / "runs.db")) as store:
        tools = [working(seen.tracer, effect, is_async=is_async)]
        agent = agent_of([[("work", {"to": "a"})], "Done."], tools, store=store, telemetry=seen.telemetry)
        assert drive(agent).status == "done"
    assert is_below(seen.only("inner"), seen.only("execute_tool work"))
    assert is_below(seen.only("execute_tool work"), seen.only("invoke_agent"))
    assert seen.only("execute_tool").attributes["midstride.outcome"] == "ok"


def test_a_models_own_spans_stand_below_its_request(drive, seen, store):
    def script(request, number):
        with seen.tracer.start_as_current_span("http"):
            return "Done."

    drive(agent_of(script, store=store, telemetry=seen.telemetry))
    assert is_below(seen.only("http"), seen.only("chat"))


def test_a_look_is_a_span_and_what_verify_does_stands_below_it(drive, seen, store):
    issue = verifiable(Happened("#7"))
    agent = agent_of([[("issue", {"title": "x"})], "Done."], [issue], store=store, telemetry=seen.telemetry)
    with pytest.raises(Killed):
        drive(agent, watch=killed_at_start_of("issue"))
    drive(agent)
    look = seen.only("verify issue")
    assert is_below(look, seen.spans("invoke_agent")[1])
    assert look.attributes["midstride.seen"] == "happened"


def test_the_run_stands_below_what_was_current_when_it_was_taken_up(drive, seen, store):
    with seen.tracer.start_as_current_span("handler") as handler:
        drive(agent_of(["Done."], store=store, telemetry=seen.telemetry))
        assert trace.get_current_span() is handler
    assert is_below(seen.only("invoke_agent"), seen.only("handler"))


# ---- loops of one's own


def respond_all(run):
    for turn in run:
        turn.respond(uses(("send", {"to": "ann"})) if turn.number == 1 else says("Done."))


async def respond_all_async(run):
    async for turn in run:
        await turn.respond(uses(("send", {"to": "ann"})) if turn.number == 1 else says("Done."))


def own_loop(way, seen, store, within):
    """Drive a run with a loop of one's own; *within* is called in its block."""
    given = (store, "run", "go")
    named = {"tools": [send], "telemetry": seen.telemetry, "clock": SettableClock()}
    if way == "blocking":
        with Run(*given, **named) as run:
            within()
            respond_all(run)
        return

    async def main():
        async with AsyncRun(*given, **named) as run:
            within()
            await respond_all_async(run)
        assert not trace.get_current_span().get_span_context().is_valid

    asyncio.run(main())


@pytest.mark.parametrize("way", ["blocking", "async"])
def test_in_a_loop_of_ones_own_the_clients_spans_stand_below_the_run(way, seen, store):
    def within():
        seen.tracer.start_span("client").end()

    own_loop(way, seen, store, within)
    run = seen.only("invoke_agent")
    assert is_below(seen.only("client"), run)
    assert is_below(seen.only("execute_tool send"), run)
    assert seen.spans("chat") == []  # whoever makes the request draws its span
    assert not trace.get_current_span().get_span_context().is_valid


def test_in_a_loop_of_ones_own_the_run_tells_what_its_answers_took(seen, store):
    own_loop("blocking", seen, store, lambda: None)
    told = seen.events("midstride.responded")
    assert [(t["midstride.turn"], t["gen_ai.response.finish_reasons"]) for t in told] == [
        (1, ("tool_use",)),
        (2, ("end_turn",)),
    ]
    assert [(t["gen_ai.usage.input_tokens"], t["gen_ai.usage.output_tokens"]) for t in told] == [(10, 5), (10, 5)]


def test_a_span_that_the_loop_opens_is_kept_between_the_run_and_its_tools(seen, store):
    with Run(store, "run", "go", tools=[send], telemetry=seen.telemetry, clock=SettableClock()) as run:
        with seen.tracer.start_as_current_span("batch"):
            respond_all(run)
    assert is_below(seen.only("execute_tool"), seen.only("batch"))
    assert is_below(seen.only("batch"), seen.only("invoke_agent"))


def test_a_block_that_is_left_elsewhere_changes_nothing_there(seen, store):
    run = Run(store, "run", "go", telemetry=seen.telemetry, clock=SettableClock())
    run.__enter__()
    mine = context.get_current()
    other = threading.Thread(target=lambda: context.attach(context.Context()) and run.__exit__(None, None, None))
    other.start()
    other.join()
    assert context.get_current() is mine
    context.attach(context.Context())
    assert seen.only("invoke_agent").attributes["midstride.status"] == "interrupted"


# ---- from one process to the next


def test_a_resumed_run_is_linked_to_the_span_of_whoever_had_it_before(drive, seen, store):
    agent = agent_of([[("send", {"to": "ann"})], "Done."], [send], store=store, telemetry=seen.telemetry)
    with pytest.raises(Killed):
        drive(agent, watch=killed_at_start_of("send"))
    drive(agent)
    first, second = seen.spans("invoke_agent")
    assert second.context.trace_id != first.context.trace_id
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert [link.context.trace_id for link in second.links] == [first.context.trace_id]
    assert (second.attributes["midstride.resumed"], second.attributes["midstride.take"]) == (True, 2)
    assert first.links == ()


def test_the_span_is_named_in_the_journal_and_only_with_telemetry(seen, store):
    agent_of(["Done."], store=store, telemetry=seen.telemetry).run("go", "traced")
    agent_of(["Done."], store=store).run("go", "plain")
    traced, plain = store.read("traced")[1], store.read("plain")[1]
    run = seen.only("invoke_agent").context
    assert traced.body.trace[:-2] == f"00-{run.trace_id:032x}-{run.span_id:016x}-"
    assert '"trace"' not in plain.text


def test_a_run_goes_on_where_the_trace_before_it_is_none(seen):
    for odd in ("", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", 7, {"a": 1}):
        store = MemoryStore()
        first = agent_of(["A."], store=store, telemetry=Naming(odd))
        first.run("go", "run")
        Runs(store).say("run", "more")
        assert agent_of(["A.", "B."], store=store, telemetry=seen.telemetry).run("go", "run").answer == "B."
    assert [span.links for span in seen.spans("invoke_agent")] == [()] * 5


class Naming:
    """An observer that only names a trace."""

    def __init__(self, trace):
        self.trace = trace

    def begin(self, taking):
        from midstride.drive.observing import _Nobody

        nobody = _Nobody()
        nobody.trace = self.trace
        return nobody


def test_a_run_that_waited_leads_back_and_tells_what_was_decided_meanwhile(drive, seen, store):
    @tool(approval=True)
    def pay(cents: int) -> str:
        """Pay."""
        return "paid"

    agent = agent_of([[("pay", {"cents": 1})], "Done."], [pay], store=store, telemetry=seen.telemetry)
    assert drive(agent).status == "waiting"
    assert seen.moves() == [("pay", "ask approval", None)]
    Runs(store).decide("run", "toolu_1_0", "allow", by="ann")
    Runs(store).say("run", "be quick", by="bob")
    assert drive(agent).status == "done"
    first, second = seen.spans("invoke_agent")
    assert (first.attributes["midstride.status"], second.links[0].context.span_id) == (
        "waiting",
        first.context.span_id,
    )
    (decided,) = seen.events("midstride.decided")
    assert (decided["midstride.verdict"], decided["midstride.by"]) == ("allow", "ann")
    assert [event["midstride.by"] for event in seen.events("midstride.said")] == ["bob"]


# ---- reconciling


def killed_and_resumed(drive, seen, store, tools, name, arguments):
    agent = agent_of([[(name, arguments)], "Done."], tools, store=store, telemetry=seen.telemetry)
    with pytest.raises(Killed):
        drive(agent, watch=killed_at_start_of(name))
    drive(agent)
    return seen.moves()


def test_an_unsafe_call_is_told_to_be_unknown(drive, seen, store):
    moves = killed_and_resumed(drive, seen, store, [send], "send", {"to": "ann"})
    assert moves == [("send", "settle", "unknown")]
    assert seen.events("midstride.reconcile") == [
        {
            "gen_ai.tool.name": "send",
            "gen_ai.tool.call.id": "toolu_1_0",
            "midstride.turn": 1,
            "midstride.index": 0,
            "midstride.effect": "unsafe",
            "midstride.known": "it may have begun",
            "midstride.move": "settle",
            "midstride.outcome": "unknown",
            "midstride.why": "nobody can know: it is reported as unknown",
        }
    ]
    assert seen.spans("execute_tool") == []


def test_an_idempotent_call_is_repeated_with_the_same_key(drive, seen, store):
    assert killed_and_resumed(drive, seen, store, [charge], "charge", {"cents": 5}) == [("charge", "same key", None)]
    assert seen.only("execute_tool").attributes["midstride.attempt"] == 2


def test_a_read_is_run_again(drive, seen, store):
    assert killed_and_resumed(drive, seen, store, [read], "read", {"name": "x"}) == [("read", "again", None)]


def test_a_call_without_an_intent_certainly_never_began(drive, seen, store):
    def killed_at_response(event):
        if getattr(getattr(event, "body", None), "kind", "") == "responded":
            raise Killed

    agent = agent_of([[("send", {"to": "ann"})], "Done."], [send], store=store, telemetry=seen.telemetry)
    with pytest.raises(Killed):
        drive(agent, watch=killed_at_response)
    drive(agent)
    (event,) = seen.events("midstride.reconcile")
    assert (event["midstride.move"], event["midstride.known"]) == ("run", "it never began")
    assert event["midstride.why"] == "no intent is recorded, so it certainly never started"


@pytest.mark.parametrize(
    ("answer", "moves"),
    [
        (Happened("#7"), [("issue", "look", None), ("issue", "settle", "ok")]),
        (DidNotHappen("no"), [("issue", "look", None), ("issue", "again", None)]),
        (CannotTell("?"), [("issue", "look", None), ("issue", "settle", "unknown")]),
        (OSError("down"), [("issue", "look", None), ("issue", "settle", "unknown")]),
    ],
    ids=["happened", "did not", "cannot tell", "raised"],
)
def test_a_verifiable_call_is_looked_up(drive, seen, store, answer, moves):
    assert killed_and_resumed(drive, seen, store, [verifiable(answer)], "issue", {"title": "x"}) == moves


def test_a_doubt_that_is_put_to_a_person_is_told(drive, seen, store):
    @tool(in_doubt="ask")
    def mail(to: str) -> str:
        """Mail."""
        return "sent"

    assert killed_and_resumed(drive, seen, store, [mail], "mail", {"to": "a"}) == [("mail", "ask doubt", None)]
    assert seen.spans("invoke_agent")[1].attributes["midstride.status"] == "waiting"


def test_a_call_that_is_never_executed_has_an_event(drive, seen, store):
    script = [[("nope", {}), ("read", {})], "Done."]
    drive(agent_of(script, [read], store=store, telemetry=seen.telemetry))
    assert seen.moves() == [("nope", "settle", "failed"), ("read", "settle", "failed")]
    assert seen.spans("execute_tool") == []


def test_an_effect_behind_one_that_failed_is_told_not_to_have_started(drive, seen, store):
    @tool
    def fail(to: str) -> str:
        """Fail."""
        raise RuntimeError("no")

    script = [[("fail", {"to": "a"}), ("send", {"to": "b"})], "Done."]
    drive(agent_of(script, [fail, send], store=store, telemetry=seen.telemetry))
    assert seen.moves() == [("fail", "settle", "unknown"), ("send", "settle", "not started")]


def test_a_cancellation_is_told_while_a_run_is_driven(drive, seen, store):
    @tool.read_only
    def ask() -> str:
        """Call the run off from outside."""
        Runs(store).cancel("run", by="ann")
        return "asked"

    drive(agent_of([[("ask", {})], "Done."], [ask], store=store, telemetry=seen.telemetry))
    assert [event["midstride.by"] for event in seen.events("midstride.cancelled")] == ["ann"]
    assert seen.only("invoke_agent").attributes["midstride.status"] == "cancelled"


# ---- what goes wrong


def test_a_tool_that_raises_is_an_error_of_its_attempt_alone(drive, seen, store):
    @tool.read_only
    def fetch(url: str) -> str:
        """Fetch."""
        raise sqlite3.OperationalError("secret words")

    drive(agent_of([[("fetch", {"url": "u"})], "Done."], [fetch], store=store, telemetry=seen.telemetry))
    attempt = seen.only("execute_tool")
    assert attempt.attributes["error.type"] == "sqlite3.OperationalError"
    assert attempt.attributes["midstride.outcome"] == "failed"
    assert (attempt.status.status_code, attempt.status.description) == (StatusCode.ERROR, None)
    assert seen.only("invoke_agent").status.status_code is StatusCode.UNSET


def test_a_request_that_is_lost_is_an_error_and_the_pause_behind_it_is_told(drive, seen, store):
    def script(request, number):
        return Lost("HTTP 529, secret words", type="529") if number == 0 else "Done."

    drive(agent_of(script, store=store, telemetry=seen.telemetry))
    lost, answered = seen.spans("chat")
    assert (lost.attributes["error.type"], lost.status.status_code) == ("529", StatusCode.ERROR)
    assert answered.status.status_code is StatusCode.UNSET
    ((seconds,),) = [tuple(event.values()) for event in seen.events("midstride.pause")]
    assert seconds == 1.0


def test_a_refused_request_fails_the_run(drive, seen, store):
    def script(request, number):
        return Refused("HTTP 404, secret words", type="404")

    assert drive(agent_of(script, store=store, telemetry=seen.telemetry)).status == "failed"
    assert seen.only("chat").attributes["error.type"] == "404"
    run = seen.only("invoke_agent")
    assert (run.attributes["error.type"], run.status.status_code) == ("failed", StatusCode.ERROR)
    assert seen.events("midstride.failed") == [{}]


class Broken(Exception):
    """What leaves the driver."""


def test_an_exception_that_leaves_the_driver_is_recorded_and_raised_unchanged(drive, seen, store):
    error = Broken("secret words")

    def script(request, number):
        raise error

    with pytest.raises(Broken) as raised:
        drive(agent_of(script, store=store, telemetry=seen.telemetry))
    assert raised.value is error
    for span in (seen.only("chat"), seen.only("invoke_agent")):
        assert span.attributes["error.type"].endswith("test_opentelemetry.Broken")
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
        assert [event.name for event in span.events][-1:] == ["exception"]
    assert seen.only("invoke_agent").attributes["midstride.status"] == "interrupted"


def test_an_interrupt_ends_every_span(drive, seen, store):
    @tool
    def stop(to: str) -> str:
        """Stop."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(agent_of([[("stop", {"to": "a"})], "Done."], [stop], store=store, telemetry=seen.telemetry))
    assert seen.only("execute_tool").attributes["error.type"] == "KeyboardInterrupt"
    assert seen.only("invoke_agent").attributes["error.type"] == "KeyboardInterrupt"


def test_an_attempt_that_outlives_its_time_ends_with_its_driver_at_the_latest(drive, seen, store, caplog):
    gate = threading.Event()

    @tool(timeout=0.05)
    def hang(to: str) -> str:
        """Hang."""
        assert gate.wait(30)
        raise LookupError("late")

    try:
        drive(agent_of([[("hang", {"to": "a"})], "Done."], [hang], store=store, telemetry=seen.telemetry))
        attempt = seen.only("execute_tool hang")
    finally:
        gate.set()
    for thread in [thread for thread in threading.enumerate() if thread.name in ("midstride hang", "midstride late")]:
        thread.join(30)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("opentelemetry")] == []
    assert attempt.attributes["error.type"] == "left behind"
    assert attempt.end_time <= seen.only("invoke_agent").end_time


def test_a_limit_that_is_reached_is_no_error(drive, seen, store):
    agent = agent_of(
        [[("read", {"name": "x"})], "Done."], [read], store=store, telemetry=seen.telemetry, limits=Limits(turns=1)
    )
    assert drive(agent).status == "capped"
    run = seen.only("invoke_agent")
    assert (run.attributes["midstride.status"], run.status.status_code) == ("capped", StatusCode.UNSET)


def test_a_forked_child_draws_nothing(seen, store):
    with Run(store, "run", "go", telemetry=seen.telemetry, clock=SettableClock()) as run:
        child = os.fork()
        if not child:
            run.__exit__(None, None, None)
            os._exit(len(seen.spans()))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        run.__next__().respond(says("Done."))
        assert list(run) == []
    assert seen.only("invoke_agent").attributes["midstride.status"] == "done"


def test_without_sampling_nothing_is_drawn_and_the_run_is_the_same(drive, store):
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    seen = Seen(sampler=ALWAYS_OFF)
    agent = agent_of([[("send", {"to": "ann"})], "Done."], [send], store=store, telemetry=seen.telemetry)
    assert drive(agent).status == "done"
    assert seen.spans() == []
    assert int(store.read("run")[1].body.trace[-2:], 16) & 1 == 0
    seen.close()


def test_without_an_sdk_the_run_is_the_same(drive, store):
    from midstride.integrations.opentelemetry import Telemetry

    agent = agent_of([[("send", {"to": "ann"})], "Done."], [send], store=store, telemetry=Telemetry())
    assert drive(agent).status == "done"
    assert store.read("run")[1].body.trace is None
