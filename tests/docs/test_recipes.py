"""The recipes of the page on tools, as they stand there: killed at the worst moment, and run again."""

import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from docs.blocks import Reader, block_with, environment
from docs.servers import Payments, Renderer, Tracker
from midstride import Agent, Context, DidNotHappen, Happened, Pending, models, tool
from midstride.demo.mail import MailServer

PAGE = "docs/tools.md"
CONTEXT = Context("5" * 64, "a run", "toolu_1", 1, 0)

# Kills the process when the tool returns: what it did is done, and nobody has seen its result.
DRIVEN = """
import json, os, signal, sys, threading
from midstride import Agent, models
from midstride import Context
from midstride.testing import SettableClock

def kill_behind_the_tool(frame, event, value):
    if event == "return" and frame.f_code.co_name == {tool!r} and "DIE" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)

threading.setprofile(kill_behind_the_tool)
model = models.Scripted([[({tool!r}, {arguments!r})], "Done."])
clock = SettableClock(float(os.environ.get("NOW", 1_790_000_000)))
agent = Agent(model, tools=[{tool}], store={store!r}, clock=clock)
result = agent.run("Do it", id="run")
if result.status == "waiting":
    print(json.dumps(result.again_at))
    sys.exit()
print(json.dumps(model.requests[-1]["messages"][-1]["content"][0]))
"""


