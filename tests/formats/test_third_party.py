"""A third party's format: one module and one line of metadata, and it is there."""

import os
import subprocess
import sys
from pathlib import Path

MODULE = '''
"""Lines such as `ada> hello`, from a program nobody has heard of."""

from foveate.formats import SessionHeader, TranscriptMessage, TranscriptProblem, parse_message
from foveate.turn import Message, Text


def detect(head, name):
    return name.endswith(".irc")


def read(stream, name):
    yield SessionHeader(name, title="A chat")
    for number, raw in enumerate(stream, 1):
        line = raw.decode()
        if "> " not in line:
            yield TranscriptProblem(f"line {number}", "nobody said this")
            continue
        yield TranscriptMessage(name, f"{number}", parse_message("irc-log", line), f"line {number}")


def parse(data, path):
    who, _, text = data.rstrip("\\n").partition("> ")
    return Message("assistant" if who == "bot" else "user", (Text(text),), name=who)


def write(messages):
    for message in messages:
        yield message.original.data
'''
PROGRAM = """
import sys
import foveate.sync as foveate
from foveate import formats

assert "irc-log" in formats.names(), formats.names()
with foveate.open("chat.db") as fov:
    report = fov.import_file("talk.irc")
    assert (report.format, report.added, len(report.problems)) == ("irc-log", 3, 1), report
    session = fov.open_session("talk.irc")
    assert "".join(session.export("irc-log")) == "ada> hello\\nbot> hi\\nada> bye\\n"
    assert session.stats().turns == 2
"""


def test_a_registered_format_is_detected_imported_and_exported(tmp_path: Path) -> None:
    package = tmp_path / "site"
    metadata = package / "irc_log-1.0.dist-info"
    metadata.mkdir(parents=True)
    (package / "irc_log.py").write_text(MODULE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: irc-log\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[foveate.formats]\nirc-log = irc_log\n")
    (tmp_path / "talk.irc").write_text("ada> hello\nbot> hi\n* someone left\nada> bye\n")
    environment = {**os.environ, "PYTHONPATH": str(package)}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
