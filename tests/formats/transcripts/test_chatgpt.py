"""ChatGPT's export comes in branch by branch, nothing of the tree is lost, and it goes out again as it was."""

from __future__ import annotations

import io
import json
import zipfile
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.errors import InvalidMessage
from foveate.formats import detect_transcript
from foveate.formats.transcripts import chatgpt
from foveate.turn import Attachment, Json, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from support.transcripts import FIXTURES, Imported, deep, foreign_messages, import_bytes, import_fixture, written
from support.turns import split_turns

CONTENT = (FIXTURES / "chatgpt" / "conversations.json").read_bytes()


def read(value: Json) -> Imported:
    return import_bytes("chatgpt", json.dumps(value).encode(), "conversations.json")


def zipped(**members: bytes) -> bytes:
    """A zip file of `.json` files; in a name two underscores stand for a dash."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "-") + ".json", content)
    return file.getvalue()


def node(parent: str | None, text: str = "hi", role: str = "user", **message: Json) -> dict[str, Json]:
    content: Json = {"content_type": "text", "parts": [text]}
    return {"message": {"author": {"role": role}, "content": content, **message}, "parent": parent, "children": []}


def conversation(mapping: Json, current: str | None = None) -> dict[str, Json]:
    return {"conversation_id": "c", "title": "t", "mapping": mapping, "current_node": current}


def by_id() -> dict[str, Message]:
    return {item.key: item.message for item in import_fixture("chatgpt", "conversations.json").found}


def test_an_export_is_recognised_alone_and_in_its_zip() -> None:
    assert detect_transcript(CONTENT, "conversations.json") == "chatgpt"
    assert detect_transcript(zipped(conversations=CONTENT), "export.zip") == "chatgpt"
    assert not chatgpt.detect(b'[{"role": "user"}]', "conversations.json")


def test_the_branch_seen_last_is_the_session_and_every_other_one_a_session_of_its_own() -> None:
    imported = import_fixture("chatgpt", "conversations.json")
    assert not imported.problems
    keys: dict[str, list[str]] = {}
    for session, key in imported.keys:
        keys.setdefault(session, []).append(key)
    assert keys["c-tide"][1:] == [
        *("root", "sys", "ctx", "ask-edited", "think", "call", "out", "out-2", "recap", "answer-2", "memory", "bye"),
    ]
    assert keys["c-tide/branch-ask"] == ["ask", "old-answer"]
    assert keys["c-tide/branch-answer-1"] == ["answer-1"]
    assert keys["c-empty"][1:] == ["only"]
    assert imported.headers["c-tide"].title == imported.headers["c-tide/branch-ask"].title == "High water"
    assert imported.headers["c-tide"].model == "o3"


def test_every_node_of_the_tree_is_found_once() -> None:
    imported = import_fixture("chatgpt", "conversations.json")
    mapping = json.loads(CONTENT)[0]["mapping"]
    assert sorted(key for session, key in imported.keys if key in mapping and "c-tide" in session) == sorted(mapping)


def test_what_is_said_is_told_from_what_is_put_in_and_what_is_shown() -> None:
    kinds = {id_: (message.role, message.kind) for id_, message in by_id().items()}
    assert kinds["root"] == kinds["sys"] == ("system", "display")
    assert kinds["ctx"] == ("user", "injection")
    assert kinds["recap"] == ("assistant", "display")
    assert kinds["memory"] == ("system", "injection")
    assert kinds["ask-edited"] == kinds["bye"] == ("user", "message")
    assert len(split_turns(import_fixture("chatgpt", "conversations.json").sessions["c-tide"])) == 2


def test_each_kind_of_content_has_its_meaning() -> None:
    messages = by_id()
    assert messages["ctx"].text == "I keep a small harbour.\n\nBe brief."
    assert messages["ask-edited"].parts == (
        Attachment("image", uri="file-service://file-Tide1"),
        Text("When is high water by this table?"),
        Attachment("file", file_id="file-Note2", name="note.pdf", media_type="application/pdf"),
    )
    assert messages["think"].parts == (Reasoning("Reading\nSecond column."),)
    assert messages["call"].parts == (ToolCall("python", {"code": "print(11.5)"}, id="call"),)
    assert messages["out"].parts == (ToolResult("call", (Text("11.5"),), name="python"),)
    second = ToolResult("call", (Text("a chart"), Opaque("chatgpt", {"content_type": "holo_pointer"})), name="python")
    assert messages["out-2"].parts == (second,)


def test_a_message_has_its_time_and_its_model() -> None:
    answer = by_id()["answer-2"]
    assert answer.at == datetime(2026, 3, 2, 9, 1, 0, 250_000, tzinfo=UTC)
    assert answer.model == "o3"


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ({"content_type": "tether_quote", "text": "quoted", "url": "https://example.org"}, (Text("quoted"),)),
        ({"content_type": "tether_browsing_display", "result": "page", "summary": None}, (Text("page"),)),
        ({"content_type": "model_editable_context", "model_set_context": "Likes tides."}, (Text("Likes tides."),)),
        ({"content_type": "model_editable_context", "model_set_context": ""}, ()),
        (
            {"content_type": "multimodal_text", "parts": [{"content_type": "audio_transcription", "text": "ahoy"}]},
            "ahoy",
        ),
        ({"content_type": "super_widget", "widget": {"n": 1}}, "opaque"),
    ],
)
def test_other_contents_are_read_or_kept_as_they_are(content: Json, parts: Any) -> None:
    (_, message) = read([conversation({"a": node(None, role="user", content=content)})]).only()
    if parts == "opaque":
        parts = (Opaque("chatgpt", content),)
    assert message.parts == ((Text(parts),) if isinstance(parts, str) else parts)


def test_a_failed_run_is_an_error_and_a_message_without_weight_is_only_shown() -> None:
    failed: Json = {"aggregate_result": {"status": "failed_with_in_kernel_exception"}}
    mapping: dict[str, Json] = {
        "a": node(None, "print(1/0)", "assistant", recipient="python"),
        "b": node("a", "ZeroDivisionError", "tool", metadata=failed),
        "c": node("b", "never sent", weight=0),
    }
    _, call, result, unsent = read([conversation(mapping, "c")]).only()
    assert call.tool_calls[0].arguments == "print(1/0)"
    assert result.tool_results[0].is_error
    assert unsent.kind == "display"


def test_the_first_result_of_a_branch_knows_the_call_it_left() -> None:
    mapping: dict[str, Json] = {
        "a": node(None, "{}", "assistant", recipient="web"),
        "b": node("a", "one", "tool"),
        "c": node("a", "two", "tool"),
    }
    imported = read([conversation(mapping, "b")])
    assert imported.sessions["c/branch-c"][0].tool_results[0].call_id == "a"


def test_each_session_comes_back_with_its_nodes_as_they_were() -> None:
    before = json.loads(CONTENT)[0]
    imported = import_fixture("chatgpt", "conversations.json")
    nodes: dict[str, Json] = {}
    for session in ("c-tide", "c-tide/branch-ask", "c-tide/branch-answer-1"):
        (after,) = json.loads(written("chatgpt", imported.sessions[session]))
        nodes.update(after["mapping"])
        if session == "c-tide":
            assert {**after, "mapping": {}} == {**before, "mapping": {}}
    assert nodes == before["mapping"]


def test_a_grown_conversation_keeps_the_keys_of_its_nodes_and_its_branches() -> None:
    (before, empty) = json.loads(CONTENT)
    grown = json.loads(CONTENT)[0]
    grown["mapping"]["bye"]["children"] = ["more"]
    grown["mapping"]["more"] = node("bye", "You are welcome.", "assistant")
    grown["mapping"]["old-answer"]["children"] = ["really"]
    grown["mapping"]["really"] = node("old-answer", "Really?")
    grown["current_node"] = "more"
    old, new = read([before, empty]), read([grown, empty])
    named = {(session, key) for session, key in old.keys if key in before["mapping"]}
    assert named <= set(new.keys)
    assert ("c-tide", "more") in new.keys
    assert ("c-tide/branch-ask", "really") in new.keys
    # The node stored at the first import does not know its later child; what is written does.
    stored = [*old.sessions["c-tide"], new.sessions["c-tide"][-1]]
    (after,) = json.loads(written("chatgpt", stored))
    assert after["mapping"]["bye"]["children"] == ["more"]


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([None, *"abcdefghz"]), max_size=8), st.data())
def test_any_graph_is_read_whole_rings_and_orphans_included(
    parents: dict[str, str | None], data: st.DataObject
) -> None:
    current = data.draw(st.sampled_from([None, "z", *parents]))
    mapping: Json = {id_: node(parent, id_) for id_, parent in parents.items()}
    imported = read([conversation(mapping, current)])
    assert not imported.problems
    assert sorted(item.message.text for item in imported.found if item.message.text) == sorted(parents)


def test_a_zip_with_several_files_is_read_in_order() -> None:
    first, second = json.loads(CONTENT)
    content = zipped(
        conversations__001=json.dumps([second]).encode(), conversations__000=json.dumps([first]).encode(), user=b"{}"
    )
    imported = import_bytes("chatgpt", content, "export.zip")
    assert not imported.problems
    assert list(imported.sessions) == [*import_fixture("chatgpt", "conversations.json").sessions]
    assert imported.found[0].place == "conversations-000.json, conversation 1"


class Pipe(io.BytesIO):
    """A stream that can't go back."""

    def seekable(self) -> bool:
        return False


