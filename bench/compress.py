"""What the local compressor keeps, and what it costs.

Run from the project's root: python bench/compress.py [--data ../shared/data] [--refusals] [--examples N] [--retention]
or, for the 15 dense turns of a file alone: python bench/compress.py --dense dev [--examples N]
or, for short orders inside of dense turns: python bench/compress.py --orders
or, for what a chat loses (LoCoMo): python bench/compress.py --chats
or, to write the examples of docs/lab/compression.md again: python bench/compress.py --page

Dense: 30 turns of 150 to 400 tokens (`data/turns_*.toml`), every method with the tokens of `local`: facts,
instructions, reversed meanings, and how much of C is in runs of at least three consecutive words of the turn.
Facts: 30 annotated turns (`bench/annotations.py`), the same token budget for every method. Flips: 50 sentences whose
meaning hangs on a word. Sessions: every turn of the pi session and of the tau-bench runs. Retention: the questions in
`qa/`, scored by `../shared/eval/score.py`, on tiny lines alone and on one era of everything (needs nltk).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import re
import statistics
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import baselines
from annotations import (
    SHARED,
    AnnotatedTurn,
    DenseTurn,
    _transcript,
    dense_share,
    flipped,
    kept_share,
    load_dense,
    load_negations,
    load_turns,
)
from foveate.compress.clauses import sentences
from foveate.compress.cues import bare
from foveate.compress.eras import era_text, roll_up
from foveate.compress.lexicon import SPEECHLESS
from foveate.compress.local import LocalCompressor
from foveate.compress.repair import repair
from foveate.compress.smooth import smooth_prose
from foveate.renditions import Refusal, Renditions
from foveate.text import turn_text
from foveate.tokens import count_tokens
from foveate.turn import Message, Text
from foveate.words import content_words

LENGTH = 0.35
RANDOM_RUNS = 5
SESSION_COLUMNS = ["transcript", "turns", "raw tokens", "S", "C", "T on turns of 1,000+", "T too long"]
SESSION_COLUMNS += ["larger than above", "refused C / T", "fell back"]
Summarise = Callable[[str, int], str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--refusals", action="store_true", help="print twenty of what the guard refused")
    parser.add_argument("--examples", type=int, default=0, metavar="N", help="print N annotated turns at C and T")
    parser.add_argument("--retention", action="store_true", help="also score the questions in qa/")
    splits = ["dev", "held_out", "chatty", "chatty_fresh"]
    parser.add_argument("--dense", choices=splits, help="only the turns of this file")
    parser.add_argument("--page", action="store_true", help="write the examples of docs/lab/compression.md again")
    parser.add_argument("--orders", action="store_true", help="only how many short orders C keeps")
    parser.add_argument("--chats", action="store_true", help="only speakers, captions and small talk in LoCoMo")
    arguments = parser.parse_args()
    if arguments.page:
        write_examples()
        return
    if arguments.orders:
        orders_table()
        return
    if arguments.chats:
        chats_table(arguments.data / "qa" / "locomo-dev.json")
        return
    if arguments.dense:
        dense_table(load_dense(arguments.dense), examples=arguments.examples)
        return
    facts_table(load_turns(arguments.data).turns, examples=arguments.examples)
    flips_table()
    corrections_table()
    faults_table()
    refusals = sessions_table(arguments.data / "transcripts")
    if arguments.refusals:
        show_refusals(refusals)
    if arguments.retention:
        retention_table(arguments.data)


PAGE = Path(__file__).resolve().parents[1] / "docs" / "lab" / "compression.md"
PAGE_EXAMPLES = 10


def write_examples() -> None:
    """Writes the first dense turns at each level behind the last heading of the page."""
    shown = []
    for turn in load_dense("dev")[:PAGE_EXAMPLES]:
        made = LocalCompressor().compress(1, turn.messages, count_tokens)
        levels = {"R": turn.text, "S": made.smoothed, "C": made.compressed, "T": made.tiny}
        texts = (
            f"**{name}** ({count_tokens(text)})\n\n```text\n{text.strip()}\n```\n" for name, text in levels.items()
        )
        shown.append("\n".join((f"### {turn.kind.capitalize()}: {turn.id}\n", *texts)))
    before, heading, after = PAGE.read_text("utf-8").partition("## Ten turns at each level\n")
    intro = after.split("### ", 1)[0]
    PAGE.write_text(before + heading + intro + "\n".join(shown), "utf-8")


_SPOKEN = re.compile(r"\w+(?:[.,:'/@-]\w+)*")


def dense_table(turns: Sequence[DenseTurn], *, examples: int = 0) -> None:
    """Facts, instructions, reversed meanings and readability of the dense turns."""
    sizes: dict[str, list[float]] = {}
    facts: dict[str, list[tuple[float, float]]] = {}
    reversed_: list[str] = []
    missing: list[str] = []
    for number, turn in enumerate(turns):
        raw_tokens = count_tokens(turn.text)
        made = LocalCompressor().compress(1, turn.messages, count_tokens)
        compressed, tiny = count_tokens(made.compressed), count_tokens(made.tiny)
        smooth = "S of chatty turns" if turn.is_chatty else "S of dense turns"
        sizes.setdefault(smooth, []).append(count_tokens(made.smoothed) / raw_tokens)
        sizes.setdefault(f"facts in {smooth}", []).append(dense_share(turn.facts, made.smoothed))
        sizes.setdefault("C", []).append(compressed / raw_tokens)
        sizes.setdefault("T tokens", []).append(tiny)
        sizes.setdefault("facts in C, keys anywhere", []).append(dense_share(turn.facts, made.compressed, near=False))
        sizes.setdefault("facts in T, keys anywhere", []).append(dense_share(turn.facts, made.tiny, near=False))
        sizes.setdefault("C in runs of 3 words", []).append(readable_share(turn.text, made.compressed))
        missing += [f"{turn.id}: {fact.keys}" for fact in turn.facts if fact.binding and not fact.kept(made.compressed)]
        units = "\n".join(unit.text for unit in made.units)
        for level, text in (("S", made.smoothed), ("C", made.compressed), ("T", made.tiny), ("units", units)):
            reversed_ += [f"{turn.id} {level}: {probe.claim}" for probe in turn.probes if probe.flipped(text)]
        _note_dense(facts, "local", turn, made.compressed, made.tiny)
        for name, summarise in _methods().items():
            _note_dense(facts, name, turn, summarise(turn.text, compressed), summarise(turn.text, tiny))
        if number < examples:
            lost = [fact.keys for fact in turn.facts if not fact.kept(made.compressed)]
            lost_tiny = [fact.keys for fact in turn.facts if not fact.kept(made.tiny)]
            print(f"### {turn.id}\n\nS: {made.smoothed}\nC: {made.compressed}\n\nT: {made.tiny}\n")
            print(f"not in C: {lost}\nnot in T: {lost_tiny}\n")
    print(
        f"{len(turns)} turns, {sum(len(turn.facts) for turn in turns)} facts\n\n| | mean | worst |\n| --- | --- | --- |"
    )
    for name, column in sizes.items():
        worst = min(column) if "facts" in name or "runs" in name else max(column)
        print(f"| {name} | {statistics.mean(column):.3f} | {worst:.3f} |")
    print("\n| method | facts in C | facts in T |\n| --- | --- | --- |")
    for name, shares in facts.items():
        print(f"| {name} | " + " | ".join(f"{statistics.mean(one):.3f}" for one in zip(*shares, strict=True)) + " |")
    binding = sum(fact.binding for turn in turns for fact in turn.facts)
    print(f"\ninstructions not in C: {len(missing)} of {binding}", *missing, sep="\n  ")
    print(f"reversed: {len(reversed_)} of {sum(len(turn.probes) for turn in turns)} probes", *reversed_, sep="\n  ")


def _note_dense(
    rows: dict[str, list[tuple[float, float]]], name: str, turn: DenseTurn, compressed: str, tiny: str
) -> None:
    shares = dense_share(turn.facts, compressed), dense_share(turn.facts, tiny)
    rows.setdefault("random, mean of 5" if name.startswith("random") else name, []).append(shares)


MIN_ORDER_SHARE = 0.75
"""An order counts as kept if C has this share of its words, those of grammar left out."""


def orders_table() -> None:
    """How many short orders C keeps that are part of a dense turn, said by the user and by the assistant."""
    data = tomllib.loads((Path(__file__).parent / "data" / "orders.toml").read_text("utf-8"))
    for name in ("used", "fresh"):
        kept = [
            order_kept(order, user, answer)
            for order in data[name]
            for turn in data["turn"]
            for user, answer in (
                (f"{turn['opening']} {order} {turn['rest']}", turn["assistant"]),
                (f"{turn['opening']} {turn['rest']}", f"{turn['assistant']} {order}"),
            )
        ]
        print(f"{name}: C keeps {sum(kept)} of {len(kept)} orders")


def order_kept(order: str, user: str, answer: str) -> bool:
    messages = Message("user", (Text(user),)), Message("assistant", (Text(answer),))
    made = LocalCompressor().compress(1, messages, count_tokens)
    known = set(map(bare, made.compressed.split()))
    words = [word for word in map(bare, order.split()) if word not in SPEECHLESS]
    return sum(word in known for word in words) >= MIN_ORDER_SHARE * len(words)


_CAPTION = re.compile(r"\[shared image[^\]]*\]")
_POLITE = re.compile(
    r"(?i)\b(?:thanks|thank you|hey|hi|hello|(?:good|great|nice) to (?:see|hear)|bye|take care|congrats|congratulations"
    r"|wow|how are you|how have you been|what's up|how's it going)\b"
)
MAX_POLITE_WORDS, MIN_SAID_WORDS = 4, 3


def chats_table(path: Path) -> None:
    """Turns of a chat whose renditions lose the speaker, or spend words on captions or small talk."""
    counts: Counter[tuple[str, str]] = Counter()
    for chat in json.loads(path.read_text()):
        for number, turn in enumerate(chat["turns"], 1):
            made = _recorded(number, turn)
            said = _CAPTION.sub("", turn["text"])
            words = content_words(said)
            shown = content_words(" ".join(_CAPTION.findall(turn["text"]))) - words
            polite, rest = (_words_of(said, is_polite=is_polite) for is_polite in (True, False))
            polite = polite - rest if len(rest) >= MIN_SAID_WORDS else frozenset()
            for level, text in (("C", made.compressed), ("T", made.tiny), ("brief", made.brief)):
                known = content_words(text.partition(": ")[2])
                counts[level, "turns"] += bool(text)
                counts[level, "no speaker"] += bool(text) and not text.startswith(f"{turn['who']}: ")
                counts[level, "caption, words of the turn dropped"] += bool(known & shown) and not words <= known
                counts[level, "more caption than words of the turn"] += len(known & shown) > len(known & words)
                counts[level, "small talk, words of a statement dropped"] += bool(known & polite) and not rest <= known
                counts[level, "more small talk than statement"] += len(known & polite) > len(known & rest)
    print("| turns with | C | T | brief |\n| --- | --- | --- | --- |")
    for name in dict.fromkeys(name for _, name in counts):
        print(f"| {name} | " + " | ".join(str(counts[level, name]) for level in ("C", "T", "brief")) + " |")


def _words_of(text: str, *, is_polite: bool) -> frozenset[str]:
    """The content words of the sentences that are polite, or of the others."""
    known = [(content_words(sentence), bool(_POLITE.search(sentence))) for sentence in sentences(text)]
    parts = (words for words, polite in known if (polite and len(words) <= MAX_POLITE_WORDS) is is_polite)
    return frozenset[str]().union(*parts)


def readable_share(source: str, rendition: str) -> float:
    """The share of a rendition's words that are in a run of at least three consecutive words of its source."""
    words = _SPOKEN.findall(rendition.replace("[assistant]", " ").casefold())
    text = _SPOKEN.findall(source.casefold())
    runs = set(zip(text, text[1:], text[2:], strict=False))
    inside: set[int] = set()
    for start, run in enumerate(zip(words, words[1:], words[2:], strict=False)):
        if run in runs:
            inside.update((start, start + 1, start + 2))
    return len(inside) / max(1, len(words))


