"""Every error a user can meet, in one tree.

FoveateError
├── InputError            what was given can't be taken as it is
│   ├── InvalidMessage    a message, and where in the list it stands
│   ├── UnknownFormat     no format of that name, or none that recognises the file
│   ├── UnknownStrategy   no strategy of that name
│   ├── SettingsError     a setting: its key, and what it takes
│   └── HistoryExceedsBudget  the history, where a strategy was told to fail rather than to leave something out
├── NotFound              what was asked for is not there
│   ├── SessionNotFound
│   ├── TurnNotFound
│   ├── TurnPruned        it was there, and a retention command removed it
│   ├── LevelUnknown      no such fidelity
│   ├── LevelNotReady     a fidelity that is still to be made
│   └── PinNotFound
├── Refused               possible, but it would break a promise
│   ├── SessionExists
│   ├── ForkInUse         a fork still reaches what would go
│   └── PinLocked
├── ModelError            a model could not be asked, or did not answer as it should
│   ├── ModelUnavailable  until someone changes something: an extra, a key, a name, a window too small
│   ├── ModelFailed       this time: the network, an overload, a time-out, an answer that can't be used
│   └── ModelHeldBack     not asked at all: the cap, a rate or the breaker says when it may be again
├── InvariantBroken       a promise that a context makes does not hold: a defect in Foveate
└── StoreError            the database
    ├── NotADatabase      the file is something else
    ├── NewerSchema       written by a later version
    ├── ReadOnlyStore
    ├── StorageFull
    ├── StoreBusy         another process held the lock for too long
    ├── StoreClosed
    └── Damaged           a hash or a page does not check

A message says what failed, where, and what to do next; ids are attributes.
"""

from __future__ import annotations

from collections.abc import Callable


class FoveateError(Exception):
    """The root: catch this to catch everything Foveate raises on purpose."""

    def __reduce__(self) -> tuple[Callable[..., FoveateError], tuple[object, ...]]:
        # By default an exception is pickled as a call with its message, which is not what most of these take.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[FoveateError], args: tuple[object, ...], attributes: dict[str, object]) -> FoveateError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class InputError(FoveateError):
    """What was given can't be taken as it is; nothing was stored."""


class InvalidMessage(InputError):
    """A message can't be read; `path` says where, as in `messages[3].content`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class UnknownFormat(InputError):
    """No format has this name, or none recognises this content."""


class UnknownStrategy(InputError):
    """No strategy has this name; `name` is what was asked for."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no strategy {name!r}; there are {', '.join(known)}")
        self.name = name


class SettingsError(InputError):
    """A setting is wrong; `key` names it as in `store.synchronous`."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"setting {key}: {problem}")
        self.key = key
        self.problem = problem


class BudgetExceeded(InputError):
    """The parts of a context that can't be compressed are larger than its budget; `parts` has their tokens."""

    def __init__(self, budget_tokens: int, parts: dict[str, int]) -> None:
        listed = ", ".join(f"{name} {tokens:,}" for name, tokens in parts.items() if tokens)
        super().__init__(
            f"the budget is {budget_tokens:,} tokens, but what is never compressed takes {sum(parts.values()):,} "
            f"({listed}); raise the budget, or shorten the largest of these"
        )
        self.budget_tokens = budget_tokens
        self.parts = parts


class PinsExceedBudget(InputError):
    """The pins alone are larger than the budget; `pins` has the tokens of each."""

    def __init__(self, budget_tokens: int, pins: dict[str, int]) -> None:
        listed = ", ".join(f"{pin_id} {tokens:,}" for pin_id, tokens in pins.items())
        super().__init__(
            f"the pins take {sum(pins.values()):,} tokens of a budget of {budget_tokens:,} ({listed}); "
            "unpin some, shorten them, or raise the budget"
        )
        self.budget_tokens = budget_tokens
        self.pins = pins


class HistoryExceedsBudget(InputError):
    """The history does not fit, and the strategy was told to fail then; `needed_tokens` says what it takes."""

    def __init__(self, needed_tokens: int, room_tokens: int) -> None:
        super().__init__(
            f"the history takes {needed_tokens:,} tokens, {needed_tokens - room_tokens:,} more than the "
            f"{room_tokens:,} there is room for; raise the budget, or set standard.when_full to drop"
        )
        self.needed_tokens = needed_tokens
        self.room_tokens = room_tokens


