"""Train the model of worth: how much a careful reader would keep each word of a turn, at three lengths.

    python bench/train_worth.py                             # trains on the labels, prints figures, writes the model
    python bench/train_worth.py --labels mine.jsonl --out worth.npz
    python bench/train_worth.py --folds 5                   # cross-validation; writes nothing
    python bench/train_worth.py --set-apart                 # also figures on the labels set apart; for the last run

Needs PyTorch, which the project does not install. The seed is fixed. `compress.worth_model` names another model's
file. The labels are described in `bench/data/labels/README.md`. Static vectors of words come from the embedding model
in the package, by principal components; what is trained are the other tables and the layers above them, with weights
and activations rounded to the integers that the compressor computes with.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from foveate.compress.lexicon import common_words
from foveate.compress.reader import passages_of, read_turn
from foveate.compress.worth import HEADS, LAYERS, MOST, UNIT, WEIGHT_UNIT, WIDTH
from foveate.compress.worth.features import TABLES, rows_of
from labels import SET_APART, TRAINING, as_messages, words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "labels" / "kept_words.jsonl"
TARGET = Path(__file__).resolve().parents[1] / "src" / "foveate" / "compress" / "worth" / "worth.npz"
EPOCHS, BATCH, RATE, DECAY, DROP, WORD_DROP = 8, 16, 3e-3, 0.02, 0.4, 0.3
TELEGRAPHIC_WEIGHT = 0.4
"""Weight of labels of another style: words without clauses, two lengths only."""


@dataclass(slots=True)
class Example:
    """The rows of a turn's words, and which of them a reader keeps."""

    id: str
    rows: NDArray[np.int32]
    clauses: NDArray[np.int32]
    kept: NDArray[np.float32]
    """For each word: kept at S, at C, at T, and whether C changes between this word and the one before."""
    known: NDArray[np.float32]
    """Weight of each of these; 0 if the label does not say."""


def align(short: Sequence[str], long: Sequence[str]) -> list[int]:
    """Return where the words of a text are in a longer one, in as few runs as possible; empty if they are not."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(long):
        places.setdefault(word, []).append(place)
    steps: list[dict[int, tuple[int, int]]] = [{-1: (0, -1)}]
    for word in short:
        before = steps[-1]
        ends = iter(sorted(before))
        end = next(ends, None)
        best, best_at = len(long) + 1, -1
        step: dict[int, tuple[int, int]] = {}
        for place in places.get(word, ()):
            while end is not None and end < place:
                if before[end][0] < best:
                    best, best_at = before[end][0], end
                end = next(ends, None)
            if best > len(long):
                continue
            joined = before.get(place - 1, (best + 1, best_at)) if place else (best + 1, best_at)
            step[place] = (
                (joined[0], place - 1) if place - 1 in before and joined[0] <= best + 1 else (best + 1, best_at)
            )
        if not step:
            return []
        steps.append(step)
    place = min(steps[-1], key=lambda at: steps[-1][at][0])
    found: list[int] = []
    for step in reversed(steps[1:]):
        found.append(place)
        place = step[place][1]
    return found[::-1]


def kept_words(label: dict[str, str]) -> tuple[list[str], NDArray[np.float32], NDArray[np.float32]]:
    """Return the words of a label's text, which of them each length keeps, and which lengths the label has."""
    words = words_of(label["text"])
    kept, known = np.zeros((len(words), 3), np.float32), np.zeros(3, np.float32)
    places = list(range(len(words)))
    for level, name in enumerate(("s", "c", "t")):
        if name not in label:
            continue
        found = align(words_of(label[name]), [words[place] for place in places])
        if not found:
            continue
        places = [places[at] for at in found]
        kept[places, level] = 1
        known[level] = 1
    return words, kept, known


def read_example(label: dict[str, str], weight: float = 1.0) -> Example | None:
    words, kept, known = kept_words(label)
    messages = as_messages(label["text"], label.get("kind", label.get("source", "")))
    reading = read_turn(messages).without_output()
    if not reading.candidates:
        return None
    passages = passages_of(reading.candidates)
    rows, clauses = rows_of(passages)
    own = [word for passage in passages for word in passage.words]
    bare_own = [(words_of(word) or [word])[0].lower() for word in own]
    values = np.full((len(own), 4), np.nan, np.float32)
    matcher = SequenceMatcher(None, bare_own, [word.lower() for word in words], autojunk=False)
    for at, there, size in matcher.get_matching_blocks():
        values[at : at + size, :3] = kept[there : there + size]
    told = ~np.isnan(values[:, 0])
    same = np.diff(clauses, prepend=-1) == 0
    before = np.roll(values[:, 1], 1)
    values[:, 3] = np.abs(values[:, 1] - before)
    switches = told & np.roll(told, 1) & same
    weights = np.zeros((len(own), 4), np.float32)
    weights[told, :3] = known * weight
    weights[switches, 3] = known[1] * weight * (weight == 1)
    if not told.any():
        return None
    return Example(label["id"], rows, clauses, np.nan_to_num(values), weights)


