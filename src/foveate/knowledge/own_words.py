"""The person's own words in a prompt: without code, markup, quotations and pasted text. Pure."""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from foveate.compress.model.checks import visible
from foveate.words.grammar import replace_fenced

MAX_OWN_CHARS = 1_200
"""Only the first and the last paragraph of a longer prompt count: people do not type that much."""

_SOURCES = (
    r"page|site|website|article|blog|post|documents?|docs?|readme|e-?mails?|mails?|messages?|texts?|files?"
    r"|contents?|tickets?"
    r"|issues?|comments?|reviews?|transcripts?|chats?|answers?|repl(?:y|ies)|responses?|outputs?|logs?|errors?"
    r"|traces?|traceback"
    r"|results?|tools?|snippets?|paragraphs?|letters?|spec|story|lyrics|quote|seite|datei|ausgabe|fehler"
    r"|ads?|adverts?|advertisements?|postings?|vacanc(?:y|ies)|brochures?|leaflets?|handbooks?|manuals?|minutes"
    r"|changelogs?|faqs?|newsletters?|tweets?|headlines?|prompts?|anzeigen?|stellenanzeigen?|aushang|handbuch|protokolle?|nachrichten?"
    r"|fichier|annonces?|offre d['’]emploi|affiche|notice|compte rendu|courriels?|archivo|anuncios?"
    r"|oferta de empleo|cartel|acta|correos?|mensajes?|файл"
)
_ACTS = (
    r"summari[sz]e|translate|proofread|rewrite|rephrase|paraphrase|explain|paste[ds]?|pasted|quoted?|fix|review"
    r"|check|classify"
    r"|extract|übersetze?|fasse|traduis|traduce|resume|переведи"
)
_PASTE_LEAD = re.compile(
    rf"\b(?:{_SOURCES}|{_ACTS}|says?|said|reads?|wrote|writes|states?|following|below|here(?:['’]s| is| are)|got"
    rf"|see)\b|\b(?:this|these)\W*\Z"
    r"|翻译|总结|以下|翻訳|要約|次の",
    re.IGNORECASE,
)
_PASTE_PARAGRAPH = re.compile(
    r"\b(?:summari[sz]e|translate|proofread|rephrase|paraphrase|wrote|has written|posted|sent (?:me|us) this|pasted"
    r"|übersetz\w*|korrigier\w*|prüfen|zusammenfass\w*|fass\w* .{0,40}zusammen|geschrieben|schrieb"
    r"|traduis\w*|corrige\w*|résume\w*|relis\w*|a écrit|escribió|ha escrito|traduce\w*|traduz\w*|resume|resúme\w*"
    r"|revisa|corrige)\b",
    re.IGNORECASE,
)
"""A paragraph with one of these is about the text that follows it."""
_RULE_LEAD = re.compile(
    r"\b(?:rules?|conventions?|guidelines?|preferences?|requirements?|remember|follow|regeln|règles|reglas)\b",
    re.IGNORECASE,
)
_FOREIGN_SOURCE = re.compile(rf"\b(?:{_SOURCES}|says?|said|reads|wrote|found)\b", re.IGNORECASE)
_SPEAKERS = (
    r"user|human|assistant|system|developer|ai|bot|tool|me|ich|moi|yo|speaker|sprecher(?:in)?|intervenante?|participante?"
    r"|interviewer|interviewee|moderator(?:in)?|host|agent|customer|client|kunde|kundin"
)
_LABEL_LINE = re.compile(
    rf"\A[\W_]*(?:(?:{_SPEAKERS})(?: \d+)?|from|to|cc|subject|date|sent|re|fwd?|note to|von|betreff|de|objet|asunto)"
    r"[*_`\"'\]]*\s*:",
    re.IGNORECASE,
)
"""A speaker of a dialogue, or the header of a mail."""
_PLANTED_LINE = re.compile(
    r"\A\W*(?:system|admin(?:istrator)?|root|developer)\b(?![ '’](?:tests?|calls?|s)\b)[^:\n]{0,30}(?::|\]|>)"
    r"|\A.{0,40}\b(?:notes?|notices?|instructions?|attention|messages?|polic(?:y|ies)|hinweise?"
    r"|anweisung(?:en)?|nota|aviso|consignes?|instruccion(?:es)?)\b.{0,24}\b(?:ais?|llms?|agents?"
    r"|assistants?|language models?|bots?|ki|ia|asistentes?)\b",
    re.IGNORECASE,
)
"""A line that is addressed to programs, in the name of an authority."""
_INTRODUCED = re.compile(
    r"\b(?:the following|what follows) (?:is|are|was|were|comes)\b"
    r"|\b(?:folgendes|das folgende) (?:ist|sind|steht|stammt)\b"
    r"|\bce qui suit (?:est|vient)\b|\blo siguiente (?:es|viene)\b",
    re.IGNORECASE,
)
"""Announces text of somebody else."""
_SALUTATION = re.compile(
    r"\A\s*(?:(?:dear|sehr geehrte[rs]?|liebe[rs]?|ch[eè]re?s?|estimad[oa]s?|querid[oa]s?) [^.:!?]{2,40}"
    r"|(?:hi|hello|hallo|bonjour|hola) (?:all|team|everyone|everybody|folks|zusammen|à tous|a todos))[,!]?\s*\Z",
    re.IGNORECASE,
)
_NAME_LABEL = re.compile(r"\A\s*([^\W\d_][\w.'-]*(?: [^\W\d_][\w.'-]*){0,2}): ")
"""A name, perhaps, before what was said."""
_PASTED_LINE = re.compile(
    r"\A(?:\s*#{1,6}\s|diff --git|@@ |\+\+\+ |--- |-----|=====|\*\*\*|\[?\d{4}-\d\d-\d\d[T ]\d\d:"
    r"|\d\d:\d\d:\d\d|Traceback |Begin "
    r"|BEGIN |<!DOCTYPE|<\?xml|\[\[|___"
    # Chats and logs: `[12:03] alice`, `12/03/24, 18:22 - `, `Ben (10:31):`, `Ann 10:31 AM`, `May 03 12:33:01`, `INFO`
    r"|\[\d{1,2}[:.]\d\d|\[?\d{1,2}[./-]\d{1,2}[./-]\d{2,4},? \d{1,2}:\d\d|[^\W\d]\w* {1,2}\d{1,2} \d\d:\d\d:\d\d"
    r"|@?[^\W\d_][\w.'-]*(?: [^\W\d_][\w.'-]*)?,? (?:[(\[][^)\]]{0,20}\d:\d\d[^)\]]{0,6}[)\]]|\d{1,2}:\d\d ?[AP]M\s*\Z)"
    r"|(?:\S+ ){0,2}\[?(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b)"
)
_SKIPPED_LINE = re.compile(r"\A\s*(?:[>|$%]|[{}\[\]<]|//|/\*|\*/|--\s|;;|(?: {4}|\t))|[{;]\s*\Z|\\[nrtu]")
_BLOCK = re.compile(r"<([A-Za-z][\w:-]*)\b[^<>]*>.*?</\1\s*>", re.DOTALL)
_OPEN_TAG = re.compile(r"<[A-Za-z!/][^<>]*>.*", re.DOTALL)
_PARAGRAPHS = re.compile(r"\n\s*\n")
_ENCODED = re.compile(r"[A-Za-z0-9+/]{60,}={0,2}|(?:%[0-9a-fA-F]{2}){4,}|(?:\\x[0-9a-f]{2}){3,}|&#x?\w+;")


