"""A cross-encoder puts candidates in order; where it can't, that is told, and when it is late, nothing changes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import foveate
from foveate.errors import SettingsError
from foveate.recall.deadline import run_stages
from foveate.recall.embed.static import MAX_PIECES, MINILM_BEGIN, MINILM_END, minilm_pieces, pair_pieces
from foveate.recall.rerank import Reranker
from foveate.settings import Settings, load_settings
from support.onnx_files import write_counter

HOOK = minilm_pieces("hook")[1]
TEXTS = ["the barrel", "a hook", "a hook, and a hook beside the hook", "hook and hook", "the sea"]


def test_a_question_and_a_text_are_read_together_within_the_model_s_room() -> None:
    one, two = pair_pieces("which hook?", "a hook")
    assert (one[0], one[-1], two[-1]) == (MINILM_BEGIN, MINILM_END, MINILM_END)
    assert HOOK in one
    assert HOOK in two
    for question, text in (("why " * 1_000, "sea"), ("why", "sea " * 1_000), ("why " * 1_000, "sea " * 1_000)):
        one, two = pair_pieces(question, text)
        assert len(one) + len(two) <= MAX_PIECES
        assert (one[-1], two[-1]) == (MINILM_END, MINILM_END)
        assert len(two) > 1


@pytest.mark.parametrize("scores", [1, 2])
def test_what_answers_best_comes_first_and_equals_keep_their_order(tmp_path: Path, scores: int) -> None:
    reranker = Reranker(write_counter(tmp_path / "counter.onnx", HOOK, scores=scores))
    assert asyncio.run(reranker.order("the hook hook hook hook", TEXTS)) == [2, 3, 1, 0, 4]
    assert asyncio.run(reranker.order("hook", [*(["sea"] * 20), "hook"]))[0] == 20
    assert asyncio.run(reranker.order("hook", [])) == []


def test_a_file_that_is_no_cross_encoder_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"recall\.reranker_path: there is no file"):
        Reranker(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("not a model")
    with pytest.raises(SettingsError, match=r"text\.onnx can't be read as an ONNX model"):
        Reranker(tmp_path / "text.onnx")
    with pytest.raises(SettingsError, match=r"is no cross-encoder: \(1, 3\) is no score"):
        Reranker(write_counter(tmp_path / "three.onnx", HOOK, scores=3))
    other = write_counter(
        tmp_path / "other.onnx", HOOK, inputs=("input_ids", "attention_mask", "token_type_ids", "pixels")
    )
    with pytest.raises(SettingsError, match=r"is no cross-encoder: it also takes pixels"):
        Reranker(other)


def test_a_package_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(SettingsError, match=r"recall\.reranker_path: needs onnxruntime; install foveate\[minilm\]"):
        Reranker(tmp_path / "counter.onnx")


def test_a_late_order_is_no_order(tmp_path: Path) -> None:
    reranker = Reranker(write_counter(tmp_path / "counter.onnx", HOOK))

    async def job() -> None:
        done = await run_stages({"rerank": lambda: reranker.order("hook", TEXTS)}, 0.0)
        assert done.late == ("rerank",)

    asyncio.run(job())


def recalled(path: Path, chosen: Settings) -> str:
    """The memory for a question whose answer the ranking would not put first, with room for little."""

    async def job() -> str:
        async with foveate.open(path, settings=chosen) as fov:
            session = await fov.session("s", budget_tokens=2_000)
            if not session.info.turns:
                await session.record([{"role": "user", "content": "It hangs on the hook of the boat house, I think."}])
                for number in range(40):
                    said = f"The spare key of the boat shed is a key for shed number {number}. " * 4
                    await session.record([{"role": "user", "content": said}])
                await fov.settle()
            context = await session.context("Where is the spare key of the boat shed?", budget_tokens=700)
            return "".join(segment.text for segment in context.segments if segment.name == "memory")

    return asyncio.run(job())


def test_a_context_shows_what_the_cross_encoder_puts_first_unless_it_is_late(tmp_path: Path) -> None:
    model = write_counter(tmp_path / "counter.onnx", HOOK)

    def chosen(**recall: object) -> Settings:
        given = {"recall": {"deadline_seconds": 30.0, "gate": False, **recall}, "compress": {"processes": 0}}
        return load_settings(environment={}, overrides=given)

    reordered = {"reranker_path": str(model), "candidates": 200, "rerank_seconds": 30.0}
    plain = recalled(tmp_path / "s.db", chosen())
    assert plain
    assert "hook" not in plain
    assert "hook" in recalled(tmp_path / "s.db", chosen(**reordered))
    assert recalled(tmp_path / "s.db", chosen(**{**reordered, "rerank_seconds": 0.0})) == plain
