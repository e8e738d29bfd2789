"""Writes the conversation of `foveate demo`: `python bench/make_demo.py`."""

from __future__ import annotations

from pathlib import Path

from conversation import make_conversation
from foveate import demo

TARGET = Path(demo.__file__).with_name(demo.FILE)

if __name__ == "__main__":
    TARGET.write_bytes(demo.pack(make_conversation(demo.MAX_TURNS)))
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")
