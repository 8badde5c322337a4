"""What becomes of a server's tools: their effects, their names, what they take, and what a verify of one may do."""

import pytest

from drive.scenes import Killed, agent_of, killed_at_start_of, results, says, uses
from midstride import DidNotHappen, Happened
from midstride.errors import DeclarationError
from midstride.stores import MemoryStore
from midstride.testing import SettableClock
from midstride.tools.schema import Problem, Valid


@pytest.fixture(scope="module")
def shared(forks, tmp_path_factory):
    """One server for all that only asks for tools."""
    from mcp_servers.conftest import Notes

    own = Notes(forks, tmp_path_factory.mktemp("shared"), "http")
    yield own
    own.end()


@pytest.fixture
def tools_with(shared):
    opened = []

    def tools_with(**options):
        opened.append(shared.tools(**options))
        return opened[-1]

    yield tools_with
    for tools in opened:
        tools.close()


def effects(tools):
    return {tool.name: tool.effect for tool in tools}


def test_the_annotations_of_a_trusted_server_give_the_effects(tools_with):
    assert effects(tools_with(trusted=True)) == {
        "look": "read_only",
        "charge": "idempotent",
        "deploy": "unsafe",
        "fail": "unsafe",
        "pid": "read_only",
        "picture": "read_only",
        "send": "unsafe",
    }


def test_no_tool_of_a_server_that_is_not_trusted_is_anything_but_unsafe(tools_with):
    assert set(effects(tools_with(trusted=False)).values()) == {"unsafe"}


def test_the_users_word_wins_over_the_servers(tools_with):
    tools = tools_with(
        effects={"charge": "unsafe", "pid": {"approval": True, "timeout": 5}, "look": {"effect": "unsafe"}},
    )
    assert effects(tools)["charge"] == effects(tools)["look"] == "unsafe"
    assert tools["pid"].effect == "read_only"
    assert tools["pid"].terms.approval
    assert effects(tools_with(trusted=False, effects={"look": "read_only"}))["look"] == "read_only"


def test_only_the_named_tools_are_taken_and_each_gets_the_prefix(tools_with):
    tools = tools_with(only=["send", "pid"], prefix="notes_")
    assert [tool.name for tool in tools] == ["notes_send", "notes_pid"]
    assert tools["notes_pid"]() == str(tools[1]())
    assert len(tools) == 2


def test_a_name_that_the_apis_refuse_is_changed_and_stays_apart(tools_with):
    names = [tools_with(only=["pid"], prefix=prefix)[0].name for prefix in ("a.", "a/", "x" * 70)]
    assert [name[:6] for name in names] == ["a_pid_", "a_pid_", "xxxxxx"]
    assert len(set(names)) == 3
    assert max(map(len, names)) == 64


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"effects": {"sent": "read_only"}},
            "effects= names 'sent', which is no tool of the MCP server http://127.0.0",
        ),
        ({"only": ["sent"]}, "did you mean 'send'?"),
        (
            {"effects": {"send": "harmless"}},
            "has effect 'harmless': wanted read_only, idempotent, verifiable or unsafe",
        ),
        ({"effects": {"send": "transactional"}}, "cannot be transactional: it does not write in the store's own"),
        ({"effects": {"send": {"key_life": 5}}}, "takes no key_life=: it knows name, approval, in_doubt, key, timeout"),
        ({"effects": {"pid": {"in_doubt": "ask"}}}, "takes no in_doubt=: a read is run again, never in doubt"),
        ({"effects": {"send": {"name": "a.b"}}}, "is named 'a.b'"),
        ({"effects": {"send": {"key": lambda to: to}}}, "takes 'to', which is no parameter of the tool: it has text"),
        ({"timeout": None}, "mcp_tools has timeout=None: wanted seconds, since a server may hang for ever"),
        ({"timeout": -1}, "has timeout=-1: wanted seconds or a timedelta, more than 0 and finite"),
        ({"env": {"A": "b"}}, "env= and cwd= are for a command: a server behind a URL is not started here"),
    ],
)
def test_a_wrong_option_is_refused_where_it_is_given(tools_with, options, why):
    with pytest.raises(DeclarationError) as caught:
        tools_with(**options)
    assert why in str(caught.value)


@pytest.mark.parametrize("server", ["npx -y some-server", [], [5], {"url": "http://a"}, None])
def test_what_is_no_server_is_refused(server):
    from midstride import mcp_tools

    with pytest.raises(DeclarationError, match="URL"):
        mcp_tools(server)


def test_arguments_are_checked_by_the_servers_schema_before_anything_is_sent(tools_with):
    charge = tools_with()["charge"]
    assert charge.definition["input_schema"]["required"] == ["cents"]
    assert charge.validate({"cents": 5}) == Valid({"cents": 5})
    problem = charge.validate({"cent": 5})
    assert isinstance(problem, Problem)
    assert problem.text == "charge was not called. Correct its arguments and call it again:\n- cents: is missing"
    assert charge.validate({"cents": "five"}).text.endswith("\n- cents: is not of type 'integer', got 'five'")
    assert charge.validate([5]).text == "charge was not called: its arguments must be a JSON object, got [5]."


# ---- a verify


SETTLED = {"send": {"effect": "verifiable", "timeout": 1}}


def verified(tools):
    @tools["send"].verify
    def was_sent(text: str):
        return Happened("it is there") if tools["look"](text=text) == "there" else DidNotHappen("it is not there")


def test_a_verify_may_ask_the_same_server(notes, drive):
    with notes.tools(effects=SETTLED) as tools, notes.killed_in_the_middle():
        verified(tools)
        agent = agent_of([uses(("send", {"text": "a"})), says("Done.")], tools, store=MemoryStore())
        drive(agent)
        assert results(agent) == [("it is there", False)]
    assert notes.effects == ["sent a"]


def test_a_verify_whose_server_is_down_cannot_tell_and_nothing_is_done_again(notes, drive):
    with notes.tools(effects=SETTLED) as tools, notes.in_the_middle(notes.go_down):
        verified(tools)
        agent = agent_of([uses(("send", {"text": "a"})), says("Done.")], tools, store=MemoryStore())
        drive(agent)
        [(content, _)] = results(agent)
    assert content.startswith("Outcome unknown: ")
    assert "Its verify raised Unsent" in content
    assert notes.effects == ["sent a"]


def test_a_call_that_was_intended_and_never_sent_is_looked_up_and_sent(notes, drive):
    store, clock = MemoryStore(), SettableClock()
    script = [uses(("send", {"text": "a"})), says("Done.")]
    with notes.tools(effects=SETTLED) as tools:
        verified(tools)
        with pytest.raises(Killed):
            drive(agent_of(script, tools, store=store, clock=clock), watch=killed_at_start_of("send"))
        agent = agent_of(script, tools, store=store, clock=clock)
        drive(agent)
    assert results(agent) == [("sent a", False)]
    assert notes.effects == ["sent a"]
