"""Draw the diagrams of the docs as SVG, which needs no script and nothing from another host.

python bench/diagrams.py
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
INK, MUTED, LINE = "#111827", "#4b5563", "#6b7280"
PLAIN, OURS, STORE, OUTSIDE = "#f3f4f6", "#ccfbf1", "#fef3c7", "#e0e7ff"
LEVELS = {"E": "#d1d5db", "T": "#a5b4fc", "C": "#67b7c4", "S": "#bbe08e", "R": "#fde68a"}
LINE_HEIGHT = 16


def text(x: float, y: float, words: str, *, size: int = 12, colour: str = MUTED, anchor: str = "middle") -> str:
    weight = ' font-weight="600"' if colour == INK else ""
    style = f'font-size="{size}" fill="{colour}" text-anchor="{anchor}"{weight}'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, title: str, *notes: str, fill: str = PLAIN) -> str:
    """Draw a box with a title, and notes below it."""
    top = y + height / 2 - LINE_HEIGHT * len(notes) / 2 + 5
    written = [text(x + width / 2, top, title, size=13, colour=INK)]
    written += [text(x + width / 2, top + LINE_HEIGHT * (index + 1), note) for index, note in enumerate(notes)]
    frame = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}" stroke="{LINE}"/>'
    return "\n".join([frame, *written])


def arrow(*points: tuple[float, float], words: str = "", above: float = 7, dashed: bool = False) -> str:
    """Draw an arrow along points, with words over the middle of its first part."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    drawn = f'<polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="1.5"{dash} marker-end="url(#head)"/>'
    (x1, y1), (x2, y2) = points[0], points[1]
    return drawn + (text((x1 + x2) / 2, (y1 + y2) / 2 - above, words, size=11) if words else "")


def picture(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    """Return a drawing on a white card, so that it can be read on a dark page."""
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 8 4 0 8z" fill="{LINE}"/></marker></defs>'
    )
    view = f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" role="img"'
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" {view}>'
    card = f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>'
    return "\n".join([frame, f"<title>{escape(title)}</title>", head, card, *parts, "</svg>\n"])


def gateway() -> str:
    parts = [
        box(20, 60, 130, 90, "Client", "sends its whole", "history, as before"),
        arrow((150, 90), (215, 90), words="request"),
        box(215, 30, 420, 150, "", fill="#f0fdfa"),
        text(425, 50, "foveate serve", size=13, colour=INK),
        box(230, 64, 120, 84, "1 Session", "found by its keys", "and its history", fill=OURS),
        arrow((350, 106), (366, 106)),
        box(366, 64, 120, 84, "2 Record", "what is new,", "raw, durable", fill=OURS),
        arrow((486, 106), (502, 106)),
        box(502, 64, 120, 84, "3 Context", "within the budget;", "recall, pins", fill=OURS),
        arrow((635, 90), (705, 90), words="it fits"),
        box(705, 60, 130, 90, "Provider", "caches the", "equal beginning", fill=OUTSIDE),
        arrow((705, 135), (635, 135), words="answer", above=-16),
        arrow((215, 135), (150, 135), words="streamed", above=-16),
        arrow((426, 148), (426, 222)),
        box(340, 222, 172, 56, "Store", "SQLite or PostgreSQL", fill=STORE),
        arrow((512, 250), (562, 250), (562, 148), dashed=True),
        text(570, 208, "renditions, index", size=11, anchor="start"),
        arrow((340, 250), (250, 250), dashed=True),
        box(90, 222, 160, 56, "Worker", "compresses, indexes", fill=OURS),
        text(170, 296, "in the background, never waited for", size=11),
    ]
    return picture("The data flow of the gateway", 855, 312, parts)


def levels() -> str:
    """A budget as a bar: which part holds what, oldest first."""
    pieces = [
        (140, "fixed", "system, rules, pins", "#e5e7eb"),
        (90, "E", "eras", LEVELS["E"]),
        (80, "T", "tiny", LEVELS["T"]),
        (110, "C", "compressed", LEVELS["C"]),
        (80, "S", "smoothed", LEVELS["S"]),
        (150, "R", "newest, verbatim", LEVELS["R"]),
        (105, "recall", "for this prompt", "#fbcfe8"),
        (60, "prompt", "", "#ffffff"),
    ]
    x, parts = 20.0, [text(20, 28, "One prompt, never larger than the budget", size=13, colour=INK, anchor="start")]
    for width, title, note, fill in pieces:
        parts.append(f'<rect x="{x:g}" y="70" width="{width}" height="46" fill="{fill}" stroke="{LINE}"/>')
        parts.append(text(x + width / 2, 98, title, size=13, colour=INK))
        parts.append(text(x + width / 2, 134, note, size=11))
        x += width
    parts += [
        arrow((160, 56), (665, 56)),
        text(165, 48, "oldest turns", size=11, anchor="start"),
        text(662, 48, "newest turns", size=11, anchor="end"),
        text(
            20,
            168,
            "Each turn is shown at the level with the most information for its tokens: old small talk ends in an era,",
            anchor="start",
        ),
        text(
            20, 186, "an old decision stays a line. Lines of all levels are in the order of the turns.", anchor="start"
        ),
        text(
            20,
            204,
            "The model reads any turn in full by its id. The share of each part follows the conversation.",
            anchor="start",
        ),
    ]
    return picture("Levels across a budget", 855, 222, parts)


def rebuild() -> str:
    rows = (
        ("plan", 40, ["E", "T", "C", "S"], 3, 5, "older turns as eras and lines, newest part verbatim"),
        (
            "append",
            116,
            ["E", "T", "C", "S"],
            6,
            2,
            "each new step is added verbatim; everything before it is unchanged",
        ),
        ("full", 192, ["E", "T", "C", "S"], 8, 0, "the budget is used up"),
        (
            "rebuild",
            268,
            ["E", "T", "C", "C", "S"],
            4,
            3,
            "oldest blocks stay byte for byte, oldest verbatim steps are compressed",
        ),
    )
    cell, parts = 46, []
    for name, y, blocks, verbatim, free, note in rows:
        parts.append(text(20, y + 21, name, size=13, colour=INK, anchor="start"))
        kinds = [*blocks, *["R"] * verbatim]
        for index, level in enumerate(kinds):
            x = 110 + cell * index
            parts.append(f'<rect x="{x}" y="{y}" width="{cell}" height="32" fill="{LEVELS[level]}" stroke="{LINE}"/>')
            parts.append(text(x + cell / 2, y + 21, level, colour=INK))
        if free:
            x = 110 + cell * len(kinds)
            style = f'fill="none" stroke="{LINE}" stroke-dasharray="4 3"'
            parts.append(f'<rect x="{x}" y="{y}" width="{cell * free}" height="32" {style}/>')
            parts.append(text(x + cell * free / 2, y + 21, "free"))
        parts.append(text(110, y + 49, note, size=11, anchor="start"))
    parts += [
        arrow((680, 56), (740, 56), (740, 284), (680, 284)),
        arrow((60, 274), (60, 140), dashed=True),
        text(748, 172, "cached", size=11, anchor="start"),
        text(748, 188, "beginning", size=11, anchor="start"),
        text(748, 204, "is kept", size=11, anchor="start"),
    ]
    return picture("Plan, append, rebuild", 820, 336, parts)


def deployment() -> str:
    parts = [
        box(20, 30, 190, 60, "Library", "import foveate", fill=OURS),
        box(20, 110, 190, 60, "Command line", "foveate …", fill=OURS),
        box(20, 190, 190, 60, "Coding agents, apps", "one base URL changed"),
        box(270, 190, 200, 60, "foveate serve", "gateway, API, MCP, dashboard", fill=OURS),
        box(560, 110, 190, 120, "Store", "one SQLite file,", "or a PostgreSQL database", fill=STORE),
        box(270, 290, 200, 60, "Providers", "only those you configure", fill=OUTSIDE),
        box(560, 290, 190, 60, "foveate worker", "optional, any number", fill=OURS),
        arrow((210, 60), (655, 60), (655, 110)),
        arrow((210, 140), (560, 140), words="same process, no server needed"),
        arrow((210, 220), (270, 220)),
        arrow((470, 212), (560, 212)),
        arrow((370, 250), (370, 290)),
        arrow((655, 290), (655, 230)),
        arrow((560, 320), (470, 320), words="if a model", dashed=True),
        text(515, 336, "is configured", size=11),
    ]
    return picture("Deployment", 770, 370, parts)


DIAGRAMS = {"gateway": gateway, "levels": levels, "rebuild": rebuild, "deployment": deployment}


def main() -> None:
    for name, draw in DIAGRAMS.items():
        (IMAGES / f"{name}.svg").write_text(draw(), "utf-8")


if __name__ == "__main__":
    main()
