"""The metrics of a run: how long its parts took, and how many tokens."""

import pytest

from drive.scenes import agent_of, says
from midstride import tool
from midstride.core.steps import Lost
from midstride.stores import MemoryStore

USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 300, "cache_creation_input_tokens": 20}


@tool.read_only
def read(name: str) -> str:
    """Read."""
    return name


@tool.read_only
def fail(name: str) -> str:
    """Fail."""
    raise KeyError(name)


@pytest.fixture
def points(drive, seen):
    answers = iter(
        [
            Lost("HTTP 529", type="529"),
            [("read", {"name": "x"}), ("fail", {"name": "x"})],
            {**says("."), "usage": USAGE},
        ]
    )
    store = MemoryStore()
    drive(agent_of(lambda *_: next(answers), [read, fail], store=store, telemetry=seen.telemetry))
    return seen.points()


def test_tokens_are_counted_and_cached_ones_are_input(points):
    def total(kind):
        return sum(point.value for point in points[f"gen_ai.client.inference.usage.{kind}"])

    assert total("input_tokens") == 100 + 330  # the first answer is the script's own
    assert total("output_tokens") == 10 + 5
    assert total("cache_read.input_tokens") == 300
    assert total("cache_write.input_tokens") == 20


def test_each_request_and_each_attempt_is_counted_once_with_its_error(points):
    def told(name, *attributes):
        found = [(p.count, *(p.attributes.get(a) for a in attributes)) for p in points[name]]
        return sorted(found, key=repr)

    assert told("gen_ai.execute_tool.duration", "gen_ai.tool.name", "error.type") == [
        (1, "fail", "KeyError"),
        (1, "read", None),
    ]
    assert told("gen_ai.client.inference.duration", "gen_ai.response.model", "error.type") == [
        (1, "scripted", None),
        (1, None, "529"),
        (1, None, None),
    ]
    assert told("gen_ai.invoke_agent.duration", "gen_ai.operation.name") == [(1, "invoke_agent")]


def test_no_metric_names_a_run_or_a_call(points):
    names = {name for found in points.values() for point in found for name in point.attributes}
    assert names <= {
        "error.type",
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.response.model",
        "gen_ai.token.modality",
        "gen_ai.tool.name",
        "gen_ai.tool.type",
    }
