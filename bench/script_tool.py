"""One script instead of ten tool calls: `python bench/script_tool.py`.

The task: of ten modules of this package, name the classes that each defines, and the longest module. A model without
scripts reads every file; with `run_script` it writes one script and reads what that prints. Counted are the tokens that
pass through the model: the calls it writes and the results it reads, each once, and the input of all requests together,
which repeats everything before.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import foveate.tools
from foveate.text import compact_json
from foveate.tokens import count_tokens
from foveate.tools import Toolbox, Workspace, registry

SCRIPT = """import re
longest = ("", 0)
for name in NAMES:
    text = read_file(path=name)
    size = text.count("\\n")
    longest = max(longest, (name, size), key=lambda one: one[1])
    print(name, re.findall(r"class (\\w+)", text))
print("longest:", longest)
"""


async def main() -> None:
    folder = Path(foveate.tools.__file__).parent
    names = sorted(path.name for path in folder.glob("*.py") if not path.name.startswith("_"))[:10]
    tools = [registry.find(name) for name in ("read_file", "run_script")]
    box = Toolbox(tools, Workspace.at([folder]))
    one_by_one = [("read_file", {"path": name}) for name in names]
    script = [("run_script", {"script": SCRIPT.replace("NAMES", repr(names))})]
    print(f"{'':<22}{'requests':>9}{'calls and results':>19}{'input in all':>14}")
    figures = {}
    for label, calls in (("ten calls", one_by_one), ("one script", script)):
        passed, sent = 0, 0
        for name, arguments in calls:
            output = await box.call(name, arguments)
            assert not output.is_error, output.text
            passed += count_tokens(compact_json([name, arguments])) + count_tokens(output.text)
            sent += passed
        figures[label] = passed
        print(f"{label:<22}{len(calls) + 1:>9}{passed:>19,}{sent:>14,}")
    print(f"ratio of calls and results: {figures['ten calls'] / figures['one script']:.1f}")


if __name__ == "__main__":
    asyncio.run(main())
