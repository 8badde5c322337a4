"""Starts the program in forked processes: its imports take 1.5 s, a fork of what has imported them some milliseconds.

Nothing of midstride is open here, and no thread runs, so a fork is as good as a new process. A line in, a line out:

    start CONFIG.json   the pid
    wait PID            its exit code, or minus the signal that ended it
    dead PID            waits until it is dead, and leaves the body unburied
    stopped PID         waits until a signal has stopped it
"""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
import traceback

import anthropic
import program

from midstride.testing import Answer, FakeModel, calls

HANGS_SECONDS = 240
"""A process that takes longer hangs: it prints where, and ends with 1. Less than what a test waits for."""


def start(path: str) -> int:
    """Run the program with *path* in a child, its words in a file beside the configuration; return the pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        words = os.open(path.removesuffix(".json") + ".output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(words, 1)
        os.dup2(words, 2)
        faulthandler.dump_traceback_later(HANGS_SECONDS, exit=True)
        code = program.main(path)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(pid: str) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(int(pid), 0)[1])


def dead(pid: str) -> int:
    os.waitid(os.P_PID, int(pid), os.WEXITED | os.WNOWAIT)
    return 0


def stopped(pid: str) -> int:
    os.waitid(os.P_PID, int(pid), os.WSTOPPED)
    return 0


ORDERS = {"start": start, "wait": wait, "dead": dead, "stopped": stopped}


def warm_up() -> None:
    """Do what is slow at the first time only: the tools' schemas, the clients, the SDK's types of an answer."""
    tools = ["look", "charge", "book", "post", "send", "pay", "wipe"]
    config = program.Config("warm-up", "", "http://127.0.0.1", "", "", "", tools)
    program.agent_of(config, None, program.Moments(config))
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    for answer in (Answer("warm"), calls(("send", {"n": 1}), text="warm")):
        with FakeModel([answer]) as server, anthropic.Anthropic(api_key="k", base_url=server.url) as client:
            with client.messages.stream(**asked) as stream:
                stream.get_final_message().to_dict(mode="json")


def serve() -> None:
    """Follow orders until they end."""
    warm_up()
    gc.freeze()
    for line in sys.stdin:
        order, _, argument = line.strip().partition(" ")
        print(ORDERS[order](argument), flush=True)


if __name__ == "__main__":
    serve()
