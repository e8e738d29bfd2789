"""Writes `docs/reference/settings.md` from the docstrings of settings: `python tests/support/settings_page.py`."""

from __future__ import annotations

import inspect

import msgspec

from foveate.config import SettingKey, key_texts, keys_of
from foveate.settings import sections
from support.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "settings.md"
HEAD = """# Settings

Written by `python tests/support/settings_page.py` from the settings and their docstrings. All settings are optional.

Settings are read from a TOML or YAML file, then from environment variables, then from code; later ones win:

```toml
# ~/.config/foveate/config.toml, or a file named by $FOVEATE_CONFIG or by load_settings("foveate.toml")
[models]
default = "openai:gpt-5-mini"
daily_usd = 2.0
```

```
export FOVEATE_MODELS__DAILY_USD=2.0      # FOVEATE_, the section, two underscores, the key
export FOVEATE_MODELS__FALLBACKS=a,b      # lists are comma-separated
export FOVEATE_TOOLS__WEB__SEARCH=searxng # a key of a table inside the section
```

```python
import foveate.sync as foveate

settings = foveate.load_settings(overrides={"models": {"daily_usd": 2.0}})
with foveate.open("chat.db", settings=settings) as fov:
    print(fov.sessions())
```

None is written `null` in YAML, and `"null"` in TOML and in variables. Keys are text: in YAML, a name such as `1` needs
quotes. An unknown key, a wrong type or a value out of range is an error that names the key and the accepted
values; so is a misspelt variable. Two more variables are not settings: `FOVEATE_DB`, the store of the command line, and
`FOVEATE_ENDPOINT_KEY` ([models](../guides/models.md#naming-a-model)). The sections of strategies can also be set for
one session: `session.use("topics", bulk_topics=5)`. A profile sets them for all sessions of a scope, e.g. a project or
a user; those of a session take precedence:

```toml
[profiles."project:shop".gradient]
raw_share = 0.2
```
"""


def generate() -> str:
    """The page as it should be."""
    return "\n".join([HEAD, *(_section(name, section) for name, section in sections().items())])


def _section(name: str, part: type[msgspec.Struct]) -> str:
    texts = key_texts(part)
    rows = [_row(key, texts.get(key.name, "").replace("|", r"\|")) for key in keys_of(part)]
    table = ["| key | takes | default | |", "| --- | --- | --- | --- |", *rows]
    return "\n".join([f"## {name}\n", f"{inspect.getdoc(part)}\n", *table, ""])


def _row(key: SettingKey, said: str) -> str:
    default = msgspec.json.encode(key.default).decode() if key.default is not None else "none"
    shown = default if key.default is None or isinstance(key.default, bool) else f"`{default}`"
    return f"| `{key.name}` | {key.takes} | {shown} | {said} |"


if __name__ == "__main__":
    PAGE.write_text(generate(), "utf-8")
