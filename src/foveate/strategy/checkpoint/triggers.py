"""Replays how a conversation was compressed: turn by turn, each time the threshold is reached.

Only sizes decide, and the limits of checkpoints that are not made yet. So a history imported at once is compressed as
if it had been recorded turn by turn, and planning again after an artefact was made changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from foveate.plan import Overheads, TurnInfo
from foveate.strategy.checkpoint.state import COMPACT, DETAILED, CheckpointEntry, CheckpointState, merge
from foveate.strategy.layout import stub_row

if TYPE_CHECKING:
    from foveate.strategy.checkpoint import Checkpoint as Settings

CHECKPOINTS_SHARE = 0.5
"""Maximum planned share of the room for all checkpoints together."""
CHECKPOINT_SHARE = 0.5
"""Maximum share that a checkpoint takes of the tokens of its turns."""
MIN_CHECKPOINT_TOKENS = 64
"""Minimum size of a useful checkpoint, tags included."""
MIN_TEXT_TOKENS = 16
GAIN_SHARE = 0.20
"""Minimum share of the room that a compression must gain, unless it is unavoidable."""
PRESERVED_SHARE = 0.30
"""Maximum share of what the compressed turns leave that preserved newest messages take."""
WORKING_SHARE = 0.25
"""Share of the room reserved for the newest messages, or `preserve_recent_tokens` if that is less."""
ARCHITECTURE_SHARE = 0.20
"""Share of the room for the preserved list of architecture decisions, or the setting if that is more."""
TINY_SHARE = 0.25
"""Minimum share of the room for rolled-over turns, and for a snapshot in addition to its checkpoints; beyond it, eras
replace the oldest of them."""


Kind = Literal["compressed", "squeezed", "reduced", "rolled over"]
"""The kinds of compression: a new checkpoint; older ones made compact; without checkpoints, only the user's words kept;
a snapshot."""


@dataclass(frozen=True, slots=True)
class SizedTurn:
    """The sizes of a turn."""

    turn: int
    messages: int
    user: int
    """Tokens of the user's words, which are never compressed."""
    rest: int
    tiny: int
    head: int = 0
    """Tokens up to the end of the user's words."""

    @property
    def raw(self) -> int:
        return self.user + self.rest


@dataclass(frozen=True, slots=True)
class Compression:
    """A compression and its result."""

    kind: Kind
    turn: int
    """The newest turn at that time."""
    used_tokens: int
    trigger_tokens: int
    available_tokens: int
    """The available tokens before it; `used_tokens` and `trigger_tokens` are of the same time."""
    state: CheckpointState
    """The state after it."""
    new: CheckpointEntry | None = None
    aged: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()


def sized(info: TurnInfo, tiny_tokens: int) -> SizedTurn:
    user = info.user_tokens
    last = max((message.position for message in info.messages if message.is_prompt), default=-1)
    head = sum(message.tokens for message in info.messages if message.position <= last)
    return SizedTurn(info.turn, len(info.messages), user, info.tokens - user, tiny_tokens, head)


