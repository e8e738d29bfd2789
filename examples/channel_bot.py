"""A bot in many channels, as for Telegram or Slack: each channel is a conversation of topics that survives restarts.

    printf '{"chat": 7, "text": "How long do potatoes boil?"}\n' | python channel_bot.py

Reads updates as JSON lines from standard input and writes answers as JSON lines; replace both by the client of your
platform. Channels are answered at the same time; within one, messages wait for each other.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from openai import AsyncOpenAI

import foveate

MODEL = os.environ.get("MODEL", "gpt-5-mini")


async def answer(fov: foveate.Foveate, client: AsyncOpenAI, update: dict) -> None:
    channel, text = str(update["chat"]), update["text"]
    talk = await fov.conversation("telegram", channel, budget_tokens=8_000)  # strategy: topics
    if text == "/new":
        await talk.topics.seal_current_topic()
        return
    async with talk.turn(text) as turn:
        request = await turn.request("openai", model=MODEL, system="Answer briefly.", tools=False)
        reply = (await client.chat.completions.create(**request)).choices[0].message
        await turn.record(reply)
    print(json.dumps({"chat": update["chat"], "text": reply.content}), flush=True)


async def main() -> None:
    queues: dict[str, asyncio.Queue] = {}
    async with foveate.open("channels.db") as fov, AsyncOpenAI() as client:

        async def serve(queue: asyncio.Queue) -> None:
            while update := await queue.get():
                await answer(fov, client, update)

        async with asyncio.TaskGroup() as tasks:
            while line := await asyncio.to_thread(sys.stdin.readline):
                update = json.loads(line)
                channel = str(update["chat"])
                if channel not in queues:
                    queues[channel] = asyncio.Queue()
                    tasks.create_task(serve(queues[channel]))
                queues[channel].put_nowait(update)
            for queue in queues.values():
                queue.put_nowait(None)


if __name__ == "__main__":
    asyncio.run(main())