@dataclass
class Program:
    """A recipe, and behind it a run that calls its tool once and prints the result that the model is shown."""

    folder: Path
    settings: dict

    @classmethod
    def of(cls, folder, words, tool, *, store="sqlite:runs.db", settings=None, **arguments):
        driven = DRIVEN.format(tool=tool, arguments=arguments, store=store)
        (folder / "program.py").write_text(block_with(PAGE, words) + driven)
        return cls(folder, settings or {})

    def start(self, **more):
        return subprocess.Popen(
            [sys.executable, "program.py"],
            cwd=self.folder,
            env=environment(**self.settings, **more),
            stdout=subprocess.PIPE,
            text=True,
        )

    def killed_when(self, event):
        """Start it, and kill it once *event* is set."""
        with self.start() as process:
            assert event.wait(300)
            process.kill()
        assert process.returncode == -signal.SIGKILL

    def dies(self):
        """Start it, and let it die as its tool returns."""
        with self.start(DIE="1") as process:
            process.communicate()
        assert process.returncode == -signal.SIGKILL

    def result(self, **more):
        """Run it until it rests; return the result block that its model was shown, or when it is to be run again."""
        with self.start(**more) as process:
            printed, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        return json.loads(printed)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names_in(words, monkeypatch, **settings):
    """Return what a recipe defines, with its settings in the environment."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    names = {"__name__": "recipe"}
    exec(block_with(PAGE, words), names)
    return names


# ---- a read


def test_a_note_is_read_and_a_name_leads_nowhere_else(folder, monkeypatch):
    (folder / "notes").mkdir()
    (folder / "notes" / "monday.md").write_text("We paint the shed.")
    read_note = names_in("def read_note", monkeypatch)["read_note"]
    assert read_note("monday.md") == "We paint the shed."
    with pytest.raises(ValueError, match=r"there is no note '../secret'; there are monday.md"):
        read_note("../secret")


# ---- payments


@pytest.fixture
def payments(folder):
    with Payments(folder) as service:
        yield service


def test_a_charge_whose_answer_was_lost_is_charged_once(folder, payments):
    program = Program.of(folder, "def charge", "charge", settings={"PAY_URL": payments.url}, customer="c1", cents=995)
    with payments.withhold() as charged:
        program.killed_when(charged)
    assert program.result()["content"] == "Charged, as ch_1"
    assert payments.rows("select customer, cents from charges") == [("c1", 995)]
    assert len(payments.requests) == 2


def test_a_charge_that_is_refused_is_a_definite_failure(folder, payments):
    program = Program.of(
        folder, "def charge", "charge", settings={"PAY_URL": payments.url}, customer="c1", cents=99_999
    )
    result = program.result()
    assert result["content"].startswith("Failed: ")
    assert "The charge was refused" in result["content"]
    assert (result["is_error"], payments.rows("select * from charges"), len(payments.requests)) == (True, [], 1)


# ---- jobs

RENDERED = {"state": "done", "file": "alps.mp4"}
IN_FIVE_MINUTES = 1_790_000_300.0


@pytest.fixture
def render(folder):
    with Renderer(folder) as service:
        service.program = Program.of(folder, "def render(", "render", settings={"RENDER_URL": service.url}, film="Alps")
        yield service


def jobs_of(service):
    return service.rows("select film from jobs")


def test_a_job_is_taken_once_and_polled_by_whichever_process_comes(render):
    assert render.program.result() == IN_FIVE_MINUTES
    assert render.program.result(NOW="1790000299") == IN_FIVE_MINUTES
    assert [kind for kind, _ in render.requests] == ["POST", "GET"]
    render.stands = RENDERED
    result = render.program.result(NOW="1790000300")
    assert (result["content"], result.get("is_error")) == ("Rendered as alps.mp4", None)
    assert [kind for kind, _ in render.requests] == ["POST", "GET", "GET"]
    assert jobs_of(render) == [("Alps",)]


def test_a_job_whose_id_was_lost_is_the_same_job(render):
    with render.withhold() as taken:
        render.program.killed_when(taken)
    render.stands = RENDERED
    assert render.program.result()["content"] == "Rendered as alps.mp4"
    assert [kind for kind, _ in render.requests] == ["POST", "POST", "GET"]
    assert jobs_of(render) == [("Alps",)]


def test_a_program_that_is_killed_while_it_polls_polls_again(render):
    assert render.program.result() == IN_FIVE_MINUTES
    with render.withhold() as asked, render.program.start(NOW="1790000300") as process:
        assert asked.wait(300)
        process.kill()
    render.stands = RENDERED
    assert render.program.result(NOW="1790000400")["content"] == "Rendered as alps.mp4"
    assert [kind for kind, _ in render.requests] == ["POST", "GET", "GET", "GET"]
    assert jobs_of(render) == [("Alps",)]


def test_a_job_that_failed_is_told_with_the_renderers_reason(render):
    render.stands = {"state": "failed", "why": "no such film"}
    result = render.program.result()
    assert result["content"].startswith('Failed: The other side accepted it (its handle is "job-1")')
    assert result["content"].endswith("did not carry it out. The renderer says: no such film.")


def test_a_job_that_is_forgotten_is_in_doubt(render):
    render.stands = None
    assert "The renderer does not know the job any more." in render.program.result()["content"]


def test_a_renderer_that_is_down_settles_nothing(folder):
    with Renderer(folder) as service:
        down = {"RENDER_URL": service.url}
        program = Program.of(folder, "def render(", "render", settings=down, film="Alps")
        program.result()
    assert program.result(NOW="1790000300") == 1_790_000_310.0
    assert program.result(NOW="1790000310") == 1_790_000_370.0


def test_the_loop_comes_back_until_the_job_is_done(folder, monkeypatch):
    stands = [Pending(after=0.01), Pending(after=0.01), Happened("alps.mp4")]

    @tool
    def render(film: str, context: Context):
        """Render."""
        return context.accepted("job")

    render.poll(lambda job: stands.pop(0))
    agent = Agent(models.Scripted([[("render", {"film": "Alps"})], "Done."]), [render], store="sqlite:runs.db")
    result = names_in("def run_to_the_end", monkeypatch)["run_to_the_end"](agent, "Render it", "run")
    assert (result.answer, stands) == ("Done.", [])


# ---- mail


@pytest.fixture
def post(folder):
    with MailServer(folder / "Sent") as server:
        yield server


def mailing(folder, post):
    settings = {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(post.port), "SENT_FOLDER": str(post.folder)}
    letter = {"to": "team@example.com", "subject": "Decisions", "body": "We paint the shed."}
    return Program.of(folder, "def send_email", "send_email", settings=settings, **letter)


def test_a_mail_that_went_out_is_found_and_not_sent_again(folder, post):
    program = mailing(folder, post)
    program.killed_when(post.withhold())
    assert program.result() == {
        "type": "tool_result",
        "tool_use_id": "toolu_1_0",
        "content": "Sent to team@example.com",
    }
    assert [mail["Subject"] for mail in post.mails()] == ["Decisions"]


def test_a_mail_that_did_not_go_out_is_sent(folder, post, monkeypatch):
    letter = {"to": "a@example.com", "subject": "s", "body": "b", "context": CONTEXT}
    places = {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(post.port), "SENT_FOLDER": str(post.folder)}
    recipe = names_in("def send_email", monkeypatch, **places)
    assert isinstance(recipe["find_email"](to="a@example.com", context=CONTEXT), DidNotHappen)
    recipe["send_email"](**letter)
    assert recipe["find_email"](to="a@example.com", context=CONTEXT) == Happened("Sent to a@example.com")


# ---- issues


@pytest.fixture
def tracker(folder):
    with Tracker(folder) as service:
        yield service


def opening(folder, tracker):
    settings = {"TRACKER_URL": tracker.url, "TRACKER_TOKEN": "a-token"}
    return Program.of(folder, "def open_issue", "open_issue", settings=settings, title="Leak", body="Room 3")


def test_an_issue_that_was_opened_is_found_by_its_label(folder, tracker):
    program = opening(folder, tracker)
    with tracker.withhold() as opened:
        program.killed_when(opened)
    assert program.result()["content"] == "Opened issue 1"
    assert tracker.rows("select title from issues") == [("Leak",)]
    assert [method for method, _ in tracker.requests] == ["POST", "GET"]


def test_an_issue_that_was_lost_is_opened_after_a_look(folder, tracker):
    program = opening(folder, tracker)
    with tracker.withhold() as opened:
        program.killed_when(opened)
    with closing(sqlite3.connect(tracker.database)) as connection, connection:
        connection.execute("delete from issues")  # as a server that lost what it had taken
    assert program.result()["content"] == "Opened issue 1"
    assert [method for method, _ in tracker.requests] == ["POST", "GET", "POST"]


# ---- rows


@pytest.fixture
def theatre(folder):
    with closing(sqlite3.connect("theatre.db")) as connection:
        connection.execute("create table seats (name text primary key)")
    return Program.of(folder, "def book", "book", store="sqlite:theatre.db", seat="A7")


def seats():
    with closing(sqlite3.connect("theatre.db")) as connection:
        return connection.execute("select name from seats").fetchall()


def test_a_seat_whose_program_died_before_the_commit_is_booked_once(theatre):
    theatre.dies()
    assert seats() == []
    assert theatre.result()["content"] == "Booked A7"
    assert seats() == [("A7",)]


def test_a_seat_that_is_taken_is_a_definite_failure(theatre):
    with closing(sqlite3.connect("theatre.db")) as connection, connection:
        connection.execute("insert into seats values ('A7')")
    result = theatre.result()
    assert (result["is_error"], result["content"].startswith("Failed: "), seats()) == (True, True, [("A7",)])


def test_the_theatres_agent_can_be_made(folder, monkeypatch):
    agent = names_in("def book", monkeypatch)["agent"]
    assert (agent.store, [tool.effect for tool in agent.tools]) == ("sqlite:theatre.db", ["transactional"])


# ---- commands


CONTEXT = Context("key", "run", "call", 1, 0)


def test_a_command_whose_program_died_is_not_run_again(folder):
    command = "echo ran >> ran.txt; kill -9 $PPID"
    program = Program.of(folder, "def run_command", "run_command", command=command)
    with program.start() as process:
        process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    result = program.result()
    assert (result["is_error"], result["content"].split(":")[0]) == (True, "Outcome unknown")
    assert (folder / "ran.txt").read_text() == "ran\n"


def test_a_command_says_what_it_printed_and_how_it_ended(folder, monkeypatch):
    run_command = names_in("def run_command", monkeypatch)["run_command"]
    assert run_command("echo out; echo err >&2; exit 3", CONTEXT) == "out\nerr\n(exit code 3)"


def ended(reader):
    """Tell whether every writer of this FIFO has ended, waiting for it."""
    return bool(select.select([reader], [], [], 30)[0]) and os.read(reader, 1) == b""


@pytest.mark.parametrize(
    ("command", "error"),
    [("exec 3> fifo; sleep 600 >&3 2>&1 & echo started", None), ("exec sleep 600 > fifo", subprocess.TimeoutExpired)],
    ids=["left in the background", "too slow"],
)
def test_nothing_of_a_command_outlives_its_call(folder, monkeypatch, command, error):
    os.mkfifo("fifo")
    reader = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
    # While this is open the FIFO has had a writer, however early the command is killed.
    own = os.open("fifo", os.O_WRONLY)
    output_of = names_in("def run_command", monkeypatch)["output_of"]
    if error is None:
        assert output_of(CONTEXT, ["/bin/sh", "-c", command], 30) == "started\n(exit code 0)"
    else:
        with pytest.raises(error):
            output_of(CONTEXT, ["/bin/sh", "-c", command], 0.3)
    os.close(own)
    assert ended(reader)
    os.close(reader)


@pytest.mark.parametrize("command", ["rm note", "ls; rm note", "/bin/cat note", "", "find . -delete"])
def test_only_commands_that_read_can_be_looked_with(folder, monkeypatch, command):
    (folder / "note").write_text("kept")
    look = names_in("def run_command", monkeypatch)["look"]
    with pytest.raises(ValueError, match="only cat, grep, head, ls, wc can be run here"):
        look(command, CONTEXT)
    assert look("cat note | rm note", CONTEXT).startswith("keptcat: ")
    assert look.effect == "read_only"


# ---- the page as a whole


def test_the_page_runs_from_top_to_bottom(folder, monkeypatch):
    for name in ("PAY_URL", "SMTP_HOST", "SENT_FOLDER", "TRACKER_URL", "TRACKER_TOKEN", "RENDER_URL"):
        monkeypatch.setenv(name, "nowhere")
    monkeypatch.setenv("SMTP_PORT", "25")
    Reader(folder).read(PAGE)
