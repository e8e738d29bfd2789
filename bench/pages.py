"""What the docs show of the demo: docs/images/context.svg, and ten turns at all levels in docs/lab/gradient.md.

python bench/pages.py
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

import foveate.sync as foveate
from conversation import make_conversation
from foveate.cli.ui.picture import draw
from foveate.cli.ui.terminal import timeline_width
from foveate.renditions import Level

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "lab" / "gradient.md"
PICTURE = DOCS / "images" / "context.svg"
BEGIN, END = "<!-- written by bench/pages.py: begin -->\n", "<!-- end -->\n"
TURNS, SEED = 300, 42
BUDGET_TOKENS = 16_000
WIDTH = 100
EXAMPLES = 10
READABLE_TOKENS = range(160, 430)
"""Raw turns of this size are long enough to be worth compressing, and short enough to be read."""
NAMES: dict[Level, str] = {"R": "raw", "S": "smoothed", "C": "compressed", "T": "tiny"}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, foveate.open(Path(folder) / "demo.db") as fov:
        session = fov.session("demo", budget_tokens=BUDGET_TOKENS)
        for turn in make_conversation(TURNS, SEED).turns:
            session.record(turn)
        fov.settle()
        picture(session)
        examples = "".join(example(session, number) for number in chosen(session))
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{examples}{END}{after}", "utf-8")


def picture(session: foveate.Session) -> None:
    out = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False, force_terminal=True)
    context = session.context()
    draw(out, context, session.picture(context, columns=timeline_width(WIDTH)), one_off=False)
    out.print()  # or the descenders of the last line are cut off
    svg = out.export_svg(title="foveate context demo")
    # A picture must not fetch anything: the reader's own fixed-width font does.
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL), "utf-8")


def chosen(session: foveate.Session) -> Iterator[int]:
    """Turns of a readable size from all over the conversation."""
    fitting = [turn.number for turn in session.outline() if turn.tokens in READABLE_TOKENS]
    for index in range(EXAMPLES):
        yield fitting[index * len(fitting) // EXAMPLES]


def example(session: foveate.Session, number: int) -> str:
    raw = session.get_turn(number, "R", format="plain")
    pieces = [f"\n### {raw.turn_id}\n"]
    for level, name in NAMES.items():
        content = session.get_turn(number, level, format="plain")
        share = "" if level == "R" else f", {content.tokens / raw.tokens:.0%}"
        text = content.content.strip("\n").replace("```", "'''")
        pieces.append(f"\n{level}, {name}: {content.tokens} tokens{share}\n\n```text\n{text}\n```\n")
    return "".join(pieces)


if __name__ == "__main__":
    main()
