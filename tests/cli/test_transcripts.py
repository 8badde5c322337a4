"""`check` and `repair` over whatever holds a transcript, and `import` of one that was somebody else's."""

import json
import os
import resource
import subprocess

import pytest

from cli.using import MIDSTRIDE, SECONDS, STORE, Ended
from midstride import Agent, models
from midstride.transcript import check

CALL = {"type": "tool_use", "id": "toolu_1", "name": "send", "input": {"to": "a"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sent"}
ASKED = [{"role": "user", "content": "go"}, {"role": "assistant", "content": [CALL]}]
WHOLE = [*ASKED, {"role": "user", "content": [RESULT]}]
OPEN = [*ASKED, {"role": "user", "content": "and?"}]


def put(user, name, value):
    data = value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()
    (user.folder / name).write_bytes(data)
    return name


def cpu_seconds():
    """Return the time that processes started here, and over by now, have worked, however many others did."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def piped(user, data, *words):
    done = subprocess.run(
        [*MIDSTRIDE, *words], cwd=user.folder, env=user.environment, input=data, capture_output=True, timeout=SECONDS
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def record(name, parent, role, content, **message):
    found = {"parentUuid": parent, "isSidechain": False, "sessionId": "s", "cwd": "/w", "type": role}
    found["message"] = {"role": role, "content": content, **message}
    return json.dumps({**found, "uuid": name, "timestamp": "2026-11-29T20:05:33.110Z"})


def session(*more, end="\n"):
    """A session: a summary, a question, an answer on two lines with a call that has no result, and *more*."""
    lines = [
        '{"type": "summary",  "summary": "x", "leafUuid": "q"}',
        record("1", None, "user", "go"),
        record("2", "1", "assistant", [{"type": "text", "text": "Yes."}], id="msg_1"),
        record("3", "2", "assistant", [CALL], id="msg_1"),
        *more,
    ]
    return end.join(lines) + end


def conversation(data):
    """The messages that somebody reads who follows the newest line up its parents, one line at a time."""
    rows = [json.loads(line) for line in data.decode().splitlines()]
    by_id = {row["uuid"]: row for row in rows if "uuid" in row}
    at, found = rows[-1], []
    while at is not None:
        found.insert(0, at)
        at = by_id.get(at["parentUuid"])
    messages = []
    for row in found:
        content = row["message"]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if messages and messages[-1]["role"] == row["type"]:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": row["type"], "content": list(blocks)})
    return messages


def is_sendable(messages):
    return [one for one in check(messages, provider="anthropic") if one.level in ("reject", "harness")] == []


# ---- check


@pytest.mark.parametrize(
    ("value", "form", "provider"),
    [
        (WHOLE, "list", "anthropic"),
        ({"model": "m", "messages": WHOLE, "max_tokens": 1}, "body", "anthropic"),
        ({"model": "m", "input": [{"type": "message", "role": "user", "content": "go"}]}, "body", "openai-responses"),
        ({"model": "m", "input": "go"}, "body", "openai-responses"),
        ([{"role": "user", "content": "go"}, {"role": "developer", "content": "be brief"}], "list", "openai-chat"),
        (session(record("4", "3", "user", [RESULT])), "session", "anthropic"),
        ("\ufeff" + json.dumps(WHOLE), "list", "anthropic"),
        (json.dumps(WHOLE).encode("utf-16"), "list", "anthropic"),
    ],
)
def test_each_form_is_known_by_itself_and_a_clean_one_ends_with_0(user, value, form, provider):
    put(user, "f", value)
    done = user.do_forked("check", "f", "--json")
    facts = json.loads(done.out)
    assert (done.code, facts["form"], facts["provider"], facts["findings"]) == (0, form, provider, [])
    assert user.do_forked("check", "f").out.startswith("clean: ")


def test_a_finding_is_a_line_with_message_block_rule_and_remedy_and_ends_with_1(user):
    put(user, "f", OPEN)
    done = user.do_forked("check", "f")
    _, row, last = done.out.splitlines()
    assert (done.code, row.split()[:3]) == (1, ["1", "0", "A01-unanswered-tool-use"])
    assert "Each call without a result gets" in row
    assert last.endswith("1 finding (1 reject) in 3 messages, anthropic, list; mend: midstride repair f --in-place")


def test_what_the_api_takes_at_a_loss_is_a_finding_that_is_not_mended(user):
    second = {**CALL, "id": "toolu_2"}
    messages = [ASKED[0], {"role": "assistant", "content": [CALL, second]}]
    messages += [{"role": "user", "content": [{**RESULT, "tool_use_id": one}]} for one in ("toolu_1", "toolu_2")]
    put(user, "f", [*messages, {"role": "assistant", "content": "ok"}])
    done = user.do_forked("check", "f")
    assert (done.code, "A06-results-in-one-message" in done.out, "mend:" in done.out) == (1, True, False)


def test_the_body_tells_the_facts_of_the_request(user):
    ended = [*WHOLE, {"role": "assistant", "content": "Done."}]
    put(user, "list", ended)
    put(user, "body", {"model": "claude-opus-5", "messages": ended})
    assert user.do_forked("check", "list").code == 0
    assert "A09-no-prefill" in user.do_forked("check", "body").out


def test_standard_input_is_a_file_too(user):
    assert piped(user, json.dumps(OPEN).encode(), "check", "-").code == 1
    done = piped(user, json.dumps(OPEN).encode(), "repair", "-")
    assert (done.code, is_sendable(json.loads(done.out))) == (0, True)


def test_the_provider_can_be_told(user):
    put(user, "f", [{"role": "user", "content": "go"}])
    assert "read as anthropic" in user.do_forked("check", "f").err
    facts = json.loads(user.do_forked("check", "f", "--provider", "openai-chat", "--json").out)
    assert (facts["provider"], facts["guessed"]) == ("openai-chat", False)


def test_an_exported_run_and_our_checkpoint_are_read(user):
    user.do("run", "agents.py:mail", "--id", "r", "--task", "t")
    for form in ("journal", "checkpoint", "messages"):
        user.do_forked("export", "r", "--as", form, "-o", form)
        facts = json.loads(user.do_forked("check", form, "--json").out)
        assert (facts["form"], facts["messages"]) == ({"messages": "list"}.get(form, form), facts["messages"])
        assert facts["messages"] > 1


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"\0\0\0\n", "is empty"),
        (b"[1, 2", "is cut, or no JSON"),
        (b'[{"role": "user"}] and more', "is cut, or no JSON"),
        (b'{"a": 1}', "holds no messages"),
        (b"{}", "holds no messages"),
        (b'"text"', "is cut, or no JSON"),
        (b"[" * 200_000, "nested too deep"),
        (b"\xff\xfe\x00", "is cut, or no JSON"),
        (b'{"type": "summary"}\n{"type": "system"}\n', "holds no messages"),
    ],
)
def test_what_is_no_transcript_is_one_line_and_2(user, data, said):
    put(user, "f", data)
    for words in (("check", "f"), ("repair", "f"), ("repair", "f", "--in-place")):
        done = user.do_forked(*words)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert said in done.err
    assert (user.folder / "f").read_bytes() == data


@pytest.mark.parametrize(
    "words",
    [
        ("check", "none"), ("check", "."), ("check", "f", "--provider", "x"), ("repair", "f", "--in-place", "-o", "g"),
        ("repair", "-", "--in-place"), ("repair", "f", "--json"),
    ],
)  # fmt: skip
def test_wrong_words_are_one_line_and_2(user, words):
    put(user, "f", OPEN)
    done = user.do_forked(*words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


# ---- repair


def test_what_is_not_mended_stays_as_it_was_written(user):
    text = (
        '[\n  {"content": "caf\\u00e9 1", "role": "user"},\n'
        '  {"role": "assistant", "content": [{"type": "text", "text": "\\/é"}, '
        '{"type":"tool_use", "id": "toolu_1", "name": "send", "input": '
        '{"n": [1.10, 1e2, 123456789012345678901234567890]}}]},\n'
        '  {"role": "user", "content": [ {"text":"\\u0061nd?", "type": "text"} ]}\n]\n'
    )
    put(user, "f", text)
    done = user.do_forked("repair", "f")
    assert done.code == 0
    assert done.out.startswith(text[: text.index('  {"role": "user", "content": [ {"text"')])
    assert '{"text":"\\u0061nd?", "type": "text"}' in done.out
    assert is_sendable(json.loads(done.out))


def test_of_a_body_the_messages_alone_are_replaced(user):
    put(user, "f", '{"max_tokens": 1.0e1, "messages": ' + json.dumps(OPEN) + ', "model":"m"}')
    out = user.do_forked("repair", "f").out
    assert out.startswith('{"max_tokens": 1.0e1, "messages": [')
    assert out.endswith('], "model":"m"}')
    assert is_sendable(json.loads(out)["messages"])


@pytest.mark.parametrize("words", [(), ("-o", "g"), ("--in-place",)])
def test_a_clean_file_is_left_untouched(user, words):
    data = b'[ {"role":"user",   "content":"caf\\u00e9 1.10"} ]'
    put(user, "f", data)
    done = user.do_forked("repair", "f", *words)
    assert (done.code, "nothing to mend" in done.err, (user.folder / "f").read_bytes()) == (0, True, data)
    assert sorted(p.name for p in user.folder.glob("[fg]*")) == (["f", "g"] if "-o" in words else ["f"])
    assert done.out.encode() == (b"" if words else data)


def test_in_place_keeps_every_original(user):
    path = user.folder / "f"
    for name in ("f.orig", "f.orig.1", "f.orig.2"):
        data = put(user, "f", json.dumps([*OPEN, {"role": "assistant", "content": name}])) and path.read_bytes()
        os.chmod(path, 0o640)
        assert user.do_forked("repair", "f", "--in-place").code == 0
        assert (user.folder / name).read_bytes() == data
        assert is_sendable(json.loads(path.read_bytes()))
        assert path.stat().st_mode & 0o777 == 0o640


def test_a_file_that_is_there_is_never_overwritten(user):
    put(user, "f", OPEN)
    put(user, "g", "mine")
    assert user.do_forked("repair", "f", "-o", "g").code == 2
    assert (user.folder / "g").read_text() == "mine"


def test_a_checkpoint_is_written_as_a_list_and_not_in_its_place(user):
    fields = {"version": 1, "task": "t", "turns": 1, "tokensUsed": 1, "messages": OPEN, "pendingToolUse": None}
    put(user, "f", fields)
    assert user.do_forked("repair", "f", "--in-place").code == 2
    done = user.do_forked("repair", "f")
    assert is_sendable(json.loads(done.out))
    assert "a list is written" in done.err


def test_what_cannot_be_mended_is_told_and_ends_with_1(user):
    put(user, "f", {"tools": [{"name": "a"}, {"name": "a"}], "messages": WHOLE})
    done = user.do_forked("repair", "f")
    assert (done.code, "not mended: A57" in done.err) == (1, True)


def test_the_changes_are_facts_too(user):
    put(user, "f", OPEN)
    facts = json.loads(user.do_forked("repair", "f", "-o", "g", "--json").out)
    assert (facts["written"], facts["findings"], facts["held"], facts["system"]) == ("written to g", [], [], [])
    assert [sorted(change) for change in facts["changes"]] == [["what", "where", "why"]]


# ---- session files


def mended(user, text, name="s.jsonl"):
    """Repair a session in place; returns its bytes and how the command ended."""
    put(user, name, text)
    done = user.do_forked("repair", name, "--in-place")
    assert done.code == 0, done.err
    return (user.folder / name).read_bytes(), done


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_that_are_not_concerned_stay_byte_for_byte(user, end):
    text = session(record("4", "3", "user", "and?"), record("5", "4", "assistant", "ok", id="msg_2"), end=end)
    data, _ = mended(user, text)
    old, new = text.encode().splitlines(keepends=True), data.splitlines(keepends=True)
    assert [a == b for a, b in zip(old, new, strict=True)] == [True, True, True, True, False, True]
    assert all(line.endswith(end.encode()) for line in new)
    assert is_sendable(conversation(data))


def test_a_missing_result_at_the_end_is_a_new_line_that_hangs_on_the_last(user):
    text = session()
    data, _ = mended(user, text)
    assert data.startswith(text.encode())
    made = json.loads(data.splitlines()[-1])
    assert (made["parentUuid"], made["type"], made["sessionId"], made["cwd"]) == ("3", "user", "s", "/w")
    assert len({json.loads(line).get("uuid") for line in data.splitlines()[1:]}) == 4
    assert is_sendable(conversation(data))


def test_the_newest_branch_is_followed_and_the_others_are_counted(user):
    text = session(
        record("b", "1", "assistant", "other", id="m"),
        record("c", "b", "user", "x"),
        record("4", "3", "user", [RESULT]),
    )
    put(user, "s.jsonl", text)
    facts = json.loads(user.do_forked("check", "s.jsonl", "--json").out)
    assert (facts["messages"], facts["branches"], facts["findings"]) == (3, 1, [])
    assert "1 other branch" in user.do_forked("check", "s.jsonl").err


def test_side_chains_and_lines_of_other_kinds_are_skipped(user):
    aside = record("a", None, "user", [RESULT]).replace('"isSidechain": false', '"isSidechain": true')
    refused = record("e", "4", "assistant", "API Error").replace('"uuid"', '"isApiErrorMessage": true, "uuid"')
    text = session(
        record("4", "3", "user", [RESULT]), refused, '{"type": "system", "uuid": "z", "parentUuid": "e"}', aside
    )
    put(user, "s.jsonl", text)
    facts = json.loads(user.do_forked("check", "s.jsonl", "--json").out)
    assert (facts["messages"], facts["findings"], facts["branches"]) == (3, [], 0)


def test_results_of_parallel_calls_beside_the_branch_belong_to_it(user):
    second = {**CALL, "id": "toolu_2"}
    rows = [record("3b", "3", "assistant", [second], id="msg_1"), record("4", "3", "user", [RESULT])]
    rows += [
        record("5", "3b", "user", [{**RESULT, "tool_use_id": "toolu_2"}]),
        record("6", "5", "assistant", "ok", id="msg_2"),
    ]
    put(user, "s.jsonl", session(*rows))
    facts = json.loads(user.do_forked("check", "s.jsonl", "--json").out)
    assert (facts["messages"], facts["findings"], facts["branches"]) == (4, [], 0)
    data, _ = mended(user, session(*rows[:2], record("5", "3b", "user", "and?")))
    assert is_sendable(conversation(data))


TAIL = record("4", "3", "user", [RESULT])


@pytest.mark.parametrize(
    ("damage", "said", "messages"),
    [
        (lambda text: text + TAIL[:60], "line 5", 2),
        (lambda text: text + "\0" * 4096 + TAIL + "\n", "zeros", 3),
        (lambda text: text + "\0" * 4096, "zeros", 2),
        (lambda text: text[:-1] + TAIL + "\n", "2 objects stand on one line", 3),
        (lambda text: text + TAIL[:90] + TAIL + "\n", "torn", 3),
        (lambda text: text.replace('"type": "summary"', '"type'), "line 1", 2),
    ],
)
def test_each_kind_of_damage_is_told_and_taken_out(user, damage, said, messages):
    put(user, "s.jsonl", damage(session()))
    done = user.do_forked("check", "s.jsonl", "--json")
    facts = json.loads(done.out)
    assert (done.code, facts["messages"]) == (1, messages)
    assert said in facts["damage"][0]
    data, _ = mended(user, damage(session()))
    assert b"\0" not in data
    assert is_sendable(conversation(data))
    assert user.do_forked("check", "s.jsonl").code == 0


def test_a_byte_that_is_no_utf8_is_a_finding_and_the_others_stay(user):
    data = session(TAIL).encode().replace(b"Yes.", b"Y\xffs.").replace(b'"x"', b'"\xfe"')
    put(user, "s.jsonl", data)
    assert user.do_forked("check", "s.jsonl").code == 1
    new, _ = mended(user, data)
    assert (b"\xff" in new, new.splitlines()[0]) == (False, data.splitlines()[0])


def test_a_chain_that_ends_in_nothing_is_told(user):
    put(user, "s.jsonl", session(record("9", "gone", "user", "hello")))
    facts = json.loads(user.do_forked("check", "s.jsonl", "--json").out)
    assert (facts["messages"], facts["damage"]) == (
        1,
        ["line 5: its parent is not in the file, so nothing stands before it"],
    )


def test_what_is_dropped_leaves_no_child_behind(user):
    stray = {**RESULT, "tool_use_id": "toolu_x"}
    rows = [
        TAIL,
        record("5", "4", "assistant", "ok", id="m2"),
        record("6", "5", "user", [stray]),
        record("7", "6", "user", "on"),
    ]
    data, _ = mended(
        user, session(*rows, record("8", "6", "user", "other branch"), record("9", "7", "assistant", "ok", id="m3"))
    )
    found = [json.loads(line) for line in data.splitlines()]
    names = {row.get("uuid") for row in found}
    assert all(row.get("parentUuid") in names for row in found)
    assert "6" not in names
    assert is_sendable(conversation(data))


# ---- large files


@pytest.mark.parametrize("form", ["list", "session"])
def test_five_megabytes_are_checked_and_mended_in_seconds(user, form):
    messages = [{"role": "user", "content": "go"}]
    for number in range(1000):
        call = {**CALL, "id": f"toolu_{number}", "input": {"text": "x" * 4000}}
        messages += [{"role": "assistant", "content": [call]}]
        messages += [{"role": "user", "content": [{**RESULT, "tool_use_id": call["id"], "content": "y" * 800}]}]
    del messages[1001]
    rows = [
        record(str(n), str(n - 1) if n else None, m["role"], m["content"], id=f"m{n}") for n, m in enumerate(messages)
    ]
    put(user, "f", messages if form == "list" else "\n".join(rows) + "\n")
    before = cpu_seconds()
    assert user.do("repair", "f", "--in-place").code == 0
    assert user.do("check", "f").code == 0
    assert cpu_seconds() - before < 30
    old, new = (user.folder / "f.orig").read_bytes(), (user.folder / "f").read_bytes()
    assert (len(old) > 4_900_000, abs(len(new) - len(old)) < 20_000) == (True, True)


# ---- import


def test_a_transcript_becomes_a_run_whose_open_call_is_never_just_run(user):
    put(user, "f.json", [{"role": "user", "content": "Mail\nit"}, ASKED[1]])
    done = user.do_forked("import", "f.json", "agents.py:mail")
    assert done.code == 0, done.err
    (doubt,) = json.loads(user.do_forked("doubts", "--json").out)
    assert (doubt["call"], doubt["state"]) == ("toolu_1", "intended")
    user.do("resume", "f")
    assert user.sent() == []
    assert json.loads(user.do_forked("runs", "--json").out)[0]["task"] == "Mail\nit"


def test_a_session_is_mended_on_its_way_in_and_real_results_are_kept(user):
    second = {**CALL, "id": "toolu_2"}
    text = session(record("4", "3", "user", "and?"), record("5", "4", "assistant", [second], id="m2"))
    put(user, "s.jsonl", text)
    done = user.do_forked("import", "s.jsonl", "agents.py:mail", "--id", "r", "--task", "Mail it")
    assert (done.code, "mended: " in done.err) == (0, True)
    assert user.kinds("r") == ["started", "requested", "responded", "intended", "taken"]
    (doubt,) = json.loads(user.do_forked("doubts", "--json").out)
    assert doubt["call"] == "toolu_2"


@pytest.mark.parametrize(
    ("value", "words", "said"),
    [
        (WHOLE, ("no target",), "give TARGET"),
        ([ASKED[1], {"role": "user", "content": [RESULT]}], (), "holds no words of a user's"),
    ],
)
def test_what_cannot_be_carried_on_is_one_line_and_2(user, value, words, said):
    put(user, "f", value)
    done = user.do_forked("import", "f", *(() if words else ("agents.py:mail",)))
    assert (done.code, said in done.err, done.err.count("\n")) == (2, True, 1)
    assert user.journals() == {}


def test_a_checkpoint_says_whose_api_it_is_of(user):
    store = f"sqlite:{user.folder / STORE}"
    Agent(models.Scripted(["Done."], api="openai-responses"), store=store).run("go", "run")
    assert user.do_forked("export", "run", "--as", "checkpoint", "--out", "f").code == 0
    checked = user.do_forked("check", "f", "--json")
    assert (checked.code, json.loads(checked.out)["provider"]) == (0, "openai-responses")
