"""`context.run`: what a command gives, and that nothing of it outlives its call or this process."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from datetime import timedelta

import pytest

from midstride import Context
from midstride.errors import DeclarationError
from midstride.tools import CallEnded, CommandFailed
from midstride.tools.command import Command, Leash
from midstride.tools.group import OUTPUT_MAX, Group, Guard
from patience import SECONDS
from standing import Standing

CONTEXT = Context("key", "run", "call", 1, 0)


def sh(line, **more):
    """Run a line of shell, blocking and not, and return what both gave alike."""
    one, other = (way(["/bin/sh", "-c", line], **more) for way in WAYS)
    assert one == other
    return one


def in_a_loop(argv, **more):
    return asyncio.run(CONTEXT.run_async(argv, **more))


WAYS = (CONTEXT.run, in_a_loop)
both = pytest.mark.parametrize("run", WAYS, ids=["blocking", "async"])


class Fifo:
    """A FIFO that a command holds open: it ends when nothing of the command is left."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def has_begun(self):
        """Tell whether the command has written a line that nobody has read."""
        return bool(select.select([self.reader], [], [], 0)[0])

    def begun(self):
        """Wait until the command has written a line."""
        assert select.select([self.reader], [], [], SECONDS)[0]
        return os.read(self.reader, 100)

    def ended(self):
        """Wait for its end."""
        return bool(select.select([self.reader], [], [], SECONDS)[0]) and os.read(self.reader, 100) == b""


@pytest.fixture
def fifo(tmp_path):
    made = Fifo(tmp_path / "fifo")
    yield made
    os.close(made.reader)


def lasting(fifo):
    """Return a command that lasts, and has a child that does not end by being asked to; both hold the FIFO."""
    return ["/bin/sh", "-c", f"exec 9> {fifo.path}; (trap '' TERM INT HUP; sleep 600) & echo begun >&9; sleep 600"]


# ---- what it gives


