"""How a call to an MCP server ends when the server fails: what is definite is told as such, and the rest as unknown."""

import pytest

from drive.scenes import agent_of, results, says, uses
from midstride.stores import MemoryStore


@pytest.fixture
def told(drive):
    """Return what the model is told when it calls a tool once."""

    def told(tools, name, **arguments):
        agent = agent_of([uses((name, arguments)), says("Done.")], tools, store=MemoryStore())
        assert drive(agent).status == "done"
        [result] = results(agent)
        return result

    return told


def test_a_result_is_the_servers(notes, told):
    with notes.tools() as tools:
        assert told(tools, "send", text="a") == ("sent a", False)
    assert notes.effects == ["sent a"]


def test_an_error_of_the_tool_is_definite_and_in_its_own_words(notes, told):
    with notes.tools() as tools:
        content, is_error = told(tools, "fail", text="a")
    assert (content, is_error) == (
        "Failed: it was answered with an error: Error executing tool fail: no room for a",
        True,
    )


def test_an_effect_whose_server_dies_in_the_middle_is_unknown(notes, told):
    with notes.tools() as tools, notes.killed_in_the_middle():
        content, is_error = told(tools, "send", text="a")
    assert content.startswith('Outcome unknown: send({"text": "a"}) may or may not have taken effect (it started ')
    assert "was lost in the middle of the request" in content
    assert is_error
    assert notes.effects == ["sent a"]


def test_a_read_whose_server_dies_in_the_middle_is_asked_again(notes, told):
    with notes.tools() as tools, notes.killed_in_the_middle():
        assert told(tools, "look", text="a") == ("not there", False)


def test_a_read_whose_server_stays_away_has_failed(notes, told):
    with notes.tools() as tools, notes.in_the_middle(notes.go_down):
        content, is_error = told(tools, "look", text="a")
    assert content.startswith("Failed: it did not happen. The MCP server ")
    assert is_error


def test_an_idempotent_call_is_repeated_with_its_key_and_has_one_effect(notes, told):
    with notes.tools() as tools, notes.killed_in_the_middle():
        content, is_error = told(tools, "charge", cents=5)
    assert content.startswith("charged 5 with key ")
    assert content.endswith(", known")
    assert not is_error
    assert notes.effects == ["charged 5"]


def test_a_server_that_was_down_before_has_certainly_done_nothing(notes, told):
    with notes.tools() as tools:
        notes.go_down()
        told(tools, "pid")  # a read: it sees that the server is gone
        content, is_error = told(tools, "send", text="a")
    assert content.startswith("Failed: it did not happen. The MCP server ")
    assert "cannot be reached" in content
    assert is_error
    assert notes.effects == []


def test_an_effect_that_is_not_answered_in_time_is_unknown(notes, told):
    with notes.tools(timeout=2) as tools, notes.held():
        content, is_error = told(tools, "send", text="a")
    assert "Outcome unknown" in content
    assert "gave no answer within 2 s." in content
    assert is_error
    assert notes.effects == ["sent a"]


def test_a_read_that_is_not_answered_in_time_has_failed(notes, told):
    with notes.tools(timeout=2) as tools, notes.held():
        content, is_error = told(tools, "look", text="a")
    assert content.startswith("Failed: It raised NoAnswer: the MCP server ")
    assert is_error


def test_a_tool_that_the_server_has_no_more_is_refused_for_certain(notes, told):
    with notes.tools() as tools:
        notes.become("without send")
        content, is_error = told(tools, "send", text="a")
    assert content.startswith("Failed: ")
    assert "Unknown tool" in content
    assert is_error
    assert notes.effects == []
