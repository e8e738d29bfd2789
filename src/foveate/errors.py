"""All errors that Foveate raises, as a tree.

FoveateError
├── InputError            invalid input
│   ├── NotOpened         the store is not open: `async with` or `await` is missing
│   ├── InvalidMessage    a message, with its position in the list
│   ├── UnknownFormat     no format of that name, or the file's format is not recognised
│   ├── UnknownStrategy   no strategy of that name
│   ├── SettingsError     a setting, with its key and the accepted values
│   ├── BudgetExceeded    the parts of a context that can't be compressed are larger than its budget
│   ├── PinsExceedBudget  the pins are larger than the budget, or than the part of it for pins
│   ├── InvalidToolCall   a model's call of a history tool
│   ├── KeyReused         a key that was used for different messages
│   ├── HistoryExceedsBudget  the history does not fit, and the strategy is set to fail
│   ├── InvalidPrompt     a prompt's variables or includes, with its key
│   └── BadRequest        a body that a client sent to the server
├── NotFound              the requested object does not exist
│   ├── SessionNotFound
│   ├── TurnNotFound
│   ├── TurnPruned        removed by a prune command, or erased
│   ├── LevelUnknown      no such level
│   ├── LevelNotReady     a level that does not exist yet
│   ├── PinNotFound
│   ├── KnowledgeNotFound
│   ├── AgentNotFound
│   ├── ContentNotFound   no such key in the file cabinet
│   ├── ContentExpired    an expired key of the file cabinet
│   └── PromptNotFound    no stored prompt of that key
├── Refused               possible, but not allowed in this state
│   ├── SessionExists
│   ├── ForkInUse         forks share the turns to be deleted
│   ├── ErasureOutdated   messages were recorded while a text was erased
│   ├── ErasedMeanwhile   something was erased while this was made from it
│   ├── PinLocked
│   ├── TurnBegun         the messages' turn has ended: a later one began
│   ├── SessionContinued  others recorded messages meanwhile
│   ├── RunInProgress     another run learns from the same scope
│   ├── RunLost           another process has taken over the run
│   ├── LimitReached      a tree of agents has no room for one more, or for a call
│   ├── ClaimLost         another worker runs the agent, or it was cancelled
│   ├── AgentEnded        the agent no longer waits for this
│   └── RightMissing      the caller's key has no right for this
├── ModelError            a model could not be called, or its answer is unusable
│   ├── ModelUnavailable  permanent: a missing extra or key, a wrong name, a window too small
│   ├── ModelFailed       temporary: network, overload, timeout, unusable answer
│   └── ModelHeldBack     not called because of a limit: cost, rate or a pause after failures
├── BadUpstream           a provider's answer to the gateway can't be read
├── InvariantBroken       a guarantee of a context does not hold: a defect in Foveate
└── StoreError            the database
    ├── NotADatabase      the file is something else
    ├── NewerSchema       written by a newer version
    ├── ReadOnlyStore
    ├── StorageFull
    ├── StoreBusy         another process held the lock too long
    ├── StoreClosed
    └── Damaged           a checksum does not match

A message says what failed, where, and what to do next; ids are attributes.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable


def nearest(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Return `did you mean …?` with the known name that is most like this one; empty if none is."""
    by_case = {one.lower(): one for one in known}
    found = difflib.get_close_matches(str(name).lower(), by_case, n=1)
    return f"did you mean {prefix}{by_case[found[0]]}?" if found else ""