def load(paths: Sequence[Path], *, weight: float = 1.0) -> list[Example]:
    labels = [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]
    return [example for label in labels if (example := read_example(label, weight))]


def word_vectors(width: int = WIDTH) -> NDArray[np.float32]:
    """Return a vector for each common word: principal components of the vectors in the package."""
    from foveate.recall.embed.static import embed

    vectors = embed(list(common_words()))
    vectors = vectors - vectors.mean(axis=0)
    _, components = np.linalg.eigh(vectors.T @ vectors)
    found = vectors @ components[:, ::-1][:, :width]
    return np.asarray(found / found.std() * 0.5, np.float32)


def batches(examples: Sequence[Example], chance: random.Random | None) -> Iterator[list[Example]]:
    """Yield examples of about the same length together."""
    order = sorted(examples, key=lambda one: (len(one.rows) + (chance.randrange(40) if chance else 0), one.id))
    groups = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    if chance:
        chance.shuffle(groups)
    return iter(groups)


def padded(group: Sequence[Example], device: torch.device) -> dict[str, torch.Tensor]:
    longest = max(len(one.rows) for one in group)
    rows = np.zeros((len(group), longest, len(TABLES)), np.int64)
    clauses = np.full((len(group), longest), longest - 1, np.int64)
    mask, kept, known = (np.zeros((len(group), longest, size), np.float32) for size in (1, 4, 4))
    for number, one in enumerate(group):
        size = len(one.rows)
        rows[number, :size], clauses[number, :size], mask[number, :size] = one.rows, one.clauses, 1
        kept[number, :size], known[number, :size] = one.kept, one.known
    found = {"rows": rows, "clauses": clauses, "mask": mask, "kept": kept, "known": known}
    return {name: torch.from_numpy(values).to(device) for name, values in found.items()}


def rounded(values: torch.Tensor, unit: int) -> torch.Tensor:
    """Round to integers of the unit, with the gradient of no rounding."""
    whole = torch.clamp(torch.round(values * unit), -MOST, MOST) / unit
    return values + (whole - values).detach()


class Worth(nn.Module):
    """The model as `foveate.compress.worth` computes it, in floats that stand for its integers."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        super().__init__()
        self.register_buffer("table_word", torch.from_numpy(np.vstack((np.zeros((1, WIDTH), np.float32), vectors))))
        for name, rows in list(TABLES.items())[1:]:
            self.register_parameter(f"table_{name}", nn.Parameter(torch.randn(rows, WIDTH) * 0.1))
        for name, (inputs, outputs) in LAYERS.items():
            self.register_parameter(
                f"{name}_weights", nn.Parameter(torch.randn(inputs, outputs) * (1.5 / inputs) ** 0.5)
            )
            self.register_parameter(f"{name}_biases", nn.Parameter(torch.zeros(outputs)))

    @property
    def device(self) -> torch.device:
        return self.out_weights.device

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        rows, clauses, mask = batch["rows"], batch["clauses"], batch["mask"]
        if self.training:
            rows = rows.clone()
            for column in (0, 1, 2, 3):
                rows[..., column][torch.rand(rows.shape[:2], device=rows.device) < WORD_DROP] = 0
        looked_up = (
            nn.functional.embedding(rows[..., at], getattr(self, f"table_{name}")) for at, name in enumerate(TABLES)
        )
        total = torch.stack([rounded(vectors, WEIGHT_UNIT) for vectors in looked_up]).sum(0)
        words = self._dropped(rounded(total, UNIT) * mask)
        near = rounded(torch.relu(self._around("near", words, 5)), UNIT) * mask
        near = self._dropped(near)
        told = self._around("far", near, 3) + self._context(near, clauses, mask)
        told = self._dropped(rounded(torch.relu(told), UNIT))
        return told @ rounded(self.out_weights, WEIGHT_UNIT) + self.out_biases

    def _dropped(self, values: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(values, DROP, self.training)

    def _around(self, name: str, values: torch.Tensor, width: int) -> torch.Tensor:
        kernel = rounded(getattr(self, f"{name}_weights"), WEIGHT_UNIT).reshape(width, values.shape[-1], -1)
        more = nn.functional.pad(values, (0, 0, width // 2, width // 2))
        parts = (more[:, at : at + values.shape[1]] @ kernel[at] for at in range(width))
        return getattr(self, f"{name}_biases") + sum(parts)

    def _context(self, values: torch.Tensor, clauses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        at = clauses[..., None].expand_as(values)
        sizes = torch.zeros_like(mask).scatter_add(1, clauses[..., None], mask)
        means = torch.zeros_like(values).scatter_add(1, at, values) / sizes.clamp(min=1)
        highest = torch.zeros_like(values).scatter_reduce(1, at, values, "amax")
        own = torch.cat((rounded(means, UNIT), highest), 2)
        turn = rounded(values.sum(1) / mask.sum(1), UNIT)[:, None].expand_as(values)
        more = nn.functional.pad(own, (0, 0, 1, 1))
        joined = torch.cat((more[:, :-2], own, more[:, 2:], turn), 2)
        told = joined @ rounded(self.context_weights, WEIGHT_UNIT) + self.context_biases
        return told.gather(1, clauses[..., None].expand(*clauses.shape, told.shape[-1]))


def train(
    examples: Sequence[Example],
    vectors: NDArray[np.float32],
    *,
    seed: int = 1,
    epochs: int = EPOCHS,
    device: str = "cpu",
) -> Worth:
    torch.manual_seed(seed)
    chance = random.Random(seed)
    model: Worth = Worth(vectors).to(device)
    decayed = [value for name, value in model.named_parameters() if not name.endswith("biases")]
    others = [value for name, value in model.named_parameters() if name.endswith("biases")]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    steps = epochs * -(-len(examples) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps + 1, pct_start=0.15)
    model.train()
    for _ in range(epochs):
        for group in batches(examples, chance):
            batch = padded(group, model.device)
            losses = nn.functional.binary_cross_entropy_with_logits(model(batch), batch["kept"], reduction="none")
            loss = (losses * batch["known"]).sum() / batch["known"].sum().clamp(min=1)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    model.eval()
    return model


def predict(model: Worth, examples: Sequence[Example]) -> dict[str, NDArray[np.float32]]:
    found: dict[str, NDArray[np.float32]] = {}
    for group in batches(examples, None):
        with torch.no_grad():
            scores = model(padded(group, model.device)).cpu().numpy()
        found |= {one.id: scores[number, : len(one.rows)] for number, one in enumerate(group)}
    return found


def area(scores: NDArray[np.float32], kept: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve."""
    ranks = scores.argsort().argsort() + 1
    positives = kept.sum()
    return float((ranks[kept].sum() - positives * (positives + 1) / 2) / (positives * (len(kept) - positives)))


