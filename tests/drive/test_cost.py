"""What a run cost: recorded with each answer, counted over its whole life, and limited."""

import logging
from contextlib import closing

import pytest

from drive.scenes import Killed, agent_of
from midstride import Agent, Limits, Prices, Run, Runs, models, tool
from midstride.core.journal import Extended, Responded
from midstride.errors import DeclarationError
from midstride.models import Scripted
from midstride.stores import MemoryStore, SqliteStore

PRICES = Prices(input=10, output=100)
"""The script's n-th answer took n * 100 tokens and gave 10: 0.002, 0.003, 0.004, ..."""


@tool.read_only
def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


READS = [[("read", {"path": str(n)})] for n in range(9)]


@pytest.fixture
def store():
    return MemoryStore()


def costs(store):
    return [entry.body.cost for entry in store.read("run") if isinstance(entry.body, Responded)]


def test_each_answers_cost_is_recorded_with_it(drive, store):
    result = drive(agent_of([READS[0], "Done."], [read], store=store, prices=PRICES))
    assert costs(store) == [2_000_000, 3_000_000]
    assert (result.cost, result.unanswered) == (0.005, 0)


def test_without_prices_there_is_no_cost(drive, store):
    assert drive(agent_of(["Done."], store=store)).cost is None
    assert '"cost"' not in "".join(entry.text for entry in store.read("run"))


def test_later_prices_do_not_rewrite_what_was_paid(drive, store):
    drive(agent_of([READS[0], "Done."], [read], store=store, prices=PRICES, limits=Limits(turns=1)))
    result = drive(agent_of([READS[0], "Done."], [read], store=store, prices=Prices(1000, 1000)))
    assert (costs(store), result.cost) == ([2_000_000, 210_000_000], 0.212)


def test_a_limit_on_cost_caps_the_run_and_more_of_it_carries_it_on(drive, store):
    def capped(most):
        return drive(agent_of([*READS[:3], "Done."], [read], store=store, prices=PRICES, limits=Limits(cost=most)))

    first = capped(0.005)
    assert (first.status, first.cost) == ("capped", 0.005)
    assert first.why == "a cost of 0.005 was reached, the limit is 0.005"
    assert (capped(0.009).cost, capped(1).status) == (0.009, "done")
    assert [e.body.limits.cost for e in store.read("run") if isinstance(e.body, Extended)] == [0.009, 1]


def test_the_cost_of_all_processes_counts(drive, tmp_path):
    def dies(event):
        if isinstance(getattr(event, "body", None), Responded):
            raise Killed

    for answered in range(1, 4):
        with closing(SqliteStore(tmp_path / "runs.db")) as store:
            agent = agent_of(READS, [read], store=store, prices=PRICES, limits=Limits(cost=0.009))
            with pytest.raises(Killed):
                drive(agent, watch=dies)
            assert len(costs(store)) == answered
    with closing(SqliteStore(tmp_path / "runs.db")) as store:
        agent = agent_of(READS, [read], store=store, prices=PRICES, limits=Limits(cost=0.009))
        result = drive(agent)
        assert (result.status, result.cost, agent.model.requests) == ("capped", 0.009, [])


def test_what_a_lost_answer_cost_is_not_known_and_said_so(drive, store):
    def dies(event):
        if getattr(getattr(event, "body", None), "kind", "") == "requested":
            raise Killed

    with pytest.raises(Killed):
        drive(agent_of(["Done."], store=store, prices=PRICES), watch=dies)
    result = drive(agent_of(["Done."], store=store, prices=PRICES))
    assert (result.turns, result.unanswered, result.cost) == (2, 1, 0.002)


def test_what_a_cache_had_a_part_in_has_its_own_price(drive, store):
    usage = {
        "input_tokens": 10,
        "output_tokens": 1,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 200,
    }
    answer = {"role": "assistant", "content": [], "stop_reason": "end_turn", "usage": usage}
    result = drive(agent_of([answer], store=store, prices=Prices(10, 100, cache_read=1, cache_write=20)))
    assert (result.cost, result.cache_read, result.cache_write, result.tokens_total) == (0.0052, 1000, 200, 1211)


# ---- prices by model


def test_prices_by_name_are_those_of_the_model_that_answered(drive, store):
    answer = {
        "role": "assistant",
        "content": [],
        "stop_reason": "end_turn",
        "model": "small",
        "usage": {"input_tokens": 1},
    }
    prices = {"scripted": PRICES, "small": Prices(1, 1)}
    assert drive(agent_of([answer], store=store, prices=prices)).cost == 0.000001


def test_an_answer_of_a_model_without_a_price_is_recorded_and_said(drive, store, caplog):
    with caplog.at_level(logging.WARNING, "midstride"):
        result = drive(agent_of(["Done."], store=store, prices={"other": PRICES}))
    assert (result.status, result.cost, costs(store)) == ("done", None, [None])
    assert "an answer of 'scripted' has no price" in caplog.text


def test_a_loop_of_ones_own_is_priced_by_the_name_that_the_answer_bears(store):
    model = Scripted([READS[0], "Done."])
    with Run(store, "run", "go", tools=[read], prices={"scripted": PRICES}, limits=Limits(cost=1)) as run:
        for turn in run:
            turn.respond(model.ask(turn.request, lambda event: None))
    assert run.result.cost == 0.005


# ---- what does not fit together


@pytest.mark.parametrize("prices", [None, {"other": PRICES}])
def test_a_limit_on_cost_without_its_prices_is_refused_where_it_is_declared(prices):
    with pytest.raises(DeclarationError, match="a limit on cost"):
        Agent(models.Scripted([]), limits=Limits(cost=1), prices=prices)


def test_a_loop_of_ones_own_is_refused_too(store):
    with pytest.raises(DeclarationError, match="needs prices"):
        Run(store, "run", "go", limits=Limits(cost=1))
    assert store.runs() == []


def test_a_limit_on_cost_that_a_person_set_needs_the_programs_prices(drive, store):
    script = [READS[0], READS[1], "Done."]
    drive(agent_of(script, [read], store=store, limits=Limits(turns=1)))
    Runs(store).extend("run", turns=9, cost=0.001)
    before = len(store.read("run"))
    with pytest.raises(DeclarationError, match=r"a limit on cost \(0.001\) needs prices"):
        drive(agent_of(script, [read], store=store, limits=Limits(turns=1)))
    assert len(store.read("run")) == before
    result = drive(agent_of(script, [read], store=store, limits=Limits(turns=1), prices=PRICES))
    assert (result.status, result.cost, result.turns) == ("capped", 0.003, 2)
