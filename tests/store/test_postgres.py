"""What PostgreSQL does differently from SQLite: connections, locks, errors. The contract is in `test_conformance`."""

import asyncio

import pytest

from foveate.errors import InputError, StoreError
from foveate.store import open_store
from foveate.store.settings import StoreSettings


@pytest.mark.parametrize(
    "url",
    ["postgresql://user:se@cret@host/db", "postgresql://user:se/cret@host/db", "postgresql://user:secret@host:x/db?y"],
)
def test_a_url_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InputError) as caught:
        asyncio.run(open_store(url, StoreSettings()))
    assert "cret" not in f"{caught.value!r} {caught.value}"


def test_a_server_that_cannot_be_reached_is_named_without_the_password() -> None:
    with pytest.raises(StoreError, match="can't connect") as caught:
        asyncio.run(open_store("postgresql://user:secret@127.0.0.1:1/db", StoreSettings()))
    assert "secret" not in str(caught.value)
    assert caught.value.location == "postgresql://user@127.0.0.1:1/db"
