"""The spans of one run in one process: `invoke_agent`, and within it `chat`, `execute_tool` and `verify`.

The rules of this file:

- Nothing raises out of it: whatever OpenTelemetry is made of is called through `Quiet`. What a tool or a model raises
  goes through unchanged.
- A span is current in the thread or task that does the work, so that the spans of clients and tools stand below it.
- An attempt's span ends when its outcome is recorded, dated when the attempt ended; at the latest with `invoke_agent`.
- A forked child has the open spans and is not the one to end them: it draws nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from midstride.core import journal
from midstride.core.journal import Entry
from midstride.core.reconcile import Seen
from midstride.core.run import Call, CallId, CallState, Run
from midstride.core.steps import Ended, Lost, Refused, UnderWay
from midstride.drive.calls import class_of
from midstride.drive.observing import Note, Taking
from midstride.drive.result import Draft
from midstride.integrations.opentelemetry import attributes, content, events
from midstride.integrations.opentelemetry.metrics import Instruments
from midstride.integrations.opentelemetry.quiet import Quiet
from midstride.models.contract import DRAWN

Json = Any
BILLION = 1_000_000_000
LEFT = "left behind"
"""The error type of an attempt that goes on when nobody waits for it any more."""


class Part:
    """A span that is open: what was noted of it, when its work was over (ns), and the metric's attributes."""

    def __init__(self, span: Span, labels: attributes.Attributes) -> None:
        self.span, self.labels = span, labels
        self.began, self.ended = time.time_ns(), 0
        self.clock = time.perf_counter()
        self.note: object = None
        self.is_over = False
        self.first_chunk: float | None = None

    @property
    def seconds(self) -> float:
        """Return the seconds since it began."""
        return time.perf_counter() - self.clock

    def fail(self, error_type: str) -> None:
        """Mark the span and its metrics as failed."""
        self.labels["error.type"] = attributes.name(error_type)
        self.span.set_attribute("error.type", self.labels["error.type"])
        self.span.set_status(Status(StatusCode.ERROR))


