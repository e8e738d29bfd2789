"""Vectors from an endpoint: what it makes is used, and when it fails, words alone are searched until it is back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

import foveate
from foveate import Foveate
from foveate.errors import ModelError, ModelFailed, ModelHeldBack, ModelUnavailable, SettingsError
from foveate.events import EventBus
from foveate.models.caller import Caller
from foveate.recall.embed import static
from foveate.recall.embed.endpoint import REST_SECONDS, EmbeddingEndpoint, EndpointEmbedder
from foveate.recall.settings import RecallSettings
from foveate.recall.table import EXACT_PASSAGES, Vectors, pack, unpack
from foveate.session import Session
from foveate.settings import Settings, load_settings
from foveate.store import open_store
from support.calling import read_calls
from support.embedding_server import EmbeddingServer, embedding_server
from support.patience import until, wait_until

KEY = "sk-test-Zq8vX2mN4pL7wR1t"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server


def endpoint_of(settings: Settings) -> EmbeddingEndpoint:
    return EmbeddingEndpoint(settings.recall, settings.models)


def chosen(server: EmbeddingServer, *, models: dict[str, object] | None = None, **more: object) -> Settings:
    recall = {"embeddings": server.url, "embeddings_model": "tiny", "deadline_seconds": None, **more}
    given = {"recall": recall, "compress": {"processes": 0}, "models": models or {"breaker_failures": 1_000}}
    return load_settings(environment={}, overrides=given)


@asynccontextmanager
async def embedding(folder: Path, settings: Settings) -> AsyncIterator[EndpointEmbedder]:
    """An embedder with a caller and accounts of its own."""
    store = await open_store(str(folder / "accounts.db"), settings.store)
    caller = Caller(settings.models, store.calls, EventBus(100))
    try:
        yield EndpointEmbedder(settings.recall, caller)
    finally:
        await caller.close()
        await store.close()


async def failure(embedder: EndpointEmbedder) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await embedder.embed(["a harbour"])
    return caught.value


def test_texts_go_out_in_batches_and_come_back_in_order_with_length_one(
    server: EmbeddingServer, tmp_path: Path
) -> None:
    async def job() -> None:
        texts = [f"text number {number} of a harbour" for number in range(7)]
        async with embedding(tmp_path, chosen(server, embeddings_batch=3)) as made:
            assert (made.name, made.dimensions) == (f"tiny@{server.url[7:-3]}", 0)
            found = await made.embed(texts)
            assert np.allclose(found[:, : static.DIMENSIONS], static.embed(texts), atol=1e-5)
            assert (made.name, made.dimensions) == (f"tiny@{server.url[7:-3]} 300", 300)
            assert [(asked["path"], asked["model"], len(asked["input"])) for asked in server.asked] == [
                ("/v1/embeddings", "tiny", size) for size in (3, 3, 1)
            ]
            assert (await made.embed([])).shape == (0, 300)

    asyncio.run(job())


def test_every_batch_is_on_the_books(server: EmbeddingServer, tmp_path: Path) -> None:
    async def job() -> None:
        price = {f"tiny@{server.url}/embeddings": {"input": 1_000.0, "output": 0.0}}
        settings = chosen(server, embeddings_batch=1, models={"prices": price, "daily_usd": 0.02})
        async with embedding(tmp_path, settings) as made:
            await made.embed(["a harbour", "by the sea"])
            server.answer = 500, "out of memory"
            await failure(made)
        first, second, failed = read_calls(str(tmp_path / "accounts.db"))
        # Apart from the server's other calls: it may talk though it makes no vectors.
        assert (first.purpose, first.provider, first.outcome) == ("embed", f"{server.url[7:-3]}/embeddings", "ok")
        assert (first.input_tokens, first.nano_usd) == (server.tokens, server.tokens * 1_000_000)
        assert (second.outcome, failed.outcome, failed.nano_usd) == ("ok", "server", 0)

    asyncio.run(job())


def test_the_daily_cap_holds_for_vectors_too(server: EmbeddingServer, tmp_path: Path) -> None:
    async def job() -> None:
        price = {f"tiny@{server.url}/embeddings": {"input": 1_000.0, "output": 0.0}}
        async with embedding(tmp_path, chosen(server, models={"prices": price, "daily_usd": 0.007})) as made:
            await made.learn()
            held = await failure(made)
            assert isinstance(held, ModelHeldBack)
            assert held.reason == "cap"
            assert len(server.asked) == 1

    asyncio.run(job())


def test_the_key_comes_from_the_environment_and_is_never_told(
    server: EmbeddingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def job() -> None:
        async with embedding(tmp_path, chosen(server)) as made:
            await made.learn()
        monkeypatch.setenv("FOVEATE_ENDPOINT_KEY", KEY)
        async with embedding(tmp_path, chosen(server)) as made:
            await made.learn()
            assert server.keys == [None, f"Bearer {KEY}"]
            server.answer = 401, f"the key {KEY} is wrong"
            failed = await failure(made)
        assert isinstance(failed, ModelUnavailable)
        assert "answers 401: the key [key] is wrong" in str(failed)

    asyncio.run(job())


def test_a_key_that_is_wanted_and_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    recall = {"embeddings": "https://api.openai.com/v1", "embeddings_model": "text-embedding-3-small"}
    with pytest.raises(SettingsError, match=r"recall\.embeddings: no key; set the environment variable OPENAI_API_KEY"):
        endpoint_of(load_settings(environment={}, overrides={"recall": recall}))
    models = {"key_variables": {"api.openai.com": "TEAM_KEY"}}
    with pytest.raises(SettingsError, match="TEAM_KEY"):
        endpoint_of(load_settings(environment={}, overrides={"recall": recall, "models": models}))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"embeddings": "http://host/v1"}, "recall: embeddings_model is missing"),
        ({"embeddings": "ftp://host/v1", "embeddings_model": "m"}, "takes static, minilm or an address"),
    ],
)
def test_an_address_that_can_t_be_used_is_told(given: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        load_settings(environment={}, overrides={"recall": given})


def test_an_address_with_a_key_in_it_is_refused() -> None:
    recall = RecallSettings(embeddings=f"http://u:{KEY}@host/v1", embeddings_model="m")
    with pytest.raises(SettingsError, match="the name may contain a key"):
        endpoint_of(Settings(recall=recall))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((200, "hello"), "no list of embeddings"),
        ((200, '{"data": [{"embedding": "words"}]}'), "no list of embeddings"),
        ((200, '{"data": [{"embedding": [1]}, {"embedding": [1, 2]}]}'), "no list of embeddings"),
        ((200, '{"data": []}'), "has the shape"),
        ((200, '{"data": [{"embedding": [NaN]}]}'), "has the shape"),
        ((200, '{"data": [{"embedding": []}]}'), "have 0 numbers instead of 1 to 8,192"),
        ((500, "out of memory"), "answers 500: out of memory"),
        ((302, ""), "answers 302"),
    ],
)
def test_whatever_it_answers_is_a_failure_that_says_what_is_wrong(
    server: EmbeddingServer, tmp_path: Path, answer: tuple[int, str], problem: str
) -> None:
    async def job() -> None:
        server.answer = answer
        async with embedding(tmp_path, chosen(server)) as made:
            failed = await failure(made)
        assert isinstance(failed, ModelFailed)
        assert problem in str(failed)
        assert len(server.asked) == 1

    asyncio.run(job())


def test_vectors_of_another_length_than_before_are_refused(server: EmbeddingServer, tmp_path: Path) -> None:
    async def job() -> None:
        async with embedding(tmp_path, chosen(server)) as made:
            await made.learn()
            server.zeros = 0
            assert "256 numbers instead of 300, as before" in str(await failure(made))
        assert [call.outcome for call in read_calls(str(tmp_path / "accounts.db"))] == ["ok", "unfit"]

    asyncio.run(job())


def test_nobody_there_and_no_answer_in_time_are_failures_after_which_it_rests(
    server: EmbeddingServer, tmp_path: Path
) -> None:
    async def job() -> None:
        server.stalled.clear()
        async with embedding(tmp_path, chosen(server, embeddings_seconds=0.05)) as slow:
            first = str(await failure(slow))
            assert "no answer within 0.05 s" in first or "timed out" in first  # whichever clock is first
            server.stalled.set()
            rests = await failure(slow)
        assert isinstance(rests, ModelHeldBack)
        assert 0 < rests.retry_after_seconds <= REST_SECONDS
        async with embedding(tmp_path, chosen(server, embeddings="http://127.0.0.1:9/v1")) as nobody:
            assert "can't be reached" in str(await failure(nobody))

    asyncio.run(job())


async def filled(fov: Foveate, *texts: str) -> Session:
    session = await fov.session("s")
    for text in texts:
        await session.record([{"role": "user", "content": text}])
    return session


SAID = ("The invoice is overdue.", "My dog barks at the postman.", "We sail to Lisbon in June.")


def test_what_it_makes_is_indexed_and_searched(server: EmbeddingServer, tmp_path: Path) -> None:
    async def job() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=chosen(server)) as fov:
            session = await filled(fov, *SAID)
            await fov.settle()
            state = await fov.index_state()
            assert state.makers == (f"1 tiny@{server.url[7:-3]} 300",)
            assert (state.missing, state.problem) == (0, "")
            (found, *_) = await session.search("late payment of a bill")
            assert (found.turn_id, found.keyword) == ("T-1", 0.0)
            assert found.similarity > 0.2

    asyncio.run(job())


def test_while_it_fails_words_are_searched_and_vectors_are_made_when_it_is_back(
    server: EmbeddingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("foveate.recall.embed.endpoint.REST_SECONDS", 0.0)
    server.answer = 503, "starting"

    async def job() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=chosen(server)) as fov:
            session = await filled(fov, *SAID)
            with caplog.at_level(logging.WARNING):
                await fov.settle()
                assert [found.turn_id for found in await session.search("dogs")] == ["T-2"]
                assert (await session.context("What does my dog bark at?")).tokens
            assert "found by its words: model tiny@" in caplog.text
            assert "searching by words alone" in caplog.text
            state = await fov.index_state()
            assert "answers 503: starting" in state.problem
            assert (state.makers, state.missing) == (("1 ",), 3)
            server.answer = None
            await fov.settle()
            assert (await fov.index_state()).missing == 0
            assert [found.turn_id for found in await session.search("late payment of a bill")][:1] == ["T-1"]

    asyncio.run(job())


def test_what_was_made_before_a_limit_came_is_kept_and_not_paid_for_again(
    server: EmbeddingServer, tmp_path: Path
) -> None:
    async def job() -> None:
        settings = chosen(server, embeddings_batch=2, models={"requests_per_minute": 3})
        async with foveate.open(tmp_path / "chat.db", settings=settings) as fov:
            await filled(fov, *SAID, *SAID, *SAID)
            await fov.settle()
            assert len(server.asked) == 3
        async with foveate.open(tmp_path / "chat.db", settings=chosen(server, embeddings_batch=2)) as fov:
            await fov.settle()
            assert (await fov.index_state()).missing == 0
        texts = [text for asked in server.asked for text in asked["input"] if text in SAID]
        assert len(texts) == 9

    asyncio.run(job())


def test_the_worker_tries_again_by_itself(
    server: EmbeddingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.recall.embed.endpoint.REST_SECONDS", 0.0)
    monkeypatch.setattr("foveate.worker.loop.PAUSE_SECONDS", 0.01)
    server.answer = 503, "starting"

    async def job() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=chosen(server)) as fov:
            await filled(fov, *SAID)
            await asyncio.to_thread(wait_until, lambda: len(server.asked) > 1)
            server.answer = None

            async def is_made() -> bool:
                return (await fov.index_state()).missing <= 1  # the newest turn is open

            await until(is_made)

    asyncio.run(job())


def test_an_index_of_another_model_is_made_anew(server: EmbeddingServer, tmp_path: Path) -> None:
    async def job() -> None:
        async with foveate.open(tmp_path / "chat.db", settings=chosen(server, embeddings="static")) as fov:
            await filled(fov, *SAID)
            await fov.settle()
        for zeros, size in ((44, 300), (768, 1_024)):
            server.zeros = zeros
            async with foveate.open(tmp_path / "chat.db", settings=chosen(server)) as fov:
                assert (await fov.index_state()).missing == 3
                await fov.rebuild_index()
                assert (await fov.index_state()).makers == (f"1 tiny@{server.url[7:-3]} {size}",)
                found = await (await fov.session("s")).search("late payment of a bill")
                assert found[0].turn_id == "T-1"

    asyncio.run(job())


@pytest.mark.parametrize("dimensions", [3, 100, 320])
def test_vectors_of_any_length_are_found_among_many(dimensions: int) -> None:
    random = np.random.default_rng(1)
    rows = random.standard_normal((EXACT_PASSAGES + 500, dimensions)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    vectors = Vectors(dimensions)
    step = 4_096
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        vectors.add(np.arange(start, start + len(some)), unpack(pack(some, range(len(some))), dimensions))
    alike = vectors.compare(rows[77], len(rows))
    assert not alike.is_exact
    assert alike.places[np.argmax(alike.found)] == 77 or dimensions == 3
    assert alike.found.max() > 0.98
