"""A model API on loopback: it answers from a script, cuts the line when told to, and refuses what the real one does.

    with FakeModel([calls(("send_email", {"to": "b"})), Answer("sent")]) as server:
        client = anthropic.Anthropic(api_key="k", base_url=server.url)

It speaks Anthropic's Messages, and OpenAI's Chat Completions and Responses at `server.url + "/v1"`; the same script
does for all three. A response that is to be stored can be fetched, also while its reply is held.

A script is a list of replies or a function `(body, number) -> Reply`, where number counts, from 0, the requests that
reached the script. A list is read by turn: the reply is the one whose place is the count of assistant messages in the
request, so a resumed program that asks again gets the same answer. A list in place of a reply gives them one after the
other for the same turn, and the last one ever after: `[[Fail(429), Answer("a")], Answer("b")]`. With `by="request"`
the place is the number of the request instead.

`after_events` counts the events of the stream from its start (message_start, content_block_start, ping, then pieces of
the first block, ...) or, when negative, from its end: -1 leaves out message_stop, -2 message_delta too, which carries
the stop reason. Where the request asks for no stream, a cut answer ends in the middle of its body.

As a program of its own, so that it outlives the process under test:

    python -m midstride.testing.fake_model SCRIPT.json [--port N] [--log FILE]

The first line it prints is its URL; then it serves until it is killed. FILE gets a line for each request as it comes, a
JSON object with number, turn (assistant messages in it), headers (without the key) and body, the text as received.
SCRIPT.json holds a list of replies, or an object with the list as `replies` and, as wanted, `by` and `prefill_models`:

    "text"                                       Answer("text")
    {"answer": [blocks], "stop_reason": "..."}   Answer; also usage and extra
    {"calls": [["send_email", {"to": "b"}]]}     calls(...); also text and stop_reason
    {"fail": 429, "headers": {...}}              Fail; also type and message
    {"cut": -2, "answer": reply}                 Cut; {"cut": -2} cuts some text
    {"truncate": -2, "answer": reply}            Truncate
    {"stream_error": "overloaded_error"}         StreamError; also message, after_events and answer
    {"hold_file": "/path", "reply": reply}       Hold until the file exists; also after_events
    {"slow": 0.1, "answer": reply}               Slow, seconds before each event
    {"refuse": true}                             Refuse
    [reply, reply]                               one after the other for the same turn
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from http.client import responses
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import parse_qs

from .fake_anthropic import STATUSES, Messages
from .fake_chat import Chat
from .fake_listener import End, Listener, Step, Wait
from .fake_replies import (
    Answer,
    Cut,
    Fail,
    Hold,
    Refuse,
    Reply,
    Script,
    Slow,
    StreamError,
    Truncate,
    calls,
    flat,
    kinds_in,
    script_from,
)
from .fake_responses import Responses
from .fake_validator import Rules
from .fake_wire import Dialect, Exchange, encoded

__all__ = [
    "Answer",
    "Cut",
    "Fail",
    "FakeModel",
    "Hold",
    "Refuse",
    "Reply",
    "Script",
    "Slow",
    "StreamError",
    "Truncate",
    "calls",
    "script_from",
]


class FakeModel:
    """The server; as a context manager it serves from entering to leaving, and never longer.

    `requests` holds the parsed bodies of the requests for an answer in the order they came ({} for what is no JSON
    object), `bodies` their bytes as received, `headers` their headers in lower case: refused ones are there too.
    `fetched` holds the paths of responses that were fetched.
    """

    def __init__(
        self,
        script: Script,
        *,
        by: Literal["turn", "request"] = "turn",
        prefill_models: Collection[str] = (),
        port: int = 0,
        log: Path | None = None,
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.fetched: list[str] = []
        self._kept: dict[str, _Kept] = {}
        self._script, self._by, self._prefill_models, self._log = script, by, prefill_models, log
        self._kinds = frozenset[str]().union(*([] if callable(script) else map(kinds_in, flat(script))))
        self._port, self._arrived = port, threading.Condition()
        self._reached: list[int] = []
        self._listener: Listener | None = None

    def __enter__(self) -> Self:
        self._listener = Listener(self._port, self._steps)
        self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving: connections end, held answers are given up, later connections are refused."""
        if self._listener is not None:
            self._listener.stop()
            self._listener = None

    @property
    def url(self) -> str:
        """The base URL for a client; RuntimeError when the server is not running."""
        if self._listener is None:
            raise RuntimeError("the fake model is not running; use it as `with FakeModel(script) as server:`")
        return f"http://127.0.0.1:{self._listener.server_address[1]}"

    def wait_for(self, count: int, timeout: float = 10.0) -> list[dict[str, Any]]:
        """Wait until *count* requests have come, and return them; TimeoutError after *timeout* seconds."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, timeout):
                raise TimeoutError(f"{len(self.requests)} requests came in {timeout} s, {count} were awaited")
            return self.requests[:count]

    def wait_for_fetches(self, count: int, timeout: float = 10.0) -> list[str]:
        """Wait until responses were fetched *count* times, and return the paths; TimeoutError after *timeout* s."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.fetched) >= count, timeout):
                raise TimeoutError(f"{len(self.fetched)} responses were fetched in {timeout} s, {count} were awaited")
            return self.fetched[:count]

    def _steps(self, method: str, path: str, headers: Mapping[str, str], raw: bytes) -> list[Step]:
        """What to do on the connection that brought this request."""
        place, _, query = path.partition("?")
        if method == "GET" and place.startswith("/v1/responses/"):
            return self._fetch(path, place.removeprefix("/v1/responses/"), parse_qs(query))
        dialect = DIALECTS.get(place)
        if method != "POST" or dialect is None:
            return _missing(f"Not found: {method} {path}", with_body=method != "HEAD")
        number, request = self._record(dialect, headers, raw)
        asked = Exchange(request, raw, dialect.turn_of(request), f"req_{number:06d}", request.get("stream") is True)
        answering = _Reply(dialect, asked)
        refused = dialect.refusal(raw, headers, Rules(self._prefill_models, self._kinds, "anthropic-beta" in headers))
        if refused is not None:
            return answering.error(Fail(refused.status, refused.type, refused.message))
        reply = self._reply(request, asked.turn)
        self._kinds |= kinds_in(reply)
        if (
            isinstance(dialect, Responses)
            and request.get("store") is not False
            and not isinstance(reply, Fail | Refuse)
        ):
            self._kept[dialect.message(Answer(""), asked)["id"]] = _Kept(reply, asked)
        return answering.steps(reply)

    def _fetch(self, path: str, name: str, query: Mapping[str, list[str]]) -> list[Step]:
        with self._arrived:
            self.fetched.append(path)
            self._arrived.notify_all()
        kept = self._kept.get(name)
        return _missing(f"Response with id '{name}' not found.") if kept is None else kept.steps(query)

    def forget_responses(self) -> None:
        """Keep none of the responses so far any longer: who fetches one is told that it is not found."""
        self._kept.clear()

    def _record(self, dialect: Dialect, headers: Mapping[str, str], raw: bytes) -> tuple[int, dict[str, Any]]:
        try:
            request = json.loads(raw)
        except (ValueError, RecursionError):
            request = {}
        if not isinstance(request, dict):
            request = {}
        with self._arrived:
            number = len(self.requests)
            self.requests.append(request)
            self.bodies.append(raw)
            self.headers.append(dict(headers))
            if self._log is not None:
                _log(self._log, number, dialect.turn_of(request), headers, raw)
            self._arrived.notify_all()
        return number, request

    def _reply(self, request: dict[str, Any], turn: int) -> Reply:
        with self._arrived:
            number = len(self._reached)
            place = turn if self._by == "turn" else number
            again = self._reached.count(place)
            self._reached.append(place)
        if callable(self._script):
            return self._ask(self._script, request, number)
        if place >= len(self._script):
            return Fail(400, message=f"the script of the fake model has no reply {place}, only {len(self._script)}")
        item = self._script[place]
        return item[min(again, len(item) - 1)] if isinstance(item, Sequence) else item

    def _ask(self, script: Callable[[dict[str, Any], int], Reply], request: dict[str, Any], number: int) -> Reply:
        # The client is the one who can show what is wrong: a 400 is not retried, and its message is printed.
        try:
            reply = script(request, number)
        except Exception as error:
            return Fail(400, message=f"the script of the fake model raised {error!r}")
        return reply if isinstance(reply, Reply) else Fail(400, message=f"the script gave {reply!r}, which is no reply")


