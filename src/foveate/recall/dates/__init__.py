"""Times that a text names, as spans: "on 8 May 2023", "in June", "two weeks ago", "2023-05-08". Pure.

Relative times are counted from a given moment; recall passes the newest turn's, so that the same session gives the same
answer tomorrow. `LANGUAGE.txt` has the words of a language, in small letters without accents; `+` joins the words of
one entry:

    [months] [weekdays]  one line each, all names of it     [in]     words before a month or a year that make it a time
    [units]              day, week, month, year, weekend,   [joins]  words between a day, a month and a year
                         night                              [ago]    patterns of a time before now
    [seasons]            spring, summer, autumn, winter
    [counts] [ordinals]  one, two, …; the last ordinal is   [last]   patterns of the period before the current one
                         "last"                             [this]   patterns of the current one
    [near]               today, yesterday, the day before   [week]   patterns of a week of a month
    [asking]             words of a question for a time     [early] [middle] [late]  words before a month

English is always read; of the others the language of the text, or all of them if no word tells which it is.
"""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files

from foveate.errors import InvalidMessage
from foveate.recall.questions import ENGLISH, language_name
from foveate.recall.words import telling_words
from foveate.turn import parse_time, to_us

LANGUAGES = (ENGLISH, "de", "fr", "es")
MAX_SPANS = 4
MAX_CHARS = 4_000
"""As much of a text is read."""
MAX_EXPRESSION_CHARS = 100
"""A longer value of a filter is no time."""
BACK_HOURS = {"min": 1 / 60, "h": 1, "d": 24, "w": 168, "hour": 1, "day": 24, "week": 168, "month": 720, "year": 8760}
UNITS = ("day", "week", "month", "year", "weekend", "night")
UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
WEEK_DAYS = 7
LAST_ORDINAL = 5
THIRD_DAYS = 10
"""The days of the beginning and of the middle of a month; the end has the rest."""

_YEAR = r"(?:19|20)\d\d"
_ISO = re.compile(r"\b((?:19|20)\d\d)-(\d\d)-(\d\d)\b")
_ISO_MONTH = re.compile(r"\b((?:19|20)\d\d)-(0[1-9]|1[0-2])\b(?!-?\d)")
_DOTTED = re.compile(rf"\b(\d{{1,2}})\.\s?(\d{{1,2}})\.\s?({_YEAR})\b")
_DAY = r"(\d{1,2})(?:st|nd|rd|th|er|\.)?"
_BACK = re.compile(r"(\d{1,6})\s*(min|h|d|w|hour|day|week|month|year)(?:ute)?s?(?:\s+ago)?")
_TOKEN = re.compile(r"[^\W\d_]+")

Days = tuple[date, date]
"""The first and the last day of a span."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """From a moment up to another, in microseconds since 1970."""

    first_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class _Language:
    """The words of a language by their meaning, and its patterns."""

    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    seasons: Mapping[str, int]
    units: Mapping[str, str]
    counts: Mapping[str, int]
    ordinals: Mapping[str, int]
    near: Mapping[str, int]
    """Days back."""
    tells: frozenset[str]
    """Words of which a text that names a time without a digit has at least one."""
    day_month: re.Pattern[str]
    month_day: re.Pattern[str]
    month_year: re.Pattern[str]
    in_month: re.Pattern[str]
    in_year: re.Pattern[str]
    ago: Sequence[re.Pattern[str]]
    periods: Mapping[str, Sequence[re.Pattern[str]]]
    """`last` and `this`."""
    week: Sequence[re.Pattern[str]]
    thirds: Sequence[re.Pattern[str]]
    """The beginning, the middle and the end of a month."""
    season_year: re.Pattern[str]
    near_days: re.Pattern[str]


def spans_in(text: str, now: datetime) -> list[TimeSpan]:
    """The times that a text names, as seen from `now`."""
    folded = _folded(text)
    if not _may_name_time(folded, LANGUAGES):
        return []
    spoken = language_name(text[:MAX_CHARS])
    names = LANGUAGES if spoken is None else tuple(dict.fromkeys((ENGLISH, spoken)))
    found = dict.fromkeys(_named(folded, now.date(), [name for name in names if name in LANGUAGES]))
    return [_span(days) for days in list(found)[:MAX_SPANS]]


def names_only_time(text: str) -> bool:
    """Whether a text that names a time says nothing else: `last May`, `what did I say in September 2022?`."""
    words = {word for word in telling_words(_folded(text)) if not any(map(str.isdigit, word))}
    return words <= _time_words()


def parse_span(value: str | float | datetime, now: datetime, *, path: str) -> TimeSpan:
    """A time from what `parse_time` takes, relative to `now` (`7d`, `12 hours ago`), or in words: `yesterday`, `last
    week`, `September 2022`, `the first week of June`, `vor zwei Wochen`.

    A moment has no length. Days are those of UTC. `InvalidMessage` names `path`.
    """
    if isinstance(value, str):
        text = _folded(value.strip())
        if match := _BACK.fullmatch(text):
            hours = int(match[1]) * BACK_HOURS[match[2]]
            if hours < (now - datetime.min.replace(tzinfo=UTC)) / timedelta(hours=1):
                return _at(now - timedelta(hours=hours))
    try:
        moment = parse_time(value, path=path)
    except InvalidMessage as error:
        found = _expressed(text, now.date()) if isinstance(value, str) else None
        if found:
            return _span(found)
        problem = f"{value!r} is not a time; use 2026-11-15, 7d, yesterday, last May, September 2022 or 2 weeks ago"
        raise InvalidMessage(path, problem) from error
    is_day = isinstance(value, str) and _ISO.fullmatch(value.strip())
    return _span((moment.date(), moment.date())) if is_day else _at(moment)


def parse_moment(value: str | float | datetime, now: datetime, *, path: str) -> datetime:
    """The beginning of what `parse_span` reads."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=parse_span(value, now, path=path).first_us)


