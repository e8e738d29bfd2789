"""Limits of prompts by model: the windows that are known, and what providers said when they rejected a request.

What is learned belongs to a model at a provider, not to a session: the session's budget is never changed. It is
forgotten after an hour, so a wrong guess, or a limit that was raised, has no lasting effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from foveate.cache import BoundedCache
from foveate.session.client_requests import Overflow

OUTPUT_RESERVE_TOKENS: Final = 4_096
"""Tokens reserved for the answer if the request sets no limit."""
TOO_LONG_SHARE: Final = 0.75
"""Without a stated limit, a prompt that was too long is retried with this share of its tokens."""
FLOOR_SHARE: Final = 1 / 64
"""No learned limit applies below this share of the budget, or of the model's known window if it is smaller, whatever
the provider states: its errors may quote a request. If the answer's reserve leaves less than that of a window, it
is the reserve that is too large: a shorter prompt would lose the conversation for nothing. At the default budget it
leaves servers with windows of 4,096 tokens their own limit."""
GUESSED_FLOOR_SHARE: Final = 1 / 8
"""The same where the provider states no limit."""
LEARNED_SECONDS: Final = 3_600.0
"""How long a learned limit applies. Trying a higher one costs one rejected request per hour."""
MIN_PLAUSIBLE: Final = 0.5
"""No measured tokenizer is below .77 of o200k_base. A report below half of it omits something, e.g. cached tokens."""
MAX_MODELS: Final = 1_000

ModelKey = tuple[str, str]
"""A provider's base URL, and the model's name."""


@dataclass(frozen=True, slots=True)
class _Learned:
    window_tokens: int | None
    """The limit of prompt and answer together, as the provider stated it."""
    prompt_tokens: int | None
    """The limit of the prompt alone: stated, or guessed from the size that was rejected."""
    until: float


class PromptLimits:
    """The limits of one tenant's requests."""

    def __init__(self, window_of: Callable[[str], int | None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._window_of = window_of
        self._clock = clock
        self._learned: BoundedCache[ModelKey, _Learned] = BoundedCache(MAX_MODELS)

    def prompt_tokens(self, key: ModelKey, answer_tokens: int | None, *, budget_tokens: int) -> int | None:
        """Return the most tokens that a prompt may have; None if nothing is known of the model."""
        found: list[int] = []
        floor = self._floor(key, budget_tokens)
        reserve = answer_tokens or OUTPUT_RESERVE_TOKENS
        if (window := self._window_of(key[1])) is not None:
            # Many clients set a limit of the answer that no server holds them to.
            found.append(max(1, window - min(reserve, window // 2)))
        learned = self._learned.get(key)
        if learned is not None and self._clock() < learned.until:
            if learned.window_tokens is not None:
                # This provider does count the answer's limit; only a default is ours to shorten.
                room = learned.window_tokens - (answer_tokens or min(reserve, learned.window_tokens // 2))
                found.append(max(room, floor))
            if learned.prompt_tokens is not None:
                found.append(max(learned.prompt_tokens, floor))
        return min(found, default=None)

    def _floor(self, key: ModelKey, budget_tokens: int, share: float = FLOOR_SHARE) -> int:
        """Return the fewest tokens that a learned limit leaves to a prompt."""
        return max(1, int(share * min(budget_tokens, self._window_of(key[1]) or budget_tokens)))

    def learn(
        self, key: ModelKey, overflow: Overflow, *, sent_tokens: int, answer_tokens: int | None, budget_tokens: int
    ) -> bool:
        """Learn the limit that a rejected prompt exceeded; False if shortening prompts can't help."""
        sent = max(sent_tokens, overflow.prompt_tokens or 0)
        room = overflow.room_tokens(answer_tokens or 0)
        floor = self._floor(key, budget_tokens, GUESSED_FLOOR_SHARE if room is None else FLOOR_SHARE)
        # A prompt that should fit by its count is counted too low: the limit is known, its size is not.
        is_guessed = room is None or room >= sent
        guess = int(TOO_LONG_SHARE * sent)
        if min(guess if room is None else room, guess if is_guessed else sent) < floor:
            return False
        prompt = min(filter(None, (overflow.limit_tokens, guess if is_guessed else None)), default=None)
        self._learned[key] = _Learned(overflow.window_tokens, prompt, self._clock() + LEARNED_SECONDS)
        return True

    def forget(self, key: ModelKey) -> bool:
        """Forget what was learned of a model; return whether there was anything."""
        return self._learned.pop(key) is not None
