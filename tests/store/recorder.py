"""A process that records on command, for tests.

It says `ready`; for each line `[file, session, turns]` on standard input it opens the file anew, records so many
turns, and answers with the numbers they got, or with the error that stopped it.
"""

import json
import sys

import foveate.store.sqlite
import foveate.sync
from foveate.errors import FoveateError
from foveate.tokens import count_tokens


def answer(path: str, session_id: str, turns: int) -> list[int] | str:
    try:
        with foveate.sync.open(path) as fov:
            session = fov.session(session_id)
            return [session.record(make_turn(session_id, number)).number for number in range(1, turns + 1)]
    except FoveateError as error:
        return f"{type(error).__name__}: {error}"


def make_turn(session_id: str, number: int) -> list[dict[str, str]]:
    prompt = {"role": "user", "content": f"{session_id} prompt {number}"}
    return [prompt, {"role": "assistant", "content": f"{session_id} answer {number}"}]


def main() -> None:
    count_tokens("loads the vocabulary")
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
