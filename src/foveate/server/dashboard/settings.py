"""Every setting with its meaning, value, source and accepted values, by section; and the doctor."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from foveate.config import key_texts
from foveate.secrets import redact
from foveate.server.api.jobs import Advance
from foveate.server.dashboard.markdown import render_markdown
from foveate.server.dashboard.page import BASE, Pages, Visit
from foveate.server.problems import ProblemError
from foveate.settings import ENVIRONMENT_PREFIX, ExplainedSetting, config_file, explain, sections

MAX_FINDINGS = 200
MAX_VALUE_CHARS = 300
MAX_QUERY_CHARS = 200
DOCTOR = "doctor"
MCP_SERVERS = "tools.mcp_servers"
pages = Pages()


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """A setting as the page shows it."""

    key: str
    text: Markup
    value: str
    default: str
    takes: str
    source: str
    """Where the value comes from: `default`, or the file, the variable or the command line."""

    @property
    def is_changed(self) -> bool:
        return self.source != "default"


@dataclass(frozen=True, slots=True)
class ShownSection:
    """A section of the settings."""

    name: str
    text: str
    variable: str
    """Beginning of the names of its environment variables."""
    settings: tuple[ShownSetting, ...]

    @property
    def changed(self) -> int:
        return sum(setting.is_changed for setting in self.settings)


@pages.add("GET", f"{BASE}/settings", right="admin")
async def show_settings(visit: Visit) -> Response:
    """Show the settings, those that a search finds or that were changed, and the doctor."""
    if visit.principal.tenant:
        raise ProblemError(403, "settings are for the owner of the store")
    query, only_changed = visit.query("q")[:MAX_QUERY_CHARS], bool(visit.query("changed"))
    every = _sections(explain(visit.view.settings))
    found = [_filtered(section, query.casefold().split(), only_changed=only_changed) for section in every]
    doctors = [job for job in visit.parts.jobs.list(visit.principal) if job.kind == DOCTOR]
    return visit.part_or_page(
        "settings_sections.html",
        "settings.html",
        title="Settings",
        sections=[section for section in found if section.settings],
        total=sum(len(section.settings) for section in every),
        changed=sum(section.changed for section in every),
        wanted=query,
        only_changed=only_changed,
        location=visit.view.location,
        file=config_file(),
        doctor=doctors[0] if doctors else None,
    )


@pages.add("POST", f"{BASE}/doctor", right="admin")
async def start_doctor(visit: Visit) -> Response:
    """Start a job that verifies the whole store."""

    async def work(advance: Advance) -> dict[str, Any]:
        problems: list[dict[str, str]] = []
        async for finding in visit.view.check():
            if finding.problem and len(problems) < MAX_FINDINGS:
                problems.append({"problem": finding.problem, "advice": finding.advice})
            await asyncio.sleep(0)
        advance(1)
        return {"problems": problems}

    visit.parts.jobs.start(visit.principal, DOCTOR, "", total=1, work=work)
    return visit.go(f"{BASE}/settings#doctor")


def _sections(settings: list[ExplainedSetting]) -> list[ShownSection]:
    rows: dict[str, list[ShownSetting]] = {}
    for setting in settings:
        section, _, key = setting.key.name.partition(".")
        rows.setdefault(section, []).append(_shown(setting, section, key))
    parts = sections()
    return [
        ShownSection(
            name,
            (inspect.getdoc(parts[name]) or "").partition("\n\n")[0].replace("`", ""),
            f"{ENVIRONMENT_PREFIX}{name.upper()}__",
            tuple(shown),
        )
        for name, shown in rows.items()
    ]


def _shown(setting: ExplainedSetting, section: str, key: str) -> ShownSetting:
    """Describe a setting; secrets and the environments of MCP servers are masked."""
    value = setting.value
    names = sorted(value) if setting.key.name == MCP_SERVERS and isinstance(value, Mapping) else value
    return ShownSetting(
        key,
        _text(key_texts(sections()[section]).get(key, "")),
        _written(names),
        _written(setting.key.default),
        setting.key.takes,
        _source(setting.source, section, key),
    )


def _source(source: str, section: str, key: str) -> str:
    if source == "environment":
        return f"environment: {ENVIRONMENT_PREFIX}{section.upper()}__{key.upper()}"
    if source == "file":
        return f"file: {config_file()}"
    return "command line or program" if source == "program" else source


def _written(value: object) -> str:
    """Write a value as in a settings file, without secrets."""
    plain = msgspec.to_builtins(value)
    text = "none" if plain is None else plain if isinstance(plain, str) and plain else json.dumps(plain)
    return redact(text)[:MAX_VALUE_CHARS]


@cache
def _text(text: str) -> Markup:
    return render_markdown(text)


def _filtered(section: ShownSection, words: list[str], *, only_changed: bool) -> ShownSection:
    """Return the section with the settings in which all words occur."""
    found = []
    for setting in section.settings:
        searched = f"{section.name}.{setting.key} {setting.text} {setting.value} {setting.takes}".casefold()
        if all(word in searched for word in words) and (setting.is_changed or not only_changed):
            found.append(setting)
    return ShownSection(section.name, section.text, section.variable, tuple(found))
