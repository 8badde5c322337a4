"""The lesson's own checkpoint.json, carried on: its three checkpoints, and the way out of a damaged file."""

import json

import pytest

from drive.scenes import Killed, agent_of, killed_at_start_of, kinds, results
from midstride import Runs, tool
from midstride.core.journal import Intended
from midstride.errors import Damaged, DeclarationError, Held, TaskDiffers, UnknownRun
from midstride.stores import CheckpointStore, MemoryStore

TASK = "Help me pull this week's meeting notes together"
MAIL = "Email the team to let them know the conclusions"
NOTES = {"path": "./notes/meeting-08-25.md"}
LETTER = {"to": "team@example.com", "subject": "This week's conclusions"}
sent: list[str] = []
read: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done():
    sent.clear()
    read.clear()


@tool.read_only
def read_file(path: str) -> str:
    """Read a file."""
    read.append(path)
    return "the notes"


@tool
def send_email(to: str, subject: str) -> str:
    """Send a mail."""
    sent.append(to)
    return "sent"


TOOLS = [read_file, send_email]


def user(content):
    return {"role": "user", "content": content}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def text(words):
    return {"type": "text", "text": words}


def use(call_id, name, given):
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(call_id, content):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.json"


def write(path, messages, *, task=TASK, turns=6, tokens=18420, pending=None):
    fields = {"version": 1, "task": task, "turns": turns, "tokensUsed": tokens, "messages": messages}
    path.write_text(json.dumps({**fields, "pendingToolUse": pending}, indent=2))


def agent(path, *script, tools=TOOLS, **more):
    """Return an agent on the file whose model answers each request by its number."""
    return agent_of(lambda request, number: script[number], tools, store=f"checkpoint:{path}", **more)


# ---- checkpoint A


RESULTS_AT_THE_TAIL = [
    user(TASK),
    assistant(text("I look."), use("toolu_00", "read_file", {"path": "a"})),
    user([result("toolu_00", "text of a")]),
]


def test_checkpoint_a_goes_on_with_the_request_that_was_owed_byte_for_byte(drive, path):
    write(path, RESULTS_AT_THE_TAIL)
    carried_on = agent(path, "Here they are.")
    done = drive(carried_on, task=TASK)
    assert json.dumps(carried_on.model.requests[0]["messages"]) == json.dumps(RESULTS_AT_THE_TAIL)
    assert (done.answer, done.turns, read) == ("Here they are.", 7, [])


def test_checkpoint_a_whose_tail_is_a_plain_answer_is_done_without_a_request(drive, path):
    write(path, [user(TASK), assistant(text("Here they are."))])
    carried_on = agent(path)
    done = drive(carried_on, task=TASK)
    assert (done.status, done.answer, done.turns) == ("done", "Here they are.", 6)
    assert done.why == "the model has given its final answer"
    assert carried_on.model.requests == []


def test_checkpoint_a_whose_tail_is_a_plain_answer_is_sent_as_it_is_to_a_model_that_continues_it(drive, path):
    messages = [user(TASK), assistant(text("Here they"))]
    write(path, messages)
    carried_on = agent(path, " are.")
    carried_on.model.takes_prefill = True
    carried_on.model.facts = {"model_class": "prefill-capable"}
    done = drive(carried_on, task=TASK)
    assert json.dumps(carried_on.model.requests[0]["messages"]) == json.dumps(messages)
    assert (done.status, done.turns) == ("done", 7)


def test_a_checkpoint_that_has_asked_nothing_yet_begins(drive, path):
    write(path, [user(TASK)], turns=0, tokens=0)
    assert drive(agent(path, "Here they are."), task=TASK).turns == 1


# ---- checkpoint B


def test_checkpoint_b_reads_the_file_again_and_goes_on(drive, path):
    messages = [user(TASK), assistant(use("toolu_01A", "read_file", NOTES))]
    write(path, messages, turns=7, tokens=19310, pending={"id": "toolu_01A", "name": "read_file", "input": NOTES})
    carried_on = agent(path, "Here they are.")
    done = drive(carried_on, task=TASK)
    assert carried_on.model.requests[0]["messages"] == [*messages, user([result("toolu_01A", "the notes")])]
    assert (done.turns, read) == (8, [NOTES["path"]])


