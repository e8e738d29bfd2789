"""Summaries of topics worded by a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from foveate.compress.facts import Facts, find_facts
from foveate.compress.guard import CLAIMS, GuardSource
from foveate.compress.marks import one_line
from foveate.compress.model.checks import SourceWords, made_up, visible, wrong_in
from foveate.compress.model.clauses import clauses_schema, words_of
from foveate.compress.model.request import SPEAKERS, closed_object
from foveate.models.prompts import prompt_text
from foveate.plan import Artefact
from foveate.renditions import Unit
from foveate.strategy.build import Material
from foveate.strategy.clause_summary import ClauseWording, JudgedClauses
from foveate.strategy.topics.build import MAX_TITLE_CHARS, reword_topic
from foveate.turn import Json


class TopicWording(ClauseWording):
    """A title, and clauses of the user and the assistant."""

    schema: ClassVar[Mapping[str, Json]] = closed_object(
        {"title": {"type": "string"}, "clauses": clauses_schema(SPEAKERS)}
    )
    clauses_key = "clauses"

    @property
    def prompt(self) -> str:
        return prompt_text("summary/topics").strip()

    def put_together(self, judged: JudgedClauses, material: Material, before: Artefact) -> Artefact:
        title = _title(judged.answer.get("title"), judged.notes, judged.nonce) or str(before.data.get("title", ""))
        return reword_topic(material, title, judged.kept)


def _title(given: object, notes: Sequence[Unit], nonce: str) -> str:
    """A model's title, if it is in words of the notes; else nothing."""
    title = one_line(visible(given)).rstrip(".;, ") if isinstance(given, str) else ""
    if not title or len(title) > MAX_TITLE_CHARS:
        return ""
    words = [words_of(unit) for unit in notes]
    known: Facts = find_facts("\n".join(words))
    forms = {key[2:] for key in known}
    is_wrong = (
        any(key[0] in CLAIMS and key[2:] not in forms for key in find_facts(title))
        or wrong_in(title, SourceWords("\n".join(words), GuardSource(known, words), 0, known), nonce)
        or made_up(title, known)
    )
    return "" if is_wrong else title


WORDING = TopicWording()
