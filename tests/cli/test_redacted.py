"""No command prints a secret that a run holds, in any of its texts; and whoever asks for it by name sees it all."""

import json
import signal
import sys

import pytest

from cli.using import Terminal, plain
from midstride.cli import story
from midstride.testing import Answer, FakeModel
from midstride.testing.fake_model import Hold

KEY = "sk-ant-api03-" + "Q7x9Kd2Lm4Pz8" * 3
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + "Q7x9Kd2Lm4Pz8" * 3
SECRETS = (KEY, JWT, "hunter2", "sw0rdfish", KEY[-8:], JWT[-8:])

PROGRAM = f"""
import os, signal
from pathlib import Path

from midstride import Agent, models, redact, tool
from midstride.core.steps import Lost, Refused
from midstride.errors import AccessRefused

redact("ticket", r"TICKET-\\d+")
KEY, JWT = {KEY!r}, {JWT!r}

@tool.read_only
def fetch(url: str, headers: dict, password: str) -> str:
    \"\"\"Fetch.\"\"\"
    return f"fetched {{url}} {{KEY}}\\n" + '{{"access_token": "sw0rdfish", "user": "ann"}}'

@tool.read_only
def fail(config: str) -> str:
    \"\"\"Fail.\"\"\"
    raise RuntimeError(f"no access with {{JWT}} and " + config)

@tool(in_doubt="ask")
def send(to: str, api_key: str) -> str:
    \"\"\"Send, and die.\"\"\"
    if Path("die").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return "sent"

class Unfit(models.Scripted):
    def ask(self, request, draft, handle=None):
        raise self.script[0]

CALLS = [
    (
        "fetch",
        {{"url": "https://ann:hunter2@e.com/", "headers": {{"Authorization": "Bearer " + JWT}}, "password": "hunter2"}},
    ),
    ("fail", {{"config": '{{"password": "hunter2"}}'}}),
]
SENDS = [("send", {{"to": "password=hunter2", "api_key": KEY}})]
leaky = Agent(models.Scripted([CALLS, SENDS, f"The key is {{KEY}}, the TICKET-77 too."]), tools=[fetch, fail, send])
refused = Agent(models.Scripted(lambda request, number: Refused(f"HTTP 400, your key {{KEY}} is wrong")))
lost = Agent(models.Scripted([Lost(f"no line to https://ann:hunter2@example.com/ ({{JWT}})", wait=700.0)]))
denied = Agent(Unfit([AccessRefused(f"Incorrect API key provided: {{KEY}}")]))
broken = Agent(Unfit([LookupError(f"no {{KEY}} here")]))
claude = Agent(models.Anthropic("claude-opus-5"))
"""

TASK = f"Log in with password: hunter2 and {KEY}"
RUN = ("--task", TASK, "--id", "r")


@pytest.fixture
def leaky(user):
    """Somebody whose run `r` has secrets in its task, calls, results, errors, and was killed in a call."""
    (user.folder / "leaky.py").write_text(PROGRAM)
    (user.folder / "die").touch()
    ended = user.do_forked("run", "leaky.py:leaky", *RUN)
    assert ended.code == -signal.SIGKILL
    assert_clean(ended)
    (user.folder / "die").unlink()
    return user


def assert_clean(ended, *, redacted=False):
    printed = ended.out + ended.err
    assert [secret for secret in SECRETS if secret in printed] == [], printed
    assert not redacted or "[redacted: " in printed


LOOKS = [("show", "r"), ("show", "r", "--turn", "1"), ("show", "r", "--call", "toolu_1_0"), ("log", "r"), ("runs",),
         ("doubts",), ("plan", "r")]  # fmt: skip


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_no_command_that_looks_prints_a_secret(leaky, words):
    for more in ((), ("--json",)):
        ended = leaky.do_forked(*words, *more)
        assert ended.code == 0
        assert_clean(ended, redacted=True)


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_whoever_asks_for_it_by_name_sees_everything(leaky, words):
    for more in ((), ("--json",)):
        ended = leaky.do_forked(*words, *more, "--unredacted")
        assert ended.code == 0
        assert "[redacted: " not in ended.out
        assert "hunter2" in ended.out or KEY in ended.out


def test_only_the_texts_differ_and_no_fact_that_a_program_goes_by(leaky):
    for words in LOOKS:
        whole, shown = (leaky.do_forked(*words, "--json", *more).out for more in (("--unredacted",), ()))
        if words[0] == "log":
            whole, shown = (f"[{','.join(text.splitlines())}]" for text in (whole, shown))
        same(json.loads(whole), json.loads(shown), words[0] == "log")


def same(whole, shown, in_log):
    """Hold the facts against each other: the same form, and the same but for texts."""
    assert type(whole) is type(shown)
    if isinstance(whole, dict):
        assert list(whole) == list(shown)
        for name in whole:
            if name in story.WHOLE and not in_log:
                assert whole[name] == shown[name]
            elif name not in ("arguments", "input", "result", "password", "api_key", "headers", "Authorization"):
                same(whole[name], shown[name], in_log)
    elif isinstance(whole, list):
        assert len(whole) == len(shown)
        for one, other in zip(whole, shown, strict=True):
            same(one, other, in_log)
    elif not isinstance(whole, str) or "[redacted: " not in shown:
        assert whole == shown


def test_nothing_that_drives_or_speaks_to_a_run_prints_a_secret(leaky):
    assert leaky.do_forked("resume", "r").code == 3
    for words in (
        ("resume", "r"),
        ("resume", "r", "--json", "-v"),
        ("say", "r", f"use {JWT}"),
        ("say", "r", f"use {JWT}", "--json"),
        ("doubts", "r", "--json"),
        ("decide", "r", "toolu_2_0", "--happened", f"with {KEY}", "--json"),
        ("resume", "r"),
        ("resume", "r", "--json"),
        ("runs", "--json"),
        ("show", "r", "--json"),
        ("log", "r"),
        ("run", "leaky.py:leaky", "--task", f"other, with {KEY}", "--id", "r"),
    ):
        assert_clean(leaky.do_forked(*words), redacted=True)


