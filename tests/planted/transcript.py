"""Faults in what the model is sent: pairing, order, verbatim bytes, and what an answer's end means."""

from __future__ import annotations

from planted.effects import CRASHES, ORACLE
from planted.fault import Fault

ANTHROPIC = ("tests/models/test_anthropic.py",)

TRANSCRIPT = [
    # ---- results
    Fault(
        "results are paired by name",
        "Both mails are told as the first one.",
        "core/fold.py",
        "c.content, c.is_error, c.echo) for c in run.calls]",
        "next(o.content for o in run.calls if o.name == c.name), c.is_error, c.echo) for c in run.calls]",
        ("tests/drive/test_batches.py", "-k", "paired_by_call"),
    ),
    Fault(
        "results stand in the order in which they came",
        "The same run sends other bytes when it is carried on.",
        "core/fold.py",
        "Answered(c.id, c.content, c.is_error, c.echo) for c in run.calls]",
        "Answered(c.id, c.content, c.is_error, c.echo)\n"
        "        for c in sorted(run.calls, key=lambda c: c.settled_at or 0.0)]",
        ("tests/core/test_run.py", "tests/core/test_settle.py"),
    ),
    Fault(
        "only the first call of an answer is answered",
        "The API refuses the transcript for ever.",
        "core/fold.py",
        "Answered(c.id, c.content, c.is_error, c.echo) for c in run.calls]",
        "Answered(c.id, c.content, c.is_error, c.echo) for c in run.calls[:1]]",
        ORACLE,
    ),
    # ---- what is said
    Fault(
        "what is said goes before the answer that is under way",
        "A request that is repeated differs from the one that was sent.",
        "core/fold.py",
        "held_back = run.state is State.AWAY or run.tail  #",
        "held_back = run.tail  #",
        ORACLE,
    ),
    Fault(
        "what is said is sent before its answer is recorded",
        "A word goes between the calls and their results, which the API refuses.",
        "core/fold.py",
        'return altered(run, state=cell(run, "said"), pending=(*run.pending, *run.api.say(body.content)))',
        'return altered(run, state=cell(run, "said"), messages=run.messages.extend(run.api.say(body.content)))',
        CRASHES[:1],
    ),
    Fault(
        "what is said is forgotten",
        "A person's word never reaches the model.",
        "core/fold.py",
        "run = altered(run, messages=run.messages.extend(run.pending), pending=())",
        "run = altered(run, pending=())",
        ("tests/drive/test_outside.py",),
    ),
    # ---- frozen and verbatim
    Fault(
        "the system prompt is not frozen",
        "A resume by a newer program sends another request: the cache is lost, and the model's ground moves.",
        "drive/shell.py",
        "run.api.request(run.request, run.begun.system,",
        "run.api.request(run.request, self.plan.system,",
        ("tests/drive/test_same_id.py", "-k", "began_with"),
    ),
    Fault(
        "the tools are not frozen",
        "The transcript holds calls of tools that the request does not define.",
        "drive/shell.py",
        "run.begun.system, run.begun.tools, run.params)",
        "run.begun.system, self.plan.tools, run.params)",
        ("tests/drive/test_same_id.py", "-k", "began_with"),
    ),
    Fault(
        "an answer's keys are sorted when it is saved",
        "The next request after a crash differs in its bytes.",
        "core/journal.py",
        'allow_nan=False, separators=(",", ":"))',
        'allow_nan=False, sort_keys=True, separators=(",", ":"))',
        ("tests/core/test_journal.py", "-k", "order_of_keys"),
    ),
    Fault(
        "blocks that nobody here reads are dropped",
        "The API refuses a thinking model's calls without its thinking.",
        "core/apis/anthropic.py",
        'return [{"role": "assistant", "content": response["content"]}]',
        'known = ("text", "tool_use")\n'
        '        return [{"role": "assistant", "content": [b for b in _blocks(response) if b.get("type") in known]}]',
        ("tests/models/test_anthropic.py", "-k", "sent_back_as_it_is_stored"),
    ),
    Fault(
        "text is stored as it is, not as ASCII",
        "A lone surrogate in a tool's result cannot be written, and the run never gets on.",
        "core/journal.py",
        "json.JSONEncoder(ensure_ascii=True,",
        "json.JSONEncoder(ensure_ascii=False,",
        ("tests/core/test_journal.py",),
    ),
    # ---- ends of answers
    Fault(
        "an interrupted stream is recorded as complete",
        "Half an answer, and a call that looks whole is run.",
        "models/anthropic.py",
        "        return TORN\n",
        '        response["stop_reason"] = "tool_use"\n',
        ("tests/models/test_anthropic.py", "-k", "stream_without_an_end or doubled"),
    ),
    Fault(
        "a response without a stop reason is taken",
        "A loop of one's own records a stream that was cut.",
        "core/apis/anthropic.py",
        'if not isinstance(response.get("stop_reason"), str):',
        "if False:",
        ("tests/drive/test_own_loop.py",),
    ),
    Fault(
        "a cut answer is recorded beside the one that replaces it",
        "The transcript holds both.",
        "core/fold.py",
        'if column in ("final", "calls"):\n        messages =',
        'if column in ("final", "calls", "cut"):\n        messages =',
        ORACLE,
    ),
    Fault(
        "the calls of a cut answer are run",
        "The last one's arguments may lack their end.",
        "core/apis/anthropic.py",
        '"max_tokens": "cut",',
        '"max_tokens": "calls",',
        (*ANTHROPIC, "-k", "cut_answer"),
    ),
    Fault(
        "an answer that ended for an unknown reason is final",
        "A refusal of tomorrow is reported as done.",
        "core/apis/anthropic.py",
        'return self._STOPS.get(response["stop_reason"], "refused")',
        'return self._STOPS.get(response["stop_reason"], "final")',
        (*ANTHROPIC, "-k", "nobody_knows"),
    ),
    Fault(
        "the SDK asks again by itself",
        "What it pays for is in no journal.",
        "models/transport.py",
        "return self._client.with_options(max_retries=0)",
        "return self._client",
        (*ANTHROPIC, "-k", "overload"),
    ),
    Fault(
        "a half-received answer is asked for again in the same request",
        "It was paid, and no limit counts it.",
        "core/settle.py",
        "if value.paid or desk.stopping:",
        "if desk.stopping:",
        ("tests/core/test_settle.py",),
    ),
]
