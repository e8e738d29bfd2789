"""What every test runs under."""

import gc
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from itertools import count
from pathlib import Path
from shutil import disk_usage
from threading import Lock

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from foveate.cache import BoundedCache
from foveate.compress.local import LocalCompressor
from foveate.history import late_writes
from foveate.renditions import Count, Renditions
from foveate.store.settings import StoreSettings
from foveate.store.sqlite import PRIVATE_MODE, SqliteFile
from foveate.turn import Message
from support.patience import PATIENCE_SECONDS

# A process per store would cost each test half a second; the tests of the pool ask for one.
os.environ["FOVEATE_COMPRESS__PROCESSES"] = "0"
# A context that falls back to a simpler plan is a failure here.
os.environ["FOVEATE_STRICT"] = "1"
# Compressing at the end would cost each test what it recorded; the tests of `close` ask for it.
os.environ["FOVEATE_COMPRESS__CLOSE_SECONDS"] = "0"
# The same contexts on every day; the test of the current day asks for it.
os.environ["FOVEATE_CONTEXT__NOW"] = "false"
# What a busy machine brings late counts as well; the tests of the deadline set their own.
os.environ["FOVEATE_RECALL__DEADLINE_SECONDS"] = "60"

# Stores wait for the disk at each commit, milliseconds each time: files in memory are as good here, if there is room.
MEMORY, LEAST_FREE_BYTES = Path("/dev/shm"), 4_000_000_000
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and disk_usage(MEMORY).free > LEAST_FREE_BYTES:
    tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)

pytest_plugins = ["support.local_model", "support.postgres", "support.provider_server"]

# The same examples in every run; `make thorough` tries many others, and what it finds becomes a fixed example.
settings.register_profile("default", deadline=None, print_blob=True, max_examples=6, derandomize=True, database=None)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=1_000)
settings.load_profile("default")
# Hypothesis also draws constants of the modules loaded so far, which depend on the tests that ran before in a process.
providers._get_local_constants = Constants

# Thousands of tests are collected and stay: looking through them again and again would take a fifth of the collection.
gc.disable()

COMPRESSING = ("tests/compress/", "tests/worker/test_loop", "tests/worker/test_pool", "tests/worker/test_renditions")
MAX_REMEMBERED, MAX_REMEMBERED_CHARS = 5_000, 400_000


def pytest_collection_finish() -> None:
    """From here on what was collected is left out of garbage collection."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _new_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A new store is a copy of an empty one, since its migrations take 15 ms; the tests of the store run them."""
    empty = tmp_path_factory.mktemp("empty") / "empty.db"
    SqliteFile(str(empty), StoreSettings()).prepare()
    image = empty.read_bytes()
    create = SqliteFile._create_private

    def copy(file: SqliteFile) -> None:
        is_new = file.path.parent.is_dir() and not file.path.exists()
        if is_new and not os.environ.get("PYTEST_CURRENT_TEST", "").startswith("tests/store/"):
            with file.errors(), tempfile.TemporaryDirectory(dir=file.path.parent) as folder:
                made = Path(folder) / "new.db"
                made.write_bytes(image)
                made.chmod(PRIVATE_MODE)
                with suppress(FileExistsError):  # another opened it at the same moment
                    file.path.hardlink_to(made)
        create(file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteFile, "_create_private", copy)
        patch.setattr(late_writes, "WAIT_SECONDS", PATIENCE_SECONDS)
        yield


@pytest.fixture(scope="session", autouse=True)
def _compressed_once() -> Iterator[None]:
    """A turn is compressed once in a run, since the same text gives the same renditions: a third of all time without.

    The tests of compression and of the worker's loop compress every time.
    """
    compress, lock = LocalCompressor.compress, Lock()
    remembered = BoundedCache[object, Renditions](MAX_REMEMBERED)

    def recall(compressor: LocalCompressor, turn: int, messages: Sequence[Message], count: Count) -> Renditions:
        if os.environ.get("PYTEST_CURRENT_TEST", "").startswith(COMPRESSING):
            return compress(compressor, turn, messages, count)
        content = repr([replace(message, at=None) for message in messages])
        key = turn, repr(compressor), count, sha256(content.encode("utf-8", "surrogatepass")).digest()
        with lock:
            made = remembered.get(key)
        if made is None:
            made = compress(compressor, turn, messages, count)
            if len(content) <= MAX_REMEMBERED_CHARS:
                with lock:
                    remembered[key] = made
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalCompressor, "compress", recall)
        yield


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for each test."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def _own_home(_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's own store."""
    home = next(_homes)
    home.mkdir()
    monkeypatch.setenv("FOVEATE_DB", str(home / "foveate.db"))
