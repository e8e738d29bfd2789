"""What a prompt is shown of what was learned: the rules that hold, the passage that fits, and no secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path

from foveate import Foveate
from foveate.history.recalled import masked
from foveate.knowledge.run import learn
from foveate.recall.knowledge import fitting_passage
from foveate.recall.questions import asks_for_secret
from support.engine import with_store
from support.knowledge import record


async def asked(fov: Foveate, name: str, prompt: str) -> str:
    session = await fov.session(name, channel="shop")
    context = await session.context(prompt, tools=False)
    return str(context.request("openai")["messages"])


def test_the_first_prompt_of_a_new_session_gets_the_rules_of_its_project(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await record(fov, "a", "Never deploy on a Friday.", "anna is our dba")
        await learn(fov, "project:shop", quick=True)
        shown = await asked(fov, "b", "Good morning! Please add a test for the empty cart.")
        assert "Never deploy on a Friday." in shown
        assert "anna is our dba" in shown
        assert "Friday" not in await asked_elsewhere(fov)

    async def asked_elsewhere(fov: Foveate) -> str:
        session = await fov.session("c", channel="bakery")
        return str((await session.context("Good morning!", tools=False)).request("openai"))

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_long_reference_is_shown_with_the_passage_that_fits_the_prompt(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        filler = "\n".join(f"The column field_{number} of the warehouse table has a comment." for number in range(200))
        text = f"{filler}\nThe zeppelin importer needs the flag --helium to start.\n{filler}"
        await fov.knowledge.add("Importers of the warehouse", text, scope="project:shop")
        shown = await asked(fov, "b", "Which flag does the zeppelin importer of the warehouse need?")
        assert "--helium" in shown
        assert len(shown) < len(text)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_the_passage_is_whole_sentences_and_the_beginning_if_nothing_fits() -> None:
    text = "One is about apples. Two is about the pears in the cellar. Three is about plums."
    assert fitting_passage(text, "where are the pears", lambda part: len(part) < 50) == (
        "… Two is about the pears in the cellar. …"
    )
    assert fitting_passage(text, "zebra", lambda part: len(part) < 30) == "One is about apples. …"
    assert fitting_passage("x" * 500, "zebra", lambda part: len(part) < 100).endswith(" …")
    assert fitting_passage("", "zebra", lambda _: False) == ""


def test_a_secret_is_masked_when_it_is_recalled_unless_the_prompt_asks_for_it(tmp_path: Path) -> None:
    secret = "tulip-4711-orchid"

    async def job(fov: Foveate) -> None:
        await fov.knowledge.add("The printer", f"The printer's password is {secret}.", scope="project:shop")
        assert secret not in await asked(fov, "b", "Where is the printer of the office?")
        assert secret in await asked(fov, "c", "What is the password of the printer?")

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_every_kind_of_secret_is_masked_when_it_is_recalled() -> None:
    for text in (
        "my PIN is 4711",
        "sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc",
        "Passwort: geheim!23",
        "4111 1111 1111 1111",
        "The alarm code is 4 8 1 2.",
        "The padlock opens with 12-34-56.",
        "The login of the nas is Kx9!b2",
        "The door code is k7!x",
        "My mother's maiden name is Okonkwo.",
        "curl -u anna:tulpe https",
    ):
        assert masked(text) != text, text
    assert masked("Never deploy on a Friday.") == "Never deploy on a Friday."


def test_a_prompt_asks_for_a_secret_if_it_names_one() -> None:
    for prompt in (
        "what's the wifi password?",
        "Wie ist das Passwort?",
        "c'est quoi le mot de passe ?",
        "¿cuál es la clave?",
        "what's the gate code?",
        "What is the code for the alarm?",
        "what was the combination of my bike lock",
        "Wie lautet der Code für das Tor?",
        "c'est quoi le digicode ?",
        "¿cuál es el código de la puerta?",
        "what's the login for the nas?",
        "What was my mother's maiden name?",
    ):
        assert asks_for_secret(prompt), prompt
    for prompt in (
        "Where is the printer?",
        "Fix the code for the parser.",
        "The login page is slow.",
        "Who is at the door?",
    ):
        assert not asks_for_secret(prompt), prompt
