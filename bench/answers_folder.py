"""The first step of `bench/answers.py` and `bench/knowledge_tasks.py`: a folder with what a model would see.

The folder has `items/ID.txt`, `batches.txt`, `README.md` (instructions for the reader), `tool.py`, `tools.json`,
`stores/` (for the tools) and `private/manifest.json`, which maps an item to its question, condition and gold answer.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import foveate
import foveate.sync as blocking
from answers_tool import SESSION
from foveate.settings import load_settings
from foveate.tokens import count_tokens
from live_play import sittings
from retention import moment

CONDITIONS = ("live", "live+tools", "history", "history+tools", "newest", "whole")
TASK_CONDITIONS = ("with knowledge", "without knowledge", "past sessions", "written knowledge")
"""Those of `bench/knowledge_tasks.py`."""
WHOLE_SETS = ("locomo-dev",)
"""Sets whose whole transcripts (about 21,000 tokens each) a reader can read for every question."""
TEMPLATES = Path(__file__).resolve().parent / "data" / "answers"
MANIFEST = Path("private") / "manifest.json"
SETTINGS = {"recall": {"deadline_seconds": None}}
"""The defaults; recall is waited for, so that two runs write the same items."""
ID_CHARS = 10
MESSAGE_TOKENS = 4
"""Framing of a message that is not made by Foveate."""
EVIDENCE_CHARS = 600
"""The part of a piece of evidence that a judge sees."""

Conversation = Mapping[str, Any]
Question = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """One question in one condition, as a model would see it."""

    id: str
    conversation: str
    question: str
    condition: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    tokens: int = 0

    @property
    def text(self) -> str:
        return render_request(self.id, self.messages, self.tools)


def write_folder(
    folder: Path,
    conversations: Sequence[Conversation],
    *,
    data: str,
    budget_tokens: int,
    questions: int,
    conditions: Sequence[str],
) -> None:
    """Play the conversations and write an item for each chosen question and condition."""
    make_folder(folder)
    chosen = choose_questions(conversations, questions)
    items: list[Item] = []
    for conversation in conversations:
        own = [question for question in conversation["questions"] if question["id"] in chosen]
        if own:
            print(f"{conversation['id']}: {len(own)} questions", file=sys.stderr, flush=True)
            items += make_items(conversation, own, conditions, budget_tokens=budget_tokens, stores=folder / "stores")
    items.sort(key=lambda item: item.id)
    stores = {item.id: f"{item.conversation}.db" for item in items if item.tools}
    source = str(Path(foveate.__file__).resolve().parents[1])
    tools = {"source": source, "settings": SETTINGS, "stores": stores}
    (folder / "tools.json").write_text(json.dumps(tools, indent=1))
    shutil.copyfile(Path(__file__).with_name("answers_tool.py"), folder / "tool.py")
    gold = {key: question for one in conversations for key, question in _gold(one) if key in chosen}
    write_batches(folder, make_batches(items))
    fill_folder(folder, items, gold, data=data, budget_tokens=budget_tokens)


def make_folder(folder: Path) -> None:
    """Make a new folder outside of any repository."""
    refuse_repository(folder)
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty; choose a new folder")
    for part in ("items", "stores", "private"):
        (folder / part).mkdir(parents=True, exist_ok=True)


def write_batches(folder: Path, rounds: Iterable[Sequence[Sequence[str]]]) -> None:
    """Write a line for each batch, and an empty one between two rounds."""
    lines = ("".join(f"{' '.join(batch)}\n" for batch in batches) for batches in rounds)
    (folder / "batches.txt").write_text("\n".join(lines))


def fill_folder(
    folder: Path,
    items: Sequence[Item],
    gold: Mapping[str, Mapping[str, Any]],
    *,
    data: str,
    budget_tokens: int,
    kind: str = "",
) -> None:
    """Write the items, the instructions of their kind, and the key: questions with their gold answers."""
    for item in items:
        (folder / "items" / f"{item.id}.txt").write_text(item.text)
    shutil.copyfile(TEMPLATES / f"reader{kind}.md", folder / "README.md")
    manifest = {
        "data": data,
        "budget_tokens": budget_tokens,
        "foveate": foveate.__version__,
        "reader": file_hash(folder / "README.md"),
        "judge": f"judge{kind}.md",
        "questions": gold,
        "items": {
            item.id: {
                "question": item.question,
                "condition": item.condition,
                "tokens": item.tokens,
                "sha256": file_hash(folder / "items" / f"{item.id}.txt"),
            }
            for item in items
        },
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))


def refuse_repository(folder: Path) -> None:
    """Exit if the folder is inside a repository: the conversations and questions must not be redistributed."""
    path = folder.resolve()
    for parent in (path, *path.parents):
        if (parent / ".git").exists():
            sys.exit(
                f"{folder} is inside the repository {parent}: contexts, questions and gold answers must not be"
                " redistributed; choose a folder elsewhere, e.g. under /tmp"
            )


def choose_questions(conversations: Sequence[Conversation], count: int) -> set[str]:
    """Choose questions spread evenly over categories and conversations; more questions contain those of fewer.

    The questions of each category of each conversation are sorted by a hash of their id. Each round takes the next one
    of every category and conversation, and goes through them so that neighbours differ in both.
    """
    cells: dict[tuple[str, int], list[str]] = defaultdict(list)
    for place, conversation in enumerate(conversations):
        for question in conversation["questions"]:
            cells[question["category"], place].append(question["id"])
    for cell in cells.values():
        cell.sort(key=_hash)
    categories = sorted({category for category, _ in cells})
    rounds = max(map(len, cells.values()), default=0)
    order = (
        cells[category, place][number]
        for number in range(rounds)
        for shift in range(len(conversations))
        for at, category in enumerate(categories)
        for place in [(at + shift) % len(conversations)]
        if number < len(cells[category, place])
    )
    return set(itertools.islice(order, count))


def make_items(
    conversation: Conversation,
    questions: Sequence[Question],
    conditions: Sequence[str],
    *,
    budget_tokens: int,
    stores: Path,
) -> Iterator[Item]:
    """Play a conversation, without tools and with them as conditions require, and ask each question at its end.

    Each question is asked in a copy of the store, so that no context depends on another question. A session that has
    tools has them from its first turn. Its store is kept in `stores`.
    """
    with ExitStack() as stack:
        played: dict[bool, Path] = {}
        for has_tools in (False, True):
            if any(_is_session(each) and _has_tools(each) is has_tools for each in conditions):
                parent = stores if has_tools else Path(stack.enter_context(tempfile.TemporaryDirectory()))
                played[has_tools] = parent / f"{conversation['id']}.db"
                play(conversation, played[has_tools], budget_tokens, has_tools=has_tools)
        for question, condition in itertools.product(questions, conditions):
            key = _hash(f"{budget_tokens} {question['id']} {condition}")[:ID_CHARS]
            names = (key, conversation["id"], question["id"], condition)
            if _is_session(condition):
                yield ask_session(names, question["question"], played[_has_tools(condition)])
            else:
                room = budget_tokens if condition == "newest" else None
                messages = transcript_request(conversation["turns"], question["question"], room)
                yield Item(*names, messages, tokens=request_tokens(messages))


def play(conversation: Conversation, store: Path, budget_tokens: int, *, has_tools: bool) -> None:
    """Record a conversation in a session of that budget, with one context before every prompt."""
    with blocking.open(store, settings=load_settings(environment={}, overrides=SETTINGS)) as fov:
        session = fov.session(SESSION, budget_tokens=budget_tokens)
        for _, exchanges in sittings(conversation["turns"], by_utterance=False):
            for exchange in exchanges:
                if exchange.prompt:
                    session.context(exchange.prompt, tools=has_tools)
                session.record(exchange.turn, at=moment(exchange.date))
                fov.settle()


def ask_session(names: tuple[str, str, str, str], question: str, store: Path) -> Item:
    """Make the request for a question at the end of a played session."""
    condition = names[-1]
    settings = load_settings(environment={}, overrides=SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copyfile(store, Path(folder) / store.name)
        with blocking.open(copy, settings=settings) as fov:
            context = fov.open_session(SESSION).context(
                question, recall=condition.startswith("live"), tools=_has_tools(condition)
            )
    assert context.tokens <= context.budget_tokens
    request = context.request("openai")
    return Item(*names, request["messages"], request.get("tools", ()), context.tokens)


def transcript_request(
    turns: Sequence[Mapping[str, str]], question: str, budget_tokens: int | None
) -> list[dict[str, str]]:
    """Make a request with the transcript and a date before each day; with a budget, its newest tokens that fit."""
    part = "The whole conversation" if budget_tokens is None else "The newest part of the conversation"
    messages = [
        {"role": "system", "content": f"{part}, with the date before each day."},
        {"role": "user", "content": ""},
        {"role": "user", "content": question},
    ]
    shown = turns if budget_tokens is None else newest_turns(turns, budget_tokens - request_tokens(messages))
    messages[1]["content"] = transcript(shown)
    assert budget_tokens is None or request_tokens(messages) <= budget_tokens
    return messages


def request_tokens(messages: Iterable[Mapping[str, str]]) -> int:
    return sum(MESSAGE_TOKENS + count_tokens(message["content"]) for message in messages)


def newest_turns(turns: Sequence[Mapping[str, str]], room_tokens: int) -> list[Mapping[str, str]]:
    """Return the newest turns that fit; of the oldest of them, only its end."""
    kept: list[Mapping[str, str]] = []
    for turn in reversed(turns):
        is_new_day = not kept or _day(turn) != _day(kept[-1])
        header = count_tokens(f"{_day(turn)}\n") if is_new_day else 0
        tokens = header + count_tokens(_line(turn))
        if tokens > room_tokens:
            words = turn["text"].split(" ")
            low, high = 0, len(words)
            while low < high:
                middle = (low + high + 1) // 2
                fits = header + count_tokens(_line(_end_of(turn, words, middle))) <= room_tokens
                low, high = (middle, high) if fits else (low, middle - 1)
            if low:
                kept.append(_end_of(turn, words, low))
            break
        kept.append(turn)
        room_tokens -= tokens
    return kept[::-1]


def _end_of(turn: Mapping[str, str], words: Sequence[str], count: int) -> dict[str, str]:
    return {**turn, "text": f"… {' '.join(words[len(words) - count :])}"}


def transcript(turns: Iterable[Mapping[str, str]]) -> str:
    """Write turns one after the other, with a line for each day."""
    lines: list[str] = []
    for day, own in itertools.groupby(turns, _day):
        lines += [f"{day}\n", *map(_line, own)]
    return "".join(lines)


def _line(turn: Mapping[str, str]) -> str:
    return f"{turn['who']}: {turn['text']}\n"


def _day(turn: Mapping[str, str]) -> str:
    at = moment(turn["date"])
    return f"{at.day} {at:%B %Y}:" if at else ""


def render_request(item: str, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
    """Write a request in OpenAI's format as text: a section for the tools, and one for each message."""
    sections = []
    if tools:
        lines = [json.dumps(tool["function"], ensure_ascii=False) for tool in tools]
        sections.append("\n".join(["----- tools -----", f"python tool.py {item} NAME 'ARGUMENTS AS JSON'", *lines, ""]))
    for message in messages:
        content = message["content"]
        parts = [content] if isinstance(content, str) else [part["text"] for part in content]
        text = "".join(part if part.endswith("\n") else f"{part}\n" for part in parts)
        sections.append(f"----- {message['role']} -----\n{text}")
    return "\n".join(sections)


