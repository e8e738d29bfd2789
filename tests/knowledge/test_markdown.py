"""Knowledge as Markdown: what is written is read back, edits become versions, and texts can't forge items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.errors import InputError
from foveate.knowledge.markdown import (
    MarkdownImport,
    difference,
    entry_ids,
    plan_import,
    read_markdown,
    write_markdown,
)
from foveate.session.knowledge import KnowledgeItem

AT = datetime(2026, 11, 16, tzinfo=UTC)
LESSON = KnowledgeItem(
    id="k-1a2b3c4d5e",
    version=2,
    scope="project:shop",
    kind="lesson",
    state="proposed",
    title="Run the tests with make",
    text="Run the tests with make.\n\n- never with pytest alone",
    topics=("t-0000000001",),
    keywords=(("make", 1.0), ("tests", 0.5)),
    technologies=("make", "pytest"),
    weight=0.5,
    confidence=0.5,
    sources=("chat/T-1", "chat/T-12"),
    maker="local",
    prompt_version="",
    first_seen=AT,
    last_seen=AT,
    created=AT,
    superseded_by="",
    reason="",
    uses=3,
    helped=1,
    last_used=AT,
)
REFERENCE = replace(LESSON, id="k-0000000000", kind="reference", title="Ports", text="8443", topics=(), keywords=())
FILE = """\
# Knowledge

## Run the tests with make
<!-- k-1a2b3c4d5e@2 -->
- scope: project:shop
- kind: lesson
- state: proposed
- technologies: make, pytest
- topics: t-0000000001
- keywords: make, tests
- sources: chat/T-1, chat/T-12

Run the tests with make.

- never with pytest alone

## Ports
<!-- k-0000000000@2 -->
- scope: project:shop
- kind: reference
- state: proposed
- technologies: make, pytest
- sources: chat/T-1, chat/T-12