class ObservedRun:
    """Draws the spans of one run, from being taken up until it is let go."""

    def __init__(
        self, tracer: Tracer, instruments: Instruments, quiet: Quiet, taking: Taking, *, content: bool
    ) -> None:
        self._tracer, self._instruments, self._quiet, self._content = tracer, instruments, quiet, content
        self._run_id, self._api, self._pid = taking.run_id, taking.api, os.getpid()
        self._lock = threading.Lock()
        self._attempts: dict[CallId, Part] = {}
        self._asked = False
        self._entered: Context | None = None
        self._before: Context | None = None
        known = attributes.of_run(taking)
        span = tracer.start_span("invoke_agent", kind=SpanKind.INTERNAL, attributes=known, links=_links(taking.run))
        labels = {name: known[name] for name in ("gen_ai.operation.name", "gen_ai.provider.name")}
        self._root = Part(span, labels)
        self._context = trace.set_span_in_context(span)
        self.trace: str | None = _traceparent(self._context)

    # ---- the caller's own code

    def enter(self) -> None:
        """Make `invoke_agent` current in the caller's thread or task."""
        self._quietly(self._enter)

    def _enter(self) -> None:
        self._before = contexts.get_current()
        self._entered = trace.set_span_in_context(self._root.span)
        contexts.attach(self._entered)

    def leave(self) -> None:
        """Make current again what was before; elsewhere, or below something of the caller's own, nothing changes."""
        self._quietly(self._leave)

    def _leave(self) -> None:
        if self._before is not None and contexts.get_current() is self._entered:
            contexts.attach(self._before)

    # ---- events

    def hear(self, event: object, run: Run, why: str = "") -> None:
        """Draw what no span of its own stands for, and give an attempt its outcome."""
        self._quietly(self._hear, event, run, why)

    def _hear(self, event: object, run: Run, why: str) -> None:
        found = events.of(event, run, why, asked=self._asked)
        if found is not None:
            self._root.span.add_event(*found)
        match event:
            case Entry(body=journal.Settled(turn=turn, index=index, outcome=outcome)):
                self._settle((turn, index), outcome)
            case Entry(body=journal.Responded() | journal.Failed()):
                self._asked = False

    def _settle(self, key: CallId, outcome: str | None) -> None:
        with self._lock:
            part = self._attempts.pop(key, None)
        if part is None:
            return
        if outcome is not None:
            part.span.set_attribute("midstride.outcome", outcome)
        if not part.ended:
            part.fail(LEFT)
        part.is_over = True
        part.span.end(part.ended or None)

    # ---- a request

    def request(self, request: Mapping[str, Json], run: Run) -> AbstractContextManager[Note]:
        """Draw `chat` around a request; a client that would draw one itself is told not to."""
        return self._drawn(self._quietly(self._chat, request, run))

    def _chat(self, request: Mapping[str, Json], run: Run) -> Part:
        known = attributes.of_request(self._run_id, self._api, request, run.turns)
        if self._content:
            known |= content.of_request(request)
        model = request.get("model")
        title = f"chat {attributes.name(model)}" if isinstance(model, str) else "chat"
        span = self._begin(title, SpanKind.CLIENT, known)
        names = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")
        self._asked = True
        return _Request(span, {name: known[name] for name in names if name in known}, run)

    @contextmanager
    def _drawn(self, part: Part | None) -> Iterator[Note]:
        token = DRAWN.set(part is not None)
        try:
            with self._around(part, self._answered) as note:
                yield note
        finally:
            DRAWN.reset(token)

    def _answered(self, part: Part) -> None:
        value = part.note
        if isinstance(value, (Lost, Refused)):
            part.fail(value.type)
            if self._content:
                part.span.set_attribute("midstride.error", content.text(value.reason))
        elif isinstance(value, Mapping) and isinstance(part, _Request):
            told = attributes.of_response(part.run.api, value)
            part.span.set_attributes(told)
            if "gen_ai.response.model" in told:
                part.labels["gen_ai.response.model"] = told["gen_ai.response.model"]
            if self._content:
                part.span.set_attributes(content.of_response(part.run.api, value))
            self._instruments.count(part.run.api.usage(value), part.labels)
        if part.first_chunk is not None:
            part.span.set_attribute("gen_ai.request.stream", True)
            part.span.set_attribute("gen_ai.response.time_to_first_chunk", part.first_chunk)
            self._instruments.first_chunk.record(part.first_chunk, part.labels)
        if not isinstance(value, UnderWay):  # its answer is heard by another span, which counts as the request
            self._instruments.request.record(part.seconds, part.labels)
        part.span.end()

    # ---- an attempt, and a look

    def attempt(self, call: Call, attempt: int) -> AbstractContextManager[Note]:
        """Draw `execute_tool` around an attempt."""
        return self._around(self._quietly(self._execute, call, attempt), self._executed)

    def _execute(self, call: Call, attempt: int) -> Part:
        known = attributes.of_attempt(self._run_id, call, attempt)
        if self._content:
            known["gen_ai.tool.call.arguments"] = content.as_json(call.arguments)
        span = self._begin(f"execute_tool {attributes.name(call.name)}", SpanKind.INTERNAL, known)
        names = ("gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.type")
        part = Part(span, {name: known[name] for name in names})
        self._settle(call.key, None)  # an earlier attempt, which left nothing behind
        with self._lock:
            self._attempts[call.key] = part
        return part

    def _executed(self, part: Part) -> None:
        ended = part.note
        if isinstance(ended, Ended) and not part.is_over:
            if ended.how not in ("returned", "accepted"):
                part.fail(ended.type or ended.how)
            if self._content:
                part.span.set_attribute("gen_ai.tool.call.result", content.as_json(ended.content))
        self._instruments.tool.record(part.seconds, part.labels)
        part.ended = time.time_ns()  # its outcome is still to come

    def look(self, call: Call) -> AbstractContextManager[Note]:
        """Draw `verify`, or `poll`, around a look at what came of a call."""
        return self._around(self._quietly(self._verify, call), self._looked)

    def _verify(self, call: Call) -> Part:
        known = {"gen_ai.conversation.id": attributes.name(self._run_id), **attributes.of_call(call)}
        what = "poll" if call.state is CallState.ACCEPTED else "verify"
        return Part(self._begin(f"{what} {attributes.name(call.name)}", SpanKind.INTERNAL, known), {})

    def _looked(self, part: Part) -> None:
        if isinstance(part.note, Seen):
            part.span.set_attribute("midstride.seen", part.note.answer)
        part.span.end()

    def outlived(self, call: Call) -> None:
        """End the span of an attempt that goes on beyond its time: its end may never come."""
        self._quietly(self._settle, call.key, None)

    # ---- the end

    def end(self, status: str | None, run: Run, error: BaseException | None) -> None:
        """End `invoke_agent`, and whatever is still open below it."""
        self._quietly(self._end, status, run, error)

    def _end(self, status: str | None, run: Run, error: BaseException | None) -> None:
        for key in list(self._attempts):
            self._quietly(self._settle, key, None)
        span = self._root.span
        span.set_attribute("midstride.status", status if error is None and status else "interrupted")
        span.set_attributes({"midstride.turns": run.turns, "midstride.tokens": run.tokens_total})
        if error is not None:
            self._fail(self._root, error)
        elif status in ("failed", "held", "cut"):
            self._root.fail(status)
        self._instruments.run.record(self._root.seconds, self._root.labels)
        span.end()

    # ---- what they share

    def _begin(self, name: str, kind: SpanKind, known: attributes.Attributes) -> Span:
        """Begin a span below what is current, where that belongs to this run, and else below `invoke_agent`."""
        current = trace.get_current_span().get_span_context()
        ours = current.trace_id == self._root.span.get_span_context().trace_id
        return self._tracer.start_span(name, None if ours else self._context, kind, known)

    @contextmanager
    def _around(self, part: Part | None, close: Any) -> Iterator[Note]:
        """Make the span of *part* current, hear what comes of it, and *close* it however it ends."""
        if part is None:
            yield _deaf
            return
        token = self._quietly(contexts.attach, trace.set_span_in_context(part.span))
        try:
            yield lambda value: _noted(part, value)
        except BaseException as error:
            self._quietly(self._fail, part, error)
            raise
        finally:
            if token is not None:
                self._quietly(contexts.detach, token)
            self._quietly(close, part)

    def _fail(self, part: Part, error: BaseException) -> None:
        if part.is_over:
            return
        part.fail(class_of(error))
        if self._content:
            part.span.record_exception(error, content.of_error(error))
        else:
            part.span.add_event("exception", {"exception.type": part.labels["error.type"]})

    def _quietly(self, function: Any, *given: Any) -> Any:
        return self._quiet(function, *given) if os.getpid() == self._pid else None


class _Request(Part):
    """The span of a request, with the run that it belongs to."""

    def __init__(self, span: Span, labels: attributes.Attributes, run: Run) -> None:
        super().__init__(span, labels)
        self.run = run


def _noted(part: Part, value: object) -> None:
    if not isinstance(value, Draft):
        part.note = value
    elif part.first_chunk is None:
        part.first_chunk = part.seconds


def _deaf(value: object) -> None: ...


# ---- what leads from one process to the next


def _traceparent(context: Context) -> str | None:
    """Return the W3C traceparent of the span in *context*; None where nothing records it."""
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, context)
    return carrier.get("traceparent")


def _links(run: Run) -> list[Link]:
    """Return the link to the span of whoever had the run before."""
    before = run.holder.trace if run.holder is not None else None
    if not isinstance(before, str):
        return []
    context = TraceContextTextMapPropagator().extract({"traceparent": before}, Context())
    found = trace.get_current_span(context).get_span_context()
    return [Link(found, {"midstride.link": "the process that had the run before"})] if found.is_valid else []
