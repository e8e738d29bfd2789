"""A support bot that remembers a customer's earlier tickets.

    python support_bot.py CUSTOMER "My router drops the connection again."

Each ticket is a session of its own. All tickets of a customer share a scope, so a new one recalls what the others say,
and nothing of other customers.
"""

from __future__ import annotations

import os
import sys
import time

from openai import OpenAI

import foveate.sync as foveate

MODEL = os.environ.get("MODEL", "gpt-5-mini")
RULES = "You are the support of Harbour Net. Never promise a refund. Ask for the model of a device before you advise."


def main() -> None:
    customer, prompt = sys.argv[1], " ".join(sys.argv[2:])
    with foveate.open("support.db") as fov:
        ticket = f"{customer}-{time.time_ns()}"
        chat = fov.session(ticket, scope=f"user:{customer}", budget_tokens=8_000, model=MODEL)
        chat.pin("Sign every answer with: Your Harbour Net team", locked=True)  # verbatim in every context
        with chat.turn(prompt) as turn:
            request = turn.request("openai", model=MODEL, system=RULES, tools=False)
            reply = OpenAI().chat.completions.create(**request).choices[0].message
            turn.record(reply)
        print(reply.content)


if __name__ == "__main__":
    main()
