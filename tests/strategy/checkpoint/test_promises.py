from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.plan import Block, Ledger, Overheads, Plan
from foveate.strategy.checkpoint import Checkpoint
from foveate.testing.histories import ListedSnapshot
from support.checkpoint_snapshots import Talk, lived_through, settled, snapshot_of
from support.examples import times

EXAMPLES = times(30)
SIZES = st.one_of(st.integers(0, 60), st.integers(0, 1_500), st.integers(0, 60_000))
OVERHEADS = st.builds(
    Overheads, line=st.integers(1, 12), tag=st.integers(1, 40), range=st.integers(1, 60), cut_note=st.integers(0, 30)
)
STRATEGIES = st.builds(
    Checkpoint,
    enabled=st.sampled_from([True, True, True, False]),
    preserve_recent_tokens=st.sampled_from([0, 200, 2_048, 50_000]),
    snapshot=st.sampled_from([0.1, 0.5, 0.9]),
    trigger=st.sampled_from([0.3, 0.8, 1.0]),
)


@st.composite
def snapshots(draw: st.DrawFn) -> ListedSnapshot:
    """1 to 500 turns, of which a few are drawn and repeated; perhaps the newest is at work; perhaps nothing is made."""
    talk = st.builds(Talk, SIZES, st.lists(SIZES, max_size=4).map(tuple))
    drawn = draw(st.lists(talk, min_size=1, max_size=12))
    count = draw(st.one_of(st.integers(1, 30), st.integers(1, 500)))
    talks = [drawn[turn * turn % len(drawn)] for turn in range(count)]
    is_running = draw(st.booleans())
    if is_running:
        steps = draw(st.lists(SIZES, min_size=1, max_size=5))
        talks[-1] = Talk(
            draw(SIZES), tuple(steps[step * step % len(steps)] for step in range(draw(st.integers(0, 120))))
        )
    nominal = draw(st.one_of(st.integers(300, 9_000), st.integers(300, 200_000)))
    ledger = Ledger(
        budget_tokens=nominal, fixed_tokens=draw(st.integers(0, nominal)), prompt_tokens=draw(st.integers(0, 2_000))
    )
    return snapshot_of(
        talks,
        ledger,
        is_running=is_running,
        has_renditions=draw(st.booleans()),
        era_tokens=draw(st.sampled_from([None, 40, 200])),
    )


def room_of(snapshot: ListedSnapshot) -> int:
    return max(0, snapshot.ledger.free_tokens)


def numbers(row: Block) -> range:
    return range(row.first, row.last + 1)


def user_words_shown(plan: Plan) -> set[int]:
    """The turns whose user's words stand in the plan verbatim."""
    whole = {turn for row in plan.rows if row.level == "U" and not row.is_cut for turn in numbers(row)}
    raw = {row.first for row in plan.rows if row.level == "R" and not row.is_cut and row.first_step <= 1}
    return whole | raw


@settings(max_examples=EXAMPLES, deadline=None)
@given(snapshots(), STRATEGIES, OVERHEADS, st.sampled_from([0.3, 1.0, 1.2]))
def test_any_plan_fits_its_room_and_nothing_is_dropped_without_a_name(
    snapshot: ListedSnapshot, strategy: Checkpoint, overheads: Overheads, share: float
) -> None:
    room = room_of(snapshot)
    plan, kept = settled(strategy, snapshot, room, overheads, share=share)
    assert plan.tokens == sum(row.tokens for row in plan.rows) <= room
    assert sum(band.tokens for band in plan.bands) == plan.tokens
    again, same = settled(strategy, kept, room, overheads, share=share)
    assert again.tokens <= room
    if share <= 1:
        # Checkpoints with many architecture decisions are larger than planned, and may cost the next turn its place.
        assert again.rows == plan.rows, "planning again changes nothing"
        assert same.state == kept.state
        assert not again.events
    if plan.rows:
        named = {turn for row in plan.rows for turn in numbers(row)}
        assert named == set(range(1, snapshot.last_turn + 1))


@settings(max_examples=EXAMPLES, deadline=None)
@given(snapshots(), STRATEGIES, OVERHEADS)
def test_user_words_stand_verbatim_unless_the_session_rolled_over_and_said_so(
    snapshot: ListedSnapshot, strategy: Checkpoint, overheads: Overheads
) -> None:
    plan, _ = settled(strategy, snapshot, room_of(snapshot), overheads)
    if "checkpoints" not in plan.notes:  # the room is too small for any
        return
    hidden = set(range(1, snapshot.last_turn + 1)) - user_words_shown(plan)
    rolled = int(str(plan.notes.get("tiny_through", "T-0")).removeprefix("T-"))
    assert hidden <= {*range(1, rolled + 1), snapshot.last_turn}
    if snapshot.last_turn in hidden:
        assert "newest" in plan.notes
    if rolled:
        assert "rolled over" in str(plan.notes["message"])


@settings(max_examples=EXAMPLES, deadline=None)
@given(snapshots(), STRATEGIES, OVERHEADS)
def test_blocks_come_in_order_and_at_most_as_many_checkpoints_as_the_tier_has(
    snapshot: ListedSnapshot, strategy: Checkpoint, overheads: Overheads
) -> None:
    plan, _ = settled(strategy, snapshot, room_of(snapshot), overheads)
    if "checkpoints" not in plan.notes:  # the room is too small for any
        return
    sums = [row for row in plan.rows if row.level == "A"]
    checkpoints = [row for row in sums if not row.artefact.startswith("architecture")]
    rest = [row for row in plan.rows if row.level != "A"]
    assert plan.rows == (*sums, *rest)
    assert len(sums) - len(checkpoints) <= 1
    assert len(checkpoints) <= strategy.checkpoint_limit(strategy.tier(snapshot.ledger.budget_tokens))
    assert all(older.last < newer.first for older, newer in pairwise(sums))
    for older, newer in pairwise(rest):
        assert (older.last, older.last_step) < (newer.first, newer.first_step)
    steps = [row for row in rest if row.first_step]
    assert all(older.last_step + 1 == newer.first_step for older, newer in pairwise(steps))
    assert rest[-1].last == snapshot.last_turn


@settings(max_examples=max(10, EXAMPLES // 5), deadline=None)
@given(st.lists(st.builds(Talk, SIZES, st.lists(SIZES, max_size=3).map(tuple)), min_size=1, max_size=40), st.data())
def test_a_conversation_that_goes_on_never_exceeds_and_rolls_over_only_once_in_a_while(
    talks: list[Talk], data: st.DataObject
) -> None:
    nominal = data.draw(st.sampled_from([3_000, 8_000, 16_000, 40_000, 64_000]))
    ledger = Ledger(budget_tokens=nominal, fixed_tokens=nominal // 10)
    room = int(nominal * 0.8)
    for plan in lived_through(Checkpoint(), talks, ledger, room):
        assert plan.tokens <= room
        assert plan.rows
