"""What is declared about a tool, and what is refused where it is declared."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

from midstride.core.journal import Terms
from midstride.errors import DeclarationError
from midstride.tools import Context, DidNotHappen, Happened, tool
from midstride.tools.schema import Problem, Valid


class Colour(Enum):
    RED = "red"


class Order(BaseModel):
    number: int


@dataclass
class Point:
    x: int


CONTEXT: Context[Any] = Context(key="k", run_id="r", call_id="toolu_1", turn=2, index=0)


def send(to: str, subject: str = "hi") -> str:
    """Send a mail."""
    return f"{to}: {subject}"


def refused(declare: Callable[[], object]) -> str:
    with pytest.raises(DeclarationError) as caught:
        declare()
    message = str(caught.value)
    assert "\n" not in message
    return message


def valid(checked: Valid | Problem) -> Valid:
    assert isinstance(checked, Valid)
    return checked


# ---- what each sister declares


def test_a_bare_tool_is_unsafe():
    made = tool(send)
    assert (made.name, made.effect, made.description, made.is_async) == ("send", "unsafe", "Send a mail.", False)


def test_a_tool_with_options_is_unsafe_too():
    made = tool(name="mail", timeout=timedelta(minutes=1), in_doubt="ask")(send)
    assert (made.name, made.terms) == ("mail", Terms("unsafe", made.schema.digest, doubt="ask", timeout=60.0))


def test_a_read_is_declared_with_and_without_options():
    assert tool.read_only(send).effect == "read_only"
    assert tool.read_only(timeout=5)(send).terms.timeout == 5.0


def test_an_idempotent_tool_carries_its_keys_life_in_seconds():
    made = tool.idempotent(key_life=timedelta(hours=24))(send)
    assert (made.effect, made.terms.key_life) == ("idempotent", 86400.0)
    assert tool.idempotent(key_life=60)(send).terms.key_life == 60.0


DECLARED = {
    "unsafe": tool,
    "read_only": tool.read_only,
    "idempotent": lambda **more: tool.idempotent(key_life=60, **more),
    "verifiable": lambda **more: tool.verifiable(timeout=1, **more),
}


@pytest.mark.parametrize("effect", DECLARED)
def test_a_tool_of_any_effect_can_need_an_approval(effect):
    assert DECLARED[effect](approval=True)(send).terms.approval is True
    assert DECLARED[effect](approval=False)(send).terms.approval is False


def test_a_transactional_tool_can_need_an_approval():
    @tool.transactional(approval=True)
    def book(seat: str, context: Context) -> str: ...

    assert book.terms.approval


def test_a_transactional_tool_writes_through_its_context():
    @tool.transactional
    def book(seat: str, context: Context[sqlite3.Connection]) -> str:
        context.transaction.execute("insert into seats values (?)", (seat,))
        return "booked"

    connection = sqlite3.connect(":memory:")
    connection.execute("create table seats (seat)")
    given = book.call_arguments(valid(book.validate({"seat": "4A"})), CONTEXT.within(connection))
    assert book.function(**given) == "booked"
    assert connection.execute("select seat from seats").fetchall() == [("4A",)]
    connection.close()


def test_a_verifiable_tool_carries_timeout_and_settle():
    made = tool.verifiable(timeout=30, settle=timedelta(seconds=5))(send)
    assert (made.effect, made.terms.timeout, made.terms.settle) == ("verifiable", 30.0, 5.0)


def test_a_tool_is_still_the_plain_function():
    made = tool(send)
    assert made("ann", subject="yo") == "ann: yo"
    assert (made.__name__, made.__doc__) == ("send", "Send a mail.")
    assert repr(made) == "<Tool send (unsafe)>"


def test_an_async_function_makes_an_async_tool():
    @tool.read_only
    async def look_up(what: str) -> str:
        return what

    assert look_up.is_async


def test_a_bound_method_can_be_a_tool():
    class Mailer:
        def send(self, to: str) -> str:
            return f"to {to}"

    made = tool(Mailer().send)
    assert made.function(**made.call_arguments(valid(made.validate({"to": "a"})), CONTEXT)) == "to a"


def test_a_tool_without_a_docstring_is_described_by_its_name():
    def send_email(to: str) -> None: ...

    assert tool(send_email).description == "send email"


def test_a_definition_is_a_copy_that_may_be_changed():
    made = tool(send)
    made.definition["input_schema"]["properties"].clear()
    assert list(made.definition["input_schema"]["properties"]) == ["to", "subject"]


# ---- how it is called


def test_a_tool_is_called_with_values_defaults_and_context():
    @tool
    def pay(cents: int, currency: str = "eur", *, about: Context) -> None: ...

    given = pay.call_arguments(valid(pay.validate({"cents": 5})), CONTEXT)
    assert given == {"cents": 5, "currency": "eur", "about": CONTEXT}


def test_the_context_is_no_part_of_what_the_model_gives():
    @tool
    def pay(cents: int, context: Context[None]) -> None: ...

    assert list(pay.definition["input_schema"]["properties"]) == ["cents"]
    assert isinstance(pay.validate({"cents": 5, "context": {"key": "mine"}}), Problem)


def test_a_verify_is_called_with_the_parameters_it_takes():
    @tool.verifiable(timeout=1)
    def open_issue(title: str, body: str) -> int:
        return 7

    @open_issue.verify
    async def find(title: str, call: Context) -> Happened | DidNotHappen:
        return Happened(7)

    given = open_issue.look_arguments(valid(open_issue.validate({"title": "t", "body": "b"})), CONTEXT)
    assert given == {"title": "t", "call": CONTEXT}
    assert (open_issue.look, open_issue.look_is_async, open_issue.is_async) == (find, True, False)


# ---- business keys


def keyed(key: Callable[..., Any], **arguments: Any) -> str | Problem | None:
    def pay(to: Any, cents: Any = 1) -> None: ...

    made = tool(key=key)(pay)
    return made.business_key(valid(made.validate(arguments)))


def test_a_tool_without_a_key_function_has_no_key():
    made = tool(send)
    assert made.business_key(valid(made.validate({"to": "a"}))) is None


def test_a_business_key_is_the_digest_of_name_and_value():
    # sha256 of ["pay",["ann",1]]
    assert keyed(lambda to, cents: (to, cents), to="ann") == (
        "651f0416cc11d13c8624ce3560a5ac1f16f9dd22c3bba1cf39498cc793266492"
    )


KEYS = [
    ({"b", "a"}, ["a", "b"]),
    (timedelta(seconds=5), "0:00:05"),
    (date(2026, 1, 2), "2026-01-02"),
    (Decimal("1.50"), "1.50"),
    (Colour.RED, "red"),
    (Order(number=3), {"number": 3}),
    (Point(1), {"x": 1}),
]


def test_what_the_key_leaves_out_does_not_count():
    assert keyed(lambda to: to, to="ann", cents=1) == keyed(lambda to: to, to="ann", cents=2)
    assert keyed(lambda to: to, to="ann") != keyed(lambda to: to, to="bob")


@pytest.mark.parametrize(("value", "plain"), KEYS)
def test_a_key_of_values_is_the_key_of_their_json(value, plain):
    assert keyed(lambda to: value, to=0) == keyed(lambda to: plain, to=0)


@pytest.mark.parametrize("value", [object(), float("nan"), b"x", {(1, 2): 3}])
def test_a_key_that_is_no_json_is_a_problem(value):
    problem = keyed(lambda to: value, to=0)
    assert isinstance(problem, Problem)
    assert problem.text.startswith("pay was not called: its key function failed, a fault of the program. ")


def test_a_key_function_that_raises_is_a_problem():
    assert keyed(lambda to: to["id"], to={}) == Problem(
        "pay was not called: its key function failed, a fault of the program. KeyError: 'id'"
    )


# ---- what is refused


def test_a_parameter_without_a_type_hint_is_refused():
    def add(a, b: int) -> None: ...

    assert refused(lambda: tool(add)) == (
        "parameter 'a' of tool 'add' has no type hint: write one, since the model is told from it what to give"
    )


def test_an_unbound_method_is_refused_with_the_way_out():
    class Mailer:
        def send(self, to: str) -> None: ...

    assert "decorate the bound one: tool(thing.method)" in refused(lambda: tool(Mailer.send))


def test_parameters_that_cannot_be_given_by_name_are_refused():
    def many(*rest: int) -> None: ...
    def named(**rest: int) -> None: ...
    def placed(a: int, /) -> None: ...

    assert "takes *rest: int: write out each parameter" in refused(lambda: tool(many))
    assert "takes **rest: int: write out each parameter" in refused(lambda: tool(named))
    assert "takes 'a' by position only: remove the '/'" in refused(lambda: tool(placed))


def test_two_contexts_are_refused():
    def pay(a: Context, b: Context[int]) -> None: ...

    assert "takes two contexts, 'a' and 'b': keep one" in refused(lambda: tool(pay))


def test_a_context_that_the_model_could_fill_is_refused():
    class Mine(Context[int]): ...

    def maybe(context: Context | None) -> None: ...
    def several(contexts: list[Context[int]]) -> None: ...
    def mine(context: Mine) -> None: ...

    for function in (maybe, several, mine):
        assert "since the model must not fill it" in refused(lambda function=function: tool(function))


def test_a_type_without_a_json_schema_is_refused_by_name():
    class Strange: ...

    def draw(n: int, where: Strange) -> None: ...
    def call(back: Callable[[], int]) -> None: ...

    assert refused(lambda: tool(draw)).startswith("parameter 'where' of tool 'draw' is <class ")
    assert refused(lambda: tool(call)).startswith("parameter 'back' of tool 'call' is collections.abc.Callable")


def test_a_type_hint_that_cannot_be_resolved_is_refused():
    def draw(n: "Nowhere") -> None: ...  # noqa: F821

    assert refused(lambda: tool(draw)) == (
        "a type hint of tool 'draw' cannot be resolved (name 'Nowhere' is not defined): "
        "define or import it at the top of its module"
    )


def test_the_returns_hint_need_not_be_resolved():
    def draw(n: int) -> "Nowhere": ...  # noqa: F821

    assert tool(draw).name == "draw"


def test_a_name_that_the_apis_refuse_is_refused():
    # A lambda's parameters have no hints either; its name is seen first.
    assert "'<lambda>'" in refused(lambda: tool(lambda: 1))
    for name in ("", "a b", "é", "x" * 65, "a\n", 3):
        assert refused(lambda name=name: tool(name=name)(send)).startswith(f"the APIs refuse {name!r} as a tool's name")


def test_a_parameter_name_that_the_apis_refuse_is_refused():
    def measure(größe: int) -> None: ...

    assert "parameter 'größe' of tool 'measure' has a name that the APIs refuse" in refused(lambda: tool(measure))


def test_a_tool_that_yields_is_refused():
    def lines(path: str) -> Iterator[str]:
        yield path

    async def later(path: str) -> AsyncIterator[str]:
        yield path

    assert "tool 'lines' yields" in refused(lambda: tool(lines))
    assert "tool 'later' yields" in refused(lambda: tool(later))


def test_what_is_no_function_is_refused():
    assert "a tool is made of a function, not of 'send'" in refused(lambda: tool("send"))
    assert "'send' is a tool already" in refused(lambda: tool.read_only(tool(send)))


def test_verifiable_without_a_timeout_is_refused():
    for declare in (tool.verifiable, lambda: tool.verifiable(), lambda: tool.verifiable(send), tool.verifiable):
        assert refused(declare) == (
            "@tool.verifiable has no timeout, the time after which an attempt that is lost cannot act any more: "
            "write @tool.verifiable(timeout=seconds)"
        )


def test_idempotent_without_a_key_life_is_refused():
    assert "@tool.idempotent has no key_life" in refused(lambda: tool.idempotent(send))
    assert "write @tool.idempotent(key_life=seconds)" in refused(lambda: tool.idempotent(timeout=3))


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "30", timedelta(0), timedelta(-1)])
def test_times_that_are_none_are_refused(seconds):
    assert "wanted seconds or a timedelta, more than 0 and finite" in refused(lambda: tool(timeout=seconds)(send))
    assert "has key_life=" in refused(lambda: tool.idempotent(key_life=seconds)(send))


def test_a_settle_time_may_be_nothing_but_not_less():
    assert tool.verifiable(timeout=1, settle=0)(send).terms.settle == 0.0
    assert "has settle=-1: wanted seconds or a timedelta, 0 or more and finite" in refused(
        lambda: tool.verifiable(timeout=1, settle=-1)(send)
    )


def test_a_doubt_that_is_neither_told_nor_asked_is_refused():
    assert 'has in_doubt=\'shrug\': wanted "report" (tell the model) or "ask" (ask a person)' in refused(
        lambda: tool(in_doubt="shrug")(send)
    )


@pytest.mark.parametrize("approval", [None, 1, "ask", lambda to: True])
def test_an_approval_that_is_no_yes_or_no_is_refused(approval):
    assert "wanted True (ask a person first) or False" in refused(lambda: tool(approval=approval)(send))


def test_options_that_an_effect_does_not_know_are_refused():
    assert refused(lambda: tool.read_only(key=lambda to: to)) == (
        "@tool.read_only takes no key=: a read does nothing that could be done twice; leave it out"
    )
    assert "@tool takes no retries=: it knows name, approval, in_doubt, key, timeout" in refused(
        lambda: tool(retries=3)
    )


def test_a_transactional_tool_can_have_a_timeout():
    @tool.transactional(timeout=3)
    def book(seat: str, context: Context) -> str: ...

    assert book.terms.timeout == 3.0


def test_a_transactional_tool_without_a_context_is_refused():
    assert "so it cannot write in the transaction" in refused(lambda: tool.transactional(send))


def test_a_key_of_other_parameters_is_refused():
    assert refused(lambda: tool(key=lambda to, sum: to)(send)) == (
        "the key of tool 'send' takes 'sum', which is no parameter of the tool: it has to, subject"
    )


def test_a_key_that_is_no_plain_function_is_refused():
    async def later(to: str) -> str:
        return to

    assert "wanted a plain function" in refused(lambda: tool(key=later)(send))
    assert "wanted a plain function" in refused(lambda: tool(key="to")(send))
    assert "the key of tool 'send' takes **all" in refused(lambda: tool(key=lambda **all: 1)(send))
    assert "whose parameters are unknown: write a function" in refused(lambda: tool(key=dict)(send))


def test_a_verify_of_a_tool_that_is_not_verifiable_is_refused():
    assert "the tool is unsafe: declare it with @tool.verifiable" in refused(lambda: tool(send).verify(lambda: None))


def test_a_verify_of_other_parameters_is_refused():
    made = tool.verifiable(timeout=1)(send)
    assert refused(lambda: made.verify(lambda to, context: None)) == (
        "the verify of tool 'send' takes 'context', which is no parameter of the tool: it has to, subject "
        "(a context is annotated Context)"
    )


def test_a_second_verify_is_refused():
    made = tool.verifiable(timeout=1)(send)
    made.verify(lambda to: None)
    assert "the verify of tool 'send' is declared twice" in refused(lambda: made.verify(lambda to: None))


# ---- a poll


def test_a_poll_is_called_with_the_handle_and_the_parameters_it_takes():
    made = tool(send)

    @made.poll
    def stands(job: str, subject: str, context: Context) -> Happened:
        return Happened(f"{job} {subject} {context.call_id}")

    valid = made.validate({"to": "ann", "subject": "hi"})
    assert isinstance(valid, Valid)
    assert made.polling is not None
    given = made.poll_arguments(made.polling, "job-7", valid, CONTEXT)
    assert (given, made.polling.is_async) == ({"job": "job-7", "subject": "hi", "context": CONTEXT}, False)
    assert stands(**given) == Happened("job-7 hi toolu_1")


def test_a_poll_may_be_a_coroutine_function_of_the_handle_alone():
    made = tool.read_only(send)

    @made.poll
    async def stands(handle: str) -> Happened:
        return Happened(handle)

    assert made.polling is not None
    assert (made.polling.handle, made.polling.names, made.polling.is_async) == ("handle", (), True)


@pytest.mark.parametrize(
    ("poll", "wrong"),
    [
        (lambda: None, "takes the handle first, under a name that is no parameter of the tool: it takes none; write"),
        (lambda to, handle: None, "its first is 'to', a parameter of the tool"),
        (lambda handle, size: None, "takes 'size', which is no parameter of the tool: it has to, subject"),
        (lambda handle, context: None, "takes 'context', which is no parameter of the tool: it has to, subject"),
        (lambda *handles: None, "handles"),
    ],
)
def test_a_poll_of_other_parameters_is_refused(poll, wrong):
    assert wrong in refused(lambda: tool(send).poll(poll))


def test_a_poll_of_a_transactional_tool_is_refused():
    def book(seat: str, context: Context[sqlite3.Connection]) -> str:
        return seat

    made = tool.transactional(book)
    told = refused(lambda: made.poll(lambda handle: None))
    assert "the poll of tool 'book' has no use, since the tool is transactional" in told


def test_a_second_poll_is_refused():
    made = tool(send)
    made.poll(lambda handle: None)
    assert "the poll of tool 'send' is declared twice" in refused(lambda: made.poll(lambda handle: None))
