"""Runs moved in and out of files: the lesson's three checkpoints, exported journals, and files of ours."""

import json

import pytest

from cli.using import AGENTS, User

MEETING = [{"role": "user", "content": "Help me pull this week's meeting notes together"}]


def lesson(name, tool=None, **arguments):
    """Return one of the lesson's three checkpoints."""
    task, turns, tokens = {"A": (MEETING[0]["content"], 6, 18420), "B": (MEETING[0]["content"], 7, 19310)}.get(
        name, ("Email the team to let them know the conclusions", 9, 24003)
    )
    pending = {"id": f"toolu_01{name}", "name": tool, "input": arguments} if tool else None
    block = {"type": "tool_use", **pending} if pending else {"type": "text", "text": "Here is what I have so far."}
    messages = [*MEETING, {"role": "assistant", "content": [block]}]
    fields = {"version": 1, "task": task, "turns": turns, "tokensUsed": tokens, "messages": messages}
    return json.dumps({**fields, "pendingToolUse": pending}, indent=2)


LESSON = '''
from pathlib import Path
from midstride import Agent, models, tool

HERE = Path(__file__).parent

@tool.read_only
def read_file(path: str) -> str:
    """Read a file."""
    (HERE / "executed").touch()
    return "We paint the shed."

@tool
def send_email(to: str, subject: str) -> str:
    """Send a mail."""
    (HERE / "executed").touch()
    return "sent"

agent = Agent(models.Scripted(lambda request, number: "Done."), tools=[read_file, send_email], system="Be brief.")
continuing = Agent(models.Anthropic("claude-sonnet-4-5"), tools=[read_file, send_email])
'''


@pytest.fixture(scope="module")
def pupil(tmp_path_factory):
    """Somebody with the lesson's three checkpoints and an agent with its tools."""
    folder = tmp_path_factory.mktemp("lesson")
    (folder / "lesson.py").write_text(LESSON)
    (folder / "A.json").write_text(lesson("A"))
    (folder / "B.json").write_text(lesson("B", "read_file", path="./notes/meeting-08-25.md"))
    (folder / "C.json").write_text(lesson("C", "send_email", to="team@example.com", subject="This week's conclusions"))
    return User(folder)


@pytest.mark.parametrize(
    ("words", "move", "effects"),
    [
        (["A.json"], "leave it", []),
        (["A.json", "lesson.py:agent"], "leave it", []),
        (["A.json", "lesson.py:continuing"], "ask the model", []),
        (["B.json"], "report it as unknown", [None]),
        (["B.json", "lesson.py:agent"], "run it again", ["read_only"]),
        (["C.json"], "report it as unknown", [None]),
        (["C.json", "lesson.py:agent"], "report it as unknown", ["unsafe"]),
    ],
    ids=str,
)
def test_a_plan_of_the_lessons_checkpoints_executes_nothing_and_changes_no_file(pupil, words, move, effects):
    before = pupil.files()
    told = json.loads(pupil.do_forked("plan", *words, "--json").out)
    assert (told["next"]["move"], [call["effect"] for call in told["calls"]]) == (move, effects)
    assert pupil.do_forked("plan", *words).code == 0
    assert pupil.files() == before


def test_a_plan_without_a_target_says_what_it_does_not_know(pupil):
    ended = pupil.do_forked("plan", "B.json")
    assert ended.out.splitlines() == [
        "B  interrupted: as the file B.json has it",
        '  read_file({"path": "./notes/meeting-08-25.md"})  unknown effect  intended  toolu_01B',
        "    a resume would report it as unknown: nobody can know: it is reported as unknown",
    ]
    assert ended.err == "  an effect that nobody recorded counts as unsafe: give TARGET to go by the agent's tools\n"


def test_a_lessons_checkpoint_is_imported_with_its_counters_and_resumed_without_a_target(pupil):
    before = pupil.files()
    imported = pupil.do_forked("import", "C.json", "lesson.py:agent", "--id", "mail", "--store", "sqlite:c.db")
    assert imported.code == 0
    assert imported.err.splitlines()[-2:] == [
        "  it is a copy: carry it on here or where it came from, never at both places",
        "  go on with: midstride resume mail --store sqlite:c.db",
    ]
    assert pupil.do_forked("resume", "mail", "--store", "sqlite:c.db").out == "Done.\n"
    row = json.loads(pupil.do_forked("runs", "--json", "--store", "sqlite:c.db").out)[0]
    assert (row["turns"], row["tokens_total"], row["doubts"]) == (10, 24003 + 210, ["toolu_01C"])
    assert before.items() <= pupil.files().items()
    assert not (pupil.folder / "executed").exists()


