"""A fact that was asked for again and again is found before the questions and before earlier searches for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from foveate.client import Foveate
from foveate.turn import Message, Text, ToolCall, ToolResult
from support.engine import assistant, user, with_store

FACTS = (
    (
        "The harbour gate opens with the code 4471.",
        "code harbour gate",
        [
            "Which code opens the harbour gate?",
            "What do I type to get through the gate at the harbour?",
            "Remind me, the harbour gate code?",
        ],
    ),
    (
        "Our staging database runs on port 5544.",
        "port of the staging database",
        [
            "Which port does the staging database use?",
            "On what port is the database of staging?",
            "Staging database port again?",
        ],
    ),
    (
        "Anna Berg leads the billing team since March.",
        "who leads the billing team",
        ["Who leads the billing team?", "Who is the lead of billing now?", "Billing team: who is in charge?"],
    ),
    (
        "The invoice export breaks on umlauts in customer names.",
        "invoice export umlauts",
        [
            "Why does the invoice export break?",
            "What was it that breaks the export of invoices?",
            "Invoice export trouble, what was the cause?",
        ],
    ),
    (
        "We deploy to production on Tuesdays at 14:00 only.",
        "when do we deploy to production",
        ["When do we deploy to production?", "What day are production deploys?", "Production deploy time?"],
    ),
    (
        "The backup key is kept in vault folder ops/backup-7.",
        "where is the backup key",
        ["Where is the backup key kept?", "Which vault folder has the backup key?", "Backup key location?"],
    ),
    (
        "My daughter's violin teacher is called Mr Okafor.",
        "violin teacher name",
        ["What is the violin teacher called?", "Who teaches my daughter the violin?", "Name of the violin teacher?"],
    ),
    (
        "The parser module is being rewritten in Rust by Jonas.",
        "who rewrites the parser",
        [
            "Who rewrites the parser module?",
            "Which language is the parser rewritten in?",
            "Parser rewrite: who does it?",
        ],
    ),
    (
        "Retries are limited to 7 per request in the gateway.",
        "retries per request limit gateway",
        [
            "How many retries per request does the gateway allow?",
            "What is the limit of retries in the gateway?",
            "Gateway retries limit?",
        ],
    ),
    (
        "The customer Nordwind pays in Norwegian kroner.",
        "currency Nordwind pays",
        ["In which currency does Nordwind pay?", "What currency has the customer Nordwind?", "Nordwind currency?"],
    ),
    (
        "I am allergic to walnuts and sesame.",
        "allergic to what",
        ["What am I allergic to?", "Which foods am I allergic to?", "My allergies, what were they?"],
    ),
    (
        "The red bridge closes for repairs on 12 May.",
        "when does the red bridge close",
        ["When does the red bridge close?", "On which day are repairs of the red bridge?", "Red bridge closing date?"],
    ),
    (
        "Feature flag fast_search stays off for trial accounts.",
        "fast_search flag trial accounts",
        [
            "Is the flag fast_search on for trial accounts?",
            "What about fast_search and trial accounts?",
            "fast_search for trial accounts?",
        ],
    ),
    (
        "The old laptop has the serial number QX-88213.",
        "serial number of the old laptop",
        [
            "What is the serial number of the old laptop?",
            "Which serial number has my old laptop?",
            "Old laptop serial?",
        ],
    ),
    (
        "We chose Postgres over MySQL because of row security.",
        "why Postgres over MySQL",
        [
            "Why did we choose Postgres over MySQL?",
            "What was the reason for Postgres instead of MySQL?",
            "Postgres or MySQL, why?",
        ],
    ),
    (
        "The tide table is wrong by two hours in winter.",
        "tide table wrong winter",
        [
            "By how much is the tide table wrong in winter?",
            "What was wrong with the winter tide table?",
            "Tide table error in winter?",
        ],
    ),
    (
        "Our landlord wants the rent by the third of each month.",
        "rent due date landlord",
        ["When does the landlord want the rent?", "By which day is the rent due?", "Rent due date?"],
    ),
    (
        "The memory leak came from the unclosed websocket pool.",
        "cause of the memory leak",
        ["Where did the memory leak come from?", "What caused the memory leak?", "Memory leak cause?"],
    ),
    (
        "Meeting room Kepler fits nine people.",
        "how many people fit Kepler",
        [
            "How many people fit into meeting room Kepler?",
            "What is the capacity of Kepler?",
            "Room Kepler, how many people?",
        ],
    ),
    (
        "The API key of the weather service expires on 30 June.",
        "weather service API key expires",
        [
            "When does the API key of the weather service expire?",
            "Weather service key: expiry date?",
            "What day does the weather API key run out?",
        ],
    ),
)
"""A fact as the user states it, the query of a search for it, and three later questions in other words."""


async def ask_again_and_again(fov: Foveate) -> list[list[str]]:
    """For each fact, the turns that a search for it finds, by the library and by the tool."""
    session = await fov.session("s", budget_tokens=20_000)
    for fact, _, _ in FACTS:
        await session.record([user(fact), assistant("Noted.")])
    for place in range(3):
        for number, (fact, query, questions) in enumerate(FACTS, 1):
            call_id = f"c{place}-{number}"
            call = Message("assistant", (ToolCall("search_history", {"query": query}, id=call_id),))
            found = ToolResult(call_id, (Text(f"T-{number} · user: {fact}"),), name="search_history")
            await session.record([user(questions[place]), call, Message("tool", (found,)), assistant("Let me see.")])
    await fov.settle()
    orders: list[list[str]] = []
    for _, query, _ in FACTS:
        orders.append([hit.turn_id for hit in await session.search(query, 10)])
        told = await session.call_tool("search_history", {"query": query})
        orders.append([line.partition(" ")[0] for line in told.splitlines() if line.startswith("T-")])
    return orders


def test_a_fact_ranks_before_repeated_questions_and_earlier_searches(tmp_path: Path) -> None:
    orders = asyncio.run(with_store(tmp_path / "s.db", ask_again_and_again))
    wanted = [f"T-{number}" for number in range(1, len(FACTS) + 1) for _ in range(2)]
    assert [order[0] for order in orders] == wanted


@pytest.mark.parametrize("query", ["Which port does the staging database use?"])
def test_questions_are_still_found(tmp_path: Path, query: str) -> None:
    async def job(fov: Foveate) -> list[str]:
        session = await fov.session("s")
        await session.record([user(query), assistant("I don't know.")])
        await fov.settle()
        return [hit.text for hit in await session.search(query)]

    assert asyncio.run(with_store(tmp_path / "s.db", job)) == [query]