def _expressed(text: str, today: date) -> Days | None:
    """The time that a whole text means, in any language; a month or a year may be alone."""
    if not text or len(text) > MAX_EXPRESSION_CHARS:
        return None
    for asked in (text, f"in {text}", f"im {text}", f"en {text}"):
        for days in _named(asked, today, LANGUAGES, is_exact=True):
            return days
    return None


def _named(text: str, today: date, names: Sequence[str], *, is_exact: bool = False) -> Iterator[Days]:
    """The days that a folded text names, in the languages of these names."""
    for year, month, day in _ISO.findall(text):
        yield from _on(int(year), int(month), int(day))
    for year, month in _ISO_MONTH.findall(text):
        yield _whole_month(int(year), int(month))
    for day, month, year in _DOTTED.findall(text):
        yield from _on(int(year), int(month), int(day))
    read: list[list[Days]] = []
    for language in (_load(name) for name in names if _may_name_time(text, (name,))):
        rest = _without(language.week, text)  # "the last week of May" is no last week
        named = [*_of_months(language, text, today), *_of_years(language, text)]
        read.append([*named, *_relative(language, rest, today, is_exact=is_exact)])
    for own in read:
        others = [days for found in read if found is not own for days in found]
        yield from (days for days in own if not any(_is_within(other, days) for other in others))


def _is_within(one: Days, other: Days) -> bool:
    """Whether some days are a part of others: one language reads a month where another reads a week of it."""
    return one != other and other[0] <= one[0] and one[1] <= other[1]


def _may_name_time(text: str, names: Sequence[str]) -> bool:
    """Whether a folded text has a digit or a word without which no time is named in these languages."""
    words = set(_TOKEN.findall(text))
    return any(map(str.isdigit, text)) or any(not _load(name).tells.isdisjoint(words) for name in names)


def _of_months(language: _Language, text: str, today: date) -> Iterator[Days]:
    """The days of months by their names; the most specific reading of a month's name counts."""
    taken: set[int] = set()

    def fresh(*patterns: re.Pattern[str]) -> Iterator[re.Match[str]]:
        for match in _matches(patterns, text):
            if match.start("month") not in taken:
                taken.add(match.start("month"))
                yield match

    for match in fresh(*language.week):
        year, month = _month_of(language, match, today)
        yield _week(year, month, language.ordinals[match["ordinal"]])
    for match in fresh(language.day_month, language.month_day):
        year, month = _month_of(language, match, today)
        yield from _on(year, month, int(match["day"]))
    for third, pattern in enumerate(language.thirds):
        for match in fresh(pattern):
            year, month = _month_of(language, match, today)
            first, last = _whole_month(year, month)
            begin = first + timedelta(days=third * THIRD_DAYS)
            yield begin, min(last, begin + timedelta(days=THIRD_DAYS - 1)) if third < len(language.thirds) - 1 else last
    for match in fresh(language.month_year, language.in_month):
        yield _whole_month(*_month_of(language, match, today))


