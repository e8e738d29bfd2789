"""Stories about what runs: incidents, slow queries, releases, upgrades, chores, and a turn that is cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foveate.testing.demo import listings, outputs
from foveate.testing.demo.world import Record, World, records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foveate.testing.demo.scene import Scene


def incident(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("incident", records("incidents", "incident")))
    began = f"{w.now:%H:%M}"
    count = w.between(40, 150)
    log, errors = outputs.service_log(w, story["service"], story["log"], lines=count)
    scene = w.scene(story, w.phrase("incident_open"))
    if w.chance(0.5):
        scene.think(
            "First what the service says, then what the database says. No change before I know which of the two is the victim."
        )
    scene.run(f"journalctl -u $service -n {count} --no-pager", log, seconds=w.seconds(0.3, 3))
    yield scene.say(
        f"Of the last {count} lines in `$service`, {errors} are this one:\n\n```\n$log\n```\n\nThat's a symptom. Next I'd ask the database, unless you object."
    )
    yield _look(w, story)
    yield _mitigate(w, story, began)
    scene = w.scene(
        story,
        "<Please write|Can you write> the post-mortem, short. Blameless, with times, and what we do so it doesn't happen again.",
    )
    scene.call(
        "write_file",
        f"wrote {w.between(30, 60)} lines",
        path=f"docs/incidents/{w.now:%Y-%m-%d}-{story['service']}.md",
        text=f"# {story['service']}\n\n{story['cause']}",
    )
    yield scene.say(
        f"**What happened.** {began} to {w.now:%H:%M} UTC, `$service` was impaired. $alert\n\n**Why.** It was $cause.\n\n**What we did.** We decided to $now.\n\n**What we change.** $later. Owner: $person, ticket $ticket.\n\n**What went well.** The alert fired before the first phone call, and the log had everything we needed."
    )


def _look(w: World, story: Record) -> Scene:
    columns = story["columns"].split(",")
    rows = [[kind, *(_cell(w, column) for column in columns[1:])] for kind in story["kinds"].split(",")]
    scene = w.scene(story, "<Yes, ask it.|No objections.> But read only.")
    scene.call("sql", listings.table(columns, rows), query=story["sql"], database="production-ro")
    top = " and ".join(f"{name} {value}" for name, value in zip(columns[1:], rows[0][1:], strict=True))
    return scene.say(
        f"The first row, `{rows[0][0]}`, shows {top}. Together with the log I'm confident: it is $cause.\n\nRight now I would $now. Afterwards, without hurry: $later."
    )


def _cell(w: World, column: str) -> str:
    if column in {"longest", "oldest", "last_seen"}:
        return f"00:{w.between(1, 58):02d}:{w.between(0, 59):02d}"
    if column == "active":
        return w.rng.choice(("t", "f"))
    if column == "kept":
        return f"{w.between(2, 190)} GB"
    if column == "firmware":
        return f"3.{w.between(0, 6)}.{w.between(0, 9)}"
    if column == "exit_code":
        return str(w.between(0, 1))
    if column in {"no_shows", "closures", "nights"}:
        return str(w.between(3, 96))
    return str(w.between(120, 48_000))


def _mitigate(w: World, story: Record, began: str) -> Scene:
    scene = w.scene(story, w.phrase("mitigate"))
    if w.chance(0.5):
        scene.run(
            "ops apply --service $service --plan mitigation",
            "error: lease held by another operator (since 00:02:11)\nhint: wait or pass --steal",
            exit_code=1,
            seconds=w.seconds(1, 3),
        )
        scene.say(
            "Somebody else holds the lease, probably the monitoring restart. I won't steal it; trying again in a minute."
        )
    scene.run(
        "ops apply --service $service --plan mitigation",
        f"plan mitigation: 3 steps\n  1/3 check      ok\n  2/3 change     ok\n  3/3 verify     ok\nfinished in {w.between(11, 90)} s",
        seconds=w.seconds(11, 90),
    )
    healthy = w.between(40, 90)
    scene.run("ops health --service $service --wait", f"healthy {healthy}/{healthy} checks", seconds=w.seconds(5, 50))
    return scene.say(
        f"Done at {w.now:%H:%M} UTC: {healthy} of {healthy} checks are healthy. It began to hurt around {began}, so that's the window for the report. <The lasting fix is not in yet|What's still missing is the lasting fix>: $later."
    )


def slow(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("slow", records("work", "slow")))
    story["subject"] = f"index {story['table']}"
    rows = w.between(180_000, 2_400_000)
    before = w.seconds(1_900, 14_000)
    scene = w.scene(story, "$ask")
    scene.call(
        "sql",
        listings.plan(w, story["node"], ms=before, rows=rows),
        query=f"explain (analyze, buffers) {story['query']}",
    )
    yield scene.say(
        f"It's a `$node` over {rows:,} rows and takes {before:,.0f} ms. The reason: $why.\n\nThis index would help:\n\n```sql\n$index;\n```"
    )
    after = w.seconds(0.6, 9)
    node = f"Index Scan using {story['index'].split()[3]} on {story['table']}"
    scene = w.scene(story, w.phrase("slow_go"))
    scene.call("sql", "CREATE INDEX", query=story["index"], database="copy")
    scene.call(
        "sql",
        listings.plan(w, node, ms=after, rows=50),
        query=f"explain (analyze, buffers) {story['query']}",
        database="copy",
    )
    size = w.between(9, 140)
    yield scene.say(
        f"Before: {before:,.0f} ms. After: {after} ms, about {before / after:,.0f} times faster. The plan now says `{node}`. The index takes {size} MB, and writing to `$table` gets slower by an amount I could not measure."
    )
    scene = w.scene(
        story, "Does it cost us anything on writes? <$person will ask.|I don't want to trade one problem for another.>"
    )
    inserts = [[label, str(w.between(410, 440)), str(w.between(2, 4))] for label in ("without", "with")]
    scene.call(
        "sql",
        listings.table(("index", "inserts_per_s", "p95_ms"), inserts),
        query=f"select * from bench.inserts where target = '{story['table']}'",
    )
    yield scene.say(
        f"{inserts[0][1]} inserts per second without it and {inserts[1][1]} with it, p95 at {inserts[0][2]} and {inserts[1][2]} ms. That's within the noise of the machine. I'd take it."
    )


def release(w: World) -> Iterator[Scene]:
    story = w.story({}, release=w.next_release())
    log, subjects = outputs.git_log(w, w.between(6, 16))
    scene = w.scene(story, w.phrase("deploy_open")).run("git log --oneline $release-base..main", log)
    shown = "\n".join(f"- {subject}" for subject in subjects)
    yield scene.say(
        f"{len(subjects)} commits for $release:\n\n{shown}\n\n<No migration that drops anything.|All migrations are additive.> I'd call it a quiet release."
    )
    scene = w.scene(
        story,
        "Put $release on staging, <run the smoke tests|smoke tests please>, and if they're red, don't try to be clever.",
    )
    smoke = w.between(18, 34)
    bad = outputs.test_names(w, w.between(1, 3)) if w.chance(0.45) else []
    scene.run(
        "ops deploy $release --to staging",
        f"image quayside:{story['release']} pulled\nmigrations: {w.between(0, 3)} applied\nrolling: 1/2 2/2\ndone",
        seconds=w.seconds(60, 200),
    )
    result = outputs.pytest_run(
        w, "smoke", failing=dict.fromkeys(bad, "AssertionError: assert 503 == 200"), passing=smoke
    )
    scene.run(
        "pytest tests/smoke --base-url https://staging.quayside.example",
        result.text,
        exit_code=1 if bad else 0,
        seconds=result.seconds,
    )
    if not bad:
        yield scene.say(
            f"Staging runs $release and all {smoke} smoke tests pass ({result.seconds} s). Production whenever you say so."
        )
    else:
        names = ", ".join(f"`{name}`" for name in bad)
        yield scene.say(
            f"Staging runs $release, but the smoke tests say {result.failed} failed, {smoke} passed: {names}. Each got a 503 instead of a 200. I stopped there, as you asked."
        )
        scene = w.scene(
            story,
            "Hm, 503 smells like the proxy and not like us. Check whether it's still warming up, and run only those again.",
        )
        scene.run("ops health --service proxy", "healthy 2/2 checks, up since 00:01:48")
        again = outputs.pytest_run(w, "smoke", failing={}, passing=len(bad), first=bad[0])
        scene.run("pytest tests/smoke --last-failed", again.text, seconds=again.seconds)
        yield scene.say(
            f"You were right: the proxy had been up for under two minutes. All {len(bad)} pass now. I'd add a wait for its health check to the deploy step, so that $release-style false alarms go away."
        )
    scene = w.scene(story, "<OK, production.|Good. Production then.> Tell me when both hosts are on $release.")
    scene.run(
        "ops deploy $release --to production",
        f"image quayside:{story['release']} pulled\nrolling: 1/2 2/2\nhealth: ok\ndone",
        seconds=w.seconds(90, 260),
    )
    yield scene.say(
        f"Both hosts run $release since {w.now:%H:%M} UTC. Error rate is at 0.0{w.between(1, 9)} %, p95 at {w.between(110, 260)} ms, both as before."
    )


def upgrade(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("upgrade", records("work", "upgrade")))
    packages = [
        "anyio",
        "click",
        "httpx",
        "idna",
        "lxml",
        "numpy",
        "orjson",
        "pyyaml",
        "rich",
        "tornado",
        "urllib3",
        "zstandard",
    ]
    rows = [[name, f"{w.between(1, 9)}.{w.between(0, 40)}.{w.between(0, 9)}", "ok"] for name in packages]
    advisory = f"QSA-{w.between(2026_100, 2026_999)}"
    rows.append([story["package"], story["old"], advisory])
    scene = w.scene(
        story,
        "<The security bot complains about something.|I got a mail about a vulnerable package.> <Is it serious?|Do we care?>",
    )
    scene.run(
        "audit-packages --lock uv.lock",
        listings.table(("package", "version", "finding"), sorted(rows)),
        exit_code=1,
        seconds=w.seconds(2, 9),
    )
    yield scene.say(
        f"One finding in {len(rows)} packages: $package $old, {advisory}. In plain words, $advisory. <I'd upgrade today.|It's worth the half hour.>"
    )
    scene = w.scene(story, "<Upgrade it|Go to $new then>, and tell me what had to change.")
    scene.run(
        "uv lock --upgrade-package $package==$new",
        f"Updated {story['package']} v{story['old']} -> v{story['new']}",
        seconds=w.seconds(1, 6),
    )
    result = outputs.pytest_run(w, w.rng.choice(("uploads", "core", "auth")), failing={}, passing=w.between(30, 80))
    scene.run("pytest -v", result.text, seconds=result.seconds)
    yield scene.say(f"$package is at $new, {result.passed} tests pass. What changed for us: $note.")


def chore(w: World) -> Iterator[Scene]:
    areas = (
        "tides",
        "auth",
        "uploads",
        "reports",
        "imports",
        "moorings",
        "payments",
        "search",
        "vessels",
        "waitlist",
        "jobs",
    )
    story = w.story({"folder": f"quayside/{w.draw('chore areas', areas)}"})
    shown, files = listings.folder(w, story["folder"])
    name, size = max(files, key=lambda file: file[1])
    scene = w.scene(story, w.phrase("chore")).call("list_dir", shown, path=story["folder"])
    extra = (
        "`legacy.py` is imported nowhere, so that one could go."
        if any(n == "legacy.py" for n, _ in files)
        else "Nothing looks abandoned."
    )
    yield scene.say(f"{len(files)} modules in `$folder`. The biggest is `{name}` with {size:,} bytes. {extra}")


def cut_off(w: World) -> Iterator[Scene]:
    """A turn that the user stops while a tool runs, and what they say after it."""
    year = w.between(2019, 2025)
    story = w.story({})
    scene = w.scene(
        story,
        f"Recompute the occupancy for {year} on the copy<, please|>, I want to compare it with what the council has<.| for $ticket.>",
    )
    scene.say("Starting with the first quarter, then the rest.")
    scene.run(
        f"python -m quayside.reports.recompute --year {year}",
        "".join(f"{year}-{month:02d} done in {w.seconds(20, 60)} s\n" for month in range(1, w.between(3, 8)))
        + "^C stopped by the user",
        exit_code=130,
        seconds=w.seconds(60, 300),
        interrupted=True,
    )
    yield scene
    yield w.scene(story, w.phrase("interrupted")).say(
        "<No harm done|All right>: the recomputation writes only when a month is complete, so the copy for "
        + str(year)
        + " is consistent up to where it stopped. <Tell me when to go on.|I'll take it from there.>"
    )
