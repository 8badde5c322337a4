"""The page on the lesson: it does what it says, and each line of its table of names is true."""

import json
from contextlib import closing

import pytest

from docs.blocks import Reader, blocks_of, code_in, table_under
from drive.scenes import Killed, killed_at_start_of, kinds
from midstride import Agent, Limits, Run, Runs, tool
from midstride.core.reconcile import EFFECTS, RECONCILE
from midstride.core.steps import Lost
from midstride.errors import Damaged, Newer
from midstride.models import Scripted
from midstride.stores import CheckpointStore, MemoryStore, SqliteStore, open_store
from midstride.testing import SettableClock

PAGE = "docs/lesson.md"
LETTER = {"to": "team@example.com"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_does_what_it_says(folder):
    Reader(folder).read(PAGE)


def test_the_three_checkpoints_have_the_lessons_values(folder):
    reader = Reader(folder)
    (files,) = [block for block in blocks_of(PAGE) if block.title == "checkpoints.py"]
    exec(files.text, reader.names)
    found = [json.loads((folder / f"cp{name}.json").read_text()) for name in "ABC"]
    assert [(cp["turns"], cp["tokensUsed"]) for cp in found] == [(6, 18420), (7, 19310), (9, 24003)]
    names = [cp["pendingToolUse"] and cp["pendingToolUse"]["name"] for cp in found]
    assert names == [None, "read_file", "send_email"]


# ---- the table of names, line by line


sent: list[str] = []


@tool.read_only
def read_file(path: str) -> str:
    """Read a file."""
    return "the notes"


@tool
def send_email(to: str) -> str:
    """Send a mail."""
    sent.append(to)
    return "Sent"


def agent(store, *script, **more):
    clock = SettableClock()
    return Agent(Scripted(list(script)), [read_file, send_email], store=store, clock=clock, **more)


def write(path, version=1, **changed):
    fields = {"task": "T", "turns": 0, "tokensUsed": 0, "messages": [], "pendingToolUse": None}
    path.write_text(json.dumps({"version": version, **fields, **changed}))


def killed(store):
    """Leave a run whose mail was intended and never settled, and return its store."""
    with pytest.raises(Killed):
        agent(store, [("send_email", LETTER)], "Done.").run("T", "run", watch=killed_at_start_of("send_email"))
    return store


def the_six_fields_stand_beside_the_journal(folder):
    agent("checkpoint:checkpoint.json", "Done.").run("T", "run")
    fields = ["version", "task", "turns", "tokensUsed", "messages", "pendingToolUse", "midstride"]
    assert list(json.loads((folder / "checkpoint.json").read_text())) == fields
    assert isinstance(open_store(None), SqliteStore)


def another_version_is_refused(folder):
    write(folder / "checkpoint.json", version=2)
    before = (folder / "checkpoint.json").read_bytes()
    with pytest.raises(Newer, match="checkpoint is v2, this code reads v1"):
        agent("checkpoint:checkpoint.json", "Done.").run("T", "run")
    assert (folder / "checkpoint.json").read_bytes() == before


def entries_are_only_added(folder):
    store = killed(MemoryStore())
    before = [entry.text for entry in store.read("run")]
    agent(store, [("send_email", LETTER)], "Done.").run("T", "run")
    after = [entry.text for entry in store.read("run")]
    assert (after[: len(before)], len(after) > len(before)) == (before, True)
    with closing(CheckpointStore(folder / "checkpoint.json")) as file:
        agent(file, "Done.").run("T", "run")
    assert not (folder / "checkpoint.json.tmp").exists()


def the_journal_is_folded_and_an_edited_file_refused(folder):
    agent("checkpoint:checkpoint.json", "Done.").run("T", "run")
    assert Runs("checkpoint:checkpoint.json").get("run").answer == "Done."
    text = (folder / "checkpoint.json").read_text()
    for damaged in (text[:100], text.replace('"turns": 1', '"turns": 0')):
        (folder / "checkpoint.json").write_text(damaged)
        with pytest.raises(Damaged):
            Runs("checkpoint:checkpoint.json").get("run")


def it_starts_carries_on_and_returns(folder):
    store = killed(MemoryStore())
    carried_on = agent(store, [("send_email", LETTER)], "Done.")
    assert carried_on.run("T", "run").answer == "Done."
    again = agent(store)
    assert (again.run("T", "run").answer, again.model.requests) == ("Done.", [])


def ones_own_client_answers_the_same_turns(folder):
    model = Scripted([[("read_file", {"path": "a"})], "Done."])
    with Run(MemoryStore(), "run", "T", tools=[read_file]) as run:
        for turn in run:
            turn.respond(model.ask(turn.request, lambda event: None))
    assert run.answer == "Done."


def the_answer_is_saved_before_a_tool_starts(folder):
    assert kinds(killed(MemoryStore()))[-2:] == ["responded", "intended"]


def each_call_is_saved_by_itself(folder):
    store = MemoryStore()
    agent(store, [("send_email", LETTER), ("send_email", {"to": "b"})], "Done.").run("T", "run")
    assert kinds(store)[3:-2] == ["responded", "intended", "settled", "intended", "settled"]


def the_first_open_call_is_pending(folder):
    reading = [("read_file", {"path": "a"}), ("send_email", LETTER), ("send_email", {"to": "b"})]
    with pytest.raises(Killed):
        agent("checkpoint:checkpoint.json", reading).run("T", "run", watch=killed_at_start_of("send_email"))
    pending = json.loads((folder / "checkpoint.json").read_text())["pendingToolUse"]
    assert pending == {"id": "toolu_1_1", "name": "send_email", "input": LETTER}
    states = [str(call.state) for call in Runs("checkpoint:checkpoint.json").get("run").calls]
    assert states == ["settled", "intended", "new"]


def the_table_has_a_row_for_each_effect(folder):
    assert sorted(RECONCILE) == sorted(EFFECTS)
    assert len(EFFECTS) == 5
    move = Runs(killed(MemoryStore())).plan("run")
    assert move.why == "nobody can know: it is reported as unknown"


def a_tool_is_a_function_that_can_be_called(folder):
    assert (read_file("a"), read_file.function("a")) == ("the notes", "the notes")


def a_read_is_declared_and_all_else_is_unsafe(folder):
    assert (read_file.effect, send_email.effect) == ("read_only", "unsafe")


def a_dangling_mail_is_reported_as_an_error(folder):
    sent.clear()
    resumed = agent(killed(MemoryStore()), [("send_email", LETTER)], "Done.")
    resumed.run("T", "run")
    block = resumed.model.requests[-1]["messages"][-1]["content"][0]
    assert (block["is_error"], block["content"].split(": ")[0], sent) == (True, "Outcome unknown", [])


def what_the_ledger_cannot_tell_is_listed(folder):
    store = killed(MemoryStore())
    assert [call.id for call in Runs(store).doubts("run")] == ["toolu_1_0"]
    assert "intended" in kinds(store)


def the_limit_holds_over_all_starts(folder):
    assert Limits().turns == 40
    store = killed(MemoryStore())
    result = agent(store, [("send_email", LETTER)], limits=Limits(turns=1)).run("T", "run")
    assert (result.status, result.turns) == ("capped", 1)


def a_lost_request_is_counted(folder):
    answers = iter([Lost("the line broke", paid=True), "Done."])
    losing = Agent(Scripted(lambda request, number: next(answers)), store=MemoryStore(), clock=SettableClock())
    assert losing.run("T", "run").turns == 2


def the_window_and_the_total_are_told_apart(folder):
    result = agent(MemoryStore(), [("read_file", {"path": "a"})], "Done.").run("T", "run")
    assert (result.tokens_used, result.tokens_total) == (210, 320)


LINES = {
    "checkpoint.json": the_six_fields_stand_beside_the_journal,
    "CHECKPOINT_VERSION": another_version_is_refused,
    "saveCheckpoint": entries_are_only_added,
    "loadCheckpoint": the_journal_is_folded_and_an_edited_file_refused,
    "runAgent": it_starts_carries_on_and_returns,
    "client.messages.create": ones_own_client_answers_the_same_turns,
    "save point A": the_answer_is_saved_before_a_tool_starts,
    "save point B": each_call_is_saved_by_itself,
    "pendingToolUse": the_first_open_call_is_pending,
    "reconcile": the_table_has_a_row_for_each_effect,
    "executeTool": a_tool_is_a_function_that_can_be_called,
    "READ_ONLY_TOOLS": a_read_is_declared_and_all_else_is_unsafe,
    "is_error": a_dangling_mail_is_reported_as_an_error,
    "effects ledger": what_the_ledger_cannot_tell_is_listed,
    "MAX_TURNS": the_limit_holds_over_all_starts,
    "turns": a_lost_request_is_counted,
    "tokensUsed": the_window_and_the_total_are_told_apart,
}


def test_every_line_of_the_table_of_names_has_its_test():
    rows = table_under(PAGE, "## Each name, and where it lives")
    assert [code_in(row[0])[0] for row in rows] == list(LINES)


@pytest.mark.parametrize("name", LINES)
def test_the_line_about_this_name_is_true(name, folder):
    LINES[name](folder)


# ---- the quiz


def test_the_answer_of_a_killed_turn_stays_in_the_transcript_and_gets_a_result(folder):
    resumed = agent(killed(MemoryStore()), [("send_email", LETTER)], "Done.")
    resumed.run("T", "run")
    roles = [(message["role"], message["content"][0]) for message in resumed.model.requests[-1]["messages"][1:]]
    assert [(role, block["type"]) for role, block in roles] == [("assistant", "tool_use"), ("user", "tool_result")]
    assert roles[0][1]["id"] == roles[1][1]["tool_use_id"]
