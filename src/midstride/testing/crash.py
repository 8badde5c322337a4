"""Let a program of yours die at every point of its way, carry it on, and check what must be true at the end.

    def scene(folder):
        outbox = []

        @tool
        def send_email(to: str) -> str:
            outbox.append(to)
            return f"sent to {to}"

        agent = Agent(models.Scripted([[("send_email", {"to": "ann"})], "Done."]), [send_email])
        return Scene(lambda process: process.agent(agent).run("Mail Ann", "mail"), effects=lambda: outbox)

    crash_everywhere(scene)

No process is started: a `Process` dies in thought, so that a plan takes milliseconds. First the program runs without a
death; then it dies once at each point that it reached; then it dies a second time at each point of each recovery.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midstride.core.journal import Entry, broken_link
from midstride.core.run import Call
from midstride.drive import Clock, Result, Runs
from midstride.drive.history import History
from midstride.stores import MemoryStore, Store
from midstride.testing import crash_judge as judge
from midstride.testing.clock import SettableClock
from midstride.testing.fuse import Killed
from midstride.testing.fuse_process import Process

RESTS = "rests"
"""In a plan: this process is not killed, it comes to rest."""

PROCESSES_MAX = 20
"""So many processes carry one run on at most; a person's word takes one more."""

TRIES_MAX = 3
"""How often a plan is tried of which a death does not come: threads race, and pass its point by now and then."""

Program = Callable[[Process], Result]


@dataclass(frozen=True)
class Scene:
    """One program, and the world that its effects land in: made anew for each plan.

    *program* is what a process does, from its start to its result; it must be deterministic. *effects* tells what took
    effect outside, one hashable value for each deed; they are held against those of the run without a death. *store*
    opens the journals for one process (in memory unless told), *decide* is a person's verdict on a call ("allow",
    "happened", ...) wherever the run waits for one. *check* asks what else must be true at the end.
    """

    program: Program
    effects: Callable[[], Iterable[Hashable]]
    store: Callable[[], Store] = field(default_factory=lambda: _one_memory())
    decide: Callable[[Call], str] | None = None
    check: Callable[[Crashed], None] | None = None


def _one_memory() -> Callable[[], Store]:
    store = MemoryStore()
    return lambda: store


MakeScene = Callable[[Path], Scene]
"""Makes a scene, with an empty folder of its own."""


@dataclass(frozen=True)
class CrashPlan:
    """Where the processes of a run die, one after the other; the one behind the last death lives to the end.

    A plan is written as its points with a comma between: "append 2 after, send_email 1.0 before". "rests" stands for a
    process that is not killed and comes to rest, because a person is asked or another side is at work.
    """

    points: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> CrashPlan:
        """Return the plan that is written as *text*."""
        return cls(tuple(point.strip() for point in text.split(",") if point.strip()))

    def __str__(self) -> str:
        return ", ".join(self.points)

    @property
    def deaths(self) -> int:
        """Return how many processes die."""
        return sum(point != RESTS for point in self.points)


@dataclass
class Crashed:
    """A run that was carried through the deaths of *plan*: what is there at the end, and what was seen on the way."""

    plan: CrashPlan
    result: Result
    entries: list[Entry]
    effects: Counter[Hashable]
    processes: list[Process]
    found: list[list[str]]
    """The journal's lines as each process found them."""

    turns: list[int]
    """The turns that each process found counted."""

    @property
    def died(self) -> bool:
        """Tell whether every death of the plan came: where threads race, one may not."""
        found = [process.fuse.died_at for process in self.processes]
        return [point for point in self.plan.points if point != RESTS] == [point for point in found if point]

    @property
    def journal(self) -> list[Any]:
        """Return the entries as JSON."""
        return [json.loads(entry.text) for entry in self.entries]

    @property
    def api(self) -> str:
        """Return the API that the run speaks."""
        return str(self.journal[0]["api"])

    @property
    def requests(self) -> list[str]:
        """Return the requests that left any process, oldest first, as JSON text."""
        return [request for process in self.processes for request in process.requests]

    @property
    def told(self) -> list[judge.Told]:
        """Return the calls and results in the last request."""
        imported = judge.answers_imported(self.journal)
        return judge.results_told(self.requests[-1], imported, self.api) if self.requests else []


# ---- carrying a plan out


def carry_out(make_scene: MakeScene, plan: CrashPlan, folder: Path) -> tuple[Scene, Crashed]:
    """Let the processes of *plan* die, and others go on until the run rests and nobody has to be asked any more."""
    scene = make_scene(folder)
    clock = SettableClock()
    stage = _Stage(scene, clock)
    try:
        stage.play(plan)
        return scene, stage.crashed(plan)
    finally:
        for process in stage.processes:
            process.clean_up()