def own_words(prompt: str) -> str:
    """Return the part of a prompt that the person typed, without code, markup, quotations and pasted text."""
    text = replace_fenced(visible(prompt), "\n")
    text = _OPEN_TAG.sub("", _BLOCK.sub("\n", text))
    kept = "\n".join(_typed_lines(text.splitlines()))
    paragraphs = [paragraph for paragraph in _PARAGRAPHS.split(kept) if paragraph.strip()]
    about = next((n for n, paragraph in enumerate(paragraphs[:-1], 1) if _PASTE_PARAGRAPH.search(paragraph)), None)
    paragraphs = paragraphs[:about]
    if len(prompt) > MAX_OWN_CHARS and len(paragraphs) > 2:  # noqa: PLR2004 - more than the first and the last
        paragraphs = [paragraphs[0], paragraphs[-1]]
    return "\n\n".join(paragraph for paragraph in paragraphs if len(paragraph) <= MAX_OWN_CHARS)


def _typed_lines(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines before pasted text begins."""
    speakers = _speakers(lines)
    for line in lines:
        if any(pattern.match(line) for pattern in (_LABEL_LINE, _PASTED_LINE, _PLANTED_LINE, _SALUTATION)):
            return
        if (name := _NAME_LABEL.match(line)) and name[1] in speakers:
            return
        if _SKIPPED_LINE.search(line) or _ENCODED.search(line):
            continue
        if introduced := _INTRODUCED.search(line):
            yield line[: introduced.start()]
            return
        lead, colon, behind = _first_colon(line)
        if colon and _leads_to_paste(lead):
            yield f"{lead}:"
            return
        yield f"{lead}{colon}{behind}"


def _speakers(lines: Sequence[str]) -> Collection[str]:
    """Return the names before the lines of a dialogue: one of them is a speaker's, or is there twice."""
    names = [match[1] for line in lines if (match := _NAME_LABEL.match(line))]
    is_dialogue = len(set(names)) > 1 and (len(set(names)) < len(names) or any(map(_LABEL_LINE.match, lines)))
    return frozenset(names) if is_dialogue else frozenset()


def _first_colon(line: str) -> tuple[str, str, str]:
    """Split a line at the first colon that ends it or precedes text, or at a dash before a quotation."""
    match = re.search(r":(?=\s|\Z)|：|\s[–—-]{1,2}(?=\s[\"“„«])", line)
    return (line[: match.start()], match.group(), line[match.end() :]) if match else (line, "", "")


def _leads_to_paste(lead: str) -> bool:
    if _RULE_LEAD.search(lead) and not _FOREIGN_SOURCE.search(lead):
        return False
    return _PASTE_LEAD.search(lead) is not None