def test_a_pipe_is_read_too() -> None:
    assert list(chatgpt.read(Pipe(CONTENT), "-")) == import_fixture("chatgpt", "conversations.json").items
    assert "not a JSON list" in str(list(chatgpt.read(Pipe(zipped(conversations=CONTENT)), "-")))


def test_an_unreadable_time_loses_no_message() -> None:
    assert read([conversation({"a": node(None, create_time=1e15)})]).only()[1].text == "hi"


def test_a_zip_without_conversations_is_a_problem() -> None:
    (problem,) = import_bytes("chatgpt", zipped(user=b"{}"), "export.zip").problems
    assert "no conversations.json" in problem.reason


@given(st.integers(4, 400), st.binary(max_size=8))
def test_a_damaged_zip_is_a_problem_never_an_exception(place: int, damage: bytes) -> None:
    whole = zipped(conversations=CONTENT, user=b"{}")
    for content in (whole[:place], whole[:-place], whole[:place] + damage + whole[place + len(damage) :]):
        imported = import_bytes("chatgpt", content, "export.zip")
        assert imported.problems or len(imported.found) == 18


@pytest.mark.parametrize(
    ("value", "place", "reason"),
    [
        (5, "conversation 1", "no object 'mapping'"),
        ({"title": "t"}, "conversation 1", "no object 'mapping'"),
        ({"mapping": []}, "conversation 1", "no object 'mapping'"),
        ({"mapping": {"a": 5}}, "conversation 1, message a", "must be an object"),
        ({"mapping": {"a": {"message": 5}}}, "conversation 1, message a", "must be an object"),
        ({"mapping": {"a": {"message": {"author": {}}}}}, "conversation 1, message a", "role"),
        ({"mapping": {"a": node(None, role="oracle")}}, "conversation 1, message a", "oracle"),
        ({"mapping": {"a": node(None, content="text")}}, "conversation 1, message a", "content"),
        ({"mapping": {"a": json.loads(deep(300))}}, "conversation 1", "nested too deeply"),
    ],
)
def test_what_can_not_be_read_is_a_problem_and_the_next_conversation_is_read(
    value: Json, place: str, reason: str
) -> None:
    imported = read([value, conversation({"b": node(None)})])
    assert [problem.place for problem in imported.problems] == [place]
    assert reason in imported.problems[0].reason
    assert imported.sessions["c"][1].text == "hi"


