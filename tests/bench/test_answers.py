"""Items for readers are what a model would see, sheets hide the condition, and verdicts are counted right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from answers_folder import (
    CONDITIONS,
    Item,
    choose_questions,
    make_batches,
    newest_turns,
    refuse_repository,
    render_request,
    request_tokens,
    transcript,
    transcript_request,
    write_folder,
)
from answers_score import Judged, Verdict, load_saved, load_verdicts, render, save, score, write_sheets
from answers_tool import call

FACTS = ("the boat is called Wanda", "the code of the shed is 4711", "the aunt lives in Turin", "the cat eats trout")
BUDGET_TOKENS = 1_500


def conversation(name: str, *, turns: int = 90, category: str = "single-hop") -> dict[str, Any]:
    def said(number: int) -> str:
        fact = FACTS[number % len(FACTS)]
        return f"Remember number {number} of {name}, because {fact}, and so it was on every one of those days."

    return {
        "id": name,
        "turns": [
            {"id": f"D{n}", "who": ("Ann", "Bob")[n % 2], "text": said(n), "session": n // 10,
             "date": f"9:00 am on {1 + n // 10} May, 2023"}
            for n in range(turns)
        ],
        "questions": [
            {"id": f"{name}-q{n}", "question": f"Where does the aunt live, asks number {n}?", "answer": f"gold {n}",
             "evidence": [f"D{n}"], "category": category if n % 2 else "temporal"}
            for n in range(8)
        ],
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small conversations, two questions, all conditions."""
    path = tmp_path_factory.mktemp("answers") / "folder"
    conversations = [conversation("one"), conversation("two", category="event_ordering")]
    write_folder(path, conversations, data="tiny", budget_tokens=BUDGET_TOKENS, questions=2, conditions=CONDITIONS)
    return path


def manifest_of(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / "private" / "manifest.json").read_text())
    return manifest


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_questions_are_spread_evenly_over_conversations_and_categories() -> None:
    conversations = [conversation(name) for name in ("one", "two", "three")]
    chosen = choose_questions(conversations, 12)
    cells = {(key.split("-")[0], int(key[-1]) % 2) for key in choose_questions(conversations, 6)}
    assert len(cells) == 6
    assert [sum(key.startswith(each["id"]) for key in chosen) for each in conversations] == [4, 4, 4]
    assert sum(int(key[-1]) % 2 for key in chosen) == 6


def test_the_same_questions_are_chosen_in_every_run_and_more_contain_fewer() -> None:
    conversations = [conversation(name) for name in ("one", "two")]
    assert choose_questions(conversations, 5) < choose_questions(conversations, 9)
    assert len(choose_questions(conversations, 1_000)) == 16


def test_newest_turns_fill_the_budget_and_dates_begin_each_day() -> None:
    turns = conversation("one", turns=100)["turns"]
    messages = transcript_request(turns, "What?", 400)
    assert 380 <= request_tokens(messages) <= 400
    assert messages[1]["content"].splitlines()[-1].endswith(turns[-1]["text"])
    assert messages[1]["content"].count(" May 2023:") == 2
    assert newest_turns(turns, 0) == []


def test_of_the_oldest_turn_that_does_not_fit_the_end_is_shown() -> None:
    turns = [{"who": "Ann", "text": " ".join(map(str, range(500))), "date": ""}]
    (shown,) = newest_turns(turns, 100)
    assert shown["text"].startswith("… ")
    assert shown["text"].endswith(" 498 499")


def test_the_whole_transcript_has_every_turn() -> None:
    turns = conversation("one")["turns"]
    text = transcript_request(turns, "What?", None)[1]["content"]
    assert text == transcript(turns)
    assert all(turn["text"] in text for turn in turns)


def test_a_request_is_written_message_by_message_and_ends_with_the_question() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Rules"},
        {"role": "user", "content": [{"type": "text", "text": "<memory>\n"}, {"type": "text", "text": "Who?"}]},
    ]
    tools = [{"type": "function", "function": {"name": "get_turn"}}]
    text = "----- system -----\nRules\n\n----- user -----\n<memory>\nWho?\n"
    assert render_request("abc", messages, ()) == text
    assert render_request("abc", messages, tools).endswith(f'{{"name": "get_turn"}}\n\n{text}')


def test_a_round_has_every_question_once_and_a_batch_one_of_each_conversation() -> None:
    items = [
        Item(f"{name}{question} {condition}", name, f"{name}{question}", condition, ())
        for name in ("a", "b")
        for question in range(3)
        for condition in ("live", "whole")
    ]
    assert make_batches(items) == [
        [["a0 live", "b1 live"], ["a2 live", "b0 whole"], ["a1 whole", "b2 whole"]],
        [["a1 live", "b0 live"], ["a0 whole", "b2 live"], ["a2 whole", "b1 whole"]],
    ]


def test_a_folder_inside_a_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="inside the repository"):
        refuse_repository(Path(__file__).parent / "answers")
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    with pytest.raises(SystemExit, match="must not be"):
        write_folder(tmp_path / "new", [], data="tiny", budget_tokens=1, questions=1, conditions=CONDITIONS)
    assert not (tmp_path / "new").exists()