def make_batches(items: Sequence[Item]) -> list[list[list[str]]]:
    """Group items into rounds that have every question once, and rounds into batches.

    A batch has at most one question of each conversation. Conditions take turns over the questions of a round. The
    items that tell most of a conversation come last, in case one reader does many batches.
    """
    conditions = [each for each in CONDITIONS if any(item.condition == each for item in items)]
    questions = sorted({(item.conversation, item.question) for item in items})
    rounds: list[dict[str, list[Item]]] = [defaultdict(list) for _ in conditions]
    for item in items:
        place = questions.index((item.conversation, item.question)) + conditions.index(item.condition)
        rounds[place % len(conditions)][item.conversation].append(item)
    return [
        [[item.id for item in batch if item] for batch in itertools.zip_longest(*(map(_least_first, own.values())))]
        for own in rounds
    ]


def _least_first(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: (item.condition == "whole", _has_tools(item.condition), item.id))


def file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _is_session(condition: str) -> bool:
    return condition.startswith(("live", "history"))


def _has_tools(condition: str) -> bool:
    return condition.endswith("+tools")


def _gold(conversation: Conversation) -> Iterator[tuple[str, dict[str, Any]]]:
    turns = {turn["id"]: turn for turn in conversation["turns"]}
    for question in conversation["questions"]:
        evidence = [
            f"{_day(turn)} {_line(turn)}"[:EVIDENCE_CHARS] for turn in map(turns.get, question["evidence"]) if turn
        ]
        yield (
            question["id"],
            {
                "question": question["question"],
                "gold": question["answer"],
                "category": question["category"],
                "evidence": evidence,
            },
        )
