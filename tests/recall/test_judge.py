"""Models that sort out what was found: their order counts, and their silence changes nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from foveate.models import Ask
from foveate.models.prompts import overridden
from foveate.recall.judge import PART, Judge, JudgedRequest, read_numbers
from foveate.recall.search import Deadline
from foveate.recall.settings import RecallSettings
from foveate.testing.scripted import Says, ScriptedModel
from support.chats import scripted_store
from support.paths import ROOT

GOLDEN = ROOT / "tests" / "recall" / "golden" / "choose.txt"
TEXTS = [f"passage number {number}" for number in range(25)]


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ('{"numbers": [3, 1]}', [2, 0]),
        ('{"numbers": [3, 3, 99, 0, -1, true, "2"]}', [2]),
        ('{"numbers": []}', []),
        ("passages 3 and 1", None),
        ('{"numbers": 3}', None),
        ("[3, 1]", None),
        ("", None),
    ],
)
def test_numbers_are_read_each_once_and_only_those_that_exist(answer: str, read: list[int] | None) -> None:
    assert read_numbers(answer, 5) == read


def order(
    path: Path,
    model: ScriptedModel,
    chosen: RecallSettings,
    deadline_seconds: float | None = None,
    *,
    recent: str = "",
) -> list[int]:
    async def job() -> list[int]:
        async with scripted_store(path / "chat.db", model) as fov:
            await fov.session("s")
            judge = Judge(fov.caller, chosen)
            request = JudgedRequest(text="which number?", session_id="s", recent=recent)
            return list((await judge.choose(request, TEXTS, Deadline(deadline_seconds))).places)

    return asyncio.run(job())


def test_a_filter_sees_parts_side_by_side_and_what_it_leaves_out_is_dropped(tmp_path: Path) -> None:
    model = ScriptedModel(lambda _: Says(json.dumps({"numbers": [2]})))
    found = order(tmp_path, model, RecallSettings(filter_model="small"))
    assert len(model.asks) == -(-len(TEXTS) // PART)
    assert found == [1, 11, 21]


def test_an_empty_answer_is_an_answer(tmp_path: Path) -> None:
    assert order(tmp_path, ScriptedModel(lambda _: Says('{"numbers": []}')), RecallSettings(filter_model="small")) == []


def test_only_the_judge_sees_the_newest_turns(tmp_path: Path) -> None:
    model = ScriptedModel(lambda _: Says('{"numbers": [1]}'))
    order(tmp_path, model, RecallSettings(filter_model="small", judge_model="large"), recent="T-9: the newest")
    seen = ["T-9: the newest" in ask.messages[-1].text for ask in model.asks]
    assert seen == [False, False, False, True]


def test_what_is_asked_reads_as_agreed(tmp_path: Path) -> None:
    model = ScriptedModel(lambda _: Says(json.dumps({"numbers": [2]})))
    order(tmp_path, model, RecallSettings(judge_model="large"))
    (ask,) = model.asks
    body = "".join(f"--- {message.role}\n{message.text}\n" for message in ask.messages)
    head = f"{ask.purpose}, at most {ask.max_output_tokens} tokens, temperature {ask.temperature}\n"
    assert f"{head}{body}--- schema\n{json.dumps(ask.schema, indent=1)}\n" == GOLDEN.read_text("utf-8")


def test_the_judge_sees_what_the_filter_left(tmp_path: Path) -> None:
    def answer(ask: Ask) -> Says:
        is_judge = "1. passage number 1\n2. passage number 11" in ask.messages[-1].text
        return Says(json.dumps({"numbers": [3, 1] if is_judge else [2]}))

    found = order(tmp_path, ScriptedModel(answer), RecallSettings(filter_model="small", judge_model="large"))
    assert found == [21, 1]


def test_an_answer_that_can_t_be_read_leaves_the_order_as_it_was(tmp_path: Path) -> None:
    found = order(
        tmp_path, ScriptedModel(lambda _: Says("I like the third one.")), RecallSettings(filter_model="small")
    )
    assert found == list(range(len(TEXTS)))


def test_without_time_no_model_is_asked(tmp_path: Path) -> None:
    model = ScriptedModel(lambda _: Says(json.dumps({"numbers": [2]})))
    assert order(tmp_path, model, RecallSettings(filter_model="small"), 0.0) == list(range(len(TEXTS)))
    assert model.asks == []


def test_without_a_model_nothing_is_asked() -> None:
    assert not Judge(None, RecallSettings(filter_model="small")).is_asked
    assert not Judge(None, RecallSettings()).is_asked


def test_the_prompt_can_be_overridden(tmp_path: Path) -> None:
    model = ScriptedModel(lambda _: Says('{"numbers": [1]}'))
    with overridden({"recall/choose": "Choose well.\n"}):
        order(tmp_path, model, RecallSettings(judge_model="large"))
    assert model.asks[0].messages[0].text == "Choose well."
