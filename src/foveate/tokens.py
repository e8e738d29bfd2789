"""Token counts: exact for OpenAI's encodings, scaled by a measured factor for other families.

The vocabularies are shipped with the package, so counting never downloads anything; the first count loads one.
`docs/lab/tokens.md` has the measurements behind the factors.
"""

from __future__ import annotations

import math
import re
import threading
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

from foveate.errors import FoveateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tiktoken import Encoding

EncodingName = Literal["o200k_base", "cl100k_base"]

ENCODINGS: tuple[EncodingName, ...] = get_args(EncodingName)
CHUNK_CHARS = 16_384
"""Longer text is counted in chunks of one to two times this: tiktoken overflows its stack on 1,000,000 spaces."""
MAX_COUNTED_TOKENS = 2_000_000
"""More than models read: beyond it a text is not counted where only its size relative to a budget matters."""
MAX_CHAR_BYTES = 4
"""Of one character in UTF-8."""
MAX_CALIBRATION = 3.0
"""Maximum calibration of a session's counts by providers' reports."""
MIN_CALIBRATION = 0.5
"""Minimum calibration of an estimator's counts; those of an exact counter are never lowered."""
LOOSEN_SHARE = 0.05
"""Share of the distance by which a report below the count lowers the calibration."""
CALIBRATION_MARGIN = 1.1
"""Minimum margin of lowered counts above what was reported."""
CALIBRATED_SHARE = 0.5
"""Below this share of the budget, a prompt measures a provider's overhead more than its counting, and can't exceed
the budget."""
MIN_CALIBRATION_TOKENS = 256
"""A shorter prompt is dominated by the provider's framing of messages."""

SHA256: dict[EncodingName, str] = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
"""Hashes of the unpacked vocabularies."""

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_PATTERNS: dict[EncodingName, str] = {
    "o200k_base": (
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_CONTRACTION}?"
        rf"|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_CONTRACTION}?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "cl100k_base": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
}
"""Patterns that split text into pieces before any merging; no token crosses a piece, so counts add up where pieces
end."""

# Positions where both patterns end a piece whatever the context. Python's \s has every character that the patterns' \s
# has, so what is no space here is none there. An apostrophe may open a contraction, so it is excluded.
_PIECE_END = (
    r"\S(?= )|\n(?=[^\s/])|[^\W_](?=[,.;:!?(){}\[\]<>\"/=+*#@&|\u3001\u3002\uff0c\uff01\uff1f])"
    r"|[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])"
)

_loaded: dict[EncodingName, Encoding] = {}
_loading = threading.Lock()


def count_tokens(text: str, encoding: EncodingName = "o200k_base", *, chunk_chars: int = CHUNK_CHARS) -> int:
    """Return the exact count; text that looks like a special token counts as ordinary text.

    A lone surrogate counts as U+FFFD. Only where a piece is longer than `chunk_chars` (an unbroken run of one kind
    of character) is it cut inside, and the count may then be off by a token or two per cut.
    """
    if len(text) <= chunk_chars:
        return len(_encoding(encoding).encode_ordinary(text))
    return count_pieces((text,), encoding, chunk_chars=chunk_chars)


@lru_cache(maxsize=256)
def _count_stable(text: str, encoding: EncodingName) -> int:
    return count_tokens(text, encoding)


def count_pieces(
    pieces: Iterable[str], encoding: EncodingName = "o200k_base", *, chunk_chars: int = CHUNK_CHARS
) -> int:
    """Count the pieces as one text, without joining them; the same as `count_tokens`."""
    encode = _encoding(encoding).encode_ordinary
    return sum(len(encode(chunk)) for chunk in _chunks(pieces, chunk_chars))


def _upper_bound(text: str, encoding: EncodingName) -> int:
    encode, count, read = _encoding(encoding).encode_ordinary, 0, 0
    for chunk in _chunks((text,), CHUNK_CHARS):
        if count > MAX_COUNTED_TOKENS:
            break
        count += len(encode(chunk))
        read += len(chunk)
    return count + MAX_CHAR_BYTES * (len(text) - read)  # no token is shorter than a byte


def _chunks(pieces: Iterable[str], chunk_chars: int) -> Iterator[str]:
    text = ""
    for piece in pieces:
        text += piece
        start = 0
        while len(text) - start > 2 * chunk_chars:
            longest = start + 2 * chunk_chars
            place = re.compile(_PIECE_END).search(text, start + chunk_chars, longest)
            end = place.end() if place else longest
            yield text[start:end]
            start = end
        text = text[start:]
    yield text


def _encoding(name: EncodingName) -> Encoding:
    loaded = _loaded.get(name)
    if loaded is None:
        with _loading:
            loaded = _loaded.get(name) or _load(name)
            _loaded[name] = loaded
    return loaded


