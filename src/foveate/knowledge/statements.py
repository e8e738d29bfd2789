"""Statements in a person's prompts: rules, preferences, conventions, decisions. Pure.

Only the person's own words count. Code, quotations, pasted text and reports of others are ignored, since their
authors have no authority. A doubtful statement is omitted.
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from foveate.compress.clauses import cut_text, without_answers
from foveate.compress.model.checks import structure_in, visible
from foveate.compress.orders import is_standing_order
from foveate.strategy.checkpoint.extract import is_decision
from foveate.words.grammar import QUESTION_MARKS, replace_fenced

StatementKind = Literal["rule", "preference", "convention", "decision"]

MAX_OWN_CHARS = 1_200
"""Only the first and the last paragraph of a longer prompt count: people do not type that much."""
MAX_CHARS = 400
MIN_WORDS, MAX_WORDS = 3, 60
MIN_UNSPACED_CHARS = 5
"""Minimum length in scripts without spaces."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A clause as the person wrote it."""

    kind: StatementKind
    text: str
    is_standing: bool = False
    """True if it explicitly applies to the future: `always`, `never`, `from now on`."""


_USE_NOT = re.compile(
    r"\A(?:please |and |but |no,? |also |ok,? |just )*(?:use|write|prefer|call|name|say|run|import|install"
    r"|put)\s+(?!not\b)"
    r"[^,.;:]{2,80}?,?\s+(?:not|instead of|rather than|never|over)\s+\S",
    re.IGNORECASE,
)
_USE_NOT_ELSEWHERE = re.compile(
    r"\A(?:bitte |s'il te plaît,? |por favor,? |per favore,? )?(?:nutze|verwende|nimm|benutze|utilise[zr]?|usa"
    r"|use|usar|usare"
    r"|gebruik|använd|używaj|используй(?:те)?)\s.{2,80}?\s(?:statt|anstatt|nicht|plutôt que|au lieu de|pas"
    r"|en vez de|en lugar de"
    r"|no|invece di|non|em vez de|não|in plaats van|niet|istället för|inte|zamiast|вместо|а не)\s+\S"
    r"|(?:用|使用).{1,30}(?:不要用|而不是|代替)",
    re.IGNORECASE,
)
_PREFERENCE = re.compile(
    r"\bI(?:['’]d| would| do)?(?: really| strongly| much| generally| usually| always| personally)? (?:prefer|favou?r)\b"
    r"|\bI(?:['’]d| would) (?:much )?rather\b|\bmy (?:preference|preferred|favou?rite)\b"
    r"|\bI (?:really )?(?:like|love|want|hate|dislike|don['’]t like|can['’]t stand) (?:my|your|it when|when you"
    r"|the (?:answers?"
    r"|repl(?:y|ies)|code|tests?|commits?|docs?)|answers|replies|short|concise|plain)\b"
    r"|\bich (?:bevorzuge|mag lieber|hätte lieber)\b|\bmir ist .{2,60} lieber\b|\bje préfère\b|\bprefiero\b"
    r"|\bpreferisco\b"
    r"|\bprefiro\b|\bik (?:heb|gebruik) liever\b|\bjag föredrar\b|\bwolę\b|\bпредпочитаю\b|我更?(?:喜欢|偏好)"
    r"|の?ほ?う?が好き",
    re.IGNORECASE,
)
_CONVENTION = re.compile(
    r"(?<!can )(?<!could )(?<!should )(?<!if )(?<!do )(?<!did )(?<!will )(?<!would )(?<!when )(?<!how )(?<!may )"
    r"\bwe (?:always|never|only use|do(?:n['’]t| not) (?:use|allow|ship|deploy|commit|merge)|prefer|follow"
    r"|stick (?:to|with)|use"
    r"|usually)\b|\bour (?:convention|style|policy|standard|rule|practice|stack|naming|house style)s?\b"
    r"|\bthis (?:project|repo|repository|codebase) (?:uses|follows|requires|targets)\b"
    r"|\bwir (?:verwenden|nutzen|benutzen)\b|\bnous utilisons\b|\b(?:nosotros )?usamos\b|\busiamo\b|\bwij gebruiken\b"
    r"|\bмы используем\b|我们(?:使用|都用|用)|(?:を使っています|を使用しています)",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(
    r"\b(?:I|we|let['’]s|our|my|ich|wir|unser|je|nous|notre|yo|nosotros|hemos|noi|abbiamo|nós|wij|vi|мы|я)\b|我|私",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?:says?|said|states?|stated|claims?|claimed|writes?|wrote|reads|tells?|told|suggests?|suggested|recommends?"
    r"|instructs?|instructed|mentions?|mentioned|quot(?:e|es|ed|ing)|according to|apparently|supposedly|laut"
    r"|sagt|schreibt"
    r"|selon|según|secondo|segundo|volgens|enligt|według|согласно|говорит)\b|说|表示|によると",
    re.IGNORECASE,
)
_SAID_MYSELF = re.compile(r"\bI(?:['’]ve| have)?(?: already)? (?:said|told|mentioned|wrote)\b", re.IGNORECASE)

_SOURCES = (
    r"page|site|website|article|blog|post|documents?|docs?|readme|e-?mails?|mails?|messages?|texts?|files?"
    r"|contents?|tickets?"
    r"|issues?|comments?|reviews?|transcripts?|chats?|answers?|repl(?:y|ies)|responses?|outputs?|logs?|errors?"
    r"|traces?|traceback"
    r"|results?|tools?|snippets?|paragraphs?|letters?|spec|story|lyrics|quote|seite|datei|ausgabe|fehler"
    r"|fichier|archivo|файл"
)
_ACTS = (
    r"summari[sz]e|translate|proofread|rewrite|rephrase|paraphrase|explain|paste[ds]?|pasted|quoted?|fix|review"
    r"|check|classify"
    r"|extract|übersetze?|fasse|traduis|traduce|resume|переведи"
)
_PASTE_LEAD = re.compile(
    rf"\b(?:{_SOURCES}|{_ACTS}|says?|said|reads?|wrote|writes|states?|following|below|here(?:['’]s| is| are)|got"
    rf"|see|this|these)\b"
    r"|翻译|总结|以下|翻訳|要約|次の",
    re.IGNORECASE,
)
_RULE_LEAD = re.compile(
    r"\b(?:rules?|conventions?|guidelines?|preferences?|requirements?|remember|follow|regeln|règles|reglas)\b",
    re.IGNORECASE,
)
_FOREIGN_SOURCE = re.compile(rf"\b(?:{_SOURCES}|says?|said|reads|wrote|found)\b", re.IGNORECASE)
_LABEL_LINE = re.compile(
    r"\A[\W_]*(?:user|human|assistant|system|developer|ai|bot|tool|from|to|subject|date|sent|re|fwd?|note to"
    r"|von|betreff|de|objet"
    r"|asunto)[*_`\"'\]]*\s*:",
    re.IGNORECASE,
)
_PASTED_LINE = re.compile(
    r"\A(?:\s*#{1,6}\s|diff --git|@@ |\+\+\+ |--- |-----|=====|\*\*\*|\[?\d{4}-\d\d-\d\d[T ]\d\d:"
    r"|\d\d:\d\d:\d\d|Traceback |Begin "
    r"|BEGIN |<!DOCTYPE|<\?xml|\[\[|___)"
)
_SKIPPED_LINE = re.compile(r"\A\s*(?:[>|$%]|[{}\[\]<]|//|/\*|\*/|--\s|;;|(?: {4}|\t))|[{;]\s*\Z|\\[nrtu]")
_BLOCK = re.compile(r"<([A-Za-z][\w:-]*)\b[^<>]*>.*?</\1\s*>", re.DOTALL)
_OPEN_TAG = re.compile(r"<[A-Za-z!/][^<>]*>.*", re.DOTALL)
_SPAN = re.compile(
    r"`[^`\n]+`|\"[^\"\n]+\"|“[^“”\n]+”|«[^«»\n]+»|„[^„“”\n]+[“”]|「[^「」\n]+」|(?<!\w)'[^'\n]+'(?!\w)|‘[^‘’\n]+’"
)
_PARAGRAPHS = re.compile(r"\n\s*\n")
_ENCODED = re.compile(r"[A-Za-z0-9+/]{60,}={0,2}|(?:%[0-9a-fA-F]{2}){4,}|(?:\\x[0-9a-f]{2}){3,}|&#x?\w+;")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


def statements_in(typed: str) -> tuple[Statement, ...]:
    """Find the rules, preferences, conventions and decisions that a person states in their own words, in order.

    Pasted text is excluded from a prompt by `own_words`.
    """
    found: dict[str, Statement] = {}
    for clause in cut_text(typed):
        text = " ".join(clause.text.split())
        if clause.kind in ("prose", "item") and _is_readable(text):
            statement = _statement(without_answers(text))
            if statement:
                found.setdefault(statement.text.casefold(), statement)
    return tuple(found.values())


def own_words(prompt: str) -> str:
    """Return the part of a prompt that the person typed, without code, markup, quotations and pasted text."""
    text = replace_fenced(visible(prompt), "\n")
    text = _OPEN_TAG.sub("", _BLOCK.sub("\n", text))
    kept = "\n".join(_typed_lines(text))
    paragraphs = [paragraph for paragraph in _PARAGRAPHS.split(kept) if paragraph.strip()]
    if len(prompt) > MAX_OWN_CHARS and len(paragraphs) > 2:  # noqa: PLR2004 - more than the first and the last
        paragraphs = [paragraphs[0], paragraphs[-1]]
    return "\n\n".join(paragraph for paragraph in paragraphs if len(paragraph) <= MAX_OWN_CHARS)


def _typed_lines(text: str) -> Iterator[str]:
    """Yield the lines before pasted text begins."""
    for line in text.splitlines():
        if _LABEL_LINE.match(line) or _PASTED_LINE.match(line):
            return
        if _SKIPPED_LINE.search(line) or _ENCODED.search(line):
            continue
        lead, colon, behind = _first_colon(line)
        if colon and _leads_to_paste(lead):
            yield lead
            return
        yield f"{lead}{colon}{behind}"


def _first_colon(line: str) -> tuple[str, str, str]:
    """Split a line at the first colon that ends it or precedes text."""
    match = re.search(r":(?=\s|\Z)|：", line)
    return (line[: match.start()], match.group(), line[match.end() :]) if match else (line, "", "")


def _leads_to_paste(lead: str) -> bool:
    if _RULE_LEAD.search(lead) and not _FOREIGN_SOURCE.search(lead):
        return False
    return _PASTE_LEAD.search(lead) is not None


def _is_readable(text: str) -> bool:
    """Return whether a clause is a sentence of ordinary length, not a question, and not a quotation."""
    words = len(text.split())
    is_unspaced = len(_UNSPACED.findall(text)) >= MIN_UNSPACED_CHARS
    if not (MIN_WORDS <= words <= MAX_WORDS or is_unspaced) or len(text) > MAX_CHARS:
        return False
    if any(mark in text for mark in QUESTION_MARKS) or text.endswith((":", "：")) or structure_in(text, ""):
        return False
    return _REPORTED.search(text) is None or _SAID_MYSELF.search(text) is not None


def _statement(text: str) -> Statement | None:
    """Return the statement of a clause, or None; quoted spans are ignored."""
    unquoted = _SPAN.sub(" ", text)
    if _CONVENTION.search(unquoted):
        return Statement("convention", text)
    if _PREFERENCE.search(unquoted):
        return Statement("preference", text)
    if is_standing_order(unquoted):
        return Statement("rule", text, is_standing=True)
    if _USE_NOT.search(unquoted) or _USE_NOT_ELSEWHERE.search(unquoted):
        return Statement("rule", text)
    if _FIRST_PERSON.search(unquoted) and is_decision(unquoted):
        return Statement("decision", text)
    return None
