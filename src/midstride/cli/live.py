"""What a person sees while a run works: one live line, the answer as a draft, a line for each call.

Quiet when the output is no terminal: then only the lines for calls, questions and waits are written. All of it goes to
standard error; a reader that goes away does not stop the run.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.live import Live
from rich.text import Text

from midstride.cli import show, story
from midstride.core import journal, words
from midstride.core.fold import fold
from midstride.core.journal import Entry
from midstride.core.run import NEW, CallId, Run
from midstride.core.steps import LookUp, Pause, PollUp, Start, Transact
from midstride.drive import Draft
from midstride.drive.result import cost_of
from midstride.hidden import redacted
from midstride.visible import one_line, visible, word

OUTCOME_STYLE = {"ok": "green", "already done": "green", "told": "green", "unknown": "red", "in doubt elsewhere": "red"}
DRAFT_LINES = 6
DRAFT_CHARACTERS = 20_000
"""Many times what six lines of a wide terminal hold: a secret whose beginning was cut off could not be told."""


DRAWN_CHARACTERS = 2_000
"""As much as six lines of a wide terminal hold, and more."""


class Watcher:
    """Hears a run's events and draws them; use it as a context. *hint* says how a person decides about a call.

    *read* returns the run's entries behind a seq: those that others wrote are not heard.
    """

    def __init__(self, read: Callable[[int], Sequence[Entry]], hint: str = "midstride decide RUN") -> None:
        self._read = read
        self._run: Run = fold(read(0), NEW)
        self._hint = hint
        self._began = time.monotonic()
        self._draft = ""
        self._doing = "starting"
        self._how: dict[CallId, str] = {}
        self._live: Live | None = None
        self._gone = False

    def __enter__(self) -> Watcher:
        if is_live():
            self._live = Live(console=show.ERR, transient=True, refresh_per_second=8, get_renderable=self._line)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Give the terminal back as it was."""
        live, self._live = self._live, None
        if live is not None:
            self._guarded(live.stop)

    def stopping(self) -> None:
        """Show that the run is about to stop."""
        self._doing = "stopping"

    def hear(self, event: object) -> None:
        """Take in one event of the run."""
        self._guarded(self._take_in, event)

    def _guarded(self, function: Any, *arguments: Any) -> None:
        """Draw, or go on in silence when nobody is there to look: the run is what matters."""
        try:
            function(*arguments)
        except OSError:
            show.drop_output()

    def _take_in(self, event: object) -> None:
        match event:
            case Entry():
                self._entry(event)
            case Draft():
                self._stream(event.event)
            case Start(call=call, attempt=attempt) | Transact(call=call, attempt=attempt):
                again = f"attempt {attempt}" if attempt > 1 else ""
                self._how[call.key] = again
                self._doing = f"{call.name} runs{again and ', ' + again}"
            case LookUp(call=call):
                self._how[call.key] = "looked up"
                self._doing = f"looking up what came of {call.name}"
            case PollUp(call=call):
                self._how[call.key] = "polled"
                self._doing = f"asking how {call.name} stands"
            case Pause(reason=reason, seconds=seconds):
                self._doing = "waiting to go on"
                show.note(f"  it goes on in {seconds:.0f} s: {one_line(redacted(reason), 200)}", "yellow")

    def _entry(self, entry: Entry) -> None:
        if entry.seq > self._run.head.seq + 1:  # a person has spoken, or the holder before has saved its last results
            self._run = fold((e for e in self._read(self._run.head.seq) if e.seq < entry.seq), self._run)
        self._run = fold((entry,), self._run)
        match entry.body:
            case journal.Requested():
                self._doing, self._draft = "the model answers", ""
            case journal.Responded(response=response):
                self._responded(response)
            case journal.Settled(turn=turn, index=index, outcome=outcome):
                self._call((turn, index), outcome, OUTCOME_STYLE.get(outcome, "yellow"))
            case journal.Accepted(turn=turn, index=int(index), again_at=again_at):
                call = self._run.call((turn, index))
                if call is not None and again_at is not None:
                    self._call((turn, index), words.standing(call), "yellow" if call.failures else "cyan")
            case journal.Decided(turn=turn, index=index, verdict=verdict, by=by):
                self._call((turn, index), f"{by or 'somebody'} decided: {verdict}", "magenta")
            case journal.Asked(turn=turn, index=index, why=why):
                self._call((turn, index), f"a person is asked ({why})", "magenta")

    def _responded(self, response: Any) -> None:
        self._draft = ""
        text = self._run.api.text(response)
        if text and self._live is not None and self._run.ending != "final":
            show.note(one_line(redacted(text), 200), "dim")

    def _call(self, key: CallId, outcome: str, style: str) -> None:
        call = self._run.call(key)
        if call is None:
            return
        facts, how, outcome = story.call_facts(call), self._how.pop(key, ""), redacted(outcome)
        shown = f"{outcome}, {how}" if how else outcome
        head = f"  {show.asked_for(facts, 80)}  {show.effect(facts)}  "
        show.ERR.print(Text.assemble(head, (visible(shown), style), f"  {word(call.id)}"))

    def _stream(self, event: Any) -> None:
        if getattr(event, "type", None) == "text" and isinstance(getattr(event, "text", None), str):
            self._draft = (self._draft + event.text)[-DRAFT_CHARACTERS:]

    def _line(self) -> Text:
        seconds = time.monotonic() - self._began
        doing, spent = one_line(self._doing, 60), cost_of(self._run)
        cost = "" if spent is None else f"  cost {show.money(spent)}"
        head = f"turn {self._run.turns}  {doing}  {self._run.tokens_used} tokens{cost}  {seconds:.0f} s"
        draft = "\n".join(visible(self._drawn()).splitlines()[-DRAFT_LINES:])
        return Text.assemble((f"{draft}\n" if draft else "", "dim italic"), (head, "cyan"))

    def _drawn(self) -> str:
        """Return the draft without its last word, which may be half a secret."""
        whole = re.match(r"(?s).*\s", self._draft)
        text: str = redacted(whole[0]) if whole else ""
        return text[-DRAWN_CHARACTERS:]


def is_live() -> bool:
    """Tell whether there is a terminal to draw on; FORCE_COLOR makes none."""
    return sys.stderr.isatty() and show.ERR.is_interactive
