"""Writes `docs/reference/library.md` from signatures and docstrings: `python tests/support/reference_page.py`."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from support.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "library.md"
WIDTH = 90
HEAD = """# Library reference

Written by `python tests/support/reference_page.py` from the signatures and docstrings.

`import foveate` is the asynchronous library. `import foveate.sync as foveate` has the same names, blocking:
leave out `await` and `async`. Everything else is internal and may change.
"""


@dataclass(frozen=True, slots=True)
class Chapter:
    """Some public names of one module, under a heading."""

    title: str
    module: str
    names: tuple[str, ...]


CHAPTERS = (
    Chapter("Opening a store", "foveate", ("open", "load_settings")),
    Chapter("Clients of providers", "foveate", ("wrap",)),
    Chapter("The store", "foveate.client", ("Foveate",)),
    Chapter("A session", "foveate.session", ("Session",)),
    Chapter("One prompt and its answer", "foveate.session.exchange", ("Exchange",)),
    Chapter("Keys of the server", "foveate.session.keys", ("Keys", "KeyInfo", "NewKey")),
    Chapter("File cabinet", "foveate.session.cabinet", ("Cabinet", "CabinetEntry", "Excerpt")),
    Chapter("Memory of a scope", "foveate.session.memory", ("Memory",)),
    Chapter("Prompts", "foveate.session.prompts", ("Prompts", "PromptInfo")),
    Chapter("Knowledge", "foveate.session.knowledge", ("Knowledge", "KnowledgeItem", "KnowledgeDraft", "LearningRun")),
    Chapter("Goals", "foveate.session.goals", ("Goals",)),
    Chapter("Checkpoints", "foveate.session.checkpoints", ("Checkpoints", "CheckpointInfo", "CheckpointStatus")),
    Chapter("Documents", "foveate.session.documents", ("Documents",)),
    Chapter("Files", "foveate.session.files", ("Files", "TrackedFiles")),
    Chapter("Topics", "foveate.session.topics", ("SessionTopics", "TopicsContext", "TopicsHistory")),
    Chapter("A context", "foveate.context.context", ("Context", "Segment", "PlanReport", "LevelChange")),
    Chapter(
        "Values",
        "foveate.session.values",
        ("SessionInfo", "RecordedTurn", "TurnContent", "TurnOutline", "Pin", "SessionStats"),
    ),
    Chapter("Search results", "foveate.recall.search", ("Hit",)),
    Chapter("Imports", "foveate.importer", ("ImportReport",)),
    Chapter("Events", "foveate.events", ("Event", "Subscription")),
    Chapter(
        "Messages and turns",
        "foveate.turn",
        ("Message", "Text", "Reasoning", "Attachment", "ToolCall", "ToolResult", "Opaque", "Usage", "Turn"),
    ),
    Chapter("A chat with a model", "foveate.agents.chat", ("Chat",)),
    Chapter("Options of a chat or a run", "foveate.agents.options", ("ChatOptions",)),
    Chapter("Writing a strategy", "foveate.strategy", ("Strategy",)),
    Chapter("Artefacts of a strategy", "foveate.strategy.build", ("ArtefactKind", "Wording", "Material")),
    Chapter(
        "What a strategy sees and returns",
        "foveate.plan",
        ("Snapshot", "Ledger", "Plan", "Block", "ArtefactSpec", "KeptPlan", "NotRead"),
    ),
    Chapter("Writing a tool compressor", "foveate.compress.tools", ("ToolCompressor", "register", "unregister")),
    Chapter("Writing a format", "foveate.formats", ("MessageFormat", "TranscriptFormat")),
)


def generate() -> str:
    """The page as it should be."""
    sections = [section for chapter in CHAPTERS for section in _chapter(chapter)]
    return "\n".join([HEAD, *sections, *_errors()])


def _chapter(chapter: Chapter) -> Iterator[str]:
    yield f"## {chapter.title}\n"
    module = importlib.import_module(chapter.module)
    for name in chapter.names:
        member = getattr(module, name)
        yield from _class(name, member) if inspect.isclass(member) else _function(name, member, 3)


def _class(name: str, kind: type) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"`{kind.__module__}.{kind.__qualname__}`\n"
    yield f"{_doc(kind)}\n"
    if fields := list(_fields(kind)):
        yield "\n".join(fields) + "\n"
    for owner in reversed(kind.__mro__):
        if owner.__module__.startswith("foveate"):
            for member_name, member in vars(owner).items():
                if not member_name.startswith("_"):
                    yield from _member(member_name, member)


def _member(name: str, member: object) -> Iterator[str]:
    if isinstance(member, property):
        yield f"#### {name}\n"
        yield f"{_doc(member)}\n"
    elif inspect.isfunction(member):
        yield from _function(name, member, 4)


def _function(name: str, function: object, depth: int) -> Iterator[str]:
    assert callable(function)
    word = "async def" if inspect.iscoroutinefunction(function) else "def"
    yield f"{'#' * depth} {name}\n"
    yield f"```python\n{word} {name}{_signature(inspect.signature(function))}\n```\n"
    yield f"{_doc(function)}\n"


def _signature(signature: inspect.Signature) -> str:
    """As it is written in the source: on one line if that fits, else a parameter a line."""
    shown: list[str] = []
    is_keyword = False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            shown.append("*")
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
        is_keyword = is_keyword or parameter.kind is parameter.VAR_POSITIONAL
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        shown.append(f"{stars}{parameter.name}: {parameter.annotation}{default}")
    line = f"({', '.join(shown)}) -> {signature.return_annotation}"
    if len(line) <= WIDTH:
        return line
    lines = "".join(f"    {parameter},\n" for parameter in shown)
    return f"(\n{lines}) -> {signature.return_annotation}"


def _fields(kind: type) -> Iterator[str]:
    """The fields of a value, each with the docstring under it."""
    for owner in reversed(kind.__mro__):
        if owner.__module__.startswith("foveate") and _is_value(owner):
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
            assert isinstance(definition, ast.ClassDef)
            for field, below in zip(definition.body, [*definition.body[1:], None], strict=True):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(name), annotation=hint), _ if not name.startswith("_"):
                        match below:
                            case ast.Expr(ast.Constant(str(text))):
                                said = f": {' '.join(text.split())}"
                            case _:
                                said = ""
                        yield f"- `{name}: {ast.unparse(hint)}`{said}"


def _is_value(kind: type) -> bool:
    return "__dataclass_fields__" in vars(kind) or issubclass(kind, msgspec.Struct)


def _errors() -> Iterator[str]:
    """The tree of errors."""
    errors = importlib.import_module("foveate.errors")
    first, _, tree = _doc(errors).partition("\n\n")
    drawn, _, after = tree.partition("\n\n")
    yield "## Errors\n"
    yield f"{first}\n\n```text\n{drawn}\n```\n\n{after}\n"


def _doc(member: object) -> str:
    text = inspect.getdoc(member)
    assert text, f"{member} is public and has no docstring"
    return text


if __name__ == "__main__":
    PAGE.write_text(generate(), "utf-8")
