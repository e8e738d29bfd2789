"""Hypothesis strategies: made-up histories of any shape, and what plans of them show."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from foveate.plan import Block, Overheads, TurnSizes
from support.histories import ListedHistory

SIZES = st.one_of(st.integers(0, 60), st.integers(0, 4_000), st.integers(0, 200_000))


@st.composite
def items_of(draw: st.DrawFn, turn: int, step: int = 0) -> TurnSizes:
    """Any sizes, made or not; mostly each level smaller than the one above it, at times not."""
    raw = draw(SIZES)
    if draw(st.integers(0, 9)) == 0:
        others = [draw(st.none() | SIZES) for _ in range(3)]
    else:
        sizes = raw * 6 // 10, raw * 35 // 100, min(45, raw * 35 // 100)
        others = [None if draw(st.integers(0, 7)) == 0 else size for size in sizes]
    brief = draw(st.none() | st.integers(0, raw))
    return TurnSizes(turn, step, raw, others[0], others[1], others[2], brief=brief)


@st.composite
def histories(draw: st.DrawFn) -> ListedHistory:
    """1 to 3,000 turns, of which a few dozen are drawn and repeated; perhaps a running one; perhaps few eras."""
    drawn = [draw(items_of(0)) for _ in range(draw(st.integers(1, 24)))]
    count = draw(st.one_of(st.integers(1, 60), st.integers(1, 3_000)))
    items = [replace(drawn[turn * turn % len(drawn)], turn=turn) for turn in range(1, count + 1)]
    if draw(st.booleans()):
        steps = [draw(items_of(0)) for _ in range(draw(st.integers(1, 6)))]
        last_step = draw(st.one_of(st.integers(1, 8), st.integers(1, 400)))
        items += [
            replace(steps[step * step % len(steps)], turn=count + 1, step=step, is_kept=step == 1)
            for step in range(1, last_step + 1)
        ]
    fanout = draw(st.integers(2, 40))
    era_tokens = draw(st.sampled_from([None, 0, 10, 60, 300]))
    gone = st.tuples(st.integers(1, 4), st.integers(0, 60))
    return ListedHistory(items, fanout, era_tokens, frozenset(draw(st.sets(gone, max_size=30))))


OVERHEADS = st.builds(
    Overheads, line=st.integers(0, 12), tag=st.integers(0, 40), range=st.integers(0, 60), cut_note=st.integers(0, 30)
)
BUDGETS = st.one_of(st.integers(0, 2_000), st.integers(256, 40_000), st.integers(256, 300_000))


def covered(rows: tuple[Block, ...]) -> list[tuple[int, int]]:
    """Each turn and step that a row stands for; a whole turn as its step 0."""
    steps = [(row, range(row.first_step, row.last_step + 1)) for row in rows]
    return [(turn, step) for row, own in steps for turn in range(row.first, row.last + 1) for step in own]


@st.composite
def ordinary(draw: st.DrawFn, largest: int) -> ListedHistory:
    """Turns with all levels made, none larger than this."""
    raws = draw(st.lists(st.integers(1, largest), min_size=1, max_size=40))
    count = draw(st.integers(1, 2_500))
    items = []
    for turn in range(1, count + 1):
        raw = raws[turn * turn % len(raws)]
        items.append(TurnSizes(turn, 0, raw, raw * 6 // 10, raw * 35 // 100, min(45, raw * 35 // 100)))
    return ListedHistory(items, draw(st.sampled_from([8, 10, 32])), draw(st.sampled_from([None, 40, 120, 300])))
