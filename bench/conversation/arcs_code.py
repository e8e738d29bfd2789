"""Stories about changing code: a bug from report to commit, a feature, a refactoring, a build that is red."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation import listings, outputs
from conversation.world import Record, World, records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conversation.scene import Scene

_FORGOTTEN = ("CENT", "UTC", "outbox", "select")
_TOUCHED = ("views", "forms", "admin", "jobs", "events", "queries", "labels")
_COLUMNS = ("kind", "valid_until", "source", "series_id", "checked_by")


def bug(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("bug", records("bugs", "bug")))
    source = listings.source_file(w, story["path"], story["before"], lines=w.between(100, 300), func=story["func"])
    story["line"] = str(source.line)
    story["subject"] = story["test"].removeprefix("test_").replace("_", " ")
    yield _search(w, story, source.text)
    if w.chance(0.75):
        yield _failing_test(w, story)
    yield _fix(w, story)
    if w.chance(0.8):
        yield w.scene(story, "$q").say("$a")
    if w.chance(0.7):
        yield _commit(w, story)


def _search(w: World, story: Record, text: str) -> Scene:
    path, func, line = story["path"], story["func"], int(story["line"])
    prompt = w.phrase("bug_open")
    if not story["error"].startswith("AssertionError"):
        code = story["before"].strip("\n").split("\n")[0]
        story["trace"] = outputs.traceback(w, path=path, func=func, line=line + 1, code=code, error=story["error"])
        prompt += "\n\n" + w.phrase("bug_trace")
    scene = w.scene(story, prompt)
    hits = w.between(3, 14)
    story["hits"] = str(hits)
    if w.chance(0.5):
        scene.think(w.phrase("think"))
    if w.chance(0.8):
        scene.say(w.phrase("looking"))
    scene.call("grep", outputs.grep(w, func, path=path, line=line, hits=hits), pattern=func, path="quayside")
    scene.call("read_file", text, path=path, together=w.chance(0.2))
    if w.chance(0.35):
        log, _ = outputs.git_log(w, w.between(3, 7))
        scene.run("git log --oneline -- $path", log)
    if w.chance(0.4):
        near = f"quayside/{story['area']}/{w.rng.choice(('models', 'service', 'views'))}.py"
        other = listings.source_file(w, near, "PAGE = 50", lines=w.between(90, 220))
        scene.call("read_file", other.text, path=near)
    return scene.say(w.phrase("found"))


def _failing_test(w: World, story: Record) -> Scene:
    scene = w.scene(story, w.phrase("test_first"))
    area, test = story["area"], story["test"]
    if w.chance(0.4):
        scene.think(w.phrase("think_test"))
    code = outputs.code_of_test(w, test)
    changed = f"ok, 1 file changed, {len(code.splitlines()) + 2} insertions(+)"
    scene.call("apply_patch", changed, path=f"tests/{area}/test_{area}.py", text=code)
    failing = {test: story["error"]}
    result = outputs.pytest_run(w, area, failing=failing, passing=w.between(9, 44), bodies={test: code})
    scene.run("pytest tests/$area -v", result.text, exit_code=1, seconds=result.seconds)
    result.tell(story)
    return scene.say(w.phrase("test_red"))


def _fix(w: World, story: Record) -> Scene:
    scene = w.scene(story, w.phrase("fix_it" if "total" in story else "fix_and_test"))
    area, path, test = story["area"], story["path"], story["test"]
    change = outputs.diff(w, path, story["before"], story["after"], line=int(story["line"]))
    if w.chance(0.3):
        scene.think(w.phrase("think_fix"))
    scene.call("apply_patch", "ok, 1 file changed", path=path, patch=change)
    passing = int(story.get("total", w.between(10, 45)))
    if w.chance(0.3):
        story["slip"] = w.rng.choice(_FORGOTTEN)
        slip = {test: f"NameError: name '{story['slip']}' is not defined"}
        first = outputs.pytest_run(w, area, failing=slip, passing=passing - 1)
        scene.run("pytest tests/$area -x", first.text, exit_code=1, seconds=first.seconds)
        scene.say(w.phrase("import_missing"))
        added = f"+from quayside.core import {story['slip']}"
        scene.call("apply_patch", "ok, 1 file changed, 1 insertion(+)", path=path, patch=added)
    result = outputs.pytest_run(w, area, failing={}, passing=passing, first=test)
    scene.run("pytest tests/$area -v", result.text, seconds=result.seconds)
    if w.chance(0.6):
        scene.run("git diff", change)
    result.tell(story)
    return scene.say(w.phrase("fixed"))


def _commit(w: World, story: Record) -> Scene:
    scene = w.scene(story, w.phrase("commit"))
    branch = story["branch"]
    first = f"[{branch} {story['hash']}] {story['ticket']}: {story['subject']}"
    counts = f"{w.between(8, 40)} insertions(+), {w.between(1, 9)} deletions(-)"
    scene.run("git commit -am '$ticket: $subject'", f"{first}\n 2 files changed, {counts}")
    pushed = f"To git.quayside.example:quayside/quayside.git\n * [new branch] {branch} -> {branch}"
    scene.run("git push -u origin $branch", pushed, seconds=w.seconds(1, 4))
    return scene.say(w.phrase("committed"))


def feature(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("feature", records("features", "feature")))
    area = story["area"]
    steps = story["plan"].strip().split("\n")
    story["steps"] = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    story["near"] = f"quayside/{area}/{w.rng.choice(('service', 'queries', 'models'))}.py"
    story.update(count=str(len(steps)), subject=story["title"])
    scene = w.scene(story, w.phrase("feature_open")).think(w.phrase("think_plan"))
    listed, _ = listings.folder(w, f"quayside/{area}")
    scene.call("list_dir", listed, path=f"quayside/{area}")
    near = listings.source_file(w, story["near"], "STATES = ('open', 'held', 'closed')", lines=w.between(120, 260))
    scene.call("read_file", near.text, path=story["near"], together=w.chance(0.4))
    yield scene.say(w.phrase("feature_plan"))
    yield _build(w, story)
    yield _correct(w, story)
    if w.chance(0.5):
        log, subjects = outputs.git_log(w, w.between(3, 6))
        story["commits"] = str(len(subjects))
        note = w.scene(story, w.phrase("changelog")).run("git log --oneline main..$branch", log)
        yield note.say(w.phrase("changelog_line"))
    if w.chance(0.6):
        yield _commit(w, story)


def _build(w: World, story: Record) -> Scene:
    scene = w.scene(story, w.phrase("feature_go"))
    area = story["area"]
    column = w.rng.choice(_COLUMNS)
    _write(scene, f"migrations/versions/{story['revision']}.py", _migration(area, column, story["revision"]))
    _write(scene, story["path"], story["code"].strip("\n") + "\n\n" + listings.code(w, parts=w.between(1, 4)))
    for _ in range(w.between(1, 4)):
        touched = listings.change(w, f"quayside/{area}/{w.draw('touched', _TOUCHED)}.py", hunks=w.between(1, 2))
        done = f"ok, 1 file changed, {touched.added} insertions(+), {touched.removed} deletions(-)"
        scene.call("apply_patch", done, path=touched.path, patch=touched.text)
    new = outputs.names_of_tests(w, w.between(3, 7))
    text = "\n\n\n".join(outputs.code_of_test(w, name) for name in new)
    _write(scene, f"tests/{area}/test_{story['func']}.py", text)
    upgraded = f"INFO  [alembic.runtime.migration] Running upgrade {w.hex(12)} -> {story['revision']}"
    scene.run("alembic upgrade head", upgraded, seconds=w.seconds(0.5, 3))
    if w.chance(0.4):
        story["slip"] = new[0]
        slip = {new[0]: "TypeError: can't compare offset-naive and offset-aware datetimes"}
        broken = outputs.pytest_run(w, area, failing=slip, passing=w.between(20, 50))
        broken.tell(story)
        scene.run("pytest tests/$area", broken.text, exit_code=1, seconds=broken.seconds).say(w.phrase("own_slip"))
        zone = "-    return datetime(2026, 5, 1)\n+    return datetime(2026, 5, 1, tzinfo=UTC)"
        scene.call("apply_patch", "ok, 1 file changed", path=f"tests/{area}/conftest.py", patch=zone)
    result = outputs.pytest_run(w, area, failing={}, passing=w.between(24, 70))
    scene.run("pytest tests/$area -v", result.text, seconds=result.seconds)
    result.tell(story)
    story["new_tests"] = str(len(new))
    return scene.say(w.phrase("feature_done"))


def _write(scene: Scene, path: str, text: str) -> None:
    scene.call("write_file", f"wrote {len(text.splitlines())} lines", path=path, text=text)


def _migration(table: str, column: str, revision: str) -> str:
    return "\n".join(
        [
            f'"""Add {column} to {table}."""',
            "",
            "import sqlalchemy as sa",
            "from alembic import op",
            "",
            f'revision = "{revision}"',
            "",
            "",
            "def upgrade() -> None:",
            f'    op.add_column("{table}", sa.Column("{column}", sa.Text(), nullable=True))',
        ]
    )


def _correct(w: World, story: Record) -> Scene:
    scene = w.scene(story, "$no")
    if w.chance(0.4):
        scene.think(w.phrase("think_change"))
    change = listings.change(w, story["path"], hunks=w.between(1, 3))
    done = f"ok, 1 file changed, {change.added} insertions(+), {change.removed} deletions(-)"
    scene.call("apply_patch", done, path=story["path"], patch=change.text)
    more = w.between(1, 3)
    result = outputs.pytest_run(w, story["area"], failing={}, passing=int(story["total"]) + more)
    scene.run("pytest tests/$area -v", result.text, seconds=result.seconds)
    result.tell(story)
    story["more_tests"] = str(more)
    return scene.say(w.phrase("corrected"))


def refactor(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("refactor", records("work", "refactor")))
    path, new = story["path"], story["new"]
    body = "    steps = collect(session)\n    return finish(steps)"
    source = listings.source_file(w, path, body, lines=w.between(200, 310), func=story["func"])
    scene = w.scene(story, w.phrase("refactor_open")).call("read_file", source.text, path=path)
    text = listings.code(w, parts=w.between(5, 9))
    moved = len(text.splitlines())
    story.update(lines=str(source.lines), line=str(source.line), moved=str(moved), rest=str(source.lines - moved + 14))
    story.update(subject=f"take {story['func']} apart", stem=new.rsplit("/", 1)[-1])
    yield scene.say(w.phrase("refactor_idea"))
    scene = w.scene(story, w.phrase("refactor_go"))
    _write(scene, new, text)
    names = f"+from {new.removesuffix('.py').replace('/', '.')} import *"
    scene.call("apply_patch", f"ok, 1 file changed, 14 insertions(+), {moved} deletions(-)", path=path, patch=names)
    result = outputs.pytest_run(w, story["test_area"], failing={}, passing=w.between(25, 60))
    scene.run("pytest tests/$test_area -v", result.text, seconds=result.seconds)
    result.tell(story)
    yield scene.say(w.phrase("refactored"))
    if w.chance(0.6):
        story.update(better=w.rng.choice(("parts", "pieces", "kinds")), files=str(w.between(190, 240)))
        scene = w.scene(story, w.phrase("nitpick"))
        scene.run(f"git mv {new} {new.rsplit('/', 1)[0]}/{story['better']}.py", "")
        checked = f"All checks passed!\nSuccess: no issues found in {story['files']} source files"
        scene.run("ruff check quayside && mypy quayside", checked, seconds=w.seconds(4, 19))
        yield scene.say(w.phrase("renamed"))
    if w.chance(0.5):
        yield _commit(w, story)


def build(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("ci", records("work", "ci")), run=str(w.between(30_000, 39_999)))
    story["subject"] = f"repair the {story['job']} job"
    scene = w.scene(story, "$ask")
    log = outputs.build_log(w, story["job"], story["line"])
    scene.run("ci logs --run $run --job '$job'", log, seconds=w.seconds(1, 5))
    yield scene.say(w.phrase("build_found"))
    scene = w.scene(story, w.phrase("build_go"))
    patch = f"@@ jobs: {story['job']} @@\n+      # {story['why']}\n+      key: deps-{w.hex(6)}"
    scene.call("apply_patch", "ok, 1 file changed, 2 insertions(+)", path=".ci/pipeline.yml", patch=patch)
    passed = f"{story['job']}: passed in {w.between(1, 6)} min {w.between(10, 59)} s"
    scene.run("ci rerun $run --job '$job' --wait", passed, seconds=w.seconds(90, 380))
    yield scene.say(w.phrase("build_green"))
    if w.chance(0.5):
        yield _commit(w, story)
