"""What a turn costs to check while a transcript grows: `python benchmarks/transcript_growth.py`.

A turn is one assistant message with a call, and its result. The floor is `json.dumps` of the same two messages, which
any client pays for every message of every request. Printed is the ratio of the last turns of a transcript to that
floor: it stays the same however long the transcript is. Beside it stands the ratio of checking the whole list anew.
"""

import json
import sys
from time import perf_counter

from midstride.transcript import Checker, check

SIZES = (10, 100, 1_000, 3_000)
LAST = 10
"""Turns that are timed at the end of a transcript."""


def anthropic(number):
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {"at": number}}
    answer = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "seen " * 40}
    return [
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
        {"role": "user", "content": [answer]},
    ]


def chat(number):
    function = {"name": "look", "arguments": json.dumps({"at": number})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": "seen " * 40},
    ]


def responses(number):
    one = f"call_{number}"
    return [
        {"type": "function_call", "call_id": one, "name": "look", "arguments": json.dumps({"at": number})},
        {"type": "function_call_output", "call_id": one, "output": "seen " * 40},
    ]


TURNS = {"anthropic": anthropic, "openai-chat": chat, "openai-responses": responses}


def seconds(work):
    best = float("inf")
    for _ in range(3):
        start = perf_counter()
        work()
        best = min(best, perf_counter() - start)
    return best


def grown(provider, turn, size):
    checker = Checker(provider)
    checker.add({"role": "user", "content": "Go."})
    for number in range(size):
        for message in turn(number):
            checker.add(message)
    return checker


def last_turns(provider, turn, size):
    best = float("inf")
    for _ in range(3):
        checker = grown(provider, turn, size)
        fresh = [turn(size + number) for number in range(LAST)]
        start = perf_counter()
        for messages in fresh:
            for message in messages:
                checker.add(message)
            assert checker.findings() == []
        best = min(best, perf_counter() - start)
    return best / LAST


def main():
    print(f"{'provider':18}{'turns':>7}{'one turn':>12}{'ratio':>8}{'whole list':>13}{'ratio':>8}")
    ratios = []
    for provider, turn in TURNS.items():
        floor = seconds(lambda turn=turn: [json.dumps(turn(number)) for number in range(200)]) / 200
        for size in SIZES:
            one = last_turns(provider, turn, size)
            messages = [{"role": "user", "content": "Go."}, *(m for number in range(size) for m in turn(number))]
            whole = seconds(lambda messages=messages, provider=provider: check(messages, provider=provider))
            ratios.append(one / floor)
            row = f"{provider:18}{size:>7}{one * 1e6:>9.0f} us{one / floor:>8.1f}"
            print(f"{row}{whole * 1e3:>10.1f} ms{whole / floor:>8.0f}")
    return 0 if max(ratios) < 1_000 else 1


if __name__ == "__main__":
    sys.exit(main())
