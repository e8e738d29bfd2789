"""Errors as values: every class survives pickling, so a process pool reports it instead of hanging."""

import ast
import inspect
import logging
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from foveate import errors
from foveate.errors import FoveateError, SettingsError, contained
from support.failures import fail

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, FoveateError)]
SAMPLES: dict[str, Any] = {
    "known": ("one", "two"),
    "parts": {"pins": 3},
    "pins": {"P-1": 3},
    "available": ("R",),
    "fork_ids": ("f", "g"),
    "retry_after_seconds": 2.5,
}


def make(kind: type[FoveateError]) -> FoveateError:
    parameters = inspect.signature(kind.__init__).parameters
    named = {
        name: SAMPLES.get(name, 7 if str(parameter.annotation) == "int" else name)
        for name, parameter in parameters.items()
        if name != "self" and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    return kind(**named) if named else kind("a message")


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling(kind: type[FoveateError]) -> None:
    error = make(kind)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_an_error_of_a_process_pool_reaches_its_caller() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        future = pool.submit(fail)
        with pytest.raises(SettingsError, match="takes full or normal") as raised:
            future.result(timeout=60)
    assert raised.value.key == "store.synchronous"


def test_a_contained_error_ends_its_block_and_is_in_the_outcome_and_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("foveate.test")
    reached = False
    with contained(log, "plug-in %s failed", "x") as outcome:
        raise KeyError("anything")
        reached = True
    assert not reached
    assert isinstance(outcome.raised, KeyError)
    assert "plug-in x failed" in caplog.text


def test_an_interrupt_is_not_contained() -> None:
    with pytest.raises(KeyboardInterrupt), contained():
        raise KeyboardInterrupt


def test_errors_of_any_class_are_caught_only_by_contained_and_the_loops_of_the_worker() -> None:
    source = Path(errors.__file__).parent
    found = sorted(
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ExceptHandler) and _swallows_everything(node)
    )
    found = [path for path in found if not path.startswith("server/")]  # whose boundary is its own
    assert found == ["worker/loop.py", "worker/refine.py", "worker/refine.py"]


def _swallows_everything(handler: ast.ExceptHandler) -> bool:
    caught = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else {""}
    raises = any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    return bool(caught & {"", "Exception", "BaseException"}) and not raises
