"""The turns of a session: a list, a search, each turn at all its levels, and its messages as recorded."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from foveate.errors import FoveateError
from foveate.renditions import LEVELS, Level
from foveate.server.dashboard.page import BASE, HEADERS, Pages, Visit, whole_number
from foveate.server.problems import ProblemError
from foveate.session import Session
from foveate.session.picture import LEVEL_NAMES
from foveate.session.values import TurnContent
from foveate.text import attachment_text, compact_json, one_line, part_text
from foveate.turn import Attachment, Opaque, Part, Reasoning, Text, ToolCall, ToolResult, Turn, turn_number

TURNS_PAGE = 40
MAX_TEXT_CHARS = 20_000
"""Characters shown of a text; the download has all of it."""
MAX_TURN_CHARS = 400_000
"""Characters shown of all messages of a turn."""
MAX_COMPARED_CHARS = 200_000
"""Characters that are compared to find words that a level lost."""
RECENT_TURNS = 3
MAX_RECENT_TOKENS = 20_000
"""Tokens above which a turn is not shown in the chat."""
MAX_RECENT_CHARS = 4_000
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Images that a browser draws and that can't contain scripts."""
MAX_PLACE_DIGITS = 6
pages = Pages()


@dataclass(frozen=True, slots=True)
class LevelText:
    """A turn at one level."""

    level: Level
    text: str
    tokens: int
    share: float
    """Share of the raw turn's tokens."""
    maker: str
    made: str
    is_cut: bool
    lost: tuple[str, ...]
    """Words of the next higher level that this level lost."""

    @property
    def name(self) -> str:
        """The level in words."""
        return LEVEL_NAMES[self.level]


@pages.add("GET", f"{BASE}/sessions/{{session}}/turns", right="read")
async def list_turns(visit: Visit, session: Session) -> Response:
    """List the turns, newest first, in pages."""
    newest = session.info.turns
    last = min(newest, whole_number(visit.query("before"), "before", least=0) or newest)
    first = max(1, last - TURNS_PAGE + 1)
    outlines = (await session.outline(first, last))[::-1] if newest else []
    gists = await _gists(session, first, last) if newest else {}
    following = first - 1 if first > 1 else None
    return visit.part("turn_rows.html", info=session.info, outlines=outlines, gists=gists, next=following)


@pages.add("GET", f"{BASE}/sessions/{{session}}/find", right="read")
async def find_in_session(visit: Visit, session: Session) -> Response:
    """Search this session."""
    query = visit.query("q").strip()[:500]
    hits = await session.search(query, 30) if query else []
    return visit.part("session_hits.html", info=session.info, query=query, hits=hits)


@pages.add("GET", f"{BASE}/sessions/{{session}}/turns/{{turn}}", right="read")
async def show_turn(visit: Visit, session: Session, turn: str) -> Response:
    """Show a turn at all its levels, side by side, and its messages."""
    number = turn_number(turn) or 0
    return visit.part_or_page(
        "turn.html",
        "turn_page.html",
        title=f"T-{number} of {session.info.title or session.id}",
        info=session.info,
        turn=f"T-{number}",
        number=number,
        levels=await _levels(session, turn),
        messages=shown_messages(await session.load_turn(turn), MAX_TEXT_CHARS),
        details=await session.turn_details(turn),
    )


@pages.add("GET", f"{BASE}/sessions/{{session}}/turns/{{turn}}/images/{{place}}", right="read")
async def show_image(session: Session, turn: str, place: str) -> Response:
    """Serve an image of a turn."""
    images = _images(await session.load_turn(turn))
    number = int(place) if place.isascii() and place.isdigit() and len(place) < MAX_PLACE_DIGITS else len(images)
    if number >= len(images):
        raise ProblemError(404, f"{turn[:20]} has no image {place[:20]!r}")
    try:
        content = base64.b64decode(images[number].data or "", validate=True)
    except ValueError:
        raise ProblemError(404, f"the image {place[:20]!r} of {turn[:20]} can't be read") from None
    return Response(content, headers=HEADERS, media_type=images[number].media_type)


async def _gists(session: Session, first: int, last: int) -> dict[int, str]:
    """Return the shortest rendition of each turn that has one."""
    try:
        contents = await session.get_turns(first, last, "T", "plain")
    except FoveateError:  # one turn is not compressed yet: read them one by one
        tried = (await _gist(session, number) for number in range(first, last + 1))
        contents = [content async for content in tried if content]
    return {turn_number(content.turn_id) or 0: content.content for content in contents}


async def _gist(session: Session, number: int) -> TurnContent | None:
    try:
        return await session.get_turn(number, "T", "plain")
    except FoveateError:
        return None


