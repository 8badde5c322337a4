"""The README, as a newcomer reads it: every block is run, every table is the code's, every link leads somewhere."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest
import typer

from docs.blocks import ROOT, Reader, blocks_of, code_in, environment, table_under
from midstride.cli.app import app
from midstride.core.reconcile import EFFECTS
from midstride.demo.answers import results_in
from midstride.testing import Answer, FakeModel, calls

PAGE = "README.md"
MAIL = """\
#!/bin/sh
# A `mail` that files what it is given, and kills the program that called it when the file `kill` is there.
{ echo "To: $3"; echo "Subject: $2"; cat; } >> mails.txt
if [ -e kill ]; then rm kill; kill -9 $PPID; fi
"""


def answer(body, number):
    """Read the notes, mail them, tell what came of it; say thanks for what was said since."""
    results = {result.name: result for result in results_in(body["messages"])}
    if "read_notes" not in results:
        return calls(("read_notes", {}))
    if "send_email" not in results:
        letter = {"to": "team@example.com", "subject": "Decisions", "body": "We paint the shed."}
        return calls(("send_email", letter))
    return Answer("I do not know whether the mail went out." if results["send_email"].is_error else "It is mailed.")


@pytest.fixture
def newcomer(tmp_path, monkeypatch):
    """A reader in a folder with notes, a `mail` command, and a model that answers on loopback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "monday.md").write_text("We paint the shed.")
    (tmp_path / "mail").write_text(MAIL)
    (tmp_path / "mail").chmod(0o755)
    with FakeModel(answer) as model:
        reader = Reader(tmp_path, ANTHROPIC_BASE_URL=model.url, ANTHROPIC_API_KEY="none-needed")
        reader.environment["PATH"] = f"{tmp_path}{os.pathsep}{reader.environment['PATH']}"
        reader.model = model
        (tmp_path / "notes.py").write_text(block("agent = Agent("))
        yield reader


def block(words):
    (found,) = [block.text for block in blocks_of(PAGE) if words in block.text]
    return found


def mails(newcomer):
    return (newcomer.folder / "mails.txt").read_text().count("Subject: Decisions")


def killed(newcomer):
    (newcomer.folder / "kill").touch()
    assert "killed" in newcomer.shell("python notes.py || echo killed")


# ---- the first agent


def test_the_same_program_again_carries_on_and_sends_no_second_mail(newcomer):
    killed(newcomer)
    assert newcomer.shell("python notes.py") == "I do not know whether the mail went out.\n"
    assert mails(newcomer) == 1


def test_the_first_agent_mails_once_and_is_then_answered_without_a_request(newcomer):
    for _ in range(2):
        assert newcomer.shell("python notes.py") == "It is mailed.\n"
        assert (len(newcomer.model.requests), mails(newcomer)) == (3, 1)


def test_a_loop_of_ones_own_does_the_same(newcomer):
    (newcomer.folder / "loop.py").write_text(block("with Run("))
    assert newcomer.shell("python loop.py") == "It is mailed.\n"
    assert mails(newcomer) == 1


def test_the_asynchronous_sentence_names_what_there_is(newcomer):
    loop = block("with Run(").replace("import anthropic", "import anthropic, asyncio").replace(" Run\n", " AsyncRun\n")
    loop = loop.replace("anthropic.Anthropic()", "anthropic.AsyncAnthropic()")
    head, _, rest = loop.partition("with Run(")
    rest = f"async with AsyncRun({rest}".replace("for turn", "async for turn").replace(
        "turn.respond(client.messages", "await turn.respond(await client.messages"
    )
    main = f"async def main():\n{textwrap.indent(rest, '    ')}\nasyncio.run(main())\n"
    (newcomer.folder / "loop.py").write_text(head + main)
    assert newcomer.shell("python loop.py") == "It is mailed.\n"


def test_the_commands_and_the_decision_do_what_they_say(newcomer):
    killed(newcomer)
    printed = newcomer.shell(block("midstride doubts\n"))
    assert "I do not know whether the mail went out." in printed
    assert "send_email" in printed
    (newcomer.folder / "decide.py").write_text(block("runs.decide("))
    assert newcomer.shell("python decide.py") == "interrupted\n"
    newcomer.shell("python notes.py")
    told = [message["content"] for message in newcomer.model.requests[-1]["messages"] if message["role"] == "user"][-2:]
    assert told[0].endswith("a person reports that it took effect. It is in the Sent folder.")
    assert told[1] == "Thank you. Which decision has no owner yet?"


# ---- the commands of the top


def test_make_has_what_the_readme_tells_to_make():
    (first, *_) = [block.text for block in blocks_of(PAGE) if block.language == "sh"]
    assert first.splitlines() == ["make demo", "make test"]
    for line in first.splitlines():
        subprocess.run([*line.split(), "--dry-run"], cwd=ROOT, check=True, capture_output=True)


def test_no_block_of_the_readme_is_left_out():
    seen = ("make demo", "agent = Agent(", "with Run(", "midstride doubts\n", "runs.decide(")
    assert [sum(words in b.text for words in seen) for b in blocks_of(PAGE)] == [1] * len(seen)


# ---- tables and links


def test_the_list_of_commands_is_that_of_the_program():
    rows = table_under(PAGE, "## The command line")
    told = {code_in(usage)[0].split()[1]: does for usage, does in rows}
    real = typer.main.get_command(app).commands
    assert told == {name: command.help.partition("\n")[0] for name, command in real.items()}


def test_every_way_to_declare_a_tool_is_there():
    rows = table_under(PAGE, "## What a tool does to the world")
    told = [re.match(r"@tool\.?(\w*)", code_in(row[0])[0])[1] or "unsafe" for row in rows]
    assert sorted(told) == sorted(EFFECTS)


def test_every_link_of_the_readme_leads_somewhere():
    links = re.findall(r"\]\(([^)#]+)", (ROOT / PAGE).read_text())
    assert [link for link in links if "://" in link or not (ROOT / link).exists()] == []


# ---- the comparison's own rows


COMPARED = """
import json, os, signal
from midstride import Agent, Context, Happened, models, tool

def mailed():
    with open("mails.txt", "a") as file:
        print("mail", file=file, flush=True)
        os.fsync(file.fileno())
    os.kill(os.getpid(), signal.SIGKILL)

@tool
def unsafe_email(to: str) -> str:
    mailed()

@tool.verifiable(timeout=1)
def verifiable_email(to: str) -> str:
    mailed()

@verifiable_email.verify
def look() -> Happened:
    return Happened("Sent" if open("mails.txt").read() == "mail\\n" else "?")

model = models.Scripted([[(TOOL, {"to": "team@example.com"})], "done"])
Agent(model, tools=[unsafe_email, verifiable_email]).run("Mail the team", id="run")
print(json.dumps(model.requests[-1]["messages"][-1]["content"][0]))
"""


@pytest.mark.parametrize(
    ("name", "told"), [("unsafe_email", "Outcome unknown: unsafe_email("), ("verifiable_email", "Sent")]
)
def test_midstrides_rows_of_the_comparison_are_measured(name, told, tmp_path):
    def run():
        program = [sys.executable, "-c", COMPARED.replace("TOOL", repr(name))]
        return subprocess.run(program, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)

    assert run().returncode == -signal.SIGKILL
    assert json.loads(run().stdout)["content"].startswith(told)
    assert (tmp_path / "mails.txt").read_text() == "mail\n"
