"""Call a history tool for an item, and print what a model would get.

    python tool.py ITEM search_history '{"query": "Paris"}'

`bench/answers.py --reader` copies this file into its folder. The first call for an item copies the conversation's
store, so that no call changes what another item finds.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

SESSION = "live"


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    folder = Path(__file__).resolve().parent
    sys.path.insert(0, json.loads((folder / "tools.json").read_text())["source"])  # the library that wrote the items
    print(call(folder, *sys.argv[1:]), end="")


def call(folder: Path, item: str, name: str, arguments: str) -> str:
    """Execute one call in the item's own copy of the store, and log it."""
    import foveate.sync as foveate
    from foveate.settings import load_settings

    known = json.loads((folder / "tools.json").read_text())
    if item not in known["stores"]:
        sys.exit(f"item {item} has no tools")
    calls = folder / "calls"
    calls.mkdir(exist_ok=True)
    store = calls / f"{item}.db"
    if not store.exists():
        copy_store(folder / "stores" / known["stores"][item], store)
    settings = load_settings(environment={}, overrides=known["settings"])
    with foveate.open(store, settings=settings) as fov:
        result: str = fov.open_session(SESSION).call_tool(name, arguments)
    with (calls / f"{item}.jsonl").open("a") as log:
        log.write(json.dumps({"name": name, "arguments": arguments}) + "\n")
    return result


def copy_store(source: Path, target: Path) -> None:
    """Copy a store so that calls at the same time see all of it or nothing."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        copy = shutil.copyfile(source, Path(folder) / target.name)
        with suppress(FileExistsError):
            target.hardlink_to(copy)


if __name__ == "__main__":
    main()
