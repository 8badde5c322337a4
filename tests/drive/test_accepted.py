"""Tools that hand their work over to another side, driven both ways: what is recorded, asked, and told to the model."""

import asyncio
import threading
from datetime import timedelta

import pytest

from drive.scenes import Killed, agent_of, kinds, results, says, uses
from midstride import Accepted, AsyncRun, CannotTell, Context, DidNotHappen, Happened, Pending, Run, Runs, tool
from midstride.core.steps import PollUp, Start
from midstride.errors import NotAllowed
from midstride.stores import MemoryStore, SqliteStore
from midstride.testing import SettableClock
from patience import SECONDS
from standing import Standing

AT = 1_790_000_000.0


class Jobs:
    """A service that takes jobs, and says how they stand: what the next polls get is in `answers`."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.taken = []
        self.polled = []

    def take(self, what, key=None):
        """Take a job, and return its id."""
        self.taken.append(what)
        return f"job-{len(self.taken)}"

    def stand(self, handle):
        """Return or raise the next answer."""
        self.polled.append(handle)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception) and not isinstance(answer, DidNotHappen):
            raise answer
        return answer


def render_with(jobs, *, declared=tool, coroutine=False):
    """Return a tool that hands a film over to *jobs*, and its poll."""

    @declared
    def render(film: str, context: Context) -> Accepted:
        """Render a film."""
        return context.accepted(jobs.take(film))

    def stands(handle):
        return jobs.stand(handle)

    async def stands_async(handle):
        return jobs.stand(handle)

    render.poll(stands_async if coroutine else stands)
    return render


def rendering(tools, *, store=None, clock=None, in_words="Rendered.", calls=None):
    script = [uses(*(calls or [("render", {"film": "Alps"})])), says(in_words)]
    return agent_of(script, tools, store=store or MemoryStore(), clock=clock)


@pytest.mark.parametrize("coroutine", [False, True])
def test_a_job_is_handed_over_once_and_asked_about_until_it_is_done(drive, coroutine):
    jobs, clock = Jobs(Pending(after=60), Pending(timedelta(hours=1)), Happened("Alps.mp4")), SettableClock()
    agent = rendering([render_with(jobs, coroutine=coroutine)], clock=clock)
    first = drive(agent)
    assert (first.status, first.again_at, first.doubts) == ("waiting", AT + 60, ())
    assert agent.store.holder("run") is None
    clock.at = AT + 61
    assert drive(agent).again_at == AT + 61 + 3600
    clock.at = AT + 10_000
    last = drive(agent)
    assert (last.status, last.answer, last.again_at) == ("done", "Rendered.", None)
    assert results(agent) == [("Alps.mp4", False)]
    assert (jobs.taken, jobs.polled) == (["Alps"], ["job-1"] * 3)


def test_before_its_time_a_run_rests_at_once_and_asks_nobody(drive):
    jobs = Jobs(Pending(after=60))
    agent = rendering([render_with(jobs)])
    drive(agent)
    written = kinds(agent.store)
    again = drive(agent)
    assert (again.status, again.again_at, kinds(agent.store)) == ("waiting", AT + 60, written)
    assert len(jobs.polled) == 1


def test_force_asks_at_once(drive):
    jobs = Jobs(Pending(after=86_400), Happened("Alps.mp4"))
    agent = rendering([render_with(jobs)])
    drive(agent)
    assert drive(agent, force=True).status == "done"


def test_a_job_that_failed_is_told_with_its_own_reason(drive):
    jobs = Jobs(DidNotHappen("ffmpeg: no such codec."))
    agent = rendering([render_with(jobs)])
    assert drive(agent).status == "done"
    told = 'Failed: The other side accepted it (its handle is "job-1") and then did not carry it out. '
    assert results(agent) == [(f"{told}ffmpeg: no such codec.", True)]


def test_a_poll_may_raise_that_it_did_not_happen(drive):
    @tool
    def render(film: str, context: Context) -> Accepted:
        return context.accepted("job")

    @render.poll
    def stands(handle):
        raise DidNotHappen("It is gone.")

    agent = rendering([render])
    drive(agent)
    assert results(agent)[0][0].endswith("did not carry it out. It is gone.")


def test_a_poll_that_cannot_tell_is_a_doubt(drive):
    agent = rendering([render_with(Jobs(CannotTell("It forgets jobs.")), declared=tool(in_doubt="ask"))])
    result = drive(agent)
    assert (result.status, [call.name for call in result.doubts], result.again_at) == ("waiting", ["render"], None)
    agent = rendering([render_with(Jobs(CannotTell("It forgets jobs.")))])
    drive(agent)
    assert results(agent)[0][0].startswith("Outcome unknown: ")
    assert "and it cannot be told what came of it. It forgets jobs." in results(agent)[0][0]


def test_a_tool_without_a_poll_is_a_doubt_that_names_it(drive):
    @tool
    def render(film: str, context: Context) -> Accepted:
        return context.accepted("job-9")

    agent = rendering([render])
    drive(agent)
    assert 'its handle is "job-9"' in results(agent)[0][0]
    assert "its tool has no poll (@render.poll)" in results(agent)[0][0]


BROKEN = {
    "raises": (lambda handle: {}["state"], "It raised KeyError: 'state'."),
    "answers else": (lambda handle: "done", "It returned str, wanted Happened, Pending, DidNotHappen or CannotTell."),
    "has no time": (lambda handle: Pending(after=-1), "Pending has after=-1: wanted seconds or a timedelta"),
    "answers a class": (lambda handle: Pending, "It returned type, wanted"),
}


@pytest.mark.parametrize("coroutine", [False, True])
@pytest.mark.parametrize("how", BROKEN)
def test_a_poll_that_is_broken_settles_nothing_and_says_why(drive, how, coroutine):
    stand, why = BROKEN[how]
    jobs = Jobs()
    jobs.stand = stand
    agent = rendering([render_with(jobs, coroutine=coroutine)])
    result = drive(agent)
    assert (result.status, result.again_at) == ("waiting", AT + 10)
    assert why in result.why
    (call,) = Runs(agent.store).get("run").calls
    assert (call.state, call.failures) == ("accepted", 1)


def test_a_poll_that_hangs_is_given_up_and_asked_again(drive, monkeypatch):
    monkeypatch.setattr("midstride.core.settle.POLL_SECONDS", 0.05)
    over = threading.Event()
    jobs = Jobs()
    jobs.stand = lambda handle: over.wait(SECONDS)
    agent = rendering([render_with(jobs)])
    try:
        assert "It did not end within 0.05 s." in drive(agent).why
    finally:
        over.set()


def test_a_coroutine_that_hangs_is_given_up_and_asked_again(drive, monkeypatch):
    monkeypatch.setattr("midstride.core.settle.POLL_SECONDS", 0.05)
    render = render_with(Jobs())

    async def hangs(handle):
        await asyncio.sleep(60)

    render.polling = None
    render.poll(hangs)
    assert "It did not end within 0.05 s." in drive(rendering([render])).why


def test_a_coroutine_that_cancels_itself_is_asked_again(drive):
    render = render_with(Jobs())

    async def cancelled(handle):
        raise asyncio.CancelledError

    render.polling = None
    render.poll(cancelled)
    assert drive(rendering([render])).status == "waiting"


def test_a_poll_is_told_what_it_asks_for(drive):
    seen = {}

    @tool.idempotent(key_life=86_400)
    def render(film: str, size: int, context: Context) -> Accepted:
        seen["key"] = context.key
        return context.accepted({"id": 7, "place": ["a", "b"]})

    @render.poll
    def stands(job, size, context: Context):
        seen.update(job=job, size=size, same_key=context.key == seen["key"], attempt=context.attempt)
        return Happened(f"{size} lines")

    agent = rendering([render], calls=[("render", {"film": "Alps", "size": 4})])
    drive(agent)
    assert results(agent) == [("4 lines", False)]
    asked = {name: seen[name] for name in ("job", "size", "same_key", "attempt")}
    assert asked == {"job": {"id": 7, "place": ["a", "b"]}, "size": 4, "same_key": True, "attempt": 1}


# ---- how an attempt ends that has handed its work over


@pytest.mark.parametrize("coroutine", [False, True])
def test_a_handle_counts_when_the_tool_raises_behind_it(drive, coroutine):
    def render(film: str, context: Context) -> str:
        context.accepted("job-1")
        raise ConnectionError("the line is cut")

    async def render_async(film: str, context: Context) -> str:
        return render(film, context)

    made = tool(name="render")(render_async if coroutine else render)
    made.poll(lambda handle: Happened(handle))
    agent = rendering([made])
    drive(agent)
    assert results(agent) == [("job-1", False)]
    assert kinds(agent.store).count("accepted") == 1


def test_an_ordinary_result_counts_more_than_a_handle(drive):
    @tool
    def render(film: str, context: Context) -> str:
        context.accepted("job-1")
        return "It was there already."

    agent = rendering([render])
    drive(agent)
    assert results(agent) == [("It was there already.", False)]
    assert "accepted" not in kinds(agent.store)


@pytest.fixture
def handed_over(monkeypatch):
    """Set by a tool behind its handle: before that it does not run out of time."""
    handed_over = threading.Event()
    monkeypatch.setattr("midstride.drive.attempts.time", Standing(handed_over.is_set))
    return handed_over


def test_a_handle_counts_when_the_tool_times_out_behind_it(drive, handed_over):
    over = threading.Event()

    @tool(timeout=0.05)
    def render(film: str, context: Context) -> Accepted:
        accepted = context.accepted("job-1")
        handed_over.set()
        over.wait(SECONDS)
        return accepted

    @render.poll
    def stands(handle):
        over.set()
        return Happened("Alps.mp4")

    agent = rendering([render])
    drive(agent)
    assert results(agent) == [("Alps.mp4", False)]


def test_a_handle_counts_when_a_coroutine_times_out_behind_it(handed_over):
    @tool(timeout=0.05)
    async def render(film: str, context: Context) -> Accepted:
        context.accepted("job-1")
        handed_over.set()
        await asyncio.sleep(60)

    render.poll(lambda handle: Happened("Alps.mp4"))
    agent = rendering([render])
    asyncio.run(agent.run_async("go", "run"))
    assert results(agent) == [("Alps.mp4", False)]


def test_a_handle_is_kept_when_the_driver_of_a_coroutine_is_cancelled_behind_it():
    handed_over = asyncio.Event()

    @tool
    async def render(film: str, context: Context) -> Accepted:
        context.accepted("job-1")
        handed_over.set()
        await asyncio.sleep(60)

    render.poll(lambda handle: Happened("Alps.mp4"))
    agent = rendering([render])

    async def cut_off():
        driving = asyncio.ensure_future(agent.run_async("go", "run"))
        await handed_over.wait()
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)

    asyncio.run(cut_off())
    assert kinds(agent.store)[-1] == "accepted"
    agent.run("go", "run")
    assert results(agent) == [("Alps.mp4", False)]


def test_a_handle_that_the_driver_has_not_heard_of_is_recorded_before_the_run_is_let_go(drive):
    gate = threading.Event()

    @tool
    def render(film: str, context: Context) -> Accepted:
        """Hand a film over when the gate opens."""
        assert gate.wait(SECONDS)
        return context.accepted("job-1")

    @tool.read_only
    def look(place: str) -> str:
        """Look."""
        return "seen"

    def end_it_and_die(event):
        if isinstance(event, Start) and event.call.name == "look":
            gate.set()
            for thread in threading.enumerate():
                if thread.name == "midstride render":
                    thread.join(SECONDS)
            raise Killed

    render.poll(lambda handle: Happened("Alps.mp4"))
    agent = rendering([render, look], calls=[("render", {"film": "Alps"}), ("look", {"place": "shed"})])
    with pytest.raises(Killed):
        drive(agent, watch=end_it_and_die)
    assert kinds(agent.store)[-2:] == ["intended", "accepted"]
    drive(agent)
    assert results(agent) == [("Alps.mp4", False), ("seen", False)]


def test_a_handle_that_comes_when_nobody_drives_is_recorded(drive):
    begun, gate = threading.Event(), threading.Event()

    @tool
    def render(film: str, context: Context) -> Accepted:
        """Hand a film over when the gate opens."""
        begun.set()
        assert gate.wait(SECONDS)
        return context.accepted("job-1")

    @tool.read_only
    def look(place: str) -> str:
        """Look."""
        return "seen"

    def die(event):
        if isinstance(event, Start) and event.call.name == "look":
            assert begun.wait(SECONDS)
            raise Killed

    render.poll(lambda handle: Happened("Alps.mp4"))
    agent = rendering([render, look], calls=[("render", {"film": "Alps"}), ("look", {"place": "shed"})])
    with pytest.raises(Killed):
        drive(agent, watch=die)
    assert agent.store.holder("run") is not None  # an attempt with an effect goes on
    gate.set()
    drive(agent)
    assert results(agent) == [("Alps.mp4", False), ("seen", False)]
    assert kinds(agent.store).count("accepted") == 1


def test_a_read_may_hand_its_work_over_too(drive):
    jobs = Jobs(Pending(after=5), Happened("42"))
    agent = rendering([render_with(jobs, declared=tool.read_only)])
    assert drive(agent).status == "waiting"
    agent.clock.at += 5
    assert drive(agent).status == "done"
    assert (jobs.taken, results(agent)) == (["Alps"], [("42", False)])


@pytest.mark.parametrize("how", ["context", "class"])
def test_a_transactional_tool_hands_nothing_over(drive, tmp_path, how):
    @tool.transactional
    def render(film: str, context: Context) -> Accepted:
        return context.accepted("job") if how == "context" else Accepted("job")

    agent = rendering([render], store=SqliteStore(tmp_path / "runs.db"))
    drive(agent)
    ((text, is_error),) = results(agent)
    agent.store.close()
    assert (text.startswith("Failed: It raised DeclarationError: "), is_error) == (True, True)
    assert "transactional" in text


@pytest.mark.parametrize("handle", [object(), float("nan"), {1, 2}, "x" * 10_001])
def test_what_is_no_handle_is_told_as_an_error_of_the_tool(drive, handle):
    @tool.read_only
    def render(film: str, context: Context) -> Accepted:
        return context.accepted(handle)

    agent = rendering([render])
    drive(agent)
    assert results(agent)[0][0].startswith("Failed: It raised DeclarationError: ")
    assert "give the job's id" in results(agent)[0][0]


def test_one_call_has_one_handle(drive):
    @tool
    def render(film: str, context: Context) -> Accepted:
        context.accepted("job-1")
        return context.accepted("job-2")

    render.poll(lambda handle: Happened(handle))
    agent = rendering([render])
    drive(agent)
    assert results(agent) == [("job-1", False)]


# ---- in a batch, and from outside


def test_a_later_effect_waits_behind_accepted_work_and_a_read_does_not(drive):
    jobs, done = Jobs(Pending(after=60), Happened("Alps.mp4")), []

    @tool
    def mail(to: str) -> str:
        done.append(to)
        return "Mailed."

    @tool.read_only
    def look(place: str) -> str:
        done.append(place)
        return "Seen."

    calls = [("render", {"film": "Alps"}), ("mail", {"to": "ann"}), ("look", {"place": "shed"})]
    agent = rendering([render_with(jobs), mail, look], calls=calls)
    assert (drive(agent).status, done) == ("waiting", ["shed"])
    agent.clock.at += 60
    assert (drive(agent).status, done) == ("done", ["shed", "ann"])
    assert results(agent) == [("Alps.mp4", False), ("Mailed.", False), ("Seen.", False)]


def test_behind_work_that_failed_no_later_effect_starts(drive):
    @tool
    def mail(to: str) -> str:
        raise AssertionError("it was started")

    jobs = Jobs(DidNotHappen("no such codec"))
    agent = rendering([render_with(jobs), mail], calls=[("render", {"film": "Alps"}), ("mail", {"to": "ann"})])
    drive(agent)
    assert [text.split(":")[0] for text, _ in results(agent)] == ["Failed", "Not started"]


def test_while_a_tool_runs_accepted_work_is_asked_about_in_time(drive):
    jobs, polled_twice = Jobs(Pending(after=0.01), Happened("Alps.mp4")), threading.Event()

    @tool.read_only
    def look(place: str) -> str:
        return "Seen." if polled_twice.wait(SECONDS) else "Nothing came."

    render = render_with(jobs)

    def stands(handle):
        answer = jobs.stand(handle)
        if not jobs.answers:
            polled_twice.set()
        return answer

    render.polling = None
    render.poll(stands)
    agent = rendering([look, render], calls=[("render", {"film": "Alps"}), ("look", {"place": "shed"})])
    assert drive(agent).status == "done"
    assert results(agent) == [("Alps.mp4", False), ("Seen.", False)]


def test_a_cancelled_run_reports_accepted_work_as_unknown(drive):
    agent = rendering([render_with(Jobs(Pending(after=60)))])
    drive(agent)
    runs = Runs(agent.store)
    runs.cancel("run")
    assert drive(agent).status == "cancelled"
    (call,) = runs.doubts("run")
    assert "which may still carry it out" in call.content


def test_nobody_decides_about_work_that_another_side_has(drive):
    agent = rendering([render_with(Jobs(Pending(after=60)))])
    drive(agent)
    runs = Runs(agent.store)
    (call,) = runs.get("run").calls
    with pytest.raises(NotAllowed, match=r"the other side has it: .* cancel the run"):
        runs.decide("run", call.id, "happened")


def test_a_run_that_waits_says_so_from_outside_and_when_it_is_due(drive):
    clock = SettableClock()
    agent = rendering([render_with(Jobs(Pending(after=60)))], clock=clock)
    drive(agent)
    runs = Runs(agent.store, clock=clock)
    status, why = runs.status("run")
    assert status == "waiting"
    assert "accepted, to be asked again at 2026-09-21" in why
    clock.at += 60
    status, why = runs.status("run")
    assert (status, why.startswith("a resume asks the other side how it stands: ")) == ("waiting", True)


def test_a_tool_that_is_gone_leaves_its_work_unknown(drive):
    agent = rendering([render_with(Jobs(Pending(after=60)))])
    drive(agent)
    agent = rendering([], store=agent.store, clock=SettableClock(AT + 61))
    drive(agent)
    assert "The program has no tool render any more." in results(agent)[0][0]


def test_the_watcher_hears_each_poll(drive):
    heard = []
    agent = rendering([render_with(Jobs(Pending(after=60)))])
    drive(agent, watch=heard.append)
    assert [event.call.name for event in heard if isinstance(event, PollUp)] == ["render"]


# ---- a loop of one's own


def test_a_loop_of_ones_own_rests_and_goes_on():
    jobs, clock, store = Jobs(Pending(after=60), Happened("Alps.mp4")), SettableClock(), MemoryStore()
    answers = [uses(("render", {"film": "Alps"})), says("Rendered.")]

    def work():
        with Run(store, "run", "go", tools=[render_with(jobs)], clock=clock) as run:
            for turn in run:
                turn.respond(answers.pop(0))
        return run.result

    assert work().again_at == AT + 60
    clock.at += 60
    assert work().answer == "Rendered."


def test_an_asynchronous_loop_of_ones_own_rests_and_goes_on():
    jobs, clock, store = Jobs(Pending(after=60), Happened("Alps.mp4")), SettableClock(), MemoryStore()
    answers = [uses(("render", {"film": "Alps"})), says("Rendered.")]

    async def work():
        async with AsyncRun(store, "run", "go", tools=[render_with(jobs)], clock=clock) as run:
            async for turn in run:
                await turn.respond(answers.pop(0))
        return run.result

    assert asyncio.run(work()).again_at == AT + 60
    clock.at += 60
    assert asyncio.run(work()).answer == "Rendered."
