"""The compression process: reads named jobs with typed arguments from standard input, and writes their results.

It is a separate program, not a fork, so that a library user's main module is never imported twice; it ends when its
input closes, so it never outlives the program that started it.

A message on the pipe is MessagePack: plain values, and values of the classes named in the jobs' signatures. It can't
refer to other code.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import signal
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, BinaryIO, Union, get_args, get_origin, get_type_hints

import msgspec

from foveate.errors import contained

JOBS: Mapping[str, str] = {
    "make-renditions": "foveate.worker.renditions:make_local",
    "make-passages": "foveate.worker.renditions:make_passages",
    "write-request": "foveate.worker.turns:write_request",
    "weigh-answer": "foveate.worker.turns:weigh",
    "write-era-request": "foveate.worker.eras:write_era_request",
    "weigh-era": "foveate.worker.eras:weigh_era",
    "write-artefact-request": "foveate.worker.artefacts:write_artefact_request",
    "weigh-artefact": "foveate.worker.artefacts:weigh_artefact",
    "play": "foveate.replay.compare:play",
}
"""All jobs, with their functions."""
LENGTH = struct.Struct(">Q")
NICENESS = 5
"""Lower priority than the program's own work."""
MAX_MEMORY_BYTES = 4 << 30
"""Memory limit: a job that exceeds it fails, so that the machine does not swap."""
CPU_SECONDS: Mapping[str, float] = {"make-renditions": 20.0, "make-passages": 20.0}
"""CPU limits of jobs. Unlike elapsed time they do not depend on the machine's load. The process ends at the limit."""
SAFE_INTEGER = 2**63


class JobError(Exception):
    """A job failed in the process; the message is that of its exception."""


def read_frame(stream: BinaryIO) -> bytes | None:
    """Read the next message; return None at the end."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    data = stream.read(length)
    return data if len(data) == length else None


def write_frame(stream: BinaryIO, data: bytes) -> None:
    stream.write(LENGTH.pack(len(data)) + data)
    stream.flush()


def job_name(function: Callable[..., object]) -> str:
    """Return the name of a job by its function."""
    place = f"{function.__module__}:{function.__qualname__}"
    return next(name for name, known in JOBS.items() if known == place)


def pack_call(name: str, arguments: Sequence[object]) -> bytes:
    return msgspec.msgpack.encode([name, [_plain(argument) for argument in arguments]])


def unpack_call(data: bytes) -> tuple[str, list[Any]]:
    name, arguments = msgspec.msgpack.decode(data)
    classes = _classes(name)
    return name, [_restored(argument, classes) for argument in arguments]


def pack_result(result: object) -> bytes:
    return msgspec.msgpack.encode([None, _plain(result)])


def pack_error(error: BaseException) -> bytes:
    return msgspec.msgpack.encode([f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode(), None])


def unpack_result(name: str, data: bytes) -> Any:
    """Return a job's result; raise an error of the process as a `JobError`."""
    problem, result = msgspec.msgpack.decode(data)
    if problem is not None:
        raise JobError(problem)
    return _restored(result, _classes(name))


def _plain(value: object) -> object:
    """Convert a value to scalars and lists; a list begins with the kind of its content."""
    if value is None or isinstance(value, bool | float | bytes):
        return value
    for known, write in _WRITERS:
        if isinstance(value, known):
            return write(value)
    if names := field_names(type(value)):  # type: ignore[arg-type] # a class is hashable
        return [_label(type(value)), *(_plain(getattr(value, name)) for name in names)]
    if isinstance(value, tuple | list):
        return ["tuple" if isinstance(value, tuple) else "list", *map(_plain, value)]
    raise TypeError(f"{type(value).__name__} can't be sent to another process")


def _plain_text(text: str) -> object:
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates, which the pipe can't carry as text
        return ["str", text.encode("utf-8", "surrogatepass")]
    return text


def _plain_integer(number: int) -> object:
    return number if -SAFE_INTEGER <= number < SAFE_INTEGER else ["int", hex(number)]


