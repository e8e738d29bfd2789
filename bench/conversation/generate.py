"""A long, realistic conversation to try Foveate on, with facts planted in it that can be asked for later.

A developer and a coding assistant work for weeks on Quayside, a fictional service for booking berths. The same
number of turns and the same seed give the same bytes, everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias, cast

from conversation import arcs_code, arcs_ops, arcs_read, arcs_talk
from conversation.scene import Call, Say, Scene, Think
from conversation.world import World, content
from foveate.demo import DemoConversation, PlantedFact
from foveate.turn import Attachment, Message, Part, Reasoning, Text, ToolCall, ToolResult, Turn, Usage

MAX_TURNS = 5_000
MODEL = "demo-model"
TITLE = "Quayside: berth booking, backend and operations"

Arc: TypeAlias = Callable[[World], Iterator[Scene]]

# How many of each make one round; a round is a little over 300 turns and uses each story once at most.
_ROUND: tuple[tuple[Arc, int], ...] = (
    (arcs_code.bug, 14),
    (arcs_code.feature, 8),
    (arcs_code.refactor, 6),
    (arcs_code.build, 5),
    (arcs_read.review, 5),
    (arcs_read.hunt, 8),
    (arcs_read.chore, 6),
    (arcs_ops.incident, 7),
    (arcs_ops.slow, 5),
    (arcs_ops.release, 5),
    (arcs_ops.upgrade, 4),
    (arcs_ops.cut_off, 3),
    (arcs_talk.design, 11),
    (arcs_talk.explain, 12),
    (arcs_talk.chat, 24),
    (arcs_talk.rule, 8),
    (arcs_talk.front, 4),
    (arcs_talk.partner, 4),
    (arcs_talk.figures, 4),
)
_CONTEXT_TOKENS = 96_000
"""Where the pretended context stops growing; the usage of each message follows it."""


def make_conversation(turns: int = 300, seed: int = 42) -> DemoConversation:
    """A conversation of this many turns, with all facts in it from about 65 turns on and fewer below."""
    if not 1 <= turns <= MAX_TURNS:
        raise ValueError(f"turns is {turns}; it can be 1 to {MAX_TURNS}")
    world = World(seed)
    facts = _places(turns)
    stories = _scenes(world)
    writer = _Writer(world)
    scenes: list[tuple[datetime, Scene]] = []
    for number in range(1, turns + 1):
        fact = facts.get(number)
        own = fact is not None and fact["how"] in {"own", "tool"}
        scenes.append((world.now, Scene(str, "") if own else next(stories)))
        world.pass_time()
    told = "\n".join(text for _, scene in scenes for text in scene.texts)
    planted = [_plant(fact, scenes[number - 1][1], number, told, world) for number, fact in sorted(facts.items())]
    return DemoConversation(TITLE, tuple(writer.turn(scene, began) for began, scene in scenes), tuple(planted))


def _places(turns: int) -> Mapping[int, Mapping[str, object]]:
    """Turn number to the fact told in it, each as near to its place as the others let it."""
    facts: list[Mapping[str, object]] = []
    for half in ("facts_early", "facts_late"):
        facts.extend(cast("Sequence[Mapping[str, object]]", content(half)["fact"]))
    count = min(len(facts), max(1, turns * 3 // 4))
    chosen = [facts[index * len(facts) // count] for index in range(count)]
    places: dict[int, Mapping[str, object]] = {}
    last = 0
    for index, fact in enumerate(chosen):
        wanted = 1 + round(cast("float", fact["at"]) * (turns - 1))
        last = min(max(wanted, last + 1), turns - (count - index - 1))
        places[last] = fact
    return places


def _scenes(world: World) -> Iterator[Scene]:
    """Story after story, without end."""
    arcs = [arc for arc, count in _ROUND for _ in range(count)]
    last: Arc | None = None
    while True:
        arc = world.draw("arcs", arcs)
        if arc is last and world.chance(0.8):
            arc = world.draw("arcs", arcs)
        last = arc
        yield from arc(world)


def _plant(fact: Mapping[str, object], scene: Scene, turn: int, told: str, world: World) -> PlantedFact:
    """Tell the fact in its scene, with a value that nothing else in the conversation mentions."""
    values = cast("Sequence[str]", fact["values"])
    value = next((value for value in values if value not in told), None)
    if value is None:
        raise ValueError(f"the conversation mentions every value of the fact {fact['id']!r}; add one to its `values`")
    words = world.story({}, v=value)
    texts = {name: world.fill(text, words) for name, text in fact.items() if isinstance(text, str)}
    match texts["how"]:
        case "aside":
            scene.add_to_prompt(texts["text"])
            scene.add_to_answer(texts["ack"])
        case "answer":
            scene.add_to_answer(texts["text"])
        case "tool":
            scene.prompt = texts["text"]
            output = texts["output"].strip("\n")
            if texts["tool"] == "exec":
                scene.run(texts["target"], output)
            else:
                scene.call(texts["tool"], output, path=texts["target"])
            scene.say(texts["ack"])
        case _:
            scene.prompt = texts["text"]
            scene.say(texts["ack"])
    return PlantedFact(texts["id"], turn, texts["kind"], value, texts["question"], texts["answer"])


class _Writer:
    """Makes turns of scenes: gives times, call ids and usage, in the order of the conversation."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._calls = 0
        self._context_tokens = 1_800

    def turn(self, scene: Scene, began: datetime) -> Turn:
        prompt: tuple[Part, ...] = (Text(scene.prompt),)
        if scene.image:
            uri = f"file:///home/dev/shots/{scene.image}"
            prompt += (Attachment("image", uri=uri, media_type="image/png", name=scene.image),)
        messages = [Message("user", prompt, at=began)]
        self._read(len(scene.prompt))
        now = began
        parts: list[Part] = []
        results: list[tuple[ToolResult, float]] = []
        for place, step in enumerate(scene.steps):
            match step:
                case Think(text):
                    parts.append(Reasoning(text))
                case Say(text):
                    parts.append(Text(text))
                case Call():
                    result = self._call(step, parts)
                    results.append((result, step.seconds))
            following = scene.steps[place + 1] if place + 1 < len(scene.steps) else None
            if following is None or (
                isinstance(step, Call) and not (isinstance(following, Call) and following.together)
            ):
                now += timedelta(seconds=self._world.between(2, 14))
                messages.append(self._assistant(tuple(parts), now))
                for result, seconds in results:
                    now += timedelta(milliseconds=round(seconds * 1000))
                    messages.append(Message("tool", (result,), at=now))
                    self._read(sum(len(part.text) for part in result.content if isinstance(part, Text)))
                parts, results = [], []
        return Turn(tuple(messages))

    def _call(self, step: Call, parts: list[Part]) -> ToolResult:
        self._calls += 1
        call_id = f"call_{self._calls:04d}"
        parts.append(ToolCall(step.tool, dict(step.arguments), id=call_id))
        failed = step.interrupted or step.exit_code not in {None, 0} or step.output.startswith("HTTP 5")
        return ToolResult(call_id, (Text(step.output),), step.tool, failed, step.exit_code, step.seconds)

    def _assistant(self, parts: tuple[Part, ...], at: datetime) -> Message:
        thought = sum(len(part.text) for part in parts if isinstance(part, Reasoning)) // 4
        written = sum(len(part.text) for part in parts if isinstance(part, Text)) // 4
        written += sum(24 + len(str(part.arguments)) // 4 for part in parts if isinstance(part, ToolCall))
        usage = Usage(
            input_tokens=self._context_tokens,
            output_tokens=max(1, thought + written),
            cache_read_tokens=self._context_tokens * 9 // 10,
            reasoning_tokens=thought,
        )
        self._read((thought + written) * 4)
        return Message("assistant", parts, at=at, model=MODEL, usage=usage)

    def _read(self, characters: int) -> None:
        self._context_tokens = min(_CONTEXT_TOKENS, self._context_tokens + characters // 4 + 5)