def _load(name: EncodingName) -> Encoding:
    # Imported here, since together they take longer than everything else that `import foveate` does.
    import gzip  # noqa: PLC0415
    import hashlib  # noqa: PLC0415
    from binascii import a2b_base64  # noqa: PLC0415
    from importlib.resources import files  # noqa: PLC0415

    from tiktoken import Encoding  # noqa: PLC0415

    packed = files("foveate").joinpath("vocabularies", f"{name}.tiktoken.gz").read_bytes()
    try:
        unpacked = gzip.decompress(packed)
    except (OSError, EOFError) as error:
        raise _damaged(name) from error
    if hashlib.sha256(unpacked).hexdigest() != SHA256[name]:
        raise _damaged(name)
    fields = unpacked.split()
    ranks = dict(zip(map(a2b_base64, fields[::2]), map(int, fields[1::2]), strict=True))
    return Encoding(name, pat_str=_PATTERNS[name], mergeable_ranks=ranks, special_tokens={})


def _damaged(name: EncodingName) -> FoveateError:
    return FoveateError(f"the vocabulary {name} that comes with foveate is damaged; install foveate again")


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts for one family of models: an exact count in an encoding, scaled up."""

    name: str
    encoding: EncodingName
    factor: float
    """At least 1: the bound that 95 % of ordinary texts (English, code, JSON, Markdown) stay below, if it was
    measured."""
    exact: bool
    measured: str
    """The error and the text it was measured on, in a sentence."""

    def base(self, text: str) -> int:
        """Return the exact count in `encoding`; bases add up, scaled counts round up each time."""
        return count_tokens(text, self.encoding)

    def upper_bound(self, text: str) -> int:
        """Return the `base` of a text up to `MAX_COUNTED_TOKENS`, and an upper bound of what no model can read."""
        return _upper_bound(text, self.encoding)

    def stable_base(self, text: str) -> int:
        """Return the cached `base` of a text that is used repeatedly, such as a system prompt."""
        return _count_stable(text, self.encoding)

    def scale(self, base_tokens: int, calibration: float = 1.0) -> int:
        """Convert a base count to tokens of this family, rounded up."""
        ratio = self.factor * calibration
        # Rounding first keeps 100 x 1.1 at 110 where floating point says 110.00000000000001.
        return base_tokens if ratio == 1 else math.ceil(round(base_tokens * ratio, 6))

    def base_within(self, tokens: int) -> int:
        """Return the largest base count that is at most this many tokens of this family."""
        return int(round(tokens / self.factor, 6))

    def count(self, text: str) -> int:
        return self.scale(self.base(text))


_EXACT = "The vocabulary and the pattern are OpenAI's own; no error."

O200K = Counter("o200k_base", "o200k_base", 1.0, exact=True, measured=_EXACT)
CL100K = Counter("cl100k_base", "cl100k_base", 1.0, exact=True, measured=_EXACT)


def _estimator(name: str, factor: float, measured: str) -> Counter:
    return Counter(name, "o200k_base", factor, exact=False, measured=measured)


CLAUDE_4 = _estimator(
    "claude-4",
    1.35,
    "claude-sonnet-4-5 reported 1.35 x o200k over a coding session of 408 calls, framing of messages included "
    "(1.23 a token and 35 a call; additions of 500+ tokens: median 1.23, 5-95 % 0.96-1.34); English and code only.",
)
CLAUDE = _estimator(
    "claude",
    1.85,
    "Not measured here: from Opus 4.7 and Sonnet 5 on the maker says about 1.3 x the tokens of earlier models, and "
    "up to 1.35 x; the factor is that of claude-4 times 1.35.",
)
GEMINI = _estimator(
    "gemini",
    1.35,
    "Not measured: no tokenizer or reported usage was at hand. The factor is above the 1.27 that Mistral's tekken, "
    "which also splits numbers into digits, stays below on 95 % of ordinary texts.",
)
LLAMA_3 = _estimator(
    "llama3",
    1.1,
    "Llama 3 and 4 take 0.99-1.03 x o200k on English chat, code, JSON and Markdown; Llama 3 takes 1.20-1.27 on German, "
    "French, Russian and Arabic, 1.58 on Hindi, 0.97-1.06 on Japanese and Chinese, and 1.25 on emoji.",
)
MISTRAL = _estimator(
    "mistral",
    1.6,
    "The 32k vocabulary (Mixtral, Codestral) takes 1.14-1.37 x o200k on English chat, code, JSON and Markdown, tekken "
    "1.05-1.20; the old one takes 1.38-1.60 on European and East Asian text, 2.85 on Arabic and 3.19 on Hindi.",
)
QWEN = _estimator(
    "qwen",
    1.2,
    "1.02-1.05 x o200k on English chat, code and Markdown, 1.15 on JSON; 1.16-1.32 on German, French, Russian and "
    "Arabic, 0.83-0.90 on Chinese and Japanese, 2.85 on Hindi.",
)
DEEPSEEK = _estimator(
    "deepseek",
    1.15,
    "1.02-1.07 x o200k on English chat, code, JSON and Markdown; 1.20-1.29 on German, French, Russian and Arabic, "
    "0.77-0.95 on Chinese and Japanese, 1.80 on Hindi.",
)
SMOLLM = _estimator(
    "smollm",
    1.65,
    "SmolLM2 takes 1.08-1.31 x o200k on English chat, code, JSON and Markdown; 1.54-1.73 on German and French, "
    "2.30-3.34 on Russian, Chinese, Japanese, Arabic and Hindi.",
)
GENERIC = _estimator(
    "generic",
    1.85,
    "Nothing is known of this model's tokenizer; the factor is the largest of any family here. Every vocabulary "
    "measured (32k to 200k tokens) stays below 1.61 x o200k on 95 % of English chat, code, JSON and Markdown.",
)
COUNTERS = (O200K, CL100K, CLAUDE_4, CLAUDE, GEMINI, LLAMA_3, MISTRAL, QWEN, DEEPSEEK, SMOLLM, GENERIC)

# Claude up to 4.6 has the tokenizer that was measured; later and unversioned names get the larger factor.
_CLAUDE_4 = r"claude-(?:instant|v?[123](?!\d)|(?:(?:opus|sonnet|haiku)-)?4(?:[-.][0-6](?!\d)|[-@]20\d{6}|(?![-.@]?\d)))"
_FAMILIES = (
    (_CLAUDE_4, CLAUDE_4),
    (rf"(?!{_CLAUDE_4})claude", CLAUDE),
    (r"gemini|gemma", GEMINI),
    (r"llama(?![-_]?v?[12](?!\d))", LLAMA_3),  # Llama 1 and 2 had another vocabulary
    (r"mistral|ministral|mixtral|codestral|devstral|magistral|pixtral|voxtral", MISTRAL),
    (r"qwen|qwq|qvq", QWEN),
    (r"deepseek", DEEPSEEK),
    (r"smollm|^local(?::\d+)?$", SMOLLM),  # what `local` serves, unless it names other weights
)


def counter_for(model: str | None) -> Counter:
    """Return the counter of a model's family, by its name with or without a provider before it or an address after it.

    Without a name it is o200k_base.
    """
    if model is None:
        return O200K
    name = model.strip().lower().partition("@http")[0].rstrip("/").rpartition("/")[2]
    # A model distilled from one family into another names both: the larger factor is the safe one.
    found = [counter for pattern, counter in _FAMILIES if re.search(rf"(?<![a-z])(?:{pattern})", name)]
    if found:
        return max(found, key=lambda counter: counter.factor)
    return _openai_counter(name.removeprefix("openai.")) or GENERIC


def _openai_counter(name: str) -> Counter | None:
    from tiktoken.model import encoding_name_for_model  # noqa: PLC0415

    before, _, after = name.partition(":")
    # `-` lets a short name match tiktoken's prefixes; a colon separates a provider (openai:) or a size (:20b).
    for candidate in (name, f"{name}-", after, f"{after}-", f"{before}-"):
        try:
            encoding = encoding_name_for_model(candidate)
        except KeyError:
            continue
        return {"o200k_base": O200K, "o200k_harmony": O200K, "cl100k_base": CL100K}.get(encoding)
    return O200K if re.match(r"(?:o[134]|chatgpt|codex)(?![a-z0-9])", after or name) else None


def calibrate(factor: float, *, counted_tokens: int, reported_tokens: int, is_exact: bool = True) -> float:
    """Return a session's new calibration, after the provider reported the tokens of a prompt.

    `counted_tokens` is the count without calibration, of everything that was sent. The calibration rises at once to
    what was reported, and falls slowly, to a margin above it. That of an exact counter never goes below 1. A prompt of
    under MIN_CALIBRATION_TOKENS changes nothing.
    """
    least = 1.0 if is_exact else MIN_CALIBRATION
    current = min(max(factor, least), MAX_CALIBRATION) if math.isfinite(factor) else 1.0
    if counted_tokens < MIN_CALIBRATION_TOKENS or reported_tokens <= 0:
        return current
    ratio = reported_tokens / counted_tokens
    if ratio >= current:
        return min(ratio, MAX_CALIBRATION)
    target = max(least, ratio * CALIBRATION_MARGIN)
    return current - LOOSEN_SHARE * max(0.0, current - target)


def exact_counter(encoding: EncodingName) -> Counter:
    return O200K if encoding == "o200k_base" else CL100K


def session_counter(model: str | None, encoding: EncodingName) -> Counter:
    """Return the counter of a session whose stored counts are in `encoding`, though its model may have been named
    later."""
    counter = counter_for(model)
    return counter if counter.encoding == encoding else replace(GENERIC, encoding=encoding)