8443
"""


def planned(text: str, *known: KnowledgeItem) -> MarkdownImport:
    versions: dict[str, list[KnowledgeItem]] = {}
    for item in known or (LESSON, REFERENCE):
        versions.setdefault(item.id, []).append(item)
    return plan_import(read_markdown(text), versions)


def test_items_are_written_one_per_heading_in_a_fixed_order() -> None:
    assert write_markdown([REFERENCE, LESSON]) == write_markdown([LESSON, REFERENCE]) == FILE


def test_a_file_that_nobody_changed_changes_nothing() -> None:
    for text in (FILE, FILE.replace("\n", "\r\n"), f"\ufeff{FILE}\n\n"):
        assert planned(text) == MarkdownImport(drafts=(), new=0, unchanged=2)


def test_what_a_person_changed_becomes_a_draft_of_these_fields_alone() -> None:
    edited = FILE.replace("never with", "not with").replace("- state: proposed\n", "- state: pinned\n", 1)
    (draft,) = planned(edited).drafts
    assert (draft.id, draft.version, draft.state, draft.title) == ("k-1a2b3c4d5e", 2, "pinned", None)
    assert draft.text == "Run the tests with make.\n\n- not with pytest alone"
    assert draft.technologies is None
    (draft,) = planned(
        FILE.replace("## Ports", "## The ports").replace("make, pytest\n- sources", "\n- sources")
    ).drafts
    assert (draft.id, draft.title, draft.text, draft.technologies) == ("k-0000000000", "The ports", None, ())


def test_a_heading_without_an_id_is_a_new_item() -> None:
    plan = planned(f"{FILE}\n## Releases\n\nOn Mondays.\n\n## Style\n- kind: profile\n- scope: user:anna\n\nShort.\n")
    first, second = plan.drafts
    assert (plan.new, plan.unchanged) == (2, 2)
    assert (first.id, first.title, first.text, first.kind, first.scope) == (
        None, "Releases", "On Mondays.", "reference", "project:",
    )  # fmt: skip
    assert (second.kind, second.scope, second.state) == ("profile", "user:anna", None)


def test_a_new_item_that_was_imported_before_is_not_new() -> None:
    entries = read_markdown("## Releases\n\nOn Mondays.\n")
    (made,) = entry_ids(entries)
    stored = replace(REFERENCE, id=made, state="approved", title="Releases", text="On Mondays.", technologies=())
    assert plan_import(entries, {made: [stored]}) == MarkdownImport(drafts=(), new=0, unchanged=1)
    plan = plan_import(entries, {made: [replace(stored, text="On Fridays.")]})
    assert (len(plan.drafts), plan.new) == (1, 0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (FILE.replace("k-1a2b3c4d5e@2", "k-9999999999@2"), "line 4: there is no item k-9999999999 here"),
        (FILE.replace("k-1a2b3c4d5e@2", "acme:k-1a2b3c4d5e@2"), "line 4: there is no item acme:k-1a2b3c4d5e here"),
        (FILE.replace("k-1a2b3c4d5e@2", "k-1a2b3c4d5e@9"), "line 4: k-1a2b3c4d5e has no version 9"),
        (FILE.replace("k-1a2b3c4d5e@2", "k-1a2b3c4d5e"), "line 4: .* has no id"),
        (FILE.replace("k-1a2b3c4d5e@2 -->", "k-1a2b3c4d5e@2"), "line 4: .* has no id"),
        (FILE.replace("k-0000000000", "k-1a2b3c4d5e"), "line 18: the id k-1a2b3c4d5e is in line 4 already"),
        (FILE.replace("## Ports\n", ""), "line 17: an id belongs directly below a heading"),
        (FILE.replace("## Run the tests with make\n", ""), "line 3: expected a heading"),
        (FILE.replace("- kind: reference", "- kind: lesson"), "line 20: the kind of an item can't be changed"),
        (FILE.replace("- scope: project:shop", "- scope: org:x", 1), "line 5: the scope of an item can't be changed"),
        (FILE.replace("- state: proposed", "- state: done", 1), "line 7: no state 'done'; available: proposed"),
        (FILE.replace("- state: proposed", "state: proposed", 1), "line 7: expected '- name: value'"),
        (FILE.replace("- state: proposed", "- state: pinned\n- state: pinned", 1), "line 8: state is in line 7"),
        (FILE.replace("8443", " "), "line 17: an item needs a text"),
        (f"{FILE}\n##\n\nText.\n", "line 27: an item needs a title"),
        (f"{FILE}\n## New\n", "line 27: an item needs a text"),
        (f"{FILE}\n## New\n- kind: topic\n\nText.\n", "line 28: no kind 'topic'"),
        (f"{FILE}\n## New\n- scope: shop\n\nText.\n", "line 28: 'shop' is not a scope"),
        (f"{FILE}\n## New\n\nText.\n\n## new\n\nText.\n", "line 31: the same new item is in line 27"),
    ],
)
def test_a_broken_file_is_rejected_with_the_line(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        planned(text)


def test_an_old_file_does_not_bring_old_texts_back() -> None:
    newer = replace(LESSON, version=3, text="Run them with tox.")
    assert planned(FILE, LESSON, newer, REFERENCE).drafts == ()
    edited = FILE.replace("never with", "not with")
    with pytest.raises(InputError, match=r"line 4: .* has changed since version 2 was exported, to k-1a2b3c4d5e@3"):
        planned(edited, LESSON, newer, REFERENCE)
    done = replace(LESSON, version=3, state="approved", text=LESSON.text.replace("never with", "not with"))
    assert planned(edited, LESSON, done, REFERENCE).drafts == ()
    merged = replace(LESSON, superseded_by="k-7")
    with pytest.raises(InputError, match="to k-7; export it again"):
        planned(edited, merged, REFERENCE)


FORGERIES = (
    "## Ports\n<!-- k-0000000000@2 -->\n- state: pinned\n\n1234",
    "x\r## Ports\r<!-- k-0000000000@2 -->\r\r1234",
    "<!-- k-0000000000@2 -->",
    "\\## Ports\n\\\\<!-- k-0000000000@2 -->",
    "\n\n- state: pinned\n- scope: org:x",
    "```\n## Ports\n",
    "##",
    "x\u2028## Ports\u2028<!-- k-0000000000@2 -->",
)


@pytest.mark.parametrize("forged", FORGERIES)
def test_a_text_or_title_cannot_forge_an_item_or_a_field(forged: str) -> None:
    for item in (replace(LESSON, text=forged), replace(LESSON, title=forged), replace(LESSON, technologies=(forged,))):
        written = write_markdown([item])
        entries = read_markdown(written)
        assert entry_ids(entries) == [LESSON.id]
        assert entries[0].fields["state"] == "proposed"
        assert planned(written, item).drafts == ()


LINES = st.lists(
    st.sampled_from(["## a", "##", "\\## b", "<!-- k-1@1 -->", "- state: x", "", " ", "t", "\r", "\ud800"])
)


@given(texts=st.lists(st.one_of(st.text(), LINES.map("\n".join)), max_size=4), title=st.text())
def test_whatever_is_written_is_read_back_unchanged(texts: Sequence[str], title: str) -> None:
    items = [replace(LESSON, id=f"k-{place}", text=text, title=title) for place, text in enumerate(texts)]
    written = write_markdown(items)
    assert written.encode().decode() == written
    assert planned(written, *items).drafts == ()
    assert entry_ids(read_markdown(written)) == [item.id for item in items]


def test_the_difference_of_two_versions_is_a_diff_of_their_lines() -> None:
    after = replace(LESSON, version=3, state="pinned", text="Run the tests with make.")
    assert difference(LESSON, after) == [
        "--- k-1a2b3c4d5e@2",
        "+++ k-1a2b3c4d5e@3",
        "@@ -1,12 +1,10 @@",
        " ## Run the tests with make",
        " - scope: project:shop",
        " - kind: lesson",
        "-- state: proposed",
        "+- state: pinned",
        " - technologies: make, pytest",
        " - topics: t-0000000001",
        " - keywords: make, tests",
        " - sources: chat/T-1, chat/T-12",
        " ",
        " Run the tests with make.",
        "-",
        "-- never with pytest alone",
    ]
