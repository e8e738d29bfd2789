"""Stories about what runs: incidents, slow queries, releases, upgrades, and a turn that is cut off."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from conversation import listings, outputs
from conversation.world import Record, World, records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conversation.scene import Scene

_PACKAGES = (
    "anyio", "click", "httpx", "idna", "lxml", "numpy", "orjson", "pyyaml", "rich", "tornado", "urllib3", "zstandard",
)  # fmt: skip


def incident(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("incident", records("incidents", "incident")))
    w.hurry(5)
    story["began"] = f"{w.now - timedelta(minutes=int(story['minutes'])):%H:%M}"
    count = w.between(60, 200)
    log, errors = outputs.service_log(w, story["service"], story["log"], lines=count)
    story.update(count=str(count), errors=str(errors))
    scene = w.scene(story, w.phrase("incident_open"))
    if w.chance(0.5):
        scene.think(w.phrase("think_incident"))
    scene.run("journalctl -u $service -n $count --no-pager", log, seconds=w.seconds(0.3, 3))
    yield scene.say(w.phrase("incident_log"))
    yield _look(w, story)
    yield _mitigate(w, story)
    scene = w.scene(story, w.phrase("postmortem"))
    page = f"docs/incidents/{w.now:%Y-%m-%d}-{story['service']}.md"
    text = f"# {story['service']}, {story['began']} to {story['clock']} UTC\n\n{story['alert']}\n\n{story['cause']}\n"
    scene.call("write_file", f"wrote {len(text.splitlines())} lines", path=page, text=text)
    yield scene.say(w.phrase("postmortem_text"))


def _look(w: World, story: Record) -> Scene:
    columns = story["columns"].split(",")
    kinds = story["kinds"].split(",")
    rows = [[kind, *(_cell(w, column, culprit=kind == kinds[0]) for column in columns[1:])] for kind in kinds]
    scene = w.scene(story, w.phrase("incident_ask"))
    scene.call("sql", listings.table(columns, rows), query=story["sql"], database="production-ro")
    shown = " and ".join(f"{name} {value}" for name, value in zip(columns[1:], rows[0][1:], strict=True))
    story.update(top=rows[0][0], shown=shown)
    return scene.say(w.phrase("incident_cause"))


def _cell(w: World, column: str, *, culprit: bool) -> str:
    match column:
        case "longest" | "oldest" | "last_seen":
            return f"00:{w.between(41, 58) if culprit else w.between(0, 9):02d}:{w.between(0, 59):02d}"
        case "active":
            return "f" if culprit else "t"
        case "kept":
            return f"{w.between(110, 190)} GB" if culprit else f"{w.between(1, 9)} GB"
        case "firmware":
            return f"3.{w.between(0, 6)}.{w.between(0, 9)}"
        case "exit_code":
            return "1" if culprit else "0"
        case _:
            return str(w.between(21_000, 48_000) if culprit else w.between(120, 9_000))


def _mitigate(w: World, story: Record) -> Scene:
    scene = w.scene(story, w.phrase("mitigate"))
    command = "ops apply --service $service --plan mitigation"
    if w.chance(0.5):
        held = "error: lease held by another operator (since 00:02:11)\nhint: wait or pass --steal"
        scene.run(command, held, exit_code=1, seconds=w.seconds(1, 3)).say(w.phrase("lease"))
    took = w.between(11, 90)
    steps = "".join(
        f"  {number}/3 {step:10} ok\n" for number, step in enumerate(("check", "change", "verify"), start=1)
    )
    scene.run(command, f"plan mitigation: 3 steps\n{steps}finished in {took} s", seconds=took)
    healthy = w.between(40, 90)
    scene.run("ops health --service $service --wait", f"healthy {healthy}/{healthy} checks", seconds=w.seconds(5, 50))
    story.update(healthy=str(healthy), clock=f"{w.now:%H:%M}")
    return scene.say(w.phrase("mitigated"))


def slow(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("slow", records("work", "slow")))
    query = f"explain (analyze, buffers) {story['query']}"
    rows, before, after = w.between(180_000, 2_400_000), w.seconds(1_900, 14_000), w.seconds(0.6, 9)
    story.update(rows=f"{rows:,}", before_ms=f"{before:,.0f}", after_ms=str(after), times=f"{before / after:,.0f}")
    story["after_node"] = f"Index Scan using {story['index'].split()[3]} on {story['table']}"
    scene = w.scene(story, "$ask").call("sql", listings.plan(w, story["node"], ms=before, rows=rows), query=query)
    yield scene.say(w.phrase("slow_found"))
    scene = w.scene(story, w.phrase("slow_go"))
    scene.call("sql", "CREATE INDEX", query=story["index"], database="copy")
    scene.call("sql", listings.plan(w, story["after_node"], ms=after, rows=50), query=query, database="copy")
    story["size"] = str(w.between(9, 140))
    yield scene.say(w.phrase("slow_done"))
    story.update(plain=str(w.between(410, 440)), indexed=str(w.between(405, 436)))
    shown = listings.table(("index", "inserts_per_s"), (("without", story["plain"]), ("with", story["indexed"])))
    scene = w.scene(story, w.phrase("slow_cost")).call("sql", shown, query="table bench.inserts", database="copy")
    yield scene.say(w.phrase("slow_price"))


def release(w: World) -> Iterator[Scene]:
    story = w.story({}, release=w.next_release())
    name = story["release"]
    log, subjects = outputs.git_log(w, w.between(6, 16))
    story.update(commits=str(len(subjects)), changes="\n".join(f"- {subject}" for subject in subjects))
    scene = w.scene(story, w.phrase("deploy_open")).run("git log --oneline last-release..main", log)
    yield scene.say(w.phrase("release_log"))
    scene = w.scene(story, w.phrase("release_staging"))
    bad = outputs.names_of_tests(w, w.between(1, 3)) if w.chance(0.45) else []
    pulled = f"image quayside:{name} pulled\nmigrations: {w.between(0, 3)} applied\nrolling: 1/2 2/2\ndone"
    scene.run("ops deploy $release --to staging", pulled, seconds=w.seconds(60, 200))
    failing = dict.fromkeys(bad, "AssertionError: assert 503 == 200")
    result = outputs.pytest_run(w, "smoke", failing=failing, passing=w.between(18, 34))
    result.tell(story)
    story["names"] = ", ".join(f"`{test}`" for test in bad)
    command = "pytest tests/smoke --base-url https://staging.quayside.example"
    scene.run(command, result.text, exit_code=1 if bad else 0, seconds=result.seconds)
    yield scene.say(w.phrase("smoke_red" if bad else "smoke_green"))
    if bad:
        scene = w.scene(story, w.phrase("smoke_again"))
        scene.run("ops health --service proxy", f"healthy 2/2 checks, up since 00:01:{w.between(12, 58)}")
        again = outputs.pytest_run(w, "smoke", failing={}, passing=len(bad), first=bad[0])
        again.tell(story)
        scene.run("pytest tests/smoke --last-failed", again.text, seconds=again.seconds)
        yield scene.say(w.phrase("smoke_cleared"))
    story.update(rate=str(w.between(1, 9)), latency=str(w.between(110, 260)), clock=f"{w.now:%H:%M}")
    rolled = f"image quayside:{name} pulled\nrolling: 1/2 2/2\nhealth: ok\ndone"
    scene = w.scene(story, w.phrase("release_go"))
    scene.run("ops deploy $release --to production", rolled, seconds=w.seconds(90, 260))
    yield scene.say(w.phrase("released"))


def upgrade(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("upgrade", records("work", "upgrade")), finding=f"QSA-{w.between(2026_100, 2026_999)}")
    rows = [[name, f"{w.between(1, 9)}.{w.between(0, 40)}.{w.between(0, 9)}", "ok"] for name in _PACKAGES]
    rows.append([story["package"], story["old"], story["finding"]])
    story["count"] = str(len(rows))
    found = listings.table(("package", "version", "finding"), sorted(rows))
    scene = w.scene(story, w.phrase("upgrade_open"))
    scene.run("audit-packages --lock uv.lock", found, exit_code=1, seconds=w.seconds(2, 9))
    yield scene.say(w.phrase("upgrade_found"))
    scene = w.scene(story, w.phrase("upgrade_go"))
    updated = f"Updated {story['package']} v{story['old']} -> v{story['new']}"
    scene.run("uv lock --upgrade-package $package==$new", updated, seconds=w.seconds(1, 6))
    area = w.rng.choice(("uploads", "core", "auth"))
    result = outputs.pytest_run(w, area, failing={}, passing=w.between(30, 80))
    result.tell(story)
    yield scene.run("pytest -v", result.text, seconds=result.seconds).say(w.phrase("upgraded"))


def cut_off(w: World) -> Iterator[Scene]:
    """A turn that the user stops while a tool runs, and what they say after it."""
    months = w.between(2, 8)
    story = w.story({}, year=str(w.draw("years", range(2016, 2026))), months=str(months))
    scene = w.scene(story, w.phrase("recompute")).say("Starting with January, month by month.")
    done = "".join(f"{story['year']}-{month:02d} done in {w.seconds(20, 60)} s\n" for month in range(1, months + 1))
    command = "python -m quayside.reports.recompute --year $year"
    took = w.seconds(60, 300)
    yield scene.run(command, f"{done}^C stopped by the user", exit_code=130, seconds=took, interrupted=True)
    yield w.scene(story, w.phrase("interrupted")).say(w.phrase("stopped"))
