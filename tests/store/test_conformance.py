"""The store does the same on SQLite and PostgreSQL."""

import asyncio
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from foveate.store import Store, open_store
from foveate.store.settings import StoreSettings
from support import stores
from support.stores import agents as agent_stores
from support.stores import artefacts as artefact_stores
from support.stores import cabinet as cabinet_stores
from support.stores import calls as call_stores
from support.stores import clients as client_stores
from support.stores import derived as derived_stores
from support.stores import erasures as erasure_stores
from support.stores import knowledge as knowledge_stores
from support.stores import passages as passage_stores
from support.stores import queue as due_stores
from support.stores import snapshots as snapshot_stores

SUITES = (
    stores,
    derived_stores,
    due_stores,
    call_stores,
    artefact_stores,
    passage_stores,
    client_stores,
    cabinet_stores,
    agent_stores,
    erasure_stores,
    knowledge_stores,
    snapshot_stores,
)


@pytest.mark.parametrize("case", [case for suite in SUITES for case in suite.CASES], ids=lambda case: case.__name__)
def test_sqlite_conforms(case: stores.Case, tmp_path: Path) -> None:
    async def open_it() -> Store:
        return await open_store(str(tmp_path / "store.db"), StoreSettings())

    asyncio.run(stores.run_case(case, open_it))


@pytest.mark.parametrize("case", [case for suite in SUITES for case in suite.CASES], ids=lambda case: case.__name__)
def test_postgres_conforms(case: stores.Case, postgres_url: str) -> None:
    async def open_it() -> Store:
        return await open_store(postgres_url, StoreSettings())

    asyncio.run(stores.run_case(case, open_it))


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.__name__)
def test_the_suite_runs_all_its_cases(suite: ModuleType) -> None:
    written = {
        function
        for name, function in inspect.getmembers(suite, inspect.iscoroutinefunction)
        if not name.startswith("_") and name != "run_case"
    }
    assert written == set(suite.CASES)