def test_an_item_has_everything_a_model_would_see_but_not_the_condition(folder: Path) -> None:
    manifest = manifest_of(folder)
    assert len(manifest["items"]) == 2 * len(CONDITIONS)
    for item, private in manifest["items"].items():
        text = (folder / "items" / f"{item}.txt").read_text()
        question = manifest["questions"][private["question"]]
        assert text.endswith(f"{question['question']}\n")
        assert question["gold"] not in text
        assert private["condition"] not in item
        assert text.startswith("----- tools -----") is private["condition"].endswith("+tools")
        assert ("<memory>" in text) is private["condition"].startswith("live")
        assert private["condition"] == "whole" or private["tokens"] <= BUDGET_TOKENS


def test_a_tool_call_finds_turns_and_changes_no_other_item(folder: Path) -> None:
    manifest = manifest_of(folder)
    store = (folder / "stores" / "one.db").read_bytes()
    with_tools = [
        item
        for item, private in manifest["items"].items()
        if private["condition"].endswith("+tools") and private["question"].startswith("one")
    ]
    found = [call(folder, item, "search_history", '{"query": "aunt Turin"}') for item in with_tools]
    assert "the aunt lives in Turin" in found[0]
    assert found[0] == found[1]
    assert (folder / "stores" / "one.db").read_bytes() == store
    others = [item for item, private in manifest["items"].items() if private["condition"] == "live"]
    with pytest.raises(SystemExit, match="has no tools"):
        call(folder, others[0], "search_history", "{}")


def test_sheets_hide_the_condition_and_verdicts_are_joined_to_it(folder: Path, tmp_path: Path) -> None:
    manifest = manifest_of(folder)
    given = [{"item": item, "answer": "Not in the context.", "tool_calls": 1} for item in manifest["items"]]
    (sheet,) = write_sheets(folder, [write_lines(tmp_path / "answers.jsonl", given)])
    lines = [json.loads(line) for line in sheet.read_text().splitlines()]
    assert {line["item"] for line in lines} == set(manifest["items"])
    assert {key for line in lines for key in line} == {"item", "question", "gold", "category", "evidence", "answer"}
    assert [line["item"] for line in lines] != sorted(line["item"] for line in lines)

    verdicts = [{"item": line["item"], "verdict": "partly", "order": 0.5} for line in lines]
    judged = load_verdicts(folder, [write_lines(tmp_path / "verdicts.jsonl", verdicts)])
    assert [one.condition for one in judged.verdicts] == [*CONDITIONS, *CONDITIONS]
    assert all(one.not_found and one.verdict == "partly" for one in judged.verdicts)
    assert {one.sha256 for one in judged.verdicts} == {each["sha256"] for each in manifest["items"].values()}

    (tmp_path / "saved").mkdir()
    saved = save(judged, tmp_path / "saved").read_text()
    assert load_saved(tmp_path / "saved") == [judged]
    assert not any(each["question"] in saved or each["gold"] in saved for each in manifest["questions"].values())


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"item": "unknown", "verdict": "right"}, "no such item"),
        ({"verdict": "good"}, "a verdict is one of right, partly, wrong"),
        ({"verdict": "right", "order": 2}, "a number from 0 to 1"),
    ],
)
def test_a_bad_verdict_is_rejected_with_its_line(
    folder: Path, tmp_path: Path, line: dict[str, Any], problem: str
) -> None:
    manifest = manifest_of(folder)
    ordering = next(
        item
        for item, private in manifest["items"].items()
        if manifest["questions"][private["question"]]["category"] == "event_ordering"
    )
    write_sheets(folder, [write_lines(tmp_path / "answers.jsonl", [{"item": ordering, "answer": "a"}])])
    with pytest.raises(SystemExit, match=f"line 1: .*{problem}"):
        load_verdicts(folder, [write_lines(tmp_path / "verdicts.jsonl", [{"item": ordering, **line}])])


def test_scores_are_means_of_right_partly_and_wrong() -> None:
    def verdict(said: str, condition: str = "live", **fields: Any) -> Verdict:
        values = {"not_found": False, "tool_calls": 0, "context_tokens": 100, "sha256": "", **fields}
        return Verdict("q", "temporal", condition, said, **values)

    verdicts = (
        verdict("right"), verdict("right", order=0.5), verdict("partly"), verdict("wrong", not_found=True),
        verdict("right", "live+tools", tool_calls=3), verdict("right", "live+tools"),
    )  # fmt: skip
    mean = score(verdicts[:4])
    assert mean is not None
    assert mean.mean == 0.625
    lines = list(render([Judged("tiny", 4_000, "1", "", "", 8, verdicts)]))
    assert [cell.strip() for cell in lines[2].split("|")[3:8]] == ["live", "4", "2", "1", "1"]
    assert "| 0.625 (0.25 to 1.00) | 1 |  | 0.500 (0.50 to 0.50) | 100 |" in lines[2]
    assert "| live+tools | 2 | 2 | 0 | 0 | 1.000 (1.00 to 1.00) | 0 | 1.5 |" in lines[3]
    assert "| live | 0.62 of 4 |" in lines
    assert lines[-1] == "2 of 8 items have no verdict."