DIALECTS: dict[str, Dialect] = {one.path: one for one in (Messages(), Chat(), Responses())}


def _missing(message: str, *, with_body: bool = True) -> list[Step]:
    asked = Exchange({}, b"", 0, "req_none", streams=False)
    return _Reply(Messages(), asked).error(Fail(404, message=message), with_body=with_body)


def _log(path: Path, number: int, turn: int, headers: Mapping[str, str], raw: bytes) -> None:
    shown = {name: value for name, value in headers.items() if name not in ("authorization", "x-api-key")}
    # Bytes that are no UTF-8 become lone surrogates, which surrogateescape turns back.
    text = raw.decode("utf-8", "surrogateescape")
    with path.open("a", encoding="ascii") as file:
        file.write(json.dumps({"number": number, "turn": turn, "headers": shown, "body": text}) + "\n")


# What is sent, worked out: bytes, waits and ends. Nothing here touches a socket.


@dataclass(frozen=True)
class _Reply:
    """A reply to be given in one dialect to one request."""

    dialect: Dialect
    asked: Exchange

    def steps(self, reply: Reply) -> list[Step]:
        """What to do on the connection."""
        match reply:
            case Answer():
                return [*self._parts(reply)]
            case Fail():
                return self.error(reply)
            case Refuse():
                return [End(reset=True)]
            case Cut(after_events, answer):
                head, events, rest, _ = self._split(answer, after_events)
                torn = b"".join(rest[:1])
                return [head, *events, torn[: len(torn) // 2], End(reset=True)]
            case Truncate(after_events, answer):
                head, events, rest, last = self._split(answer, after_events)
                if self.asked.streams:
                    return [head, *events, last]
                return [head, rest[0][: len(rest[0]) // 2], End(reset=False)]
            case StreamError():
                return self._stream_error(reply)
            case Hold(until, held, None):
                return [Wait(until), *self.steps(held)]
            case Hold(until, Answer() as held, int(after_events)):
                head, events, rest, last = self._split(held, after_events)
                return [head, *events, Wait(until), *rest, last]
            case Slow(seconds, answer):
                head, events, rest, last = self._split(answer, 0)
                return [head, *(step for event in rest for step in (Wait(seconds), event)), last]
        raise TypeError(f"the script of the fake model gave {reply!r}, which is no reply")

    def body(self, whole: object) -> list[Step]:
        """A response in one piece."""
        written = encoded(whole)
        headers = {"content-type": "application/json", "content-length": len(written)}
        return [self._head(200, headers), written, b""]

    def error(self, fail: Fail, *, with_body: bool = True) -> list[Step]:
        """An HTTP error."""
        body = encoded(self.dialect.error(fail.status, fail.type, fail.message, self.asked.request_id))
        length = {"content-type": "application/json", "content-length": len(body)}
        return [self._head(fail.status, {**length, **fail.headers}), body if with_body else b""]

    def _stream_error(self, reply: StreamError) -> list[Step]:
        if not self.asked.streams:
            return self.error(Fail(STATUSES.get(reply.type, 500), reply.type, reply.message))
        head, events, _, last = self._split(reply.answer, reply.after_events)
        return [head, *events, _chunk(self.dialect.stream_error(reply, self.asked.request_id)), last]

    def _split(self, answer: Answer, after_events: int) -> tuple[bytes, list[bytes], list[bytes], bytes]:
        """The head, the events up to here, those behind, and the end; a body that is no stream stands behind, whole."""
        head, *events, last = self._parts(answer)
        place = after_events if self.asked.streams else 0
        return head, events[:place], events[place:], last

    def _parts(self, answer: Answer) -> list[bytes]:
        message = self.dialect.message(answer, self.asked)
        if not self.asked.streams:
            return [one for one in self.body(message) if isinstance(one, bytes)]
        head = self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        return [head, *map(_chunk, self.dialect.events(message, self.asked)), b"0\r\n\r\n"]

    def _head(self, status: int, headers: Mapping[str, object]) -> bytes:
        lines = [f"HTTP/1.1 {status} {responses.get(status, 'Overloaded')}"]
        lines.append(f"{self.dialect.id_header}: {self.asked.request_id}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _chunk(data: bytes) -> bytes:
    """One chunk of a body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


# Responses that the server keeps, so that they can be fetched.


@dataclass(frozen=True)
class _Kept:
    """A response that goes on at the server whatever becomes of the connection that asked for it."""

    reply: Reply
    asked: Exchange

    def steps(self, query: Mapping[str, list[str]]) -> list[Step]:
        """What to do on a connection that fetches it: a stream from its beginning, or the response as it stands."""
        speaks, reply = Responses(), self.reply
        asked = dataclasses.replace(self.asked, streams=query.get("stream") == ["true"])
        if isinstance(reply, Hold) and isinstance(reply.reply, Answer):
            if not asked.streams and not _is_set(reply.until):
                return _Reply(speaks, asked).body(speaks.under_way(speaks.message(reply.reply, asked)))
            return _Reply(speaks, asked).steps(reply if asked.streams else reply.reply)
        # The line of whoever asked may be cut, or be slow: the response itself is whole.
        whole = getattr(reply, "answer", reply)
        return _Reply(speaks, asked).steps(whole)


def _is_set(until: threading.Event | Path) -> bool:
    return until.is_set() if isinstance(until, threading.Event) else until.exists()


# The program.


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the script of a file until the process is killed or interrupted."""
    parser = argparse.ArgumentParser(prog="python -m midstride.testing.fake_model")
    parser.add_argument("script", type=Path, help="a JSON file: the replies")
    parser.add_argument("--port", type=int, default=0, help="0, the default: one that the system gives")
    parser.add_argument("--log", type=Path, help="a file that gets a JSON line for each request")
    given = parser.parse_args(arguments)
    read = json.loads(given.script.read_text(encoding="utf-8"))
    options = dict(read) if isinstance(read, dict) else {"replies": read}
    script = script_from(options.pop("replies", None))
    with FakeModel(script, port=given.port, log=given.log, **options) as server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