def _of_years(language: _Language, text: str) -> Iterator[Days]:
    for match in language.season_year.finditer(text):
        yield _season(int(match["year"]), language.seasons[match["season"]])
    for match in language.in_year.finditer(language.season_year.sub(" ", text)):
        yield date(int(match["year"]), 1, 1), date(int(match["year"]), 12, 31)


def _relative(language: _Language, text: str, today: date, *, is_exact: bool) -> Iterator[Days]:
    for match in _matches(language.ago, text):
        unit, count = language.units[match["unit"]], match["count"]
        days = UNIT_DAYS.get(unit, 0) * (int(count) if count.isdigit() else language.counts[count])
        slack = timedelta(days=0 if is_exact else UNIT_DAYS.get(unit, 0) // 2)
        if 0 < days < (today - date.min).days - slack.days:
            middle = today - timedelta(days=days)
            yield middle - slack, min(today, middle + slack)
    for which, patterns in language.periods.items():
        for match in _matches(patterns, text):
            found = match.groupdict()
            if month := found.get("month"):
                yield _whole_month(_year(language.months[month], today), language.months[month])
            elif found.get("season"):
                season = language.seasons[match["season"]]
                yield _last_season(season, today) if which == "last" else _season(today.year, season)
            elif found.get("unit"):
                yield from _period(which, language.units[match["unit"]], today, is_open=match[0].startswith("past"))
            else:
                back = (today.weekday() - language.weekdays[match["weekday"]]) % 7 or 7
                yield today - timedelta(days=back), today - timedelta(days=back)
    for match in language.near_days.finditer(text):
        day = today - timedelta(days=language.near[match[0]])
        yield day, day


def _period(which: str, unit: str, today: date, *, is_open: bool) -> Iterator[Days]:
    """The current period of a unit or the one before; `is_open`: up to today."""
    monday = today - timedelta(days=today.weekday())
    before = which == "last"
    match unit:
        case "week":
            first = monday - timedelta(days=7 * before)
            yield first, today if is_open else first + timedelta(days=6)
        case "weekend":
            first = monday - timedelta(days=2) if before else monday + timedelta(days=5)
            yield first, first + timedelta(days=1)
        case "month":
            yield _whole_month(*_months_before(today, int(before)))
        case "year":
            yield date(today.year - before, 1, 1), date(today.year - before, 12, 31)
        case "night":
            yield today - timedelta(days=1), today


def _on(year: int, month: int, day: int) -> Iterator[Days]:
    try:
        found = date(year, month, day)
    except ValueError:
        return
    yield found, found


def _week(year: int, month: int, ordinal: int) -> Days:
    first, last = _whole_month(year, month)
    if ordinal == LAST_ORDINAL:
        return last - timedelta(days=WEEK_DAYS - 1), last
    begin = first + timedelta(days=WEEK_DAYS * (ordinal - 1))
    return begin, begin + timedelta(days=WEEK_DAYS - 1)


def _season(year: int, season: int) -> Days:
    """The three months of a season of the northern half; a winter begins in December of its year."""
    first = date(year, 3 * season, 1)
    return first, _whole_month(*_months_before(first, -2))[1]


def _last_season(season: int, today: date) -> Days:
    """The last one that is over."""
    found = (_season(today.year - back, season) for back in range(3))
    return next(days for days in found if days[1] < today)


def _whole_month(year: int, month: int) -> Days:
    return date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1])


def _months_before(today: date, months: int) -> tuple[int, int]:
    index = today.year * 12 + today.month - 1 - months
    return index // 12, index % 12 + 1


def _month_of(language: _Language, match: re.Match[str], today: date) -> tuple[int, int]:
    month, found = language.months[match["month"]], match.groupdict()
    return int(found["year"]) if found.get("year") else _year(month, today), month


def _year(month: int, today: date) -> int:
    """Without a year it is the last time that the month was."""
    return today.year if month <= today.month else today.year - 1


def _span(days: Days) -> TimeSpan:
    first, last = days
    return TimeSpan(_us(first), _us(last) + 24 * 3_600_000_000)


def _at(moment: datetime) -> TimeSpan:
    return TimeSpan(to_us(moment), to_us(moment))


def _us(day: date) -> int:
    return to_us(datetime(day.year, day.month, day.day, tzinfo=UTC))


def _folded(text: str) -> str:
    """In small letters without accents."""
    lower = text[:MAX_CHARS].lower().replace("\u2019", "'")
    if lower.isascii():
        return lower
    return "".join(char for char in unicodedata.normalize("NFD", lower) if not unicodedata.combining(char))


