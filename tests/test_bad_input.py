"""What a user, another program, another version or the machine can do wrong, as the caller of an agent meets it.

Each time: one sentence that says what was found, what was wanted and what to do; nothing is lost, and no effect starts
that was not intended.
"""

import json
import os
import sqlite3
from contextlib import closing

import pytest

from midstride import Agent, Context, Ledger, Limits, MidstrideError, Prices, Run, Runs, tool
from midstride.core.journal import Settled, head_of, seal
from midstride.errors import (
    Damaged,
    DeclarationError,
    Held,
    Newer,
    NotAllowed,
    NotAResponse,
    NotOurs,
    StoreError,
    TaskDiffers,
)
from midstride.integrations.opentelemetry import Telemetry
from midstride.models import Anthropic, Scripted
from midstride.stores import CheckpointStore, MemoryStore, SqliteStore, open_store
from midstride.testing import SettableClock
from midstride.testing.conformance import process
from stores.places import as_another_user, fill, on_a_small_disk, open_folder

sent: list[str] = []


@pytest.fixture(autouse=True)
def nothing_sent():
    sent.clear()


@tool
def send(to: str) -> str:
    """Send a letter."""
    sent.append(to)
    return f"sent to {to}"


SCRIPT = [[("send", {"to": "ann"}), ("send", {"to": "bob"})], [("send", {"to": "cat"})], "Done."]


def agent(store, script=SCRIPT, tools=(send,)):
    return Agent(Scripted(script), list(tools), store=store, clock=SettableClock())


def says(kind, act):
    """Return the message of the error of *kind* that *act* raises, which must be one line a person can read."""
    with pytest.raises(kind) as caught:
        act()
    assert isinstance(caught.value, MidstrideError)
    message = str(caught.value)
    assert "\n" not in message
    assert 20 < len(message) < 500
    return message


# ---- declared wrongly


def test_two_tools_of_one_name():
    @tool(name="send")
    def other(to: str) -> str:
        """Send it by another way."""
        return to

    message = says(DeclarationError, lambda: agent(MemoryStore(), tools=[send, other]))
    assert message == "two tools are called 'send': give one of them another name="


def test_a_tool_without_type_hints():
    def post(to):
        """Post something."""

    message = says(DeclarationError, lambda: tool(post))
    assert message.startswith("parameter 'to' of tool 'post' has no type hint: write one")


def test_a_function_that_is_no_tool():
    def post(to: str) -> str:
        """Post something."""
        return to

    message = says(DeclarationError, lambda: agent(MemoryStore(), tools=[post]))
    assert message == "post is no tool: decorate it with @tool or one of its sisters"


def test_a_verifiable_tool_without_a_timeout():
    message = says(DeclarationError, lambda: tool.verifiable(lambda to: to))
    assert message == (
        "@tool.verifiable has no timeout, the time after which an attempt that is lost cannot act any more: write "
        "@tool.verifiable(timeout=seconds)"
    )


@pytest.mark.parametrize("url", ["memory:", "checkpoint:{}/checkpoint.json"])
def test_a_transactional_tool_on_a_store_without_transactions(tmp_path, url):
    @tool.transactional
    def book(seat: str, context: Context[sqlite3.Connection]) -> str:
        """Book a seat."""
        return seat

    url = url.format(tmp_path)
    message = says(DeclarationError, lambda: agent(url, tools=[book]).run("go", "run"))
    assert message == (
        f"tool 'book' is transactional, but {url} has no transactions: keep the runs in the database that the tool "
        "writes to (sqlite:PATH)"
    )
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("url", ["runs.db", "postgres://host/runs", "sqlite://runs.db", "sqlite:", ":memory:"])
def test_a_store_url_of_no_known_form(url):
    message = says(DeclarationError, lambda: agent(url).run("go", "run"))
    assert repr(url) in message


def test_a_model_that_speaks_no_known_api():
    model = Scripted([])
    model.api = "strange"
    message = says(DeclarationError, lambda: Agent(model))
    assert message == "there is no api 'strange'; there are: anthropic, openai-chat, openai-responses"


# ---- what does not fit the run


def test_a_task_that_differs():
    store = MemoryStore()
    agent(store).run("mail them", "run")
    message = says(TaskDiffers, lambda: agent(store).run("pay them", "run"))
    assert message == (
        "run 'run' is about another task: it was started with 'mail them', this program says 'pay them'; use another "
        "id, or the first task to carry it on"
    )


@pytest.mark.parametrize(
    "task", [{"when": {1, 2}}, b"go", object(), float("nan")], ids=["set", "bytes", "object", "nan"]
)
def test_a_task_that_no_journal_can_hold(task):
    store = MemoryStore()
    message = says(DeclarationError, lambda: agent(store).run(task, "run"))
    assert message.startswith("the task cannot be kept as JSON (")
    assert store.runs() == []


def test_parameters_of_a_model_that_no_journal_can_hold():
    store = MemoryStore()
    asked = Agent(Anthropic("claude-opus-5", metadata=object()), store=store)
    message = says(DeclarationError, lambda: asked.run("go", "run"))
    assert message.startswith("the model's parameters cannot be kept as JSON (Object of type object is not JSON")
    assert store.runs() == []


