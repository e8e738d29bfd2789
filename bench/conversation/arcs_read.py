"""Stories about reading code without changing it: a review, a hunt through many files, a look into a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation import listings
from conversation.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conversation.scene import Scene

_AREAS = (
    "tides", "auth", "uploads", "reports", "imports", "moorings", "payments", "search", "vessels", "waitlist", "jobs",
)  # fmt: skip
_MODULES = ("service", "views", "queries", "forms", "events", "admin", "models", "export")


def review(w: World) -> Iterator[Scene]:
    story = w.story({})
    paths = [f"quayside/{area}/{w.rng.choice(_MODULES)}.py" for area in w.rng.sample(_AREAS, w.between(3, 6))]
    changes = [listings.change(w, path, hunks=w.between(2, 4)) for path in sorted(paths)]
    scene = w.scene(story, w.phrase("review_open"))
    scene.run("git diff main...$branch", "\n".join(change.text for change in changes))
    story.update(
        files=str(len(changes)),
        files_less=str(len(changes) - 1),
        added=str(sum(change.added for change in changes)),
        removed=str(sum(change.removed for change in changes)),
        worst=max(changes, key=lambda change: change.added).path,
        small=min(changes, key=lambda change: change.added).path,
    )
    if w.chance(0.5):
        scene.think("Most of this is movement. Where does behaviour change? `$worst` adds the most, so I start there.")
    yield scene.say(w.phrase("review_text"))


def hunt(w: World) -> Iterator[Scene]:
    """Many files read one after the other: the longest turns there are."""
    story = w.story({}, habit=w.phrase("habits"))
    scene = w.scene(story, w.phrase("hunt_open"))
    scene.think(
        "No shortcut: a search finds the obvious spelling only. I'll read the candidates and say how many I read."
    )
    count = w.between(3, 10)
    paths = [f"quayside/{area}/{w.rng.choice(_MODULES)}.py" for area in w.rng.sample(_AREAS, count)]
    for place, path in enumerate(paths):
        source = listings.source_file(w, path, "TIMEOUT_SECONDS = 5", lines=w.between(380, 520) // count)
        scene.call("read_file", source.text, path=path, together=place > 0 and w.chance(0.3))
        if place + 1 < count and w.chance(0.3):
            scene.say(w.phrase("hunt_step"))
    bad = paths[: w.between(1, count - 1)]
    story.update(count=str(count), bad=str(len(bad)), names=", ".join(f"`{path}`" for path in bad))
    yield scene.say(w.phrase("hunt_text"))


def chore(w: World) -> Iterator[Scene]:
    story = w.story({"folder": f"quayside/{w.draw('chore areas', _AREAS)}"})
    shown, files = listings.folder(w, story["folder"])
    name, size = max(files, key=lambda file: file[1])
    left = "`legacy.py` is imported nowhere, so that one could go." if "legacy.py" in dict(files) else "No leftovers."
    scene = w.scene(story, w.phrase("chore")).call("list_dir", shown, path=story["folder"])
    yield scene.say(f"{len(files)} modules in `$folder`. The biggest is `{name}` with {size:,} bytes. {left}")