# ---- checkpoint C


CHECKPOINT_C = [user(MAIL), assistant(text("I mail them."), use("toolu_01B", "send_email", LETTER))]


def write_c(path):
    pending = {"id": "toolu_01B", "name": "send_email", "input": LETTER}
    write(path, CHECKPOINT_C, task=MAIL, turns=9, tokens=24003, pending=pending)


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        (TOOLS, "Its result was not recorded by the program that made the call."),
        ([], "the tool send_email is not there any more."),
    ],
    ids=["with its tools", "without tools"],
)
def test_checkpoint_c_tells_the_truth_and_sends_nothing(drive, path, tools, why):
    write_c(path)
    carried_on = agent(path, "I shall ask.", tools=tools)
    done = drive(carried_on, task=MAIL)
    ((content, is_error),) = results(carried_on)
    assert (sent, is_error, done.turns) == ([], True, 10)
    assert content.startswith("Outcome unknown: send_email(")
    assert why in content
    assert [call.id for call in done.doubts] == ["toolu_01B"]


def test_checkpoint_c_can_be_carried_on_without_saying_the_task_again(drive, path):
    write_c(path)
    assert agent(path, "I shall ask.").resume("mail").answer == "I shall ask."


def test_every_open_call_of_a_checkpoint_is_settled_though_it_names_only_the_first(drive, path):
    calls = [use("toolu_1", "read_file", NOTES), use("toolu_2", "send_email", LETTER), use("toolu_3", "nix", {})]
    write(path, [user(TASK), assistant(*calls)], pending={"id": "toolu_1", "name": "read_file", "input": NOTES})
    carried_on = agent(path, "Done.")
    drive(carried_on, task=TASK)
    told = results(carried_on)
    assert [content.split(":")[0] for content, _ in told] == ["the notes", "Outcome unknown", "Outcome unknown"]
    assert (read, sent) == ([NOTES["path"]], [])


def test_what_a_person_said_behind_some_of_the_results_is_kept(drive, path):
    calls = [use("toolu_1", "read_file", NOTES), use("toolu_2", "send_email", LETTER)]
    write(path, [user(TASK), assistant(*calls), user([result("toolu_1", "old notes"), text("and hurry")])])
    carried_on = agent(path, "Done.")
    drive(carried_on, task=TASK)
    sent_messages = carried_on.model.requests[0]["messages"]
    assert results(carried_on)[0] == ("old notes", False)
    assert sent_messages[-1] == user([text("and hurry")])


def test_an_imported_call_is_in_doubt_also_when_nobody_carries_it_on_to_the_end(path):
    write_c(path)

    def die(event):
        raise Killed

    with pytest.raises(Killed):
        agent(path, "Done.").run(MAIL, "mail", watch=die)
    store = CheckpointStore(path)
    assert [e.body for e in store.read("mail") if isinstance(e.body, Intended)] == [Intended(9, 0, imported=True)]


# ---- what does not fit


def test_a_checkpoint_of_another_task_is_left_as_it_is(drive, path):
    write(path, RESULTS_AT_THE_TAIL)
    before = path.read_bytes()
    with pytest.raises(TaskDiffers) as caught:
        drive(agent(path, "Done."), task="Something else")
    assert str(caught.value) == (
        f"checkpoint:{path} is about another task: \"{TASK}\", this program says 'Something else'; use another path, "
        "or the checkpoint's task to carry it on"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("pending", "found"),
    [
        ({"id": "toolu_9", "name": "send_email", "input": LETTER}, "leave open toolu_01B"),
        ({"id": "", "name": "send_email", "input": LETTER}, "leave open toolu_01B"),
    ],
)
def test_a_checkpoint_whose_fields_contradict_each_other_runs_nothing(drive, path, pending, found):
    write(path, CHECKPOINT_C, task=MAIL, pending=pending)
    before = path.read_bytes()
    with pytest.raises(Damaged, match=f"pendingToolUse names call .*, but the messages {found}"):
        drive(agent(path, "Done."), task=MAIL)
    assert (sent, path.read_bytes()) == ([], before)