def facts_table(turns: Sequence[AnnotatedTurn], *, examples: int = 0) -> None:
    rows: dict[str, list[tuple[float, float, float]]] = {}
    sizes: list[tuple[float, int]] = []
    for number, turn in enumerate(turns):
        raw = turn.text
        raw_tokens = count_tokens(raw)
        ours = LocalCompressor(share=LENGTH).compress(1, turn.messages, count_tokens)
        budgets = count_tokens(ours.compressed), count_tokens(ours.tiny)
        sizes.append((budgets[0] / raw_tokens, budgets[1]))
        _note(rows, "local", turn, ours.compressed, ours.tiny)
        shipped = LocalCompressor().compress(1, turn.messages, count_tokens)
        _note(rows, "local, C as it ships", turn, shipped.compressed, shipped.tiny)
        for name, summarise in _methods().items():
            _note(rows, name, turn, *(summarise(raw, budget) for budget in budgets))
        if number < examples:
            print(f"### {turn.place} ({turn.kind}, {raw_tokens} tokens)\n\nC: {ours.compressed}\n\nT: {ours.tiny}\n")
    length = statistics.mean(share for share, _ in sizes)
    print(f"{len(turns)} turns; C {length:.0%} of raw, T {statistics.mean(tiny for _, tiny in sizes):.0f} tokens\n")
    print("| method | facts at 35 % | facts in one sentence | its main facts |\n| --- | --- | --- | --- |")
    for name, shares in rows.items():
        print(
            f"| {name} | " + " | ".join(f"{statistics.mean(column):.2f}" for column in zip(*shares, strict=True)) + " |"
        )


