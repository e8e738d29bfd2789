"""Lists of tasks: read, shown, ticked, added to and merged, with nothing lost on the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.agents.tasks import MAX_DEPTH, MAX_TASK_CHARS, MAX_TASKS, Entry, Task, TaskList, parse_tasks
from foveate.errors import InputError

FILE = """\
# Phase one

- [x] Read the old code
* [ ] Write the new one,
  with tests
    1. [X] the client
+ and switch over

Then celebrate.
3) [✓] Cake
-
- [ ]
"""


def test_a_list_is_read_as_people_write_it() -> None:
    assert parse_tasks(FILE).entries == (
        "# Phase one",
        Task("Read the old code", is_done=True),
        Task("Write the new one, with tests"),
        Task("the client", is_done=True, depth=2),
        Task("and switch over"),
        "Then celebrate.",
        Task("Cake", is_done=True),
    )


def test_a_model_is_shown_numbers_that_headings_do_not_count_in() -> None:
    assert parse_tasks(FILE).numbered() == (
        "# Phase one\n"
        "1. [x] Read the old code\n"
        "2. [ ] Write the new one, with tests\n"
        "    3. [x] the client\n"
        "4. [ ] and switch over\n"
        "Then celebrate.\n"
        "5. [x] Cake\n"
    )
    assert TaskList().numbered() == ""


def test_what_looks_like_a_box_but_is_a_link_is_text() -> None:
    assert parse_tasks("- [the plan](plan.md)").tasks == (Task("[the plan](plan.md)"),)


words = st.from_regex(r"[A-Za-zäß日][^\s\[\]]{0,12}( [^\s\[\]]{1,12}){0,3}", fullmatch=True).map(
    lambda text: " ".join(text.split())
)
tasks = st.builds(Task, words, st.booleans(), st.integers(0, MAX_DEPTH))
headings = words.map(lambda text: f"# {text}")
entries: st.SearchStrategy[Entry] = tasks | headings
lists = st.lists(entries, max_size=12).map(lambda drawn: TaskList(tuple(drawn)))


@given(lists)
def test_any_list_can_be_written_and_read_back(drawn: TaskList) -> None:
    assert parse_tasks(drawn.markdown()) == drawn
    assert parse_tasks(drawn.numbered()) == drawn


@given(lists, lists)
def test_merging_loses_no_task_and_unticks_none(mine: TaskList, other: TaskList) -> None:
    merged = mine.merged(other).tasks
    assert [task.text for task in merged.tasks[: len(mine.tasks)]] == [task.text for task in mine.tasks]
    assert {task.text for task in other.open} <= {task.text for task in merged.tasks}
    assert all(after.is_done for before, after in zip(mine.tasks, merged.tasks, strict=False) if before.is_done)
    assert merged.merged(other).tasks == merged


def test_a_merge_says_what_is_new_and_what_was_ticked() -> None:
    mine = parse_tasks("- [ ] a\n- [x] b\n- [ ] c")
    merged = mine.merged(parse_tasks("- [x] a\n- [ ] b\n- [ ] d\n- [x] e"))
    assert merged.tasks.markdown() == "- [x] a\n- [x] b\n- [ ] c\n- [ ] d\n"
    assert (merged.added, merged.ticked) == (("d",), ("a",))


def test_ticking_and_reopening_go_by_number() -> None:
    listed = parse_tasks("- [ ] a\n# more\n- [ ] b")
    assert listed.ticked([2]).tasks == (Task("a"), Task("b", is_done=True))
    assert listed.ticked([1, 2]).ticked([1], is_done=False).open == (Task("a"),)


@pytest.mark.parametrize(("listed", "told"), [("- a\n- b", "they are 1 to 2"), ("# none", "there are no tasks")])
def test_a_number_that_is_not_there_is_refused(listed: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse_tasks(listed).ticked([3])


def test_adding_what_is_there_adds_nothing() -> None:
    assert parse_tasks("- [x] a").extended(["a", "b", "b"]).markdown() == "- [x] a\n- [ ] b\n"


def test_a_list_has_its_limits() -> None:
    with pytest.raises(InputError, match=f"up to {MAX_TASKS}"):
        parse_tasks("- more\n" * (MAX_TASKS + 1))
    with pytest.raises(InputError, match=f"up to {MAX_TASK_CHARS:,} characters"):
        parse_tasks("- " + "long" * MAX_TASK_CHARS)
    with pytest.raises(InputError, match="can't be empty"):
        TaskList().extended([" "])
