"""The public names, literally: a name that comes or goes is a change that users see."""

import importlib
import inspect
import types

import pytest

import midstride

NAMES = {
    "midstride": [
        "Accepted", "Agent", "AsyncRun", "CannotTell", "Context", "Denied", "DidNotHappen", "Document", "Happened",
        "Image", "InDoubt", "Ledger", "Limits", "MidstrideError", "Pending", "Prices", "Result", "Run", "Runs",
        "mcp_tools", "models", "redact", "redacted", "tool",
    ],
    "midstride.drive": ["AsyncRun", "AsyncTurn", "Clock", "Draft", "Removable", "Result", "Run", "Runs", "Turn"],
    "midstride.errors": [
        "AccessRefused", "CallError", "Claimed", "Damaged", "DeclarationError", "Denied", "Fenced", "Held", "Holder",
        "InDoubt", "Interrupted", "InvalidTranscript", "JournalError", "KeyMissing", "MidstrideError", "ModelError",
        "ModelUnavailable", "Moved", "NeedsPerson", "Newer", "NotAResponse", "NotAllowed", "NotDone", "NotOurs",
        "Removed", "RequestRefused", "RunError", "StoreError", "TaskDiffers", "ToolFailed", "ToolsUnavailable",
        "UnknownRun", "WorkerError", "WrongArguments",
    ],
    "midstride.integrations.opentelemetry": ["Telemetry"],
    "midstride.ledger": ["Ledger"],
    "midstride.models": ["Anthropic", "Draft", "Model", "OpenAIChat", "OpenAIResponses", "Scripted"],
    "midstride.stores": [
        "AesGcm", "CheckpointStore", "Claim", "Codec", "Freed", "Lease", "MemoryStore", "SqliteStore", "Store",
        "Transaction", "open_store",
    ],
    "midstride.testing": [
        "Answer", "CrashFailure", "CrashPlan", "CrashReport", "Crashed", "Cut", "Fail", "FakeModel", "Hold", "Killed",
        "Process", "Refuse", "Scene", "SettableClock", "Slow", "StreamError", "Truncate", "calls", "crash_everywhere",
        "store_conformance",
    ],
    "midstride.tools": [
        "Accepted", "CallEnded", "CannotTell", "CommandFailed", "Completed", "Context", "DidNotHappen", "Document",
        "Happened", "Image", "Pending", "Tool", "Toolbox", "content_of", "mcp_tools", "text_of_error", "tool",
    ],
    "midstride.transcript": [
        "Change", "Checker", "Entry", "Finding", "Level", "Repair", "check", "entries", "guess_provider", "remedy",
        "repair",
    ],
}  # fmt: skip


@pytest.mark.parametrize("module", NAMES)
def test_a_package_exports_exactly_these_names(module):
    assert sorted(importlib.import_module(module).__all__) == NAMES[module]


@pytest.mark.parametrize("module", NAMES)
def test_every_exported_name_is_there(module):
    found = importlib.import_module(module)
    assert [name for name in NAMES[module] if not hasattr(found, name)] == []


def public_things():
    """Every exported class and function, and their public methods, with the name to report."""
    for module, names in NAMES.items():
        for name in names:
            thing = getattr(importlib.import_module(module), name)
            yield f"{module}.{name}", thing
            if inspect.isclass(thing) and thing.__module__.startswith("midstride"):
                for method, value in vars(thing).items():
                    if not method.startswith("_") and (callable(value) or isinstance(value, property)):
                        yield f"{module}.{name}.{method}", value


def test_every_public_thing_says_what_it_is_for():
    documented = (type, property, types.FunctionType)
    things = [(name, thing) for name, thing in public_things() if isinstance(thing, documented)]
    assert len(things) > 100
    assert [name for name, thing in things if not inspect.getdoc(thing)] == []


def test_every_error_is_in_the_tree_that_its_module_prints():
    errors = importlib.import_module("midstride.errors")
    kinds = [getattr(errors, name) for name in errors.__all__ if name != "Holder"]
    assert [kind.__name__ for kind in kinds if not issubclass(kind, errors.MidstrideError)] == []
    assert [kind.__name__ for kind in kinds if kind.__name__ not in errors.__doc__] == []


def test_the_same_thing_is_the_same_object_wherever_it_is_exported():
    assert midstride.tool is importlib.import_module("midstride.tools").tool
    assert midstride.Run is importlib.import_module("midstride.drive").Run
    assert midstride.Runs is importlib.import_module("midstride.drive").Runs
