"""The person's own words in a prompt: without code, markup, quotations and pasted text. Pure."""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Iterator

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
    r"|fichier|archivo|файл"
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
_PARAGRAPHS = re.compile(r"\n\s*\n")
_ENCODED = re.compile(r"[A-Za-z0-9+/]{60,}={0,2}|(?:%[0-9a-fA-F]{2}){4,}|(?:\\x[0-9a-f]{2}){3,}|&#x?\w+;")


def own_words(prompt: str) -> str:
    """Return the part of a prompt that the person typed, without code, markup, quotations and pasted text."""
    text = replace_fenced(visible(prompt), "\n")
    text = _OPEN_TAG.sub("", _BLOCK.sub("\n", text))
    kept = "\n".join(_typed_lines(text))
    paragraphs = [paragraph for paragraph in _PARAGRAPHS.split(kept) if paragraph.strip()]
    about = next((n for n, paragraph in enumerate(paragraphs[:-1], 1) if _PASTE_PARAGRAPH.search(paragraph)), None)
    paragraphs = paragraphs[:about]
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