# ---- the file afterwards


def test_the_lessons_own_fields_stay_readable_while_the_run_goes_on(drive, path):
    write(path, RESULTS_AT_THE_TAIL)
    drive(agent(path, "Here they are."), task=TASK)
    found = json.loads(path.read_text())
    assert list(found)[:6] == ["version", "task", "turns", "tokensUsed", "messages", "pendingToolUse"]
    assert (found["version"], found["turns"], found["pendingToolUse"]) == (1, 7, None)
    assert found["messages"] == [*RESULTS_AT_THE_TAIL, assistant(text("Here they are."))]


# ---- the previous generation


def killed_in_a_mail(path):
    """Leave a file whose newest entry is the intent of a mail, and whose previous generation does not have it."""
    script = [[("send_email", LETTER)], "Done."]
    with pytest.raises(Killed):
        agent(path, *script).run(MAIL, "mail", watch=killed_at_start_of("send_email"))


def test_a_damaged_file_is_refused_and_names_the_explicit_way_out(drive, path):
    killed_in_a_mail(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Damaged, match=r"only an explicit import takes\s+that one"):
        drive(agent(path, "Done."), task=MAIL, id="mail")
    assert path.read_bytes() == whole[: len(whole) // 2]


def test_the_previous_generation_is_imported_with_its_calls_in_doubt(drive, path):
    killed_in_a_mail(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    carried_on = agent(path, "Done.")
    carried_on.import_previous("mail")
    done = drive(carried_on, task=MAIL, id="mail")
    ((content, is_error),) = results(carried_on)
    assert (done.answer, sent, is_error) == ("Done.", [], True)
    assert content.startswith("Outcome unknown: send_email(")
    assert (path.parent / "checkpoint.json.set-aside").read_bytes() == whole[: len(whole) // 2]


def test_a_missing_file_is_imported_from_its_previous_generation_too(path):
    killed_in_a_mail(path)
    path.unlink()
    carried_on = agent(path, "Done.")
    with pytest.raises(Damaged, match="is missing"):
        carried_on.run(MAIL, "mail")
    carried_on.import_previous("mail")
    assert carried_on.run(MAIL, "mail").answer == "Done."
    assert sent == []


def test_a_lessons_checkpoint_is_imported_from_its_previous_generation(path):
    write_c(path)

    def die(event):
        raise Killed

    with pytest.raises(Killed):
        agent(path, "Done.").run(MAIL, "mail", watch=die)
    path.write_bytes(b"")
    carried_on = agent(path, "Done.")
    carried_on.import_previous("mail")
    assert carried_on.run(MAIL, "mail").answer == "Done."
    assert sent == []


def test_an_import_needs_a_previous_generation_of_that_very_run(path):
    carried_on = agent(path, "Done.")
    with pytest.raises(UnknownRun, match="has no previous generation: restore it from a backup"):
        carried_on.import_previous("mail")
    killed_in_a_mail(path)
    path.write_bytes(b"")
    with pytest.raises(UnknownRun, match="is run 'mail': give that id"):
        carried_on.import_previous("other")


def test_only_a_checkpoint_file_has_a_previous_generation():
    with pytest.raises(DeclarationError, match="memory: keeps no previous generation: only checkpoint:PATH does"):
        agent_of(["Done."], store=MemoryStore()).import_previous("run")


def test_a_run_that_is_driven_is_not_imported_over(path):
    def import_it(event):
        if getattr(getattr(event, "body", None), "kind", None) == "intended":
            with pytest.raises(Held):
                agent(path, "Done.").import_previous("mail")

    assert agent(path, [("send_email", LETTER)], "Done.").run(MAIL, "mail", watch=import_it).answer == "Done."
    assert sent == [LETTER["to"]]


def test_the_kinds_of_an_imported_run_are_those_of_any_other(path):
    write_c(path)
    agent(path, "Done.").run(MAIL, "mail")
    store = CheckpointStore(path)
    assert kinds(store, "mail") == [
        "started", "requested", "responded", "intended", "taken", "settled", "requested", "responded",
    ]  # fmt: skip
    assert Runs(store).get("mail").answer == "Done."