def did_you_mean(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Return the known name that is most like this one as a question, and all known names."""
    known = list(known)
    listed = f"available: {', '.join(prefix + one for one in known)}"
    near = nearest(name, known, prefix=prefix)
    return f"{near} {listed}" if near else listed


class Containment:
    """How a `contained` block ended."""

    def __init__(self, log: logging.Logger | None, problem: str, details: tuple[object, ...]) -> None:
        self.error: Exception | None = None
        self._log = log
        self._problem = problem
        self._details = details

    @property
    def raised(self) -> Exception:
        """The error, for code that runs only after one."""
        assert self.error is not None, "the block raised nothing"
        return self.error

    def __enter__(self) -> Containment:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = error
        if self._log:
            self._log.warning(self._problem, *self._details, exc_info=error)
        return True


def contained(log: logging.Logger | None = None, problem: str = "", *details: object) -> Containment:
    """Run code that may raise anything: a plug-in, a subscriber, a provider's package, or a job whose caller waits.

    An error ends the block, not the program. It is in the outcome, and is logged as a warning if there is a `log`.
    Apart from the worker's loops, errors of any class are caught only here.
    """
    return Containment(log, problem, details)


class FoveateError(Exception):
    """Base class of all errors that Foveate raises on purpose."""

    def __reduce__(self) -> tuple[Callable[..., FoveateError], tuple[object, ...]]:
        # By default an exception is pickled as a call with its message, which most of these classes do not accept.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[FoveateError], args: tuple[object, ...], attributes: dict[str, object]) -> FoveateError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class InputError(FoveateError):
    """Invalid input; nothing was stored."""


class InvalidMessage(InputError):
    """A message can't be read; `path` is its position, e.g. `messages[3].content`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class InvalidPrompt(InputError):
    """A stored prompt can't be used or stored; `key` is its key."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"the prompt {key!r} {problem}")
        self.key = key
        self.problem = problem


class NotOpened(InputError, AttributeError):
    """A store is used before it is open: without `async with` or `await`."""

    def __init__(self, name: str = "") -> None:
        used = f"{name!r} needs an open store" if name else "'with' is for the blocking library, foveate.sync"
        super().__init__(f"{used}; write 'async with foveate.open(…) as fov:', or 'fov = await foveate.open(…)'")


class UnknownFormat(InputError):
    """No format has this name, or the content is not recognised."""


class UnknownStrategy(InputError):
    """No strategy has this `name`."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no strategy {name!r}; {did_you_mean(name, known)}")
        self.name = name


class SettingsError(InputError):
    """A setting is invalid; `key` is its name, e.g. `store.synchronous`."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"setting {key}: {problem}")
        self.key = key
        self.problem = problem


class BudgetExceeded(InputError):
    """The parts of a context that can't be compressed are larger than its budget; `parts` has their tokens."""

    def __init__(self, budget_tokens: int, parts: dict[str, int]) -> None:
        listed = ", ".join(f"{name} {tokens:,}" for name, tokens in parts.items() if tokens)
        super().__init__(
            f"the budget is {budget_tokens:,} tokens, but the parts that are never compressed take "
            f"{sum(parts.values()):,} ({listed}); raise the budget, or shorten the largest of these"
        )
        self.budget_tokens = budget_tokens
        self.parts = parts


LISTED_PINS = 10
"""Pins that an error lists, the largest ones."""


class PinsExceedBudget(InputError):
    """The pins are larger than the budget, or a new one than the part of it for pins; `pins` has the tokens of each."""

    def __init__(self, budget_tokens: int, pins: dict[str, int], limit_tokens: int = 0) -> None:
        largest = sorted(pins, key=lambda pin_id: -pins[pin_id])[:LISTED_PINS]
        listed = ", ".join(f"{pin_id} {tokens:,}" for pin_id, tokens in pins.items() if pin_id in largest)
        more = ", …" if len(pins) > LISTED_PINS else ""
        most = "" if limit_tokens in (0, budget_tokens) else f", more than the {limit_tokens:,} that pins may have"
        super().__init__(
            f"the pins take {sum(pins.values()):,} tokens of a budget of {budget_tokens:,}{most} ({listed}{more}); "
            "unpin some, shorten them, or raise the budget"
        )
        self.budget_tokens = budget_tokens
        self.pins = pins


class HistoryExceedsBudget(InputError):
    """The history does not fit, and the strategy is set to fail; `needed_tokens` is its size."""

    def __init__(self, needed_tokens: int, room_tokens: int) -> None:
        super().__init__(
            f"the history takes {needed_tokens:,} tokens, {needed_tokens - room_tokens:,} more than the "
            f"{room_tokens:,} there is room for; raise the budget, or set standard.when_full to drop"
        )
        self.needed_tokens = needed_tokens
        self.room_tokens = room_tokens