def areas(predicted: dict[str, NDArray[np.float32]], examples: Sequence[Example]) -> str:
    shown = []
    for level, name in enumerate(HEADS):
        scores, kept = (
            np.concatenate([of(one)[one.known[:, level] > 0, level] for one in examples])
            for of in (lambda one: predicted[one.id], lambda one: one.kept)
        )
        shown.append(f"{name} {area(scores, kept > 0.5):.3f}")
    return ", ".join(shown)


def as_integers(model: Worth) -> dict[str, NDArray[np.int8] | NDArray[np.int32]]:
    """Return tables and weights as 8-bit integers; biases in the unit of the sums that they are added to."""
    found: dict[str, NDArray[np.int8] | NDArray[np.int32]] = {}
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        numbers = value.detach().cpu().numpy()
        if name.endswith("biases"):
            found[name] = np.rint(numbers * WEIGHT_UNIT * UNIT).astype(np.int32)
        else:
            found[name] = np.clip(np.rint(numbers * WEIGHT_UNIT), -MOST, MOST).astype(np.int8)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=Path, action="append", help="default: the repository's, and those of --shared")
    parser.add_argument("--shared", type=Path, default=SHARED, help="labels of words without clauses, with less weight")
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--set-apart", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    begin = time.perf_counter()
    examples = load(arguments.labels or [TRAINING])
    more = load([arguments.shared], weight=TELEGRAPHIC_WEIGHT) if arguments.shared.exists() else []
    print(
        f"{len(examples)} + {len(more)} examples, {sum(len(one.rows) for one in examples):,} words"
        f" ({time.perf_counter() - begin:.0f} s)",
        flush=True,
    )
    vectors = word_vectors()
    if arguments.folds:
        order = random.Random(0).sample(examples, len(examples))
        for fold in range(arguments.folds):
            left = order[fold :: arguments.folds]
            ids = {one.id for one in left}
            model = train(
                [one for one in order if one.id not in ids] + more,
                vectors,
                seed=arguments.seed,
                epochs=arguments.epochs,
            )
            print(f"fold {fold}: {areas(predict(model, left), left)} ({time.perf_counter() - begin:.0f} s)", flush=True)
        return
    model = train(examples + more, vectors, seed=arguments.seed, epochs=arguments.epochs)
    print(f"training: {areas(predict(model, examples), examples)} ({time.perf_counter() - begin:.0f} s)")
    if arguments.set_apart:
        apart = load([SET_APART])
        print(f"set apart: {areas(predict(model, apart), apart)}")
    arrays: dict[str, Any] = {**as_integers(model)}
    np.savez_compressed(arguments.out, **arrays)
    print(f"{arguments.out.name}: {arguments.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