@cache
def _load(name: str) -> _Language:
    """A language with its patterns, which take a while to compile."""
    found = _sections(name)
    months, weekdays, counts, ordinals = (
        _numbered(found[section]) for section in ("months", "weekdays", "counts", "ordinals")
    )
    seasons = _numbered(found["seasons"])
    units = {word: UNITS[number - 1] for word, number in _numbered(found["units"]).items()}
    near = {word: number - 1 for word, number in _numbered(found["near"]).items()}
    month = rf"(?P<month>{_any(months)})\.?"
    joins = rf"(?:(?:{_any(_entries(found['joins']))})(?:\s+|(?<='))){{0,2}}"
    year = rf"(?:,?\s+{joins}(?P<year>{_YEAR}))"
    words = {
        "count": rf"(?P<count>\d{{1,3}}|{_any(counts)})",
        "unit": rf"(?P<unit>{_any(units)})",
        "weekday": rf"(?P<weekday>{_any(weekdays)})",
        "season": rf"(?P<season>{_any(seasons)})",
        "ordinal": rf"(?P<ordinal>{_any(ordinals)})",
        "month": month,
    }
    day = _DAY.replace("(", "(?P<day>", 1)
    before = _any(_entries(found["in"]))
    return _Language(
        months=months,
        weekdays={word: number - 1 for word, number in weekdays.items()},
        seasons=seasons,
        units=units,
        counts=counts,
        ordinals=ordinals,
        near=near,
        tells=frozenset(
            max(_TOKEN.findall(word), key=len, default=word)
            for known in (months, weekdays, seasons, units, near, ordinals)
            for word in known
        ),
        day_month=re.compile(rf"\b{day}\s+{joins}{month}\b{year}?"),
        month_day=re.compile(rf"\b{month}\s+{day}\b{year}?"),
        month_year=re.compile(rf"\b{month}{year}\b"),
        in_month=re.compile(rf"(?<!\w)(?:{before})\s*(?<=[\s'])(?:{month})(?!\s*\d)\b"),
        in_year=re.compile(rf"\b(?:{before}|of)\s+(?P<year>{_YEAR})\b(?!-\d)"),
        ago=_forms(found["ago"], words),
        periods={which: _forms(found[which], words) for which in ("last", "this")},
        week=_forms(found["week"], words, behind=f"{year}?"),
        thirds=[
            re.compile(rf"\b(?:{_any(_entries(found[section]))})[\s-]*{month}\b{year}?")
            for section in ("early", "middle", "late")
        ],
        season_year=re.compile(rf"\b{words['season']}{year}\b"),
        near_days=re.compile(rf"(?<![\w-])(?:{_any(near)})\b"),
    )


@cache
def _time_words() -> frozenset[str]:
    """All words of the languages' patterns."""
    lines = (line for name in LANGUAGES for section in _sections(name).values() for line in section)
    return frozenset(token for line in lines for token in _TOKEN.findall(line))


def _sections(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    section: list[str] = []
    for line in files("foveate.recall").joinpath("dates", f"{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), [])
        elif line:
            section.append(line)
    return found


def _entries(lines: Sequence[str]) -> list[str]:
    return [entry.replace("+", " ") for line in lines for entry in line.split()]


def _numbered(lines: Sequence[str]) -> dict[str, int]:
    """Each entry with the number of its line, from 1."""
    return {entry: number for number, line in enumerate(lines, 1) for entry in _entries([line])}


def _any(entries: Sequence[str] | Mapping[str, object]) -> str:
    """The longest first, so that none hides a longer one."""
    return "|".join(re.escape(entry) for entry in sorted(entries, key=lambda entry: (-len(entry), entry)))


def _forms(templates: Sequence[str], words: Mapping[str, str], behind: str = "") -> list[re.Pattern[str]]:
    """A pattern for each template: `{unit}` is any word of that section, `last|past` one of two words."""
    found = []
    for template in templates:
        tokens = (re.sub(r"\{(\w+)\}", lambda name: words[name[1]], token) for token in template.split())
        literal = (f"(?:{token})" if "|" in token and "(" not in token else token for token in tokens)
        words_in_order = r"\s+".join(literal)
        found.append(re.compile(rf"\b{words_in_order}{behind}\b"))
    return found


def _without(patterns: Sequence[re.Pattern[str]], text: str) -> str:
    for pattern in patterns:
        text = pattern.sub(" ", text)
    return text


def _matches(patterns: Sequence[re.Pattern[str]], text: str) -> Iterator[re.Match[str]]:
    return (match for pattern in patterns for match in pattern.finditer(text))
