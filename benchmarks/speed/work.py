"""The work that every contender does: turns of one call with 300 bytes of arguments and a result of 2 KiB."""

import json
import os
import time
from collections.abc import Callable

NOTE = "n" * 270
PAGE = "p" * 2_048
USAGE = {"input_tokens": 4_000, "output_tokens": 120}

Mark = Callable[[], None]
"""Called at the beginning of every turn, and once behind the last."""


def response(number, last=False):
    """Return the answer of a turn as the Messages API would have it, about 600 bytes with the call's 300."""
    blocks = [{"type": "text", "text": "That is all."}]
    if not last:
        call = {
            "type": "tool_use",
            "id": f"toolu_{number:024}",
            "name": "look",
            "input": {"page": number, "note": NOTE},
        }
        blocks = [call]
    return {
        "id": f"msg_{number:024}",
        "type": "message",
        "role": "assistant",
        "model": "bench",
        "content": blocks,
        "stop_reason": "end_turn" if last else "tool_use",
        "stop_sequence": None,
        "usage": USAGE,
    }


def delta(number):
    """Return the two lines of a turn that anybody has to keep: the response, and the result."""
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number:024}", "content": PAGE}
    return json.dumps(response(number)).encode() + b"\n", json.dumps(result).encode() + b"\n"


def useful(turns):
    """Return how many bytes *turns* turns have to keep."""
    first, second = delta(0)
    return turns * (len(first) + len(second))


INTENT = b'{"intended":[%8d,0]}\n'


def floor(folder, turns, effects, mark):
    """Append what is new and sync it, as often as the save points ask, and do nothing else."""
    file = os.open(folder / "floor.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    for number in range(turns):
        mark()
        first, second = delta(number)
        for data in (first, INTENT % number, second) if effects else (first, second):
            os.write(file, data)
            os.fdatasync(file)
    mark()
    os.close(file)


class Answers:
    """A model that answers at once: turn after turn a call, from wherever the run stands, and at last an end.

    It looks at nothing but the number of messages, so it costs the same at every turn; *seconds* lets it take its time.
    """

    api = "anthropic"
    takes_prefill = False
    facts = {"model_class": "no-prefill"}
    params = {"model": "bench", "max_tokens": 1_024}
    server_tools = ()

    def __init__(self, turns, mark=lambda: None, seconds=0.0):
        self.turns, self.mark, self.seconds = turns, mark, seconds

    def ask(self, request, draft, handle=None):
        self.mark()
        number = len(request["messages"]) // 2
        return response(number, last=number >= self.turns)

    async def ask_async(self, request, draft, handle=None):
        import asyncio

        if self.seconds:
            await asyncio.sleep(self.seconds)
        return self.ask(request, draft)


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