class _Stage:
    def __init__(self, scene: Scene, clock: Clock) -> None:
        self._scene, self._clock = scene, clock
        self.processes: list[Process] = []
        self._run_id: str | None = None
        self._found: list[list[Entry]] = []
        self._result: Result | None = None

    def play(self, plan: CrashPlan) -> None:
        for point in plan.points:
            if self._is_over(self._process(None if point == RESTS else point)):
                return
        while not self._is_over(self._process(None)):
            pass

    def _process(self, at: str | None) -> bool:
        """Run one process, and tell whether it came to rest."""
        judge.that(len(self.processes) < PROCESSES_MAX, f"the run is not over after {PROCESSES_MAX} processes")
        process = Process(self._scene.store(), self._clock, at)
        self.processes.append(process)
        self._found.append(self._entries(process.store.inner))
        try:
            result = self._scene.program(process)
        except BaseException:
            if process.fuse.died_at is None:
                raise
            return False
        else:
            if process.fuse.died_at is not None:
                return False  # the program made something of its own death: the dead have no result
            self._result, self._run_id = result, result.id
            return True
        finally:
            process.end()

    def _is_over(self, rested: bool) -> bool:
        if not rested or self._result is None:
            return False
        if self._result.again_at is not None:
            self.processes[-1].wait_until(self._result.again_at)
            return False
        if self._result.status != "waiting" or self._scene.decide is None:
            return True
        asked = [call for call in self._entries_folded().calls if call.state in ("asking approval", "asking doubt")]
        with self._open() as store:
            for call in asked:
                Runs(store, clock=self._clock).decide(self._result.id, call.id, self._scene.decide(call))
        return not asked

    def _entries_folded(self) -> Any:
        with self._open() as store:
            return History.of(self._entries(store)).run

    @contextlib.contextmanager
    def _open(self) -> Iterator[Store]:
        store = self._scene.store()
        try:
            yield store
        finally:
            store.close()

    def _entries(self, store: Store) -> list[Entry]:
        run_ids = store.runs()
        judge.that(len(run_ids) <= 1, f"a scene has one run, this one has {run_ids}: give its runs the same id")
        return store.read(run_ids[0]) if run_ids else []

    def crashed(self, plan: CrashPlan) -> Crashed:
        assert self._result is not None
        with self._open() as store:
            entries = self._entries(store)
        lines = [[entry.text for entry in found] for found in self._found]
        turns = [sum(entry.body.kind == "requested" for entry in found) for found in self._found]
        effects = Counter(self._scene.effects())
        return Crashed(plan, self._result, entries, effects, self.processes, lines, turns)


# ---- judging


def check_crashed(scene: Scene, crashed: Crashed, unkilled: Crashed, *, same: bool = True) -> None:
    """Raise AssertionError unless all is true that must be; *same* when the program asks the same each time it runs."""
    journal, result = crashed.journal, crashed.result
    broken = broken_link(crashed.entries)
    judge.that(broken is None, f"the journal's chain is broken at entry {broken}")
    judge.check_grew([*crashed.found, [entry.text for entry in crashed.entries]])
    judge.check_counters(result.turns, result.tokens_used, result.tokens_total, journal)
    judge.that(sorted(crashed.turns) == crashed.turns, "turns were forgotten")
    judge.check_requests_grew(crashed.requests, crashed.api)
    judge.check_accepted(crashed.requests, crashed.api)
    told = crashed.told
    others = judge.check_words(told, unkilled.told, journal)
    if [call.asked for call in told] == [call.asked for call in unkilled.told]:
        _check_effects(crashed, unkilled, len(others))
        judge.that(result.status == unkilled.result.status, f"the run ended as {result.status!r}: {result.why}")
    if same and not others:
        last, wanted = (judge.timeless(one.requests[-1:]) for one in (crashed, unkilled))
        judge.that(last == wanted, "its last request is not the one without a death")
        judge.that(result.answer == unkilled.result.answer, f"the answer is {result.answer!r}")
    if scene.check is not None:
        scene.check(crashed)


def _check_effects(crashed: Crashed, unkilled: Crashed, others: int) -> None:
    more, less = crashed.effects - unkilled.effects, unkilled.effects - crashed.effects
    judge.that(not more, f"it took effect more often than without a death: {_listed(more)}")
    judge.that(less.total() <= others, f"it did not take effect, and nobody was told so: {_listed(less)}")


def _listed(deeds: Counter[Hashable]) -> str:
    return ", ".join(f"{deed!r} (x{times})" for deed, times in deeds.items())


# ---- every point


