"""Stories told mostly in words: decisions, explanations, small talk, the front end, partners and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation import listings, outputs
from conversation.world import World, records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conversation.scene import Scene

_ERRORS = ("invalid_request", "too_many_requests", "not_found", "conflict", "gone")


def design(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("design", records("designs", "design")))
    topic, choice = story["topic"], story["choice"]
    yield w.scene(story, w.phrase("design_open")).think(w.phrase("think_design")).say(w.phrase("options"))
    slug = "-".join(topic.lower().replace(":", "").replace("`", "").split()[:6])
    story["page"] = f"docs/decisions/{story['number']}-{slug}.md"
    text = f"# {story['number']}: {topic}\n\nDecided: {choice}.\n\nWhy: {story['reason']}.\n\nPrice: {story['con']}.\n"
    scene = w.scene(story, w.phrase("decided"))
    scene.call("write_file", f"wrote {len(text.splitlines())} lines", path=story["page"], text=text)
    yield scene.say(w.phrase("written"))
    if w.chance(0.4):
        yield w.scene(story, "Does $person need to know about $choice?").say(w.phrase("tell_person"))


def explain(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("explain", records("talk", "explain")))
    yield w.scene(story, "$q").say(story["a"].strip("\n"))
    if w.chance(0.75):
        yield w.scene(story, "$more").say("$reply")


def chat(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("chat", records("talk", "chat")))
    yield w.scene(story, story["q"]).say(story["a"].strip("\n"))


def rule(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("rule", records("talk", "rule")))
    yield w.scene(story, "$q").say("$a")


def front(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("front", records("work", "front")))
    scene = w.scene(story, "$ask")
    if story["shot"]:
        scene.image = f"{story['shot']}-{w.now:%Y-%m-%d}.png"
    stem = story["file"].rsplit("/", 1)[-1].split(".")[0]
    found = "\n".join(
        f"{story['file']}:{line}: {stem}" for line in sorted(w.rng.sample(range(3, 180), w.between(3, 9)))
    )
    scene.call("grep", found, pattern=stem, path="web/src")
    yield scene.say(w.phrase("front_found"))
    scene = w.scene(story, w.phrase("front_go"))
    patch = outputs.diff(w, story["file"], "// see the ticket", story["code"], line=w.between(10, 90))
    scene.call("apply_patch", "ok, 1 file changed", path=story["file"], patch=patch)
    passed = w.between(11, 38)
    story["passed"] = str(passed)
    cases = [
        f"  ok {case:2d} [tablet] {story['page']}, case {case} ({w.between(200, 2900)}ms)"
        for case in range(1, passed + 1)
    ]
    shown = "\n".join([f"Running {passed} tests using 4 workers", "", *cases, "", f"  {passed} passed"])
    scene.run("npx playwright test --project=tablet", shown, seconds=w.seconds(9, 60))
    yield scene.say(w.phrase("front_done"))


def partner(w: World) -> Iterator[Scene]:
    entries = w.between(9, 34)
    story = w.story(w.draw("partner", records("work", "partner")), entries=str(entries))
    path, code = story["path"], story["code"]
    scene = w.scene(story, "$ask")
    shown = listings.answer(w, path=path, code=code, entries=entries)
    scene.run("curl -s -H 'Accept: application/json' https://partner.example$path", shown, seconds=w.seconds(0.2, 2))
    yield scene.say(w.phrase("partner_found"))
    scene = w.scene(story, w.phrase("partner_docs"))
    url = f"https://partner.example/docs{path}"
    if w.chance(0.3):
        yield scene.call("web_fetch", "HTTP 503 Service Unavailable", url=url).say(w.phrase("docs_down"))
        return
    others = "\n".join(f"`{error}`: see section {w.between(2, 9)}.{w.between(1, 8)}." for error in _ERRORS)
    page = f"# {path}\n\n## Errors\n\n`{code}`: {story['why']}.\n\n{others}"
    yield scene.call("web_fetch", page, url=url).say(w.phrase("docs_found"))


def figures(w: World) -> Iterator[Scene]:
    story = w.story(w.draw("figures", records("work", "figures")))
    kinds = story["kinds"].split(",")
    values = sorted((w.between(40, 900) for _ in kinds), reverse=True)
    # The smaller a group, the higher its second figure: every remark in the content relies on it.
    others = sorted(w.between(2, 39) for _ in kinds)
    rows = [[kind, str(value), str(other)] for kind, value, other in zip(kinds, values, others, strict=True)]
    total = sum(values)
    story.update(lead=kinds[0], second=kinds[1], third=kinds[2], percent=f"{100 * values[0] / total:.0f}")
    story.update(most=str(values[0]), more=str(values[1]), less=str(values[2]), sum=f"{total:,}")
    scene = w.scene(story, "$question")
    shown = listings.table(story["columns"].split(","), rows)
    scene.call("sql", shown, query=story["sql"], database="production-ro")
    yield scene.say(w.phrase("figures_found"))
    yield w.scene(story, w.phrase("figures_short")).say(w.phrase("figures_line"))