class CheckpointFlow:
    """Compresses one conversation turn by turn to fit its room."""

    def __init__(self, settings: Settings, state: CheckpointState, room_tokens: int, overheads: Overheads) -> None:
        self.settings = settings
        self.state = state
        self.room = room_tokens
        self.overheads = overheads
        self.users: list[SizedTurn] = []
        """Turns of which only the user's words are shown."""
        self.user_tokens = 0
        self.fresh: list[SizedTurn] = []
        """Turns that are shown in full."""
        self.done: list[Compression] = []
        self._reached = (0, 0, 0)
        self._reduced_from = 0

    @property
    def limit(self) -> int:
        return self.settings.checkpoint_limit(self.state.tier)

    @property
    def available(self) -> int:
        """Maximum tokens of messages."""
        return max(0, self.room - self.state.reserved_tokens(self.overheads.range))

    @property
    def trigger(self) -> int:
        return int(self.available * (self.settings.trigger if self.settings.enabled else 1.0))

    @property
    def used(self) -> int:
        return self._behind + sum(turn.raw + self.overheads.tag for turn in self.fresh)

    @property
    def _behind(self) -> int:
        """Tokens of the compressed turns without their checkpoints."""
        kept = self.state.architecture_tokens + self.state.tiny_tokens
        return kept + self.user_tokens + (self.overheads.range if self.users else 0)

    def begin(self, compressed: Sequence[SizedTurn]) -> None:
        """Set the turns of which only the user's words are shown."""
        self.users = list(compressed)
        self.user_tokens = sum(map(self._user, compressed))

    def add(self, turn: SizedTurn) -> None:
        """Add the next turn, and compress as much as it needs."""
        state = self.state
        self.fresh.append(turn)
        # Earlier decisions are kept, even if a checkpoint turned out larger than planned.
        is_known = turn.turn < state.seen_turn or (turn.turn, turn.raw) == (state.seen_turn, state.seen_tokens)
        if is_known and self.used - turn.raw <= self.available:
            return
        if self.used <= self.trigger:
            return
        self._reached = (self.used, self.trigger, self.available)
        old = self.fresh[: -self._preserved()]
        gain = sum(turn.rest for turn in old)
        if old and (gain >= self.room * GAIN_SHARE or self.used > self.available):
            self._give_way(old)
        if self._lacks_room() and len(self.fresh) > 1:
            self._give_way(self.fresh[:-1])
        if self._lacks_room() and self.state.checkpoints:
            self._squeeze()
        if self._lacks_room() and self.users:
            self._roll_over()

    def _give_way(self, old: Sequence[SizedTurn]) -> None:
        if self.limit:
            self._compress(old)
            return
        self._leave(old)
        state = self.state
        # One artefact for all compressions of this plan: those between them are never made.
        self._reduced_from = self._reduced_from or old[0].turn
        self.state = replace(
            state,
            compressions=state.compressions + 1,
            architecture_from=self._reduced_from,
            architecture_limit=self.architecture_tokens,
        )
        self._note("reduced")

    def _leave(self, old: Sequence[SizedTurn]) -> None:
        """Show only the user's words of these turns from now on."""
        messages = self.state.messages + sum(turn.messages for turn in old)
        self.state = replace(self.state, through=old[-1].turn, messages=messages)
        self.users += old
        self.user_tokens += sum(map(self._user, old))
        del self.fresh[: len(old)]

    def _user(self, turn: SizedTurn) -> int:
        return turn.user + self.overheads.line

    def _preserved(self) -> int:
        """Return how many of the newest turns are preserved; at least one."""
        left = min(self.settings.preserve_recent_tokens, (self.available - self._behind) * PRESERVED_SHARE)
        count = 0
        for turn in reversed(self.fresh):
            left -= turn.raw + self.overheads.tag
            if count and left < 0:
                break
            count += 1
        return count

    def _lacks_room(self) -> bool:
        """Return whether what may not be compressed no longer fits next to the newest turn or its required part."""
        newest = self.fresh[-1].raw + self.overheads.tag
        needed = min(newest, max(self.settings.preserve_recent_tokens, MIN_TEXT_TOKENS), int(self.room * WORKING_SHARE))
        return self.available - (self.used - newest) < needed

    @property
    def architecture_tokens(self) -> int:
        """Maximum tokens of the preserved list."""
        return max(self.settings.architecture_tokens, int(self.room * ARCHITECTURE_SHARE))

    def _text_tokens(self, level: int, original_tokens: int, count: int) -> int:
        most = min(
            self.settings.level_tokens(level),
            int(self.room * CHECKPOINTS_SHARE / max(1, count)),
            max(MIN_CHECKPOINT_TOKENS, int(original_tokens * CHECKPOINT_SHARE)),
        )
        return max(MIN_TEXT_TOKENS, most - self.overheads.range)

    def _compress(self, old: Sequence[SizedTurn]) -> None:
        """Add a checkpoint; those before it age, and beyond the tier's count the two oldest merge."""
        before = self.state
        original = sum(turn.rest for turn in old)
        self._leave(old)
        if not original:
            return
        text = self._text_tokens(DETAILED, original, self.limit)
        new = CheckpointEntry(
            id=f"cp-{before.created + 1}",
            level=DETAILED,
            first=old[0].turn,
            last=old[-1].turn,
            first_message=before.messages + 1,
            last_message=self.state.messages,
            original_tokens=original,
            text_tokens=text,
            tokens=text + self.overheads.range,
        )
        aged = [self._aged(checkpoint, checkpoint.level - 1) for checkpoint in before.checkpoints]
        kept, merged = self._merged([*aged, new], before, lambda kept: len(kept) > self.limit)
        self.state = replace(
            self.state,
            checkpoints=tuple(kept),
            compressions=before.compressions + 1,
            created=before.created + 1,
            architecture_limit=self.architecture_tokens,
        )
        changed = tuple(was.id for was, now in zip(before.checkpoints, aged, strict=True) if was.level != now.level)
        self._note("compressed", new=new, aged=changed, merged=tuple(merged))

    def _aged(self, checkpoint: CheckpointEntry, level: int) -> CheckpointEntry:
        level = max(COMPACT, level)
        text = min(checkpoint.text_tokens, self._text_tokens(level, checkpoint.original_tokens, self.limit))
        if level == checkpoint.level and text == checkpoint.text_tokens:
            return checkpoint
        return replace(
            checkpoint,
            level=level,
            text_tokens=text,
            tokens=text + self.overheads.range,
            count=checkpoint.count + 1,
        )

    def _merged(
        self,
        checkpoints: list[CheckpointEntry],
        before: CheckpointState,
        is_too_much: Callable[[list[CheckpointEntry]], bool],
    ) -> tuple[list[CheckpointEntry], list[str]]:
        """Merge the two oldest checkpoints until it is no longer too much; return the rest and the ids of the merged
        ones."""
        counts = {checkpoint.id: checkpoint.count for checkpoint in before.checkpoints}
        kept, merged = checkpoints, list[str]()
        while len(kept) > 1 and is_too_much(kept):
            older, newer, *rest = kept
            size = self._text_tokens(newer.level, older.original_tokens + newer.original_tokens, self.limit)
            count = max(counts.get(older.id, 0), counts.get(newer.id, 0)) + 1
            tag = self.overheads.range
            kept = [merge(older, newer, text_tokens=size, tag_tokens=tag, count=count), *rest]
            merged += [older.id, newer.id]
        return kept, merged

    def _squeeze(self) -> None:
        """Make all checkpoints compact; merge them into one if several would be too small to be useful."""
        before = self.state
        compact = [self._aged(checkpoint, COMPACT) for checkpoint in before.checkpoints]
        most = int(self.room * CHECKPOINTS_SHARE)
        kept, merged = self._merged(compact, before, lambda kept: sum(one.tokens for one in kept) > most)
        if tuple(kept) != before.checkpoints:
            self.state = replace(before, checkpoints=tuple(kept))
            aged = tuple(checkpoint.id for checkpoint in before.checkpoints)
            self._note("squeezed", aged=aged, merged=tuple(merged))

    def _roll_over(self) -> None:
        """Make a snapshot: a Tiny for each of the oldest compressed turns, so that there is room again."""
        assert self.users, "there is something to roll over"
        state = self.state
        target = max(0, int(self.room * self.settings.snapshot) - state.checkpoint_tokens - state.architecture_tokens)
        most = max(target, int(self.room * TINY_SHARE))
        tiny, gone = state.tiny_tokens or self.overheads.range, 0
        while gone < len(self.users) and (not gone or min(tiny, most) + self.user_tokens > target):
            turn = self.users[gone]
            self.user_tokens -= self._user(turn)
            tiny += turn.tiny + self.overheads.line
            gone += 1
        last = self.users[gone - 1].turn
        del self.users[:gone]
        self.state = replace(
            state,
            tiny_through=last,
            tiny_tokens=max(min(tiny, most), stub_row(1, 1, self.overheads).tokens),
            rollovers=state.rollovers + 1,
        )
        self._note("rolled over")

    def _note(
        self,
        kind: Kind,
        *,
        new: CheckpointEntry | None = None,
        aged: tuple[str, ...] = (),
        merged: tuple[str, ...] = (),
    ) -> None:
        used, trigger, available = self._reached
        turn = self.fresh[-1].turn
        self.done.append(Compression(kind, turn, used, trigger, available, self.state, new, aged, merged))
