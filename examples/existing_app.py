"""An app that knows nothing of Foveate: it keeps its messages in a list and sends all of them each time.

    foveate serve --upstream https://api.openai.com
    OPENAI_BASE_URL=http://127.0.0.1:8484/v1 python existing_app.py

Behind the gateway the provider gets a context within the budget, however long the list becomes. Without it the app
works as before, until the window is full.
"""

from __future__ import annotations

import os
import sys

from openai import OpenAI

MODEL = os.environ.get("MODEL", "gpt-5-mini")


def main() -> None:
    client = OpenAI()
    messages = [{"role": "system", "content": "Answer in one sentence."}]
    for prompt in sys.stdin:
        messages.append({"role": "user", "content": prompt.strip()})
        reply = client.chat.completions.create(model=MODEL, messages=messages).choices[0].message.content
        messages.append({"role": "assistant", "content": reply})
        print(reply, flush=True)


if __name__ == "__main__":
    main()