def _methods() -> dict[str, Summarise]:
    methods: dict[str, Summarise] = {
        "lead": partial(_call, baselines.lead),
        "LexRank": partial(_call, baselines.lexrank),
        "words by rarity": partial(_call, baselines.telegraph),
    }
    for seed in range(RANDOM_RUNS):
        methods[f"random {seed}"] = partial(_call, partial(baselines.at_random, seed=seed))
    return methods


def _call(method: Callable[..., str], text: str, budget: int) -> str:
    return method(text, budget, count_tokens)


def _note(
    rows: dict[str, list[tuple[float, float, float]]], name: str, turn: AnnotatedTurn, compressed: str, tiny: str
) -> None:
    shares = kept_share(turn.facts, compressed), kept_share(turn.facts, tiny), kept_share(turn.tiny_facts, tiny)
    rows.setdefault("random, mean of 5" if name.startswith("random") else name, []).append(shares)


def corrections_table(sentences: int = 1_000) -> None:
    """How many correct sentences S changes: those of the documentation and of the dense turns."""
    texts = [
        sentence
        for page in sorted((Path(__file__).resolve().parents[1] / "docs").rglob("*.md"))
        for block in page.read_text("utf-8").split("\n\n")
        if block[:1].isalpha()
        for sentence in baselines.sentences(" ".join(block.split()))
    ]
    texts = random.Random(3).sample([text for text in texts if len(text.split()) > 3 and text[0].isupper()], sentences)
    changed = [(text, smoothed) for text in texts if (smoothed := smooth_prose(text)) != text]
    print(f"\n{len(changed)} of {len(texts)} correct sentences changed by S")
    for text, smoothed in changed:
        print(f"  {text!r}\n  {smoothed!r}")


