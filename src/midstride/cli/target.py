"""TARGET: where the program's agent is, as `module:agent` or `path/to/file.py:agent`."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from midstride.agent import Agent
from midstride.errors import DeclarationError, ToolsUnavailable

FORMS = "module:agent or path/to/file.py:agent"


def load(target: str) -> Agent:
    """Import the agent that *target* names; DeclarationError says what is wrong with it, in one sentence."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise DeclarationError(f"{target!r} is no TARGET: wanted {FORMS}")
    module = _module(place, target)
    if not hasattr(module, name):
        agents = [n for n, value in vars(module).items() if isinstance(value, Agent)]
        there = f"its agents are: {', '.join(agents)}" if agents else "it holds no agent"
        raise DeclarationError(f"{place} has no {name!r}; {there}")
    agent = getattr(module, name)
    if not isinstance(agent, Agent):
        raise DeclarationError(f"{target} is a {type(agent).__name__}, wanted a midstride.Agent")
    return agent


def absolute(target: str) -> str:
    """Return *target* so that it means the same from every folder: it is stored with the run."""
    place, _, name = target.rpartition(":")
    return f"{Path(place).resolve()}:{name}" if place.endswith(".py") else target


def _module(place: str, target: str) -> ModuleType:
    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for facts
            return _from_file(Path(place).resolve()) if place.endswith(".py") else _by_name(place)
    except ToolsUnavailable:
        raise  # nothing is wrong with the program: the same again, later
    except DeclarationError as error:
        raise DeclarationError(f"{target} cannot be used: {error}") from error
    except SystemExit as end:
        raise DeclarationError(
            f"{target} cannot be imported: it ends the process (exit {end.code}); put what it runs under "
            "`if __name__ == '__main__':`"
        ) from end
    except Exception as error:
        raise DeclarationError(f"{target} cannot be imported: {_in_a_line(error)}{_hint(place)}") from error


def _by_name(name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does: an installed command has no folder of its own
    return importlib.import_module(name)


@functools.cache
def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise DeclarationError(f"there is no file {path}")
    sys.path.insert(0, str(path.parent))  # as `python file.py` does
    # A file called json.py must not stand in for the module that others import.
    name = path.stem if path.stem not in sys.modules else f"{path.stem} of {path.parent}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DeclarationError(f"{path} is no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _in_a_line(error: Exception) -> str:
    """Return what was raised and where: the place in the user's file, not in the import machinery."""
    words = f"{type(error).__name__}: {' '.join(str(error).split())}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    own = [f for f in frames if f.filename != __file__]
    return (
        words if isinstance(error, SyntaxError) or not own else f"{words} ({own[-1].filename}, line {own[-1].lineno})"
    )


def _hint(place: str) -> str:
    if not place.endswith(".py") and Path(f"{place}.py").is_file():
        return f"; did you mean {place}.py:...?"
    return ""
