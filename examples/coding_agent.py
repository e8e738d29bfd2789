"""A coding agent for one folder, with an endless conversation in 24,000 tokens.

    python coding_agent.py FOLDER "What does this project do?"

Run it again and again: it resumes the same conversation. Everything it read stays retrievable by turn id.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from openai import OpenAI

import foveate.sync as foveate

MODEL = os.environ.get("MODEL", "gpt-5-mini")
MAX_ROUNDS = 30
SYSTEM = "You are a careful programmer. Read before you write. Say what you changed."


def tool(name: str, description: str, **arguments: str) -> dict:
    properties = {argument: {"type": "string", "description": text} for argument, text in arguments.items()}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    tool("list_files", "List the files of the project.", pattern="Glob, e.g. **/*.py"),
    tool("read_file", "Read a text file.", path="Path within the project"),
    tool("write_file", "Replace a text file.", path="Path within the project", content="The whole new content"),
]


class Project:
    """The tools' view of a folder: nothing outside of it can be read or written."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def path(self, name: str) -> Path:
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root):
            raise ValueError(f"{name} is outside of the project")
        return path

    def call(self, name: str, arguments: dict[str, str]) -> str:
        match name:
            case "list_files":
                found = sorted(path for path in self.root.glob(arguments["pattern"]) if path.is_file())
                return "\n".join(str(path.relative_to(self.root)) for path in found[:500])
            case "read_file":
                return self.path(arguments["path"]).read_text("utf-8")
            case "write_file":
                path = self.path(arguments["path"])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(arguments["content"], "utf-8")
                return f"wrote {len(arguments['content'])} characters"
        raise ValueError(f"there is no tool {name}")


def run_call(project: Project, chat, name: str, arguments: str) -> str:
    """Answer a model's call: our own tools, else a history tool of Foveate."""
    if name not in {each["function"]["name"] for each in TOOLS}:
        return chat.call_tool(name, arguments)
    try:
        return project.call(name, json.loads(arguments))
    except (OSError, ValueError, KeyError) as error:  # the model reads what went wrong
        return f"Error: {error}"


def answer(client: OpenAI, chat, project: Project, prompt: str) -> str:
    with chat.turn(prompt) as turn:
        for _ in range(MAX_ROUNDS):
            request = turn.request("openai", model=MODEL, system=SYSTEM, extra_tools=TOOLS)
            reply = client.chat.completions.create(**request).choices[0].message
            turn.record(reply)
            if not reply.tool_calls:
                return reply.content or ""
            for each in reply.tool_calls:
                result = run_call(project, chat, each.function.name, each.function.arguments)
                turn.record({"role": "tool", "tool_call_id": each.id, "content": result})
    return f"No answer after {MAX_ROUNDS} rounds."


def main() -> None:
    folder, prompt = Path(sys.argv[1]), " ".join(sys.argv[2:])
    with foveate.open("coding_agent.db") as fov:
        chat = fov.session(f"agent-{folder.resolve().name}", budget_tokens=24_000, model=MODEL)
        print(answer(OpenAI(), chat, Project(folder), prompt))


if __name__ == "__main__":
    main()
