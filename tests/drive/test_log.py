"""The log: one line an entry, with what an operator looks for."""

import logging
import re

import pytest

from drive.scenes import Killed, agent_of, killed_at_start_of
from midstride import Runs, tool
from midstride.core.steps import Refused
from midstride.stores import MemoryStore


@tool
def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def lines(caplog):
    """The lines of the log so far, with their levels."""
    caplog.set_level(logging.DEBUG, logger="midstride")

    def told():
        records = [record for record in caplog.records if record.name == "midstride"]
        return [(r.levelname, re.sub(r"pid=\d+ host=\S+", "pid=. host=.", r.getMessage())) for r in records]

    return told


def test_a_run_is_told_line_by_line(drive, store, lines):
    drive(agent_of([[("send", {"to": "ann"})], "Done."], [send], store=store))
    assert lines() == [
        ("INFO", "run 1 started api=anthropic tools=1"),
        ("INFO", "run 2 taken token=1 pid=. host=. clean=yes"),
        ("DEBUG", "run 3 requested turn=1 model=scripted"),
        ("DEBUG", "run 4 responded turn=1 stop=calls calls=1 tokens=110"),
        ("DEBUG", "run 5 intended turn=1 index=0 tool=send"),
        ("DEBUG", "run 6 settled turn=1 index=0 tool=send outcome=ok"),
        ("DEBUG", "run 7 requested turn=2 model=scripted"),
        ("DEBUG", "run 8 responded turn=2 stop=final calls=0 tokens=210"),
        ("INFO", "run done turns=2 tokens=320"),
    ]


def test_a_death_and_what_nobody_knows_stand_out(drive, store, lines):
    agent = agent_of([[("send", {"to": "ann"})], "Done."], [send], store=store)
    with pytest.raises(Killed):
        drive(agent, watch=killed_at_start_of("send"))
    drive(agent)
    told = [line for line in lines() if line[0] != "DEBUG"]
    assert told[2:] == [
        ("INFO", "run interrupted turns=1 tokens=110 error=Killed"),
        ("INFO", "run 6 taken token=2 pid=. host=. clean=no"),
        ("WARNING", "run 7 settled turn=1 index=0 tool=send outcome=unknown"),
        ("INFO", "run done turns=2 tokens=320"),
    ]


def test_what_people_said_meanwhile_is_told_with_who(drive, store, lines):
    @tool(approval=True)
    def pay(cents: int) -> str:
        """Pay."""
        return "paid"

    agent = agent_of([[("pay", {"cents": 1})], "Done."], [pay], store=store)
    drive(agent)
    Runs(store).decide("run", "toolu_1_0", "allow", by="ann of accounts")
    Runs(store).extend("run", turns=9, by="bob")
    drive(agent)
    said = [text for _, text in lines() if "decided" in text or "extended" in text or "asked" in text]
    assert said == [
        "run 5 asked turn=1 index=0 tool=pay why=approval",
        'run 6 decided turn=1 index=0 tool=pay verdict=allow by="ann of accounts"',
        "run 7 extended by=bob turns=9",
    ]


def test_a_refusal_is_a_warning_without_its_text(drive, store, lines):
    drive(agent_of(lambda *_: Refused("HTTP 400, your prompt was: x"), store=store))
    assert ("WARNING", "run 4 failed") in lines()
    assert lines()[-1] == ("INFO", "run failed turns=1 tokens=0")


def test_a_record_has_its_facts_as_fields(drive, store, caplog):
    caplog.set_level(logging.DEBUG, logger="midstride")
    drive(agent_of([[("send", {"to": "ann"})], "Done."], [send], store=store))
    (record,) = [r for r in caplog.records if getattr(r, "kind", "") == "settled"]
    assert (record.run, record.seq) == ("run", 6)
    assert record.facts == {"turn": 1, "index": 0, "tool": "send", "outcome": "ok"}


def test_a_run_that_rests_and_one_that_is_refused_say_nothing(drive, store, lines):
    agent = agent_of(["Done."], store=store)
    drive(agent)
    before = lines()
    drive(agent)
    assert lines() == before
