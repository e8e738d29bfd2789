"""Errors as values: every class survives pickling, so a process pool reports it instead of hanging."""

import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from foveate import errors
from foveate.errors import FoveateError, SettingsError
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
