"""A run of many turns at the command line: the newest are shown, every one can be asked for, and no part is lost."""

import json

import pytest

from cli.using import STORE
from midstride import Agent, Limits, Runs, models, tool
from midstride.cli.commands_looking import TURNS
from midstride.stores import SqliteStore
from midstride.tools.text import TEXT_MAX

MORE = 7
MANY = TURNS + MORE
LONG = "".join(f"line {number}\n" for number in range(TEXT_MAX // 4))


@tool.read_only
def look(page: int) -> str:
    """Look at a page; the fourth is long."""
    return LONG if page == 4 else f"page {page}"


@pytest.fixture
def reader(user):
    """Somebody whose run `long` has read many pages, was spoken to, and has answered."""
    (user.folder / STORE).parent.mkdir()
    store = SqliteStore(user.folder / STORE)
    calls = [[("look", {"page": number})] for number in range(1, MANY)]
    agent = Agent(models.Scripted([*calls, "Read.", "Thanks."]), [look], store=store, limits=Limits(turns=MANY + 9))
    agent.run("Read all pages.", "long")
    Runs(store).say("long", "Well done.", by="ann")
    agent.run("Read all pages.", "long")
    store.close()
    return user


def test_the_newest_turns_are_shown_and_the_others_when_asked_for(reader):
    ended = reader.do_forked("show", "long")
    shown = ended.out
    assert ended.err == f"  {MORE + 1} older turns are left out: --all, or --turn N\n"
    assert [f"\nturn {number}  " in shown for number in (MORE + 1, MORE + 2, MANY + 1)] == [False, True, True]
    assert "Well done." in shown
    everything = reader.do_forked("show", "long", "--all")
    assert all(f"\nturn {number}  " in everything.out for number in range(1, MANY + 2))
    assert everything.err == ""


def test_json_has_every_turn(reader):
    facts = json.loads(reader.do_forked("show", "long", "--json").out)
    assert [turn["turn"] for turn in facts["turns_made"]] == list(range(1, MANY + 2))
    assert facts["turns_made"][2]["calls"][0]["result"] == "page 3"
    assert [said["turn"] for said in facts["said"]] == [MANY]


def test_an_old_turn_and_an_old_call_are_found(reader):
    assert "page 3" in reader.do_forked("show", "long", "--turn", "3").out
    assert "page 3" in reader.do_forked("show", "long", "--call", "toolu_3_0").out
    facts = json.loads(reader.do_forked("show", "long", "--turn", "3", "--json").out)
    assert (facts["turn"], facts["calls"][0]["result"]) == (3, "page 3")
    missing = reader.do_forked("show", "long", "--turn", "300")
    assert (missing.code, missing.out) == (2, "")
    assert f"the run has no turn 300; it has 1, 2, 3, and so on to {MANY + 1} ({MANY + 1} in all)" in missing.err


def test_the_whole_of_a_result_is_there_where_the_model_was_shown_a_part(reader):
    part = json.loads(reader.do_forked("show", "long", "--call", "toolu_4_0", "--json").out)[0]["result"]
    assert len(part) < 2 * TEXT_MAX < len(LONG)
    whole = reader.do_forked("show", "long", "--call", "toolu_4_0", "--whole")
    assert (whole.code, whole.out) == (0, LONG)
    assert reader.do_forked("show", "long", "--call", "toolu_3_0", "--whole").out == "page 3"
    assert reader.do_forked("show", "long", "--whole").code == 2