class InvalidToolCall(InputError):
    """A model's call of a history tool is invalid; the message tells the model how to correct it."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


class BadRequest(InputError):
    """A client's request body is invalid; `param` is the field, e.g. `messages[3].role`."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message if param is None else f"{param}: {message}")
        self.param = param


class BadUpstream(FoveateError):
    """A provider's answer to the gateway can't be read: malformed events or JSON, or more than a limit allows."""


class InvariantBroken(FoveateError):
    """An assembled context violates a guarantee and is not returned; `invariant` is the name of the guarantee."""

    def __init__(self, invariant: str, problem: str) -> None:
        super().__init__(f"{invariant}: {problem}; this is a defect in foveate, please report it")
        self.invariant = invariant
        self.problem = problem


class NotFound(FoveateError):
    """The requested object does not exist."""


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
    def __init__(self, session_id: str, turn_id: str, erased_on: str = "") -> None:
        what = f"was erased on {erased_on}" if erased_on else "was removed by a prune command"
        super().__init__(f"turn {turn_id} of session {session_id!r} {what}; its id stays reserved")
        self.session_id = session_id
        self.turn_id = turn_id


class LevelUnknown(NotFound):
    def __init__(self, level: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no level {level!r}; {did_you_mean(level, known)}")
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


class AgentNotFound(NotFound):
    def __init__(self, agent_id: str) -> None:
        super().__init__(f"there is no agent {agent_id!r}; 'foveate agents list' lists them")
        self.agent_id = agent_id


class ContentNotFound(NotFound):
    def __init__(self, key: str) -> None:
        super().__init__(f"there is no {key[:80]!r} in the file cabinet; keys look like f-1a2b3c4d5e6f")
        self.key = key


class ContentExpired(NotFound):
    """A key of the file cabinet has expired; `turn_id` is a turn that still has the content, if any."""

    def __init__(self, key: str, *, expired_at: str, source: str, session_id: str | None, turn_id: str | None) -> None:
        where = f"{turn_id} of session {session_id!r}" if session_id else turn_id
        if turn_id:
            again = f'it is a result of {where}: get_turn("{turn_id}", "R") brings the key back'
        else:
            again = f"get it again from {source}" if source else "call the tool again"
        super().__init__(f"{key} expired on {expired_at}; {again}")
        self.key = key
        self.expired_at = expired_at
        self.session_id = session_id
        self.turn_id = turn_id


class PromptNotFound(NotFound):
    def __init__(self, key: str, known: tuple[str, ...]) -> None:
        hint = nearest(key, known) or "'foveate prompts list' lists those that exist"
        super().__init__(f"no prompt {key[:80]!r}; {hint}")
        self.key = key


class KnowledgeNotFound(NotFound):
    """No item of knowledge has this id, or several begin with it."""

    def __init__(self, item_id: str, hint: str = "'foveate knowledge list' lists those that exist") -> None:
        super().__init__(f"no knowledge {item_id[:80]!r}; {hint}")
        self.item_id = item_id


class Refused(FoveateError):
    """Possible, but not allowed in this state; the message says how to force it, if that can be done."""


class RightMissing(Refused):
    """The right that the caller acts with does not allow this."""


class SessionExists(Refused):
    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} already exists; open it or choose another id")
        self.session_id = session_id


class ForkInUse(Refused):
    def __init__(self, session_id: str, fork_ids: tuple[str, ...]) -> None:
        forks = ", ".join(fork_ids)
        super().__init__(f"session {session_id!r} shares turns with its forks {forks}; delete or export them first")
        self.session_id = session_id
        self.fork_ids = fork_ids


class ErasureOutdated(Refused):
    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} changed while a text in it was erased; nothing was erased, try again")
        self.session_id = session_id


class ErasedMeanwhile(Refused):
    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"something was erased in session {session_id!r} meanwhile; what was made before is not stored"
        )
        self.session_id = session_id


class PinLocked(Refused):
    def __init__(self, pin_id: str) -> None:
        super().__init__(f"pin {pin_id} is locked")
        self.pin_id = pin_id