# ---- a result that is no response


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"role": "assistant", "content": "Done.", "stop_reason": "end_turn"},
        {"role": "assistant", "content": [], "stop_reason": None},
    ],
    ids=str,
)
def test_a_model_that_gives_no_response(value):
    store = MemoryStore()
    message = says(NotAResponse, lambda: agent(store, [value]).run("go", "run"))
    assert "no response" in message
    assert agent(store).run("go", "run").answer == "Done."


def test_a_value_that_is_no_response_in_a_loop_of_ones_own():
    with Run(MemoryStore(), "run", "go") as run:
        turn = next(run)
        message = says(NotAResponse, lambda: turn.respond("Done."))
    assert message == "str is no response: give the SDK's message, or its JSON as a dict"


# ---- another version's, another program's, or damaged


STORES = [SqliteStore, CheckpointStore]


def store_in(kind, folder):
    return kind(folder / ("runs.db" if kind is SqliteStore else "checkpoint.json"))


def left_as_it_is(folder, name, kind, *words):
    """Ask a run of the file *name*: it is refused in a sentence with these *words*, and not one byte of it changes."""
    path = folder / name
    before = path.read_bytes()
    url = f"{'checkpoint' if name.endswith('.json') else 'sqlite'}:{path}"
    message = says(kind, lambda: agent(url).run("go", "run"))
    assert [word for word in words if word not in message] == []
    assert (path.read_bytes(), sent) == (before, [])


def test_a_database_of_a_newer_version(tmp_path):
    agent(f"sqlite:{tmp_path}/runs.db", ["Done."]).run("go", "run")
    change(tmp_path / "runs.db", "update midstride_format set version = 2")
    left_as_it_is(tmp_path, "runs.db", Newer, "is format 2, this code reads format 1: use a newer midstride")


def test_a_journal_of_a_newer_version_in_a_database(tmp_path):
    agent(f"sqlite:{tmp_path}/runs.db", ["Done."]).run("go", "run")
    change(tmp_path / "runs.db", "update midstride_entries set body = replace(body, '\"format\":1', '\"format\":7')")
    left_as_it_is(tmp_path, "runs.db", Newer, "the journal is format 7, this code reads format 1")


def test_an_entry_that_only_a_newer_version_writes(tmp_path):
    agent(f"sqlite:{tmp_path}/runs.db", ["Done."]).run("go", "run")
    change(tmp_path / "runs.db", "update midstride_entries set body = replace(body, '\"requested\"', '\"dreamt\"')")
    left_as_it_is(tmp_path, "runs.db", Newer, "entry 3 is of kind 'dreamt', which format 1 does not know")


def test_a_checkpoint_of_a_newer_version(tmp_path):
    (tmp_path / "checkpoint.json").write_text(json.dumps({"version": 2, "task": "go", "messages": [], "turns": 0}))
    left_as_it_is(tmp_path, "checkpoint.json", Newer, "checkpoint is v2, this code reads v1")


def test_a_database_that_is_somebody_elses(tmp_path):
    change(tmp_path / "runs.db", "create table midstride_runs (mine text)")
    left_as_it_is(tmp_path, "runs.db", NotOurs, "has a table midstride_", "use another file")


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / "runs.db").write_bytes(b"These are my notes. " * 100)
    left_as_it_is(tmp_path, "runs.db", NotOurs, "runs.db", "use another")


def test_a_file_that_is_no_checkpoint(tmp_path):
    (tmp_path / "checkpoint.json").write_text('{"name": "my package"}')
    left_as_it_is(tmp_path, "checkpoint.json", NotOurs, "is no checkpoint: wanted an object with the fields version")


def test_a_checkpoint_that_holds_another_run(tmp_path):
    url = f"checkpoint:{tmp_path}/checkpoint.json"
    agent(url, ["Done."]).run("go", "mine")
    message = says(NotOurs, lambda: agent(url).run("go", "yours"))
    assert message.endswith("holds run 'mine', not 'yours': one file holds one run, so use another path or that id")


@pytest.mark.parametrize("name", ["runs.db", "checkpoint.json"])
@pytest.mark.parametrize("size", [0, 1, 100, 10_000])
def test_a_file_that_was_cut(tmp_path, name, size):
    form = "checkpoint" if name.endswith(".json") else "sqlite"
    agent(f"{form}:{tmp_path / name}", [*SCRIPT[:2], "x" * 20_000]).run("go", "run")
    sent.clear()
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:size])
    left_as_it_is(tmp_path, name, Damaged, name)


def test_a_checkpoint_that_was_edited_by_hand(tmp_path):
    path = tmp_path / "checkpoint.json"
    agent(f"checkpoint:{path}").run("go", "run")
    sent.clear()
    path.write_text(path.read_text().replace('"turns": 3', '"turns": 1'))
    left_as_it_is(tmp_path, "checkpoint.json", Damaged, "turns is 1", "3")


