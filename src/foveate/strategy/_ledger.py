"""What each turn is shown at so far, newest first, and to the token what that costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from foveate.strategy import Item, Overheads, Shown

LEVELS: tuple[Shown, ...] = ("R", "S", "C", "T")
RAW, SMOOTHED, COMPRESSED, TINY = range(4)
TINY_TOKENS = 50
"""A turn that has no Tiny yet is cut to this, its note included."""
ALONE = -1
"""The key of a text that never shares a block."""
STEP_KEYS = 8


class Option(NamedTuple):
    """One way to show an item."""

    text: int
    """Tokens, the note of a cut included, tags not."""
    key: int
    """Neighbours of one key share a block."""
    level: int
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Costing:
    """How items are priced: what structure costs, which turns are short, and from which size on a Tiny is cut."""

    overheads: Overheads
    short_tokens: int
    tiny_limit: int

    @property
    def pair(self) -> int:
        """What a second text adds to a block that held one."""
        return self.overheads.range + 2 * self.overheads.line - self.overheads.tag

    @property
    def stub(self) -> int:
        """A range that is only named."""
        return self.overheads.range + self.overheads.cut_note

    def at(self, item: Item, level: int) -> Option:
        """How the item is shown in a band: where the band's level is not made yet, at the next higher one that is."""
        if level == TINY:
            return self._tiny(item)
        if level == COMPRESSED and item.compressed is not None:
            return self.option(item, COMPRESSED, item.compressed)
        if level >= SMOOTHED and item.smoothed is not None:
            return self.option(item, SMOOTHED, item.smoothed)
        return self.option(item, RAW, item.raw)

    def _tiny(self, item: Item) -> Option:
        """Its Tiny, a higher level that is as small, or a cut."""
        if item.tiny is not None and item.tiny <= self.tiny_limit:
            return self.option(item, TINY, item.tiny)
        higher = self.at(item, COMPRESSED)
        if higher.text <= TINY_TOKENS:
            return higher
        return Option(TINY_TOKENS, ALONE, higher.level if item.tiny is None else TINY, True)

    def option(self, item: Item, level: int, text: int) -> Option:
        if item.step:
            return Option(text, item.turn * STEP_KEYS + len(LEVELS) + level, level, False)
        is_shared = level >= COMPRESSED or text < self.short_tokens
        return Option(text, level if is_shared else ALONE, level, False)

    def block(self, texts: int) -> int:
        """The structure of a block of so many texts."""
        if texts < 2:  # noqa: PLR2004 - one text stands in a tag of its own
            return self.overheads.tag if texts else 0
        return self.overheads.range + texts * self.overheads.line


class Ledger:
    """The choices made from the newest item on, and their exact cost."""

    def __init__(self, items: list[Item], costing: Costing) -> None:
        self.items = items
        self.costing = costing
        self.chosen: list[Option] = []
        self.cost = 0
        self.kept: dict[int, Option] = {}

    def at(self, index: int, level: int) -> Option:
        """How an item is shown in a band."""
        return self.costing.at(self.items[index], level)

    def keep(self, index: int, option: Option) -> None:
        """Shows an item like this whatever its band; it is paid for at once."""
        self.kept[index] = option._replace(key=ALONE)
        self.cost += option.text + self.costing.overheads.tag

    def appended(self, option: Option) -> int:
        """What the next item costs shown like this."""
        key, chosen = option.key, self.chosen
        if key == ALONE or not chosen or chosen[-1].key != key:
            return option.text + self.costing.overheads.tag
        if len(chosen) > 1 and chosen[-2].key == key:
            return option.text + self.costing.overheads.line
        return option.text + self.costing.pair

    def append(self, option: Option, added: int) -> None:
        self.cost += added
        self.chosen.append(option)

    def append_kept(self) -> bool:
        """Takes the next item if it is a kept one."""
        option = self.kept.get(len(self.chosen))
        if option is None:
            return False
        self.chosen.append(option)
        return True

    def cut_back(self, length: int, cost: int) -> None:
        """Returns to an earlier state."""
        del self.chosen[length:]
        self.cost = cost

    def change(self, index: int, option: Option) -> int:
        """What showing an item differently would add to the cost."""
        old = self.chosen[index]
        added = option.text - old.text
        if option.key != old.key:
            added += self._joined(index, option.key) - self._joined(index, old.key)
        return added

    def replace(self, index: int, option: Option, added: int) -> None:
        self.chosen[index] = option
        self.cost += added

    def tiny_costs(self, indexes: Iterable[int], limit_tokens: int) -> list[int]:
        """The running cost of these items as Tiny, in the order given, up to a limit; kept ones are paid for."""
        line, tag, pair = self.costing.overheads.line, self.costing.overheads.tag, self.costing.pair
        tiny_limit, items, kept = self.costing.tiny_limit, self.items, self.kept
        total, last_key, is_pair = 0, ALONE, False
        costs: list[int] = []
        for index in indexes:
            item = items[index]
            if index in kept:
                last_key = ALONE
            else:
                if item.tiny is not None and item.tiny <= tiny_limit and not item.step:
                    text, key = item.tiny, TINY
                else:
                    text, key, _, _ = self.costing.at(item, TINY)
                if key == ALONE or key != last_key:
                    total, is_pair = total + text + tag, False
                else:
                    total, is_pair = total + text + (line if is_pair else pair), True
                last_key = key
                if total > limit_tokens:
                    break
            costs.append(total)
        return costs

    def _joined(self, index: int, key: int) -> int:
        """The structure that an item of this key brings between its neighbours."""
        if key == ALONE:
            return self.costing.overheads.tag
        newer, older, chosen = 0, 0, self.chosen
        if index > 0 and chosen[index - 1].key == key:
            newer = 2 if index > 1 and chosen[index - 2].key == key else 1
        if index + 1 < len(chosen) and chosen[index + 1].key == key:
            older = 2 if index + 2 < len(chosen) and chosen[index + 2].key == key else 1
        block = self.costing.block
        return block(newer + 1 + older) - block(newer) - block(older)
