"""Makes small fixtures of what `run.py record` recorded: each client's requests, without the texts of its maker.

python bench/clients/fixtures.py RECORDED tests/fixtures/clients

Long strings are cut to their beginning and a hash, so that what changes between two requests still differs. Of system
prompts and tool definitions only the names and sizes are kept.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

MAX_CHARS = 160
MAX_OWN_CHARS = 300
KEPT_CHARS = 60
OWN = re.compile(r"Scripted answer|\[\[call|4711|hello|And in this branch|What did the tool|And what is the code")
"""What our own prompts and answers say."""
FOLDERS = re.compile(r"/(?:dev/shm|tmp)/[\w./-]*/(home|work)")
CLOSING = re.compile(r"</[\w-]+>\s*\Z")
IDS = re.compile(r'((?:device_id|installation_id|account_uuid)\\*": ?\\*")[^"\\]+')


PURPOSE = re.compile(
    r"\b(?:generat|writ|creat)\w*\b[^.\n]{0,50}\b(?:title|summary of the conversation)\b", re.IGNORECASE
)
"""A few words by which a call for a title or a summary is known."""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def cut(value: Any) -> Any:
    """A value of a message, with long strings cut."""
    if isinstance(value, dict):
        return {key: cut(one) for key, one in value.items()}
    if isinstance(value, list):
        return [cut(one) for one in value]
    if not isinstance(value, str):
        return value
    text = IDS.sub(r"\1cut", FOLDERS.sub(r"/\1", value))
    is_own = OWN.search(text[:MAX_CHARS])
    if len(text) <= (MAX_OWN_CHARS if is_own else MAX_CHARS):
        return text
    closing = CLOSING.search(text)
    kept = text[: MAX_CHARS if is_own else KEPT_CHARS]
    return f"{kept}[cut {digest(value)}{purpose(text)}]{closing[0] if closing else ''}"


def purpose(text: str) -> str:
    found = PURPOSE.search(text, KEPT_CHARS)
    return f": {found[0]}" if found else ""


def cut_system(value: Any) -> Any:
    """A system prompt: short blocks as they are, others as a placeholder."""
    if isinstance(value, str):
        return value if len(value) <= MAX_CHARS else f"[system prompt {digest(value)}{purpose(value)}]"
    if isinstance(value, list):
        return [{**one, "text": cut_system(one["text"])} if "text" in one else one for one in value]
    if isinstance(value, dict):
        return {**value, "parts": cut_system(value.get("parts", []))}
    return value


def cut_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """The name of a tool, with an empty schema where its format has one."""
    if "function" in tool:
        return {"type": "function", "function": {"name": tool["function"]["name"], "parameters": {"type": "object"}}}
    if "functionDeclarations" in tool:
        return {"functionDeclarations": [{"name": one["name"]} for one in tool["functionDeclarations"]]}
    kept: dict[str, Any] = {key: tool[key] for key in ("type", "name") if key in tool}
    for key in ("input_schema", "parameters"):
        if key in tool:
            kept[key] = {"type": "object"}
    return kept


def reduce(entry: dict[str, Any]) -> dict[str, Any]:
    """One request as a fixture has it."""
    body: dict[str, Any] = {}
    for key, value in entry["body"].items():
        if key in ("system", "instructions", "systemInstruction"):
            body[key] = cut_system(value)
        elif key == "tools":
            body[key] = [cut_tool(tool) for tool in value]
        elif key in ("metadata", "client_metadata"):
            body[key] = json.loads(IDS.sub(r"\1cut", json.dumps(value)))
        elif key == "messages":
            body[key] = [{**cut(one), **_system(one)} for one in value]
        else:
            body[key] = cut(value)
    headers = {key: IDS.sub(r"\1cut", value) for key, value in entry["headers"].items()}
    return {"path": entry["path"], "headers": headers, "body": body}


def _system(message: dict[str, Any]) -> dict[str, Any]:
    is_prompt = message.get("role") in ("system", "developer")
    return {"content": cut_system(message["content"])} if is_prompt else {}


def main(recorded: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(recorded.glob("*.jsonl")):
        entries = [entry for line in path.read_text("utf-8").splitlines() if (entry := json.loads(line))["format"]]
        if not entries:
            continue
        lines = ",\n".join(json.dumps(reduce(entry), ensure_ascii=False) for entry in entries)
        text = f'{{"client": "{path.stem}", "format": "{entries[0]["format"]}", "requests": [\n{lines}\n]}}'
        (out / f"{path.stem}.json").write_text(f"{text}\n", "utf-8")
        print(f"{path.stem}: {len(entries)} requests, {len(text):,} characters")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
