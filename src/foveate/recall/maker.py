"""A turn's entry in the index: its passages with their words and, where the model is the package's, their vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from foveate.recall.embed import STATIC, STATIC_NAME, index_maker
from foveate.recall.passages import Passage, cut_turn
from foveate.recall.words import extra_words
from foveate.store.rows import NewPassages, PassageText
from foveate.text import encodable
from foveate.turn import Message

EMBEDDED_CHARS = 400
"""Of a passage; those of tools are longer, and say by their beginning what they are about."""
WITHOUT_VECTORS = index_maker("")
"""Who makes entries whose vectors another model makes later."""


def index_turn(turn: int, messages: Sequence[Message], *, at_us: int, embeddings: str) -> NewPassages:
    """The entry of a turn whose messages come without what history tools recalled."""
    # numpy loads in the process that indexes, and not before.
    from foveate.recall.embed import static  # noqa: PLC0415
    from foveate.recall.table import pack_marks  # noqa: PLC0415
    from foveate.recall.vectors import pack  # noqa: PLC0415

    passages = cut_turn(messages)
    numbers = tuple(_embedded(passages))
    is_static = embeddings == STATIC
    return NewPassages(
        turn=turn,
        messages=len(messages),
        at_us=at_us,
        maker=index_maker(STATIC_NAME) if is_static else WITHOUT_VECTORS,
        texts=tuple(map(passage_text, passages)),
        embedded=numbers,
        marks=pack_marks(passages),
        vectors=pack(static.embed([passages[number].text[:EMBEDDED_CHARS] for number in numbers]), numbers)
        if is_static
        else b"",
    )


def passage_text(passage: Passage) -> PassageText:
    """A passage as a store takes it."""
    text = encodable(passage.text)
    return PassageText(passage.speaker, text, passage.tool and encodable(passage.tool), extra_words(text))


def _embedded(passages: Sequence[Passage]) -> Iterator[int]:
    """The numbers of the passages that get a vector: all but the middle of what a tool said."""
    for (speaker, _), group in groupby(enumerate(passages), key=lambda each: (each[1].speaker, each[1].part)):
        numbers = [number for number, _ in group]
        yield from numbers if speaker != "tool" else sorted({numbers[0], numbers[-1]})