def test_an_entry_that_is_missing(tmp_path):
    agent(f"sqlite:{tmp_path}/runs.db").run("go", "run")
    sent.clear()
    change(tmp_path / "runs.db", "delete from midstride_entries where seq = 5")
    left_as_it_is(tmp_path, "runs.db", Damaged, "entry 5 is missing")


def test_an_entry_that_cannot_follow_those_before_it(tmp_path):
    agent(f"sqlite:{tmp_path}/runs.db", ["Done."]).run("go", "run")
    with closing(open_store(f"sqlite:{tmp_path}/runs.db")) as store:
        (odd,) = seal([Settled(1, 0, "ok", "x")], head_of(store.read("run")), 1.0)
    change(
        tmp_path / "runs.db",
        f"insert into midstride_entries (run, seq, body, digest) values (1, {odd.seq}, '{odd.text}', x'{odd.digest}')",
    )
    left_as_it_is(tmp_path, "runs.db", Damaged, "entry 5 of the journal cannot follow those before it")


def change(path, statement):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


# ---- the machine


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("room", [*range(0, 176, 16), *range(176, 700, 24)])
def test_a_disk_that_is_full_at_some_append(kind, tmp_path, room):
    on_a_small_disk(tmp_path, lambda: run_into_a_full_disk(kind, tmp_path, room * 1024), size="6m")


def run_into_a_full_disk(kind, folder, room):
    fill(folder / "ballast", leave=room)
    store = store_in(kind, folder)
    script = [[("send", {"to": name})] for name in "abcdef"]

    def carry_on():
        return agent(store, [*script, "Done. " + "x" * 20_000]).run("go " + "x" * 8_000, "run")

    try:
        result = carry_on()
    except StoreError as error:
        found = str(error)
        (folder / "ballast").unlink()
        before, run = list(sent), Runs(store).get("run") if store.runs() else None
        intended = [e.body for e in store.read("run") if e.body.kind == "intended"]
        assert len(sent) <= len(intended)
        result = carry_on()
        assert ("the disk is full: nothing was written" in found, "\n" in found) == (True, False)
        assert sent[: len(before)] == before
        assert run is None or result.turns >= run.turns
    assert result.status == "done"
    assert len(sent) == len(set(sent))
    assert len(sent) + len(result.doubts) >= 6


@pytest.mark.parametrize("kind", STORES)
def test_a_store_that_may_not_be_read(kind):
    with open_folder() as folder:
        store = store_in(kind, folder)
        agent(store).run("go", "run")
        store.close()
        sent.clear()
        for path in folder.iterdir():
            path.chmod(0)
        as_another_user(lambda: refused(store_in(kind, folder)))


@pytest.mark.parametrize("kind", STORES)
def test_a_folder_that_may_not_be_written(kind):
    with open_folder() as folder:
        folder.chmod(0o555)
        as_another_user(lambda: refused(store_in(kind, folder)))
        folder.chmod(0o777)


def refused(store):
    message = says(StoreError, lambda: agent(store).run("go", "run"))
    assert f"user {os.geteuid()}" in message
    assert sent == []


def test_a_run_that_another_process_drives(tmp_path):
    store = SqliteStore(tmp_path / "runs.db")

    def hold():
        run = Run(SqliteStore(tmp_path / "runs.db"), "run", "go")
        run.__enter__()
        next(run)
        sent.append(run)

    with process(hold) as pid:
        message = says(Held, lambda: agent(store).run("go", "run"))
        assert str(pid) in message
    assert agent(store).run("go", "run").answer == "Done."
    store.close()


# ---- limits, telemetry, stores


@pytest.mark.parametrize(
    ("limit", "value"),
    [("turns", -1), ("turns", "3"), ("tokens", 1.5), ("seconds", float("inf")), ("cost", 1e300), ("cost", True)],
)
def test_a_limit_that_is_none(limit, value):
    made = lambda: Agent(Scripted([]), limits=Limits(**{limit: value}), prices=Prices(input=1, output=1))  # noqa: E731
    assert f"the limit {limit}={value!r} is none" in says(DeclarationError, made)
    store = MemoryStore()
    agent(store).run("mail them", "run")
    before = store.read("run")
    says(DeclarationError, lambda: Runs(store).extend("run", **{limit: value}))
    assert store.read("run") == before


def test_a_limit_on_the_cost_of_a_ledgers_call():
    store = MemoryStore()
    with Ledger(store) as ledger:
        ledger.once(send, "c1", {"to": "ann"}, scope="t")
    (run,) = Runs(store).ids()
    assert "asks no model" in says(NotAllowed, lambda: Runs(store).extend(run, cost=3.0))


def test_what_is_no_limits_no_telemetry_and_no_store():
    assert "are no limits" in says(DeclarationError, lambda: Agent(Scripted([]), limits={"turns": 3}))
    assert "draws nothing" in says(DeclarationError, lambda: Agent(Scripted([]), telemetry=object()))
    assert "has no get_tracer" in says(DeclarationError, lambda: Telemetry("x"))
    assert "has no get_meter" in says(DeclarationError, lambda: Telemetry(meter_provider=object()))
    assert "is no store" in says(DeclarationError, lambda: Ledger(5))