async def _levels(session: Session, turn: str) -> list[LevelText]:
    details = {level.level: level for level in (await session.turn_details(turn)).levels}
    found: list[LevelText] = []
    above: TurnContent | None = None
    raw_tokens = 1
    for level in LEVELS:
        try:
            content = await session.get_turn(turn, level, "plain")
        except FoveateError:  # not made yet, or pruned
            continue
        raw_tokens = content.tokens if level == "R" else raw_tokens
        made = details.get(level)
        text = content.content
        found.append(
            LevelText(
                level,
                text[:MAX_TEXT_CHARS],
                content.tokens,
                content.tokens / max(1, raw_tokens),
                made.maker if made else "",
                made.made_at.strftime("%Y-%m-%d %H:%M") if made and made.made_at else "",
                len(text) > MAX_TEXT_CHARS,
                _lost(above.content[:MAX_COMPARED_CHARS], text[:MAX_COMPARED_CHARS]) if above else (),
            )
        )
        above = content
    return found


def _lost(above: str, below: str, most: int = 40) -> tuple[str, ...]:
    """Return significant words of a text that a shorter version lost, in order."""
    kept = {word.strip(".,;:!?()[]{}\"'`").casefold() for word in below.split()}
    lost: dict[str, None] = {}
    for word in above.split():
        bare = word.strip(".,;:!?()[]{}\"'`")
        if len(bare) > 3 and bare.casefold() not in kept:  # noqa: PLR2004 - shorter words tell little
            lost.setdefault(bare, None)
        if len(lost) >= most:
            break
    return tuple(lost)


@dataclass(frozen=True, slots=True)
class ShownPart:
    """A part of a message as the page shows it."""

    label: str
    """E.g. `Reasoning` or `Tool call grep`; empty for a text."""
    text: str
    is_cut: bool
    images: tuple[int, ...] = ()
    """Indexes of its images among those of the turn."""


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message as the page shows it."""

    role: str
    parts: tuple[ShownPart, ...]
    model: str = ""
    """The model that wrote it, if it is recorded."""


@dataclass(frozen=True, slots=True)
class RecentTurn:
    """A turn in the chat."""

    id: str
    messages: tuple[ShownMessage, ...]
    """Empty if the turn is too large to be shown."""


async def recent_turns(session: Session) -> list[RecentTurn]:
    """Return the newest turns for the chat."""
    newest = session.info.turns
    if not newest:
        return []
    found = []
    for outline in await session.outline(max(1, newest - RECENT_TURNS + 1), newest):
        is_shown = not outline.is_pruned and outline.tokens <= MAX_RECENT_TOKENS
        messages = shown_messages(await session.load_turn(outline.id), MAX_RECENT_CHARS) if is_shown else []
        found.append(RecentTurn(outline.id, tuple(messages)))
    return found


def shown_messages(turn: Turn, most: int) -> list[ShownMessage]:
    """Return the messages of a turn, each part with at most `most` characters, up to the limit of a page."""
    places = {id(image): place for place, image in enumerate(_images(turn))}
    left = MAX_TURN_CHARS
    found = []
    for message in turn.messages:
        parts = []
        for part in message.parts:
            label, text = _labelled(part)
            shown = text[: min(most, left)]
            left -= len(shown)
            own = tuple(places[id(image)] for image in _attachments(part) if id(image) in places)
            parts.append(ShownPart(label, shown, len(shown) < len(text), own))
        found.append(ShownMessage(message.role, tuple(parts), message.model or ""))
        if left <= 0:
            break
    return found


def _labelled(part: Part) -> tuple[str, str]:
    """Return the label and the text of a part; the text does not repeat the label."""
    match part:
        case Text(text):
            return "", text
        case Reasoning(text):
            return "Reasoning", text
        case ToolCall(name, arguments):
            return f"Tool call {one_line(name)}", compact_json(arguments)
        case ToolResult():
            label = f"Tool result {one_line(part.name)}" if part.name else "Tool result"
            outcome = [f"exit {part.exit_code}"] if part.exit_code is not None else []
            outcome += ["error"] if part.is_error else []
            inner = (one.text if isinstance(one, Text) else part_text(one) for one in part.content)
            return ", ".join([label, *outcome]), "\n".join(inner)
        case Attachment():
            return part.media.capitalize(), attachment_text(part).removeprefix(f"[{part.media}]").strip()
        case Opaque(format_, data):
            return f"Other {one_line(format_)}", compact_json(data)


def _images(turn: Turn) -> list[Attachment]:
    """Return the images of a turn whose bytes are in the store."""
    found = (image for message in turn.messages for part in message.parts for image in _attachments(part))
    return [image for image in found if image.data and image.media_type in IMAGE_TYPES]


def _attachments(part: Part) -> Sequence[Attachment]:
    if isinstance(part, Attachment):
        return (part,)
    return [one for one in part.content if isinstance(one, Attachment)] if isinstance(part, ToolResult) else ()