def test_an_answer_is_redacted_and_says_how_it_is_seen(leaky):
    leaky.do_forked("resume", "r")
    leaky.do_forked("decide", "r", "toolu_2_0", "--rerun")
    ended = leaky.do_forked("resume", "r")
    assert ended.out == "The key is [redacted: anthropic key], the [redacted: ticket] too.\n"
    assert ended.err.splitlines()[-1] == (
        "  its answer holds what looks like a secret, and that is not shown; all of it: midstride show r --unredacted"
    )
    assert json.loads(leaky.do_forked("show", "r", "--json", "--unredacted").out)["answer"] == (
        f"The key is {KEY}, the TICKET-77 too."
    )


@pytest.mark.parametrize("agent", ["refused", "lost", "denied", "broken"])
def test_no_reason_and_no_error_prints_a_secret(leaky, agent):
    for words in (
        ("run", f"leaky.py:{agent}", "--task", "t", "--id", agent),
        ("resume", agent, "--traceback"),
        ("resume", "--all"),
        ("resume", "--all", "--json"),
        ("runs",),
        ("runs", "--json"),
        ("show", agent),
        ("log", agent, "--json"),
    ):
        assert_clean(leaky.do_forked(*words))
    assert "[redacted: " in leaky.do_forked("run", f"leaky.py:{agent}", "--task", "t", "--id", f"{agent}2").err


def test_the_live_line_of_a_terminal_holds_no_secret(leaky):
    terminal = Terminal(leaky, "resume", "r", "leaky.py:leaky", columns=300)
    assert terminal.end() == 3
    assert "api_key" in plain(terminal.seen)
    assert [secret for secret in SECRETS if secret in plain(terminal.seen)] == []


def test_a_draft_shows_no_secret_not_even_half_of_one(leaky, tmp_path):
    rest, token = tmp_path / "rest", "hf_" + "Q7x9Kd2Lm4Pz8" * 3  # of which half is none yet
    answer = Answer(f"The first words, then {token} and the last.")
    with FakeModel([Hold(rest, answer, after_events=5)]) as model:
        environment = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none"}
        words = ("run", "leaky.py:claude", "--task", "t", "--id", "draft")
        terminal = Terminal(leaky, *words, columns=200, **environment)
        terminal.sees("The first words, then")
        rest.touch()
        assert terminal.end() == 0
    seen = plain(terminal.seen)
    assert "The first words, then [redacted: access token] and the last." in seen
    assert "hf_" not in seen


def test_ids_stay_whole_whatever_they_look_like(leaky):
    odd = f"password={KEY}"
    leaky.do_forked("run", "leaky.py:refused", "--task", "t", "--id", odd)
    for words in (("runs",), ("show", odd), ("log", odd), ("plan", odd)):
        shown = leaky.do_forked(*words, "--json").out
        assert words[0] == "log" or json.loads(shown)
        assert words[0] == "log" or odd in shown
    assert f"midstride resume {odd} --force" in leaky.do_forked("resume", odd).err
    assert odd in leaky.do_forked("runs").out
    assert leaky.do_forked("show", odd).out.startswith(odd)


def test_an_export_and_what_the_model_gets_stay_whole(leaky):
    for form in ("journal", "checkpoint", "messages"):
        text = leaky.do_forked("export", "r", "--as", form).out
        assert KEY in text
        assert "[redacted" not in text
    assert "nothing is redacted" in " ".join(leaky.do_forked("export", "--help").out.split())
    assert KEY in "".join(leaky.journals()["r"])


# ---- patterns of the user's own, without Python


def test_the_file_in_the_environment_counts_for_every_command(leaky):
    (leaky.folder / "mine.txt").write_text('# ours\n\nfirst name = \\bann\\b\nuser=(?<=user": ")(?P<secret>\\w+)\n')
    leaky.environment["MIDSTRIDE_REDACT"] = "mine.txt"
    shown = leaky.do_forked("show", "r").out
    assert '"user": "[redacted: first name]"' in shown
    assert_clean(leaky.do_forked("log", "r"), redacted=True)
    assert '"user": "ann"' in leaky.do_forked("show", "r", "--unredacted").out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = b\nticket TCK", "mine.txt, line 2: there is no `=` in it: wanted `name = regular expression`"),
        ("ticket = (", "mine.txt, line 1: the pattern 'ticket' is no regular expression for texts: missing ), "
         "unterminated subpattern at position 0"),
        ("\n\nticket = x*", "mine.txt, line 3: the pattern 'ticket' matches an empty text, so it would match "
         "everywhere"),
        (" = x", "mine.txt, line 1: '' is no name for a pattern: wanted a few letters, such as `ticket`"),
        (None, "MIDSTRIDE_REDACT names mine.txt, which cannot be read (No such file or directory): give a file with "
         "`name = regular expression` on each line"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_in_a_sentence_that_names_the_line(user, text, said):
    if text is not None:
        (user.folder / "mine.txt").write_text(text)
    user.environment["MIDSTRIDE_REDACT"] = "mine.txt"
    for words in (("runs",), ("run", "agents.py:hello", "--task", "t")):
        ended = user.do_forked(*words)
        assert (ended.code, ended.out, ended.err) == (2, "", f"midstride: {said}\n")
    program = "import midstride; midstride.Runs('memory:')"
    failed = user.shell(f'{sys.executable} -c "{program}"')
    assert failed.err.rstrip().endswith(f"DeclarationError: {said}")