def test_it_gives_the_code_and_what_was_written():
    done = sh("echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_a_signal_is_told_by_its_number():
    assert sh("kill -TERM $$").returncode == -signal.SIGTERM


def test_errors_can_go_where_the_output_goes():
    assert sh("echo out; echo err >&2; echo out", merge_stderr=True).stdout == "out\nerr\nout\n"


def test_what_is_no_text_is_there_as_bytes():
    done = sh("printf 'a\\377b'")
    assert (done.out, done.stdout) == (b"a\xffb", "a\ufffdb")


@pytest.mark.parametrize("given", ["é\n" * 100_000, "é\n".encode() * 100_000], ids=["text", "bytes"])
def test_it_reads_what_it_is_given_while_it_writes(given):
    assert sh("cat; echo end >&2", input=given).stdout == "é\n" * 100_000


def test_it_need_not_read_what_it_is_given():
    assert sh("exec <&-; exit 4", input="x" * 1_000_000).returncode == 4


def test_without_input_it_reads_nothing_and_is_not_even_a_pipe():
    assert sh("test -p /dev/stdin; echo $?; cat").stdout == "1\n"


def test_folder_and_environment_are_as_they_are_given(tmp_path):
    done = sh('pwd; echo "$WHAT"; echo "${HOME-none}"', cwd=tmp_path, env={"WHAT": "this"})
    assert done.stdout == f"{tmp_path}\nthis\nnone\n"


def test_a_variable_that_no_shell_could_name_arrives_too():
    odd = {"Logging:Level": "low", "a.b": "1 2", "PATH": os.environ["PATH"]}
    lines = CONTEXT.run(["env"], env=odd).stdout.splitlines()
    assert {"Logging:Level=low", "a.b=1 2"} <= set(lines)


def test_words_are_words_and_no_line_of_shell():
    assert CONTEXT.run(["printf", "%s.", "a b", "$HOME", "*", ""]).stdout == "a b.$HOME.*.."


def test_it_has_a_session_of_its_own():
    program = "import os; print(os.getsid(0) == os.getpid() == os.getpgid(0))"
    assert CONTEXT.run([sys.executable, "-c", program]).stdout == "True\n"


def test_of_a_long_output_the_beginning_and_the_end_are_kept():
    done = CONTEXT.run(["/bin/sh", "-c", f"echo first; yes | head -c {3 * OUTPUT_MAX}; echo last"])
    assert (len(done.out), done.left_out) == (OUTPUT_MAX, (2 * OUTPUT_MAX + 11, 0))
    assert (done.stdout[:6], done.stdout[-5:]) == ("first\n", "last\n")
    assert f"\n[{2 * OUTPUT_MAX + 11:,} bytes were left out]\n" in done.stdout


# ---- what it raises


@both
@pytest.mark.parametrize(
    ("program", "error"),
    [("no-such-program", FileNotFoundError), ("./none", FileNotFoundError), ("./plain", PermissionError)],
)
def test_a_program_that_cannot_be_run_is_said_so(run, program, error, tmp_path):
    (tmp_path / "plain").write_text("text")
    with pytest.raises(error, match=f"there is no program '{program}' that can be run"):
        run([program], cwd=tmp_path)


def test_a_program_is_found_in_its_folder_and_by_the_path_of_its_environment(tmp_path):
    (tmp_path / "mine").write_text("#!/bin/sh\necho here\n")
    (tmp_path / "mine").chmod(0o755)
    assert CONTEXT.run(["./mine"], cwd=tmp_path).stdout == "here\n"
    assert CONTEXT.run(["mine"], env={"PATH": str(tmp_path)}).stdout == "here\n"


@both
def test_a_folder_that_is_not_there_is_said_so(run, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        run(["true"], cwd=tmp_path / "nowhere")


@both
@pytest.mark.parametrize("argv", ["ls -l", b"ls", []])
def test_a_line_of_shell_is_refused(run, argv):
    with pytest.raises(DeclarationError, match="a command is a list of words"):
        run(argv)


@both
def test_a_code_is_an_exception_for_who_asks(run):
    with pytest.raises(CommandFailed, match=r"returned non-zero exit status 3\. It wrote: no paper") as failed:
        run(["/bin/sh", "-c", "echo out; echo no paper >&2; exit 3"], check=True)
    assert (failed.value.returncode, failed.value.output, failed.value.stderr) == (3, "out\n", "no paper\n")
    assert run(["true"], check=True).returncode == 0


@both
@pytest.mark.parametrize("line", ["sleep 600", "exec yes >&2", "exec >&- 2>&-; sleep 600"])
def test_its_time_ends_it_whatever_it_does(run, line, tmp_path, monkeypatch):
    begun = tmp_path / "begun"
    monkeypatch.setattr("midstride.tools.group.time", Standing(begun.exists))
    with pytest.raises(subprocess.TimeoutExpired) as late:
        run(["/bin/sh", "-c", f"echo so far; : > {begun}; {line}"], timeout=0.3)
    assert (late.value.output, late.value.timeout) == ("so far\n", 0.3)


@both
def test_its_time_is_seconds_or_a_timedelta(run):
    with pytest.raises(subprocess.TimeoutExpired) as late:
        run(["sleep", "600"], timeout=timedelta(seconds=0.3))
    assert late.value.timeout == 0.3
    for wrong in ("3", True, float("nan"), float("inf")):
        with pytest.raises(DeclarationError, match="wanted seconds or a timedelta, and finite"):
            run(["true"], timeout=wrong)
    for over in (0, -1):  # what is left of a time that is over
        with pytest.raises(subprocess.TimeoutExpired):
            run(["sleep", "600"], timeout=over)


def test_to_block_an_event_loop_is_refused():
    async def go():
        CONTEXT.run(["true"])

    with pytest.raises(DeclarationError, match=r"await context.run_async"):
        asyncio.run(go())


# ---- its end


@both
def test_its_time_ends_all_of_its_group(run, fifo, monkeypatch):
    monkeypatch.setattr("midstride.tools.group.time", Standing(fifo.has_begun))
    with pytest.raises(subprocess.TimeoutExpired):
        run(lasting(fifo), timeout=0.3)
    assert fifo.begun() == b"begun\n"
    assert fifo.ended()


@both
def test_what_it_leaves_in_the_background_ends_with_it(run, fifo):
    done = run(["/bin/sh", "-c", f"exec 9> {fifo.path}; sleep 600 & echo begun >&9; echo done"])
    assert (done.stdout, fifo.begun()) == ("done\n", b"begun\n")
    assert fifo.ended()


def test_what_has_a_session_of_its_own_is_not_waited_for(tmp_path):
    daemon = "import os; os.setsid(); os.execvp('sh', ['sh', '-c', 'echo $$ > made; mv made pid; exec sleep 600'])"
    waits = f'{sys.executable} -c "$0" & while [ ! -f pid ]; do :; done; echo done'
    assert CONTEXT.run(["/bin/sh", "-c", waits, daemon], cwd=tmp_path, timeout=30).stdout == "done\n"
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)  # it lives: nobody promises its end


def test_a_leash_that_is_cut_ends_its_commands_and_no_other_begins(fifo):
    leash, raised = Leash(), []

    def work():
        try:
            Command(lasting(fifo)).run(leash)
        except CallEnded as error:
            raised.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    assert fifo.begun() == b"begun\n"
    assert leash.cut()
    thread.join()
    assert (raised, fifo.ended()) == (["the command was ended, since its call is over"], True)
    assert not leash.cut()
    with pytest.raises(CallEnded):
        Command(["touch", f"{fifo.path}.new"]).run(leash)
    assert not os.path.exists(f"{fifo.path}.new")


def test_a_command_that_was_ended_before_it_began_does_not_begin(tmp_path):
    command = Command(["touch", tmp_path / "new"])
    command.end()
    with pytest.raises(CallEnded):
        command.run()
    assert list(tmp_path.iterdir()) == []


def test_a_command_ends_with_the_task_that_waits_for_it(fifo):
    async def go():
        task = asyncio.create_task(CONTEXT.run_async(lasting(fifo)))
        assert await asyncio.to_thread(fifo.begun) == b"begun\n"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert fifo.ended()


def test_nothing_is_left_open_behind_many_commands():
    """In a process of its own, in which nothing else opens or closes anything."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", MANY], capture_output=True, text=True)
    assert (done.stderr, done.stdout, done.returncode) == ("", "True\n", 0)


MANY = """
import contextlib, os, threading
from pathlib import Path
from midstride import Context

def children():
    found = []
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found += task.read_text().split()
    return found

def what_is_open():
    return len(os.listdir("/dev/fd")), threading.enumerate(), children()

context, before = Context("key", "run", "call", 1, 0), what_is_open()
for _ in range(5):
    context.run(["true"], input="x")
    try:
        context.run(["true"], cwd="/nowhere")
    except FileNotFoundError:
        continue
    raise AssertionError("it ran nowhere")
assert before == what_is_open(), (before, what_is_open())  # no guard or command is left unreaped, and no thread
print(before[2] == [])
"""


# ---- the end of this process


def forked(work):
    """Start *work* in a process of its own, and return its pid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(70)


def killed(pid):
    """Kill the process, and wait for it."""
    os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def in_a_thread(fifo):
    thread = threading.Thread(target=CONTEXT.run, args=(lasting(fifo),))
    thread.start()
    thread.join()


@pytest.mark.parametrize("way", [*WAYS, in_a_thread], ids=["blocking", "async", "in a thread"])
def test_a_command_dies_with_a_process_that_is_killed(way, fifo):
    pid = forked((lambda: way(fifo)) if way is in_a_thread else (lambda: way(lasting(fifo))))
    assert fifo.begun() == b"begun\n"
    killed(pid)
    assert fifo.ended()


def test_a_child_that_was_forked_meanwhile_keeps_no_command_alive(fifo, tmp_path):
    lives, told = os.pipe()

    def program():
        thread = threading.Thread(target=CONTEXT.run, args=(lasting(fifo),))
        thread.start()
        assert os.read(lives, 1) == b"!"  # the command has begun
        if os.fork() == 0:
            os.write(os.open(tmp_path / "pid", os.O_WRONLY | os.O_CREAT), b"%d" % os.getpid())
            (tmp_path / "pid").rename(tmp_path / "child")
            signal.pause()
        os.read(lives, 1)

    pid = forked(program)
    assert fifo.begun() == b"begun\n"
    os.write(told, b"!")
    while not (tmp_path / "child").exists():
        os.sched_yield()
    killed(pid)
    try:
        assert fifo.ended()
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
        os.close(lives)
        os.close(told)


@pytest.mark.parametrize("moment", ["the guard", "the gate", "the watch"])
def test_a_process_that_dies_before_its_command_begins_leaves_nothing(moment, fifo, tmp_path, monkeypatch):
    """Everything that is started holds the FIFO here, so its end tells that guard and gate are gone too."""
    real = subprocess.Popen

    def holding(*args, **more):
        return real(*args, **more, pass_fds=(writer,))

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def program():
        monkeypatch.setattr(subprocess, "Popen", holding)
        if moment == "the guard":
            monkeypatch.setattr(Command, "_gated", die)
        elif moment == "the gate":
            monkeypatch.setattr(Guard, "watch", die)
        else:
            monkeypatch.setattr(Group, "talk", die)
        CONTEXT.run(["touch", tmp_path / "touched"])

    writer = os.open(fifo.path, os.O_WRONLY)
    pid = forked(program)
    os.close(writer)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert fifo.ended()
    assert not (tmp_path / "touched").exists()
