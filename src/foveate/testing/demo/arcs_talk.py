"""Stories told mostly in words: decisions, explanations, small talk, the front end, partners and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foveate.testing.demo import listings, outputs
from foveate.testing.demo.world import World, records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foveate.testing.demo.scene import Scene


def design(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("design", records("designs", "design")))
    scene = w.scene(story, w.phrase("design_open"))
    scene.think(
        "Two real options: $first, or $second. For the first: $pro. Against: $con. I lean to the first but should say what would change my mind."
    )
    yield scene.say(
        "There are two serious options for $topic.\n\n**A. $first.** In favour: $pro. Against: $con.\n\n**B. $second.** <Easier to start with|Less to build today>, and it keeps the door open. But the hard cases stay, they only move to another place.\n\nI'd take A, <unless|except if> you expect the requirements to change within the next months."
    )
    scene = w.scene(
        story,
        "Then $choice. Reason: $reason. <Please write that down as a decision.|Can you put it into the decisions folder?>",
    )
    slug = "-".join(story["topic"].lower().replace(":", "").replace("`", "").split()[:6])
    text = f"# {story['number']}: {story['topic']}\n\nDecided: {story['choice']}.\n\nWhy: {story['reason']}.\n\nAgainst it: {story['con']}."
    scene.call(
        "write_file",
        f"wrote {len(text.splitlines())} lines",
        path=f"docs/decisions/{story['number']}-{slug}.md",
        text=text,
    )
    yield scene.say(
        f"Written to `docs/decisions/{story['number']}-{slug}.md`: $choice, because $reason. I also noted the price we pay: $con."
    )
    if w.chance(0.4):
        yield w.scene(story, "Does $person need to know about $choice?").say(
            "<I think so|Yes>: it touches what $person is building at the moment. One sentence is enough: we go for $choice, and the reasons are in decision $number."
        )


def explain(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("explain", records("talk", "explain")))
    yield w.scene(story, "$q").say(story["a"].strip("\n"))
    if w.chance(0.75):
        yield w.scene(story, "$more").say("$reply")


def chat(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("chat", records("talk", "chat")))
    yield w.scene(story, "$q").say(story["a"].strip("\n"))


def rule(w: World) -> Iterator[Scene]:
    yield w.scene(story := w.story(w.draw("rule", records("talk", "rule"))), "$q").say(story["a"])


def front(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("front", records("work", "front")))
    scene = w.scene(story, "$ask")
    if story["shot"]:
        scene.image = f"{story['shot']}-{w.now:%Y-%m-%d}.png"
    found = outputs.grep(
        w,
        story["file"].rsplit("/", 1)[-1].split(".")[0],
        path=story["file"],
        line=w.between(3, 80),
        hits=w.between(4, 12),
    )
    scene.call("grep", found, pattern=story["file"].rsplit("/", 1)[-1].split(".")[0], path="web/src")
    yield scene.say("I see what you mean. On the $page, $why.\n\nI'd change `$file` like this:\n\n```tsx$code\n```")
    scene = w.scene(
        story, "<Try it.|OK, try it.> <And check it on a small screen.|With a browser test, if that's possible.>"
    )
    scene.call(
        "apply_patch",
        f"ok, 1 file changed, {w.between(4, 30)} insertions(+)",
        path=story["file"],
        patch=story["code"].strip("\n"),
    )
    passed = w.between(11, 38)
    scene.run(
        "npx playwright test --project=tablet",
        f"Running {passed} tests using 4 workers\n\n"
        + "\n".join(
            f"  ok {number:2d} [tablet] {story['page']}: case {number} ({w.between(200, 2900)}ms)"
            for number in range(1, passed + 1)
        )
        + f"\n\n  {passed} passed",
        seconds=w.seconds(9, 60),
    )
    yield scene.say(
        f"Works: {passed} browser tests pass on the tablet profile, and I looked at the $page at 360 px width myself. The cause is gone, since it was this: $why."
    )


def partner(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("partner", records("work", "partner")))
    entries = w.between(9, 34)
    scene = w.scene(story, "$ask")
    scene.run(
        "curl -s -H 'Accept: application/json' https://partner.example$path",
        listings.answer(w, path=story["path"], code=story["code"], entries=entries),
        seconds=w.seconds(0.2, 2),
    )
    yield scene.say(
        f"$name answers with {entries} entries, and the one in question says `$code`. As far as I can tell, $why.\n\nI'd $fix."
    )
    scene = w.scene(
        story,
        "<And their documentation, does it say so?|Is that documented anywhere?> I don't want to build on a guess about `$code`.",
    )
    if w.chance(0.3):
        scene.call("web_fetch", "HTTP 503 Service Unavailable", url=f"https://partner.example/docs{story['path']}")
        yield scene.say(
            "Their documentation answers 503 at the moment, so I can't confirm it. The answer itself is clear enough for a guarded change: handle `$code` explicitly, and fail loudly on anything we don't know."
        )
        return
    page = f"# {story['path']}\n\n## Errors\n\n`{story['code']}`: {story['why']}.\n\n" + "\n".join(
        f"`{reason}`: see section {w.between(2, 9)}.{w.between(1, 8)}."
        for reason in ("invalid_request", "too_many_requests", "not_found", "conflict", "gone")
    )
    scene.call("web_fetch", page, url=f"https://partner.example/docs{story['path']}")
    yield scene.say("Yes, in the section on errors, almost word for word: $why. So it's safe to $fix.")


def figures(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("figures", records("work", "figures")))
    columns = story["columns"].split(",")
    values = sorted((w.between(40, 900) for _ in story["kinds"].split(",")), reverse=True)
    rows = [
        [kind, str(value), str(w.between(2, 39))] for kind, value in zip(story["kinds"].split(","), values, strict=True)
    ]
    scene = w.scene(story, "$question")
    scene.call("sql", listings.table(columns, rows), query=story["sql"], database="production-ro")
    total = sum(values)
    yield scene.say(
        f"`{rows[0][0]}` leads with {values[0]} of {total:,} ({100 * values[0] / total:.0f} %), then `{rows[1][0]}` with {values[1]} and `{rows[2][0]}` with {values[2]}. In words: $remark."
    )
    scene = w.scene(story, "<Can I have|Give me> that as a sentence for the board, without percentages?")
    yield scene.say(
        f'"Out of {total:,}, {values[0]} fall to {rows[0][0]} and {values[1]} to {rows[1][0]}; $remark." <Short enough to read out.|If they ask for more, the table is one query away.>'
    )