def test_an_imported_run_has_the_agents_system_and_tools(pupil):
    assert pupil.do_forked("import", "B.json", "lesson.py:agent", "--store", "sqlite:b.db").code == 0
    first = json.loads(pupil.do_forked("log", "B", "--json", "--store", "sqlite:b.db").out.splitlines()[0])
    assert (first["system"], [tool["name"] for tool in first["tools"]]) == ("Be brief.", ["read_file", "send_email"])


def test_an_id_that_is_taken_is_not_imported_over(pupil):
    pupil.do_forked("import", "A.json", "lesson.py:agent", "--store", "sqlite:a.db")
    again = pupil.do_forked("import", "A.json", "lesson.py:agent", "--store", "sqlite:a.db")
    assert (again.code, again.err) == (2, "midstride: sqlite:a.db has a run 'A' already: give another --id\n")
    other = pupil.do_forked("import", "A.json", "lesson.py:agent", "--store", "sqlite:a.db", "--id", "B")
    assert (other.code, other.err.splitlines()[0][:12]) == (0, "B: imported;")


# ---- journals of our own


@pytest.fixture(scope="module")
def mover(tmp_path_factory):
    """Somebody with a run that is in doubt, of an id that no shell likes."""
    folder = tmp_path_factory.mktemp("mover")
    (folder / "agents.py").write_text(AGENTS.read_text())
    (folder / "send.kill").touch()
    user = User(folder)
    user.id = "-week 48/2026 'Grüße'"
    user.do_forked("run", "agents.py:mail", "--task", "t", f"--id={user.id}")
    (folder / "send.kill").unlink()
    return user


def exported(user, form, run_id, *words):
    ended = user.do_forked("export", "--as", form, *words, "--", run_id)
    assert (ended.code, ended.err) == (0, "")
    return ended.out


@pytest.mark.parametrize("form", ["journal", "checkpoint"])
def test_a_run_that_was_exported_and_imported_is_the_same_byte_for_byte(mover, form):
    text = exported(mover, form, mover.id)
    assert text.isascii()
    (mover.folder / f"moved.{form}").write_text(text)
    store = ("--store", f"sqlite:{form}.db")
    assert mover.do_forked("import", f"moved.{form}", *store).code == 0
    assert exported(mover, form, mover.id, *store) == text
    assert exported(mover, "journal", mover.id, *store) == exported(mover, "journal", mover.id)


def test_an_imported_run_carries_on(mover):
    (mover.folder / "on.jsonl").write_text(exported(mover, "journal", mover.id))
    store = ("--store", "sqlite:on.db")
    assert mover.do_forked("import", "on.jsonl", "--id", "on", *store).code == 0
    assert mover.do_forked("resume", "on", *store).code == 3
    assert mover.do_forked("decide", "on", "toolu_2_0", "--unknown", *store).code == 0
    assert mover.do_forked("resume", "on", *store).out == "All is sent.\n"
    assert mover.sent() == ["ann"]


def test_an_exported_checkpoint_is_a_store_of_its_own(mover):
    (mover.folder / "checkpoint.json").write_text(exported(mover, "checkpoint", mover.id))
    listed = json.loads(mover.do_forked("runs", "--json", "--store", "checkpoint:checkpoint.json").out)
    assert [(row["run"], row["status"]) for row in listed] == [(mover.id, "interrupted")]


def test_the_messages_are_those_of_the_next_request(mover):
    messages = json.loads(exported(mover, "messages", mover.id))
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]


def test_an_export_makes_a_file_of_ones_own_and_overwrites_none(mover):
    path = mover.folder / "new.jsonl"
    words = ("export", "--as", "journal", "--out", "new.jsonl", "--", mover.id)
    assert mover.do_forked(*words).code == 0
    assert path.read_text() == exported(mover, "journal", mover.id)
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("mine")
    assert (mover.do_forked(*words).code, path.read_text()) == (2, "mine")


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda text: text.replace('"ann"', '"bob"'), "entry 7 is not as it was written (its digest differs)"),
        (lambda text: "".join(text.splitlines(keepends=True)[:-1]), "holds 7 entries where its first line says 8"),
        (lambda text: text.replace('"kind":"taken"', '"kind":"dreamt"', 1), "entry 2 is of kind 'dreamt'"),
        (lambda text: text.replace("toolu", "tölu"), "holds bytes that are no ASCII"),
        (lambda text: text[:-30], "is no entry of an exported journal"),
    ],
    ids=["changed", "cut", "newer", "not ascii", "torn"],
)
def test_a_journal_that_is_not_as_it_was_written_is_not_imported(mover, harm, says):
    (mover.folder / "harmed.jsonl").write_text(harm(exported(mover, "journal", mover.id)))
    ended = mover.do_forked("import", "harmed.jsonl", "--store", "sqlite:harmed.db")
    assert (ended.code, says in ended.err) == (9, True), ended.err
    assert not (mover.folder / "harmed.db").exists()
