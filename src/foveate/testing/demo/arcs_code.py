"""Stories about code: a bug from report to commit, a feature, a refactoring, a build that is red."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foveate.testing.demo import listings, outputs
from foveate.testing.demo.world import Record, World, records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foveate.testing.demo.scene import Scene

_LOOKING = (
    "I'll look for `$func` first.",
    "Let me see who calls `$func`, then read the file.",
    "Looking at `$path`.",
    "Starting with a search for `$func`.",
    "",
    "Reading before guessing.",
)


def bug(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("bug", records("bugs", "bug")))
    story["trace"] = outputs.traceback(w, path=story["path"], func=story["func"], error=story["error"])
    story["subject"] = story["test"].removeprefix("test_").replace("_", " ")
    yield _search(w, story)
    if w.chance(0.75):
        yield _failing_test(w, story)
    yield _fix(w, story)
    if w.chance(0.8):
        scene = w.scene(story, "$q")
        if w.chance(0.3):
            scene.think(w.phrase("think"))
        yield scene.say("$a")
    if w.chance(0.7):
        yield _commit(w, story)


def _search(w: World, story: Record) -> Scene:
    prompt = w.phrase("bug_open")
    if w.chance(0.4):
        prompt += "\n\n" + w.phrase("bug_trace")
    scene = w.scene(story, prompt)
    source = listings.source_file(
        w, story["path"], story["before"], lines=w.between(80, 230) if w.chance(0.75) else 300, func=story["func"]
    )
    hits = w.between(3, 14)
    story.update(line=str(source.line), hits=str(hits))
    if w.chance(0.5):
        scene.think(w.phrase("think"))
    opening = w.draw("looking", _LOOKING)
    if opening:
        scene.say(opening)
    found = outputs.grep(w, story["func"], path=story["path"], line=source.line, hits=hits)
    scene.call("grep", found, pattern=story["func"], path="quayside")
    scene.call("read_file", source.text, path=story["path"], together=w.chance(0.2))
    if w.chance(0.35):
        log, _ = outputs.git_log(w, w.between(3, 7))
        scene.run(f"git log --oneline -- {story['path']}", log)
    return scene.say(w.phrase("found"))


def _failing_test(w: World, story: Record) -> Scene:
    scene = w.scene(story, w.phrase("test_first"))
    area, test = story["area"], story["test"]
    if w.chance(0.4):
        scene.think(
            f"A test that fails now and says what it wants. The name carries the claim: {test}. No mocks needed here."
        )
    code = f"def {test}(harbour, clock):\n    outcome = run(harbour, at=clock.noon)\n    check(outcome)\n"
    scene.call("apply_patch", "ok, 1 file changed, 9 insertions(+)", path=f"tests/{area}/test_{area}.py", text=code)
    result = outputs.pytest_run(w, area, failing={test: story["error"]}, passing=w.between(9, 44))
    scene.run(f"pytest tests/{area} -v", result.text, exit_code=1, seconds=result.seconds)
    result.tell(story)
    return scene.say(w.phrase("test_red"))


def _fix(w: World, story: Record) -> Scene:
    scene = w.scene(story, w.phrase("fix_it") if "total" in story else "Go on, fix `$func`, and cover it with a test.")
    area, path = story["area"], story["path"]
    change = outputs.diff(w, path, story["before"], story["after"], line=int(story["line"]))
    if w.chance(0.3):
        scene.think(w.phrase("think"))
    scene.call("apply_patch", "ok, 1 file changed", path=path, patch=change)
    passing = int(story["total"]) if "total" in story else w.between(10, 45)
    if w.chance(0.3):
        slip = {
            story["test"]: "NameError: name '" + w.rng.choice(("CENT", "UTC", "outbox", "select")) + "' is not defined"
        }
        first = outputs.pytest_run(w, area, failing=slip, passing=passing - 1)
        scene.run(f"pytest tests/{area} -x", first.text, exit_code=1, seconds=first.seconds)
        scene.say("An import is missing, nothing deeper.")
        scene.call("apply_patch", "ok, 1 file changed, 1 insertion(+)", path=path, patch="+ one import")
    result = outputs.pytest_run(w, area, failing={}, passing=passing, first=story["test"])
    scene.run(f"pytest tests/{area} -v", result.text, seconds=result.seconds)
    if w.chance(0.6):
        scene.run("git diff", change)
    result.tell(story)
    return scene.say(w.phrase("fixed"))


def _commit(w: World, story: Record) -> Scene:
    scene = w.scene(story, w.phrase("commit"))
    shown = f"[{story['branch']} {story['hash']}] {story['ticket']}: {story['subject']}\n 2 files changed, {w.between(8, 40)} insertions(+), {w.between(1, 9)} deletions(-)"
    scene.run("git commit -am '$ticket: $subject'", shown)
    if w.chance(0.5):
        scene.run(
            "git push -u origin $branch",
            f"To git.quayside.example:quayside/quayside.git\n * [new branch] {story['branch']} -> {story['branch']}",
            seconds=w.seconds(1, 4),
        )
    return scene.say(w.phrase("committed"))


def feature(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("feature", records("features", "feature")))
    steps = story["plan"].strip().split("\n")
    story["steps"] = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    story["count"] = str(len(steps))
    story["near"] = f"quayside/{story['area']}/{w.rng.choice(('service', 'queries', 'models'))}.py"
    story["subject"] = story["title"]
    scene = w.scene(story, w.phrase("feature_open")).think(w.phrase("think_plan"))
    listed, _ = listings.folder(w, f"quayside/{story['area']}")
    scene.call("list_dir", listed, path=f"quayside/{story['area']}")
    near = listings.source_file(w, story["near"], "STATES = ('open', 'held', 'closed')", lines=w.between(80, 180))
    scene.call("read_file", near.text, path=story["near"], together=w.chance(0.4))
    yield scene.say(w.phrase("feature_plan"))
    yield _build(w, story)
    yield _correct(w, story)
    if w.chance(0.5):
        log, _ = outputs.git_log(w, w.between(3, 6))
        note = w.scene(
            story,
            "<What would you write|Suggest something> for the changelog? Guests read it, so nothing technical about $title.",
        )
        note.run("git log --oneline main..$branch", log)
        yield note.say(
            "\"**$title.** <You can use it right away|It's there for everyone> from the next release; nothing changes if you don't need it.\" The commits on `$branch` mention more, but none of it is visible to a guest."
        )
    if w.chance(0.6):
        yield _commit(w, story)


def _build(w: World, story: Record) -> Scene:
    scene = w.scene(story, w.phrase("feature_go"))
    area = story["area"]
    migration = f"op.add_column('{area}', sa.Column('{w.rng.choice(('kind', 'valid_until', 'source', 'series_id'))}', sa.Text(), nullable=True))"
    scene.call(
        "write_file",
        f"wrote {w.between(24, 70)} lines",
        path=f"migrations/versions/{story['revision']}.py",
        text=migration,
    )
    scene.call("write_file", f"wrote {w.between(40, 160)} lines", path=story["path"], text=story["code"].strip("\n"))
    for _ in range(w.between(0, 4)):
        file = f"quayside/{area}/{w.draw('touched', ('views', 'forms', 'admin', 'jobs', 'events', 'queries', 'labels'))}.py"
        scene.call(
            "apply_patch",
            f"ok, 1 file changed, {w.between(2, 31)} insertions(+)",
            path=file,
            patch=f"+from {story['path'].removesuffix('.py').replace('/', '.')} import {story['func']}",
        )
    new = outputs.test_names(w, w.between(3, 7))
    text = "\n\n".join(f"def {name}(harbour):\n    assert_promise(harbour, {name!r})" for name in new)
    scene.call(
        "write_file", f"wrote {len(text.splitlines())} lines", path=f"tests/{area}/test_{story['func']}.py", text=text
    )
    scene.run(
        "alembic upgrade head",
        f"INFO  [alembic.runtime.migration] Running upgrade {w.hex(12)} -> {story['revision']}",
        seconds=w.seconds(0.5, 3),
    )
    if w.chance(0.4):
        broken = outputs.pytest_run(
            w,
            area,
            failing={new[0]: "TypeError: can't compare offset-naive and offset-aware datetimes"},
            passing=w.between(20, 50),
        )
        scene.run("pytest tests/$area", broken.text, exit_code=1, seconds=broken.seconds)
        scene.say(
            f"{broken.failed} failed, {broken.passed} passed: `{new[0]}` compares a naive time with an aware one. My mistake in the fixture, not in `$func`."
        )
        scene.call(
            "apply_patch",
            "ok, 1 file changed, 1 insertion(+), 1 deletion(-)",
            path=f"tests/{area}/conftest.py",
            patch="-    return datetime(2026, 5, 1)\n+    return datetime(2026, 5, 1, tzinfo=UTC)",
        )
    result = outputs.pytest_run(w, area, failing={}, passing=w.between(24, 70))
    scene.run("pytest tests/$area -v", result.text, seconds=result.seconds)
    result.tell(story)
    story["new_tests"] = str(len(new))
    return scene.say(w.phrase("feature_done"))


def _correct(w: World, story: Record) -> Scene:
    scene = w.scene(story, "$no")
    if w.chance(0.4):
        scene.think(
            "That changes the rule, not only a value. Which tests say otherwise? Change those first, then the code."
        )
    scene.call(
        "apply_patch",
        f"ok, 2 files changed, {w.between(6, 40)} insertions(+), {w.between(2, 20)} deletions(-)",
        path=story["path"],
        patch=f"@@ {story['func']} @@\n- previous rule\n+ corrected rule, see {story['ticket']}",
    )
    result = outputs.pytest_run(w, story["area"], failing={}, passing=int(story["total"]) + w.between(1, 3))
    scene.run("pytest tests/$area -v", result.text, seconds=result.seconds)
    return scene.say(f"$yes\n\n{result.passed} tests pass, {result.passed - int(story['total'])} more than before.")


def refactor(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("refactor", records("work", "refactor")))
    story["subject"] = f"move {story['func']} apart"
    scene = w.scene(story, w.phrase("refactor_open"))
    source = listings.source_file(
        w,
        story["path"],
        "    steps = collect(session)\n    return finish(steps)",
        lines=w.between(200, 310),
        func=story["func"],
    )
    scene.call("read_file", source.text, path=story["path"])
    story.update(lines=str(source.lines), line=str(source.line))
    yield scene.say(
        "The file has $lines lines and `$func` starts at line $line. I'd aim for $idea.\n\n<It's mostly moving|Most of it is moving code>, and the new part would live in `$new`. The public names stay importable from where they are, so no caller changes."
    )
    scene = w.scene(story, w.phrase("refactor_go"))
    moved = w.between(60, 140)
    scene.call("write_file", f"wrote {moved} lines", path=story["new"], text="# moved, see the commit message")
    scene.call(
        "apply_patch",
        f"ok, 1 file changed, {w.between(9, 22)} insertions(+), {moved} deletions(-)",
        path=story["path"],
        patch=f"+from {story['new'].removesuffix('.py').replace('/', '.')} import *",
    )
    result = outputs.pytest_run(w, story["test_area"], failing={}, passing=w.between(25, 60))
    scene.run("pytest tests/$test_area -v", result.text, seconds=result.seconds)
    result.tell(story)
    yield scene.say(
        f"Done, {moved} lines moved to `$new`, no test touched: $total passed before and $total pass now. `$path` is down to {source.lines - moved + 14} lines."
    )
    if w.chance(0.6):
        name = w.rng.choice(("parts", "sections", "rules", "kinds"))
        scene = w.scene(
            story, f"One nitpick: call the new module `{name}.py`, not `{story['new'].rsplit('/', 1)[-1]}`."
        )
        scene.run(f"git mv {story['new']} {story['new'].rsplit('/', 1)[0]}/{name}.py", "")
        scene.run(
            "ruff check quayside && mypy quayside",
            "All checks passed!\nSuccess: no issues found in 214 source files",
            seconds=w.seconds(4, 19),
        )
        yield scene.say(f"Renamed to `{name}.py`, imports follow, and both linters are content.")
    if w.chance(0.5):
        yield _commit(w, story)


def build(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("ci", records("work", "ci")))
    story["subject"] = f"repair the {story['job']} job"
    scene = w.scene(story, "$ask")
    log = outputs.build_log(w, story["job"], story["line"])
    run = w.between(30_000, 39_999)
    scene.run(f"ci logs --run {run} --job '{story['job']}'", log, seconds=w.seconds(1, 5))
    yield scene.say(f"Run {run} stops in the job `$job` with\n\n```\n$line\n```\n\nThe reason: $why. I'd $fix.")
    scene = w.scene(story, "<Sounds right, do it.|OK, please fix it that way.> Then rerun `$job`.")
    scene.call(
        "apply_patch",
        f"ok, 1 file changed, {w.between(1, 8)} insertions(+)",
        path=".ci/pipeline.yml",
        patch=f"@@ {story['job']} @@\n+# {story['why']}",
    )
    scene.run(
        f"ci rerun {run} --job '{story['job']}' --wait",
        f"{story['job']}: passed in {w.between(1, 6)} min {w.between(10, 59)} s",
        seconds=w.seconds(90, 380),
    )
    yield scene.say(
        "`$job` is green again. <I left a comment|There is a comment> at the place, so the next person knows why: $why."
    )
    if w.chance(0.5):
        yield _commit(w, story)