def faults_table() -> None:
    """How many faults of English sentences S repairs, and what it does to correct ones like them."""
    lines = tomllib.loads((Path(__file__).parent / "data" / "faults.toml").read_text("utf-8"))
    pairs = [line.split(" => ") for line in lines["faults"]]
    repaired = sum(smooth_prose(fault) == right for fault, right in pairs)
    wrong = [fault for fault, right in pairs if smooth_prose(fault) not in (fault, right)]
    wrong += [text for text in lines["correct"] if repair(text, is_sentence=True) != text]
    print(f"\n{repaired} of {len(pairs)} faults repaired; wrongly changed: {len(wrong)}", *wrong, sep="\n  ")


def flips_table() -> None:
    """How many sentences say the opposite at each level, alone and among their neighbours."""
    found: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    negations = load_negations()
    compressor = LocalCompressor()
    for number, negation in enumerate(negations, 1):
        for name, text in (("in its text", negation.text), ("alone", negation.sentence)):
            made = compressor.compress(number, [Message(negation.role, (Text(text),))], count_tokens)
            units = "\n".join(unit.text for unit in made.units)
            for level, rendition in (("C", made.compressed), ("T", made.tiny), ("era units", units)):
                found[level] += flipped(negation, rendition)
                kept[level] += not flipped(negation, rendition) and flipped_core(negation.core, rendition)
                if flipped(negation, rendition):
                    print(f"FLIPPED {negation.id} {level} {name}: {rendition!r}")
    print(f"\n| {2 * len(negations)} texts | C | T | era units |\n| --- | --- | --- | --- |")
    print(f"| flipped | {found['C']} | {found['T']} | {found['era units']} |")
    print(f"| claim kept | {kept['C']} | {kept['T']} | {kept['era units']} |")