_WRITERS: Sequence[tuple[type, Callable[[Any], object]]] = (
    (str, _plain_text),
    (int, _plain_integer),
    (datetime, lambda moment: ["datetime", moment.isoformat()]),
    (Path, lambda path: ["path", str(path)]),
    (Mapping, lambda items: ["map", *(_plain(item) for pair in items.items() for item in pair)]),
    (Set, lambda items: ["set", *map(_plain, items)]),
)
_READERS: Mapping[str, Callable[[list[Any]], object]] = {
    "str": lambda items: items[0].decode("utf-8", "surrogatepass"),
    "int": lambda items: int(items[0], 16),
    "datetime": lambda items: datetime.fromisoformat(items[0]),
    "path": lambda items: Path(items[0]),
    "map": lambda items: dict(zip(items[::2], items[1::2], strict=True)),
    "set": frozenset,
    "tuple": tuple,
    "list": list,
}


def _restored(value: Any, classes: Mapping[str, type]) -> Any:
    if not isinstance(value, list):
        return value
    kind, *items = value
    items = [_restored(item, classes) for item in items]
    if kind in _READERS:
        return _READERS[kind](items)
    made = classes[kind]
    return made(**dict(zip(field_names(made), items, strict=True)))


def _label(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@cache
def field_names(kind: type[Any]) -> tuple[str, ...]:
    """Return the init fields of a dataclass; empty for other classes."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init)
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    return getattr(kind, "_fields", ()) if issubclass(kind, tuple) else ()


def job_function(name: str) -> Callable[..., Any]:
    module, _, function = JOBS[name].partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


@cache
def _classes(name: str) -> dict[str, type]:
    """Return the classes in a job's signature, and in their fields, by name."""
    classes: dict[str, type] = {}
    pending: list[object] = list(_hints(job_function(name)))
    while pending:
        for kind in _named(pending.pop()):
            if _label(kind) not in classes and field_names(kind):
                classes[_label(kind)] = kind
                pending += _hints(kind)
    return classes


def _hints(function: Callable[..., object]) -> Iterable[object]:
    # `Json` is recursive, with forward references that resolve only in its own module; it contains no classes.
    return get_type_hints(function, localns={"Json": Any, "Sequence": Sequence, "Mapping": Mapping}).values()


def _named(hint: object) -> Iterator[type]:
    """Yield the classes inside a type."""
    if hasattr(hint, "__value__"):  # a type alias
        yield from _named(hint.__value__)
        return
    origin = get_origin(hint)
    if origin is Annotated:
        yield from _named(get_args(hint)[0])
        return
    if isinstance(hint, type) and origin is None:
        yield hint
    if isinstance(origin, type) and origin not in (Union, UnionType):
        yield origin
    for argument in get_args(hint):
        yield from _named(argument)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the program; this process ends with its input
    os.nice(NICENESS)
    _limit_memory()
    output = sys.stdout.buffer
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        try:
            write_frame(output, _answer(frame))
        except BrokenPipeError:  # the program was killed; there is no reader
            os._exit(0)


def _answer(frame: bytes) -> bytes:
    with contained() as outcome:  # a job's fault does not end the process; the caller raises it
        name, arguments = unpack_call(frame)
        function = job_function(name)  # imports its module
        _limit_cpu(CPU_SECONDS.get(name, 0))
        try:
            return pack_result(function(*arguments))
        finally:
            _limit_cpu(0)
    return pack_error(outcome.raised)


def _limit_cpu(seconds: float) -> None:
    """End the process after this much CPU time; 0: no limit."""
    if hasattr(signal, "setitimer"):  # not on Windows
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def is_cpu_limit(exit_status: int) -> bool:
    """Return whether a process ended because its job exceeded the CPU limit."""
    return hasattr(signal, "SIGVTALRM") and exit_status == -signal.SIGVTALRM


def _limit_memory() -> None:
    with suppress(ImportError, OSError, ValueError):  # no such limit, or a lower one
        import resource  # noqa: PLC0415 - not on Windows

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, hard))


if __name__ == "__main__":
    main()