class KeyReused(InputError):
    """The key was already used for different messages."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key!r} was used for different messages; use a new key for each request")
        self.key = key


class LimitReached(Refused):
    """A limit of a tree of agents is reached; `limit` is one of `depth`, `count`, `tokens`, `usd`."""

    def __init__(self, tree: str, limit: str, problem: str) -> None:
        super().__init__(f"the limit of the agents of {tree} is reached: {problem}")
        self.tree = tree
        self.limit = limit


class RunInProgress(Refused):
    """Another run already learns from the same scope."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"another run is already learning from {scope}; wait until it ends")
        self.scope = scope


class RunLost(Refused):
    """Another process has taken over the run, or it no longer exists."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"the run {run_id} has ended, or another process has taken it over")
        self.run_id = run_id


class ClaimLost(Refused):
    """A worker has lost an agent: it was cancelled, or another worker runs it."""

    def __init__(self, agent_id: str) -> None:
        super().__init__(f"agent {agent_id} was cancelled, or another worker runs it")
        self.agent_id = agent_id


class AgentEnded(Refused):
    """The agent does not wait for this answer."""

    def __init__(self, agent_id: str, state: str) -> None:
        super().__init__(f"agent {agent_id} does not wait for this; it is {state}")
        self.agent_id = agent_id


class TurnBegun(Refused):
    """Messages belong to a turn, but a later one has begun."""

    def __init__(self, session_id: str, *, turn: int, newest: int) -> None:
        super().__init__(
            f"T-{newest} began in session {session_id!r} before T-{turn} was answered: another program uses the "
            "session; let one wait for the other, or fork the session"
        )
        self.session_id = session_id
        self.turn = turn
        self.newest = newest


class SessionContinued(Refused):
    """Messages were to follow a certain message of a session, but others were recorded after it."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id!r} was continued by another program in the meantime; read it again, or fork it"
        )
        self.session_id = session_id


class ModelError(FoveateError):
    """A model could not be called, or its answer is unusable; `model` is its name, `problem` the cause.

    Messages never contain keys; adapters remove whatever looks like one.
    """

    calls = 0
    """Number of failed calls, if a `Caller` made them."""

    def __init__(self, model: str, problem: str) -> None:
        super().__init__(f"model {model}: {problem}")
        self.model = model
        self.problem = problem


class ModelUnavailable(ModelError):
    """A permanent failure; the message says what to install, set or choose instead.

    `reason` is one of `extra`, `key`, `name`, `too-long` (the request is larger than the model's window), `refused`,
    `batch` (the model has no batch endpoint).
    """

    def __init__(self, model: str, problem: str, *, reason: str) -> None:
        super().__init__(model, problem)
        self.reason = reason


class ModelFailed(ModelError):
    """A temporary failure. `reason` is one of `busy`, `server`, `network`, `timeout`, `stalled`, `broken-off`, `empty`,
    `malformed`; `retry_after_seconds` is the delay that the provider requested, if any."""

    def __init__(self, model: str, problem: str, *, reason: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(model, problem)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class ModelHeldBack(ModelError):
    """The model was not called because of a limit: `reason` is one of `cap`, `rate`, `breaker`, `calls`."""

    def __init__(self, model: str, problem: str, *, reason: str, retry_after_seconds: float) -> None:
        super().__init__(model, problem)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class StoreError(FoveateError):
    """A failure of the database at `location`."""

    def __init__(self, location: str, problem: str) -> None:
        super().__init__(f"{location}: {problem}")
        self.location = location
        self.problem = problem


class NotADatabase(StoreError):
    """The file is not a Foveate database; it was not changed."""


class NewerSchema(StoreError):
    """A newer version of Foveate wrote the file; it was not changed."""


class ReadOnlyStore(StoreError):
    """The file or its folder can't be written."""


class StorageFull(StoreError):
    """The disk is full; nothing of the turn was stored."""


class StoreBusy(StoreError):
    """Another process held the database for longer than `store.lock_timeout_seconds`."""


class StoreClosed(StoreError):
    """The store was closed; open it again."""


class Damaged(StoreError):
    """Stored content is damaged; `foveate doctor` reports what is affected."""