def flipped_core(core: str, text: str) -> bool:
    return re.search(core, text, re.IGNORECASE) is not None


@dataclass(slots=True)
class Totals:
    """Over all turns of a transcript."""

    turns: int = 0
    raw: int = 0
    smoothed: int = 0
    compressed: int = 0
    large_raw: int = 0
    large_tiny: int = 0
    long_tiny: int = 0
    larger: int = 0
    incomplete: int = 0
    refusals: list[tuple[str, Refusal]] = field(default_factory=list)
    cpu: list[tuple[int, float]] = field(default_factory=list)

    def add(self, place: str, messages: tuple[Message, ...], made: Renditions, seconds: float) -> None:
        raw = count_tokens(turn_text(messages))
        smoothed, compressed, tiny = map(count_tokens, (made.smoothed, made.compressed, made.tiny))
        self.turns += 1
        self.raw += raw
        self.smoothed += smoothed
        self.compressed += compressed
        if raw >= 1_000:
            self.large_raw += raw
            self.large_tiny += tiny
        self.long_tiny += tiny > 50 or "\n" in made.tiny or (raw >= 1_000 and tiny > 0.05 * raw)
        self.larger += not tiny <= compressed <= smoothed <= raw
        self.incomplete += not made.is_complete
        self.refusals.extend((place, refusal) for refusal in made.refusals)
        self.cpu.append((raw, seconds))


def sessions_table(transcripts: Path) -> list[tuple[str, Refusal]]:
    print("\n| " + " | ".join(SESSION_COLUMNS) + " |\n|" + " --- |" * len(SESSION_COLUMNS))
    refusals: list[tuple[str, Refusal]] = []
    cpu: list[tuple[int, float]] = []
    for path in (transcripts / "pi-large-session.jsonl", transcripts / "tau-airline.json"):
        if not path.is_file():
            print(f"skipped: {path} is not there")
            continue
        totals = _compress_all(path)
        refused = Counter(refusal.level for _, refusal in totals.refusals)
        print(
            f"| {path.stem} | {totals.turns} | {totals.raw:,} | {totals.smoothed / totals.raw:.1%} "
            f"| {totals.compressed / totals.raw:.1%} | {totals.large_tiny / max(1, totals.large_raw):.1%} "
            f"| {totals.long_tiny} | {totals.larger} | {refused['C']} / {refused['T']} | {totals.incomplete} |"
        )
        refusals += totals.refusals
        cpu += totals.cpu
    _cpu_table(cpu)
    return refusals


def _compress_all(path: Path) -> Totals:
    totals, compressor = Totals(), LocalCompressor()
    for session, turns in _transcript(path).items():
        for number, messages in enumerate(turns, 1):
            started = time.process_time()
            made = compressor.compress(number, messages, count_tokens)
            totals.add(f"{session} T-{number}", messages, made, time.process_time() - started)
    return totals