@dataclass
class CrashReport:
    """How many plans were carried out: by the number of deaths, and by the points where processes died."""

    plans: Counter[int] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    """Plans of which a death did not come, however often they were tried, since threads raced."""

    def count(self, crashed: Crashed) -> None:
        """Count one plan that held."""
        if crashed.died:
            self.plans[crashed.plan.deaths] += 1
            self.points[kind_of(crashed.plan)] += 1
        else:
            self.missed += 1


class CrashFailure(AssertionError):
    """A plan that ended badly; `plan` replays it."""

    def __init__(self, plan: CrashPlan, why: str, replay: str = "plan") -> None:
        super().__init__(f'{replay} "{plan}"\n{why}')
        self.plan = plan


def crash_everywhere(
    make_scene: MakeScene,
    *,
    deaths: int = 2,
    sample: int | None = None,
    only: CrashPlan | None = None,
    replay: str = "plan",
) -> CrashReport:
    """Carry out every plan of up to so many *deaths*, fewer ones first; raises CrashFailure for the first bad one.

    With *sample* only so many plans of each number of deaths beyond the first are carried out, spread evenly and the
    same every time. *only* replays one plan. *replay* is what a failure's first line says in front of the plan.
    """
    report = CrashReport()
    with tempfile.TemporaryDirectory(prefix="midstride-", dir=_memory()) as folder:
        trial = _Trial(make_scene, _folders(Path(folder)), replay)
        if only is not None:
            report.count(trial.carry_out(only))
            return report
        plans = _longer(CrashPlan(), trial.unkilled)
        for number in range(1, deaths + 1):
            chosen = plans if sample is None or number == 1 else _spread(plans, sample)
            plans = []
            for plan in chosen:
                crashed = trial.carry_out(plan)
                report.count(crashed)
                plans += _longer(plan, crashed) if number < deaths else []
    return report


def _memory() -> str | None:
    """Return a folder in memory where there is one: a process that dies in thought loses nothing that it wrote."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _folders(above: Path) -> Iterator[Path]:
    for number in itertools.count():
        folder = above / str(number)
        folder.mkdir()
        yield folder


def _spread(plans: list[CrashPlan], count: int) -> list[CrashPlan]:
    """Return so many of *plans*, evenly chosen."""
    if len(plans) <= count:
        return plans
    return [plans[at * len(plans) // count] for at in range(count)]


class _Trial:
    """One program, and how it ends without a death: it is run twice, and what differs is not held against a death."""

    def __init__(self, make_scene: MakeScene, folders: Iterator[Path], replay: str) -> None:
        self._make_scene, self._folders, self._replay = make_scene, folders, replay
        nobody = CrashPlan()
        with self._failing(nobody):
            scene, self.unkilled = carry_out(make_scene, nobody, next(folders))
            _, again = carry_out(make_scene, nobody, next(folders))
            judge.that(again.effects == self.unkilled.effects, "without a death, its effects differ from run to run")
            self._same = _end_of(again) == _end_of(self.unkilled)
            check_crashed(scene, self.unkilled, self.unkilled, same=self._same)

    def carry_out(self, plan: CrashPlan) -> Crashed:
        """Carry *plan* out and check how it ended; where a death did not come, try it again."""
        for _ in range(TRIES_MAX):
            crashed = self._once(plan)
            if crashed.died:
                break
        return crashed

    def _once(self, plan: CrashPlan) -> Crashed:
        with self._failing(plan):
            scene, crashed = carry_out(self._make_scene, plan, next(self._folders))
            check_crashed(scene, crashed, self.unkilled, same=self._same)
        return crashed

    @contextlib.contextmanager
    def _failing(self, plan: CrashPlan) -> Iterator[None]:
        try:
            yield
        except (Exception, Killed) as error:
            raise CrashFailure(plan, f"{type(error).__name__}: {error}", self._replay) from error


def _end_of(crashed: Crashed) -> tuple[str, str | None]:
    return judge.timeless(crashed.requests[-1:]), crashed.result.answer


def kind_of(plan: CrashPlan) -> str:
    """Return the kind of the point where the last process of *plan* dies: "append before", "tool after", ..."""
    words = next((point for point in reversed(plan.points) if point != RESTS), "").split(" #")[0].split()
    known = ("append", "ask", "commit", "poll", "take", "verify")
    if len(words) == 1:
        return words[0]
    return f"{words[0] if words[0] in known else 'tool'} {words[-1]}"


def _longer(plan: CrashPlan, crashed: Crashed) -> list[CrashPlan]:
    """Return the plans with one death more: at each point that the processes behind the last death reached."""
    if not crashed.died:
        return []
    longer = []
    for lived, process in enumerate(crashed.processes[len(plan.points) :]):
        before = (*plan.points, *[RESTS] * lived)
        longer += [CrashPlan((*before, point)) for point in process.fuse.points]
    return longer
