"""A process that was forked while a store was open: the parent's handle says what to do, a handle of its own works."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore")
import foveate.sync
from foveate.errors import StoreClosed

fov = foveate.sync.open(sys.argv[1])
session = fov.session("s")
session.record({"role": "user", "content": "from the parent"})
child = os.fork()
if child == 0:
    code = 1
    try:
        for use in (fov.sessions, lambda: session.record({"role": "user", "content": "lost"}),
                    lambda: asyncio.run(fov._wrapped.sessions())):
            try:
                use()
            except StoreClosed as error:
                print(error)
        fov.close()
        with foveate.sync.open(sys.argv[1]) as own:
            own.session("s").record({"role": "user", "content": "from the child"})
        code = 0
    finally:
        sys.stdout.flush()
        os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
session.record({"role": "user", "content": "from the parent again"})
print([turn.messages[0].text for turn in session.load_turns()])
fov.close()
"""


def test_a_forked_process_gets_a_clear_error_and_can_open_the_store_again(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "chat.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    *errors, turns = done.stdout.splitlines()
    assert len(errors) == 3
    assert all("open it again in this one" in error for error in errors)
    assert turns == "['from the parent', 'from the child', 'from the parent again']"