def _cpu_table(cpu: Sequence[tuple[int, float]]) -> None:
    print("\n| raw tokens | turns | CPU ms, median | worst | ms per 2,000 tokens |\n| --- | --- | --- | --- | --- |")
    for low, high in ((0, 100), (100, 500), (500, 1_500), (1_500, 2_500), (2_500, 10_000), (10_000, 10**9)):
        found = [(raw, seconds) for raw, seconds in cpu if low <= raw < high]
        if found:
            times = sorted(seconds * 1_000 for _, seconds in found)
            rate = sum(times) / sum(raw for raw, _ in found) * 2_000
            print(
                f"| {low:,}-{high:,} | {len(found)} | {statistics.median(times):.1f} | {times[-1]:.1f} | {rate:.1f} |"
            )


def show_refusals(refusals: Sequence[tuple[str, Refusal]]) -> None:
    reasons = Counter(f"{refusal.level}: {refusal.reason.split(':')[0][:24]}" for _, refusal in refusals)
    print("\nwhy: " + ", ".join(f"{reason} {n}" for reason, n in reasons.most_common()))
    for place, refusal in random.Random(7).sample(list(refusals), min(20, len(refusals))):
        print(f"\n{place} {refusal.level} {refusal.kept_share:.2f}: {refusal.reason}\n  lost {refusal.lost[:8]}")
        print(f"  {refusal.text[:400]}")


def retention_table(data: Path) -> None:
    score = _scorer(data.parent / "eval" / "score.py")
    if score is None:
        print("\nno retention: `pip install nltk` first")
        return
    for name in ("locomo-dev", "beam-100k-dev"):
        print(f"\n| {name} | tokens | FACT | ALL |\n| --- | --- | --- | --- |")
        chats = json.loads((data / "qa" / f"{name}.json").read_text())
        made = [(chat, [_recorded(number, turn) for number, turn in enumerate(chat["turns"], 1)]) for chat in chats]
        _print_score("tiny lines", score, [(chat, "\n".join(one.tiny for one in all_)) for chat, all_ in made])
        rolled = [
            (chat, roll_up([unit for one in all_ for unit in one.units], 20_000, count_tokens)) for chat, all_ in made
        ]
        for budget in (2_000, 4_000, 8_000):
            texts = [(chat, era_text(units, budget, count_tokens)) for chat, units in rolled]
            _print_score(f"one era at {budget:,}", score, texts)


def _recorded(number: int, turn: dict[str, Any]) -> Renditions:
    role: Literal["user", "assistant"] = "assistant" if turn["who"] == "assistant" else "user"
    text = turn["text"] if role == turn["who"] else f"{turn['who']}: {turn['text']}"
    return LocalCompressor().compress(number, [Message(role, (Text(text),))], count_tokens)


def _scorer(path: Path) -> ModuleType | None:
    if importlib.util.find_spec("nltk") is None or not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("score", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _print_score(name: str, score: Any, contexts: Sequence[tuple[dict[str, Any], str]]) -> None:
    facts: list[float] = []
    every: list[bool] = []
    for chat, text in contexts:
        context = score.Context(text)
        turns = {turn["id"]: turn for turn in chat["turns"]}
        idf = score.rarity([f"{turn['who']}: {turn['text']}" for turn in chat["turns"]])
        for question in chat["questions"]:
            shares = list(_evidence_shares(score, context, turns, question, idf))
            facts.append(statistics.mean(max(0.0, (share - score.FLOOR) / (1 - score.FLOOR)) for share in shares))
            every.append(all(share >= score.HIT for share in shares))
    tokens = statistics.mean(count_tokens(text) for _, text in contexts)
    print(f"| {name} | {tokens:,.0f} | {statistics.mean(facts):.3f} | {statistics.mean(every):.3f} |")


def _evidence_shares(
    score: Any, context: Any, turns: dict[str, dict[str, Any]], question: dict[str, Any], idf: Callable[[str], float]
) -> Iterator[float]:
    for evidence in question["evidence"]:
        turn = turns[evidence]
        text = f"{turn['who']}: {turn['text']}"
        keys = score.key_words(text, question["question"], question["answer"], turn["who"], idf)
        yield context.share(keys)


if __name__ == "__main__":
    main()