class InvalidToolCall(InputError):
    """A model called a history tool wrongly; the message is written for the model to try again."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


class InvariantBroken(FoveateError):
    """An assembled context breaks a promise; it is not given out. `invariant` names the promise."""

    def __init__(self, invariant: str, problem: str) -> None:
        super().__init__(f"{invariant}: {problem}; this is a defect in foveate, please report it")
        self.invariant = invariant
        self.problem = problem


class NotFound(FoveateError):
    """What was asked for is not there."""


class SessionNotFound(NotFound):
    def __init__(self, session_id: str, hint: str = "'foveate sessions' lists those that exist") -> None:
        super().__init__(f"no session {session_id!r}; {hint}")
        self.session_id = session_id


class TurnNotFound(NotFound):
    def __init__(self, session_id: str, turn_id: str, last_turn: int) -> None:
        have = f"it has T-1 to T-{last_turn}" if last_turn else "it has no turns yet"
        super().__init__(f"no turn {turn_id} in session {session_id!r}; {have}")
        self.session_id = session_id
        self.turn_id = turn_id


class TurnPruned(NotFound):
    def __init__(self, session_id: str, turn_id: str) -> None:
        super().__init__(
            f"turn {turn_id} of session {session_id!r} was removed by a prune command; its id stays reserved"
        )
        self.session_id = session_id
        self.turn_id = turn_id


class LevelUnknown(NotFound):
    def __init__(self, level: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no level {level!r}; the levels are {', '.join(known)}")
        self.level = level


class LevelNotReady(NotFound):
    def __init__(self, turn_id: str, level: str, available: tuple[str, ...]) -> None:
        super().__init__(f"level {level} of {turn_id} is not made yet; available now: {', '.join(available)}")
        self.turn_id = turn_id
        self.level = level
        self.available = available


class PinNotFound(NotFound):
    def __init__(self, session_id: str, pin_id: str) -> None:
        super().__init__(f"no pin {pin_id} in session {session_id!r}")
        self.session_id = session_id
        self.pin_id = pin_id


class Refused(FoveateError):
    """It could be done, but it would break a promise; the message says how to insist, where one may."""


class SessionExists(Refused):
    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} exists already; choose another id or open it")
        self.session_id = session_id


class ForkInUse(Refused):
    def __init__(self, session_id: str, fork_ids: tuple[str, ...]) -> None:
        forks = ", ".join(fork_ids)
        super().__init__(
            f"session {session_id!r} has turns that {forks} still read; delete or export those forks first"
        )
        self.session_id = session_id
        self.fork_ids = fork_ids


class PinLocked(Refused):
    def __init__(self, pin_id: str) -> None:
        super().__init__(f"pin {pin_id} is locked")
        self.pin_id = pin_id


class TurnBegun(Refused):
    """Something was to be added to a turn, and a later one has begun."""

    def __init__(self, session_id: str, *, turn: int, newest: int) -> None:
        super().__init__(
            f"T-{newest} was begun in session {session_id!r} before T-{turn} had its answer: another program talks in "
            "it, too; let one wait for the other, or fork the session"
        )
        self.session_id = session_id
        self.turn = turn
        self.newest = newest


class ModelError(FoveateError):
    """A model could not be asked or did not answer as it should; `model` names it, `problem` says what is wrong.

    Keys never appear in a message; an adapter takes out whatever looks like one before it raises.
    """

    calls = 0
    """How many calls were made in vain, where a `Caller` made them."""

    def __init__(self, model: str, problem: str) -> None:
        super().__init__(f"model {model}: {problem}")
        self.model = model
        self.problem = problem


class ModelUnavailable(ModelError):
    """Trying again changes nothing: what to install, set or choose instead is in the message.

    `reason` is one of `extra`, `key`, `name`, `too-long` (the request is larger than the model's window), `refused`.
    """

    def __init__(self, model: str, problem: str, *, reason: str) -> None:
        super().__init__(model, problem)
        self.reason = reason


class ModelFailed(ModelError):
    """It may work another time. `reason` is one of `busy`, `server`, `network`, `timeout`, `stalled`, `broken-off`,
    `empty`, `malformed`; `retry_after_seconds` is what the provider asked for, if it did."""

    def __init__(self, model: str, problem: str, *, reason: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(model, problem)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class ModelHeldBack(ModelError):
    """The model was not asked, so as to keep a limit: `reason` is one of `cap`, `rate`, `breaker`, `calls`."""

    def __init__(self, model: str, problem: str, *, reason: str, retry_after_seconds: float) -> None:
        super().__init__(model, problem)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class StoreError(FoveateError):
    """The database refused or failed; `location` says which."""

    def __init__(self, location: str, problem: str) -> None:
        super().__init__(f"{location}: {problem}")
        self.location = location
        self.problem = problem


class NotADatabase(StoreError):
    """The file is not a Foveate database; it was left as it is."""


class NewerSchema(StoreError):
    """A later version of Foveate wrote the file; this one leaves it alone."""


class ReadOnlyStore(StoreError):
    """The file or its folder can't be written."""


class StorageFull(StoreError):
    """The disk is full; the turn was not recorded, and nothing was half stored."""


class StoreBusy(StoreError):
    """Another process held the database for longer than `store.lock_timeout_seconds`."""


class StoreClosed(StoreError):
    """The store was closed; open it again."""


class Damaged(StoreError):
    """Stored content does not check; `foveate doctor` says what is affected."""