@pytest.mark.parametrize(("cut", "sessions"), [(-20, 3), (100, 0), (0, 0)])
def test_of_a_cut_off_file_the_whole_conversations_are_read(cut: int, sessions: int) -> None:
    imported = import_bytes("chatgpt", CONTENT[:cut], "conversations.json")
    assert len(imported.sessions) == sessions
    assert "cut off" in imported.problems[0].reason


def test_invalid_utf8_is_a_problem_after_what_came_before_it() -> None:
    imported = import_bytes("chatgpt", CONTENT.replace(b"Empty", b"\xffmpty"), "conversations.json")
    assert len(imported.sessions) == 3
    assert "invalid UTF-8" in imported.problems[0].reason


def test_a_conversation_without_an_id_is_named_by_its_nodes() -> None:
    names = [list(read([{"mapping": mapping}]).sessions) for mapping in ({"a": node(None)}, {"b": node(None)}, {})]
    assert len({name for (name,) in names}) == 3


def test_a_piece_of_another_shape_is_refused() -> None:
    pieces: list[Json] = [5, {}, {"mapping": {"a": {}, "b": {}}}]
    for piece in pieces:
        with pytest.raises(InvalidMessage):
            chatgpt.parse(piece, "piece")


def test_messages_of_other_formats_become_a_conversation() -> None:
    content = written("chatgpt", foreign_messages()).encode()
    imported = import_bytes("chatgpt", content, "conversations.json")
    assert not imported.problems
    messages = imported.only()[1:]
    assert [message.role for message in messages] == [
        *("system", "user", "user", "assistant", "assistant", "assistant", "tool", "assistant"),
    ]
    assert messages[2].kind == "injection"
    assert messages[5].tool_calls[0].arguments == {"day": "today"}
    assert messages[6].tool_results[0].call_id == messages[5].tool_calls[0].id
    assert chatgpt.detect(content, "conversations.json")
