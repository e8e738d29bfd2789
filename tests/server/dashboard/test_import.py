"""The import page: it names every accepted format and where its files are, and reads what Foveate exports."""

from __future__ import annotations

import re
from pathlib import Path

from foveate.connections.watch import SOURCES
from foveate.formats import transcript_formats
from support.servers import client_of


def test_every_accepted_format_is_named_with_the_place_of_its_files(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        text = client.get("/ui/import").text
    listed = dict(re.findall(r"<dt><code>([^<]+)</code></dt><dd>(.*?)</dd>", text, re.DOTALL))
    assert listed.keys() == transcript_formats().keys()
    assert len(listed) == 16
    assert f">{len(listed)} formats<" in text
    for name, described in listed.items():
        assert len(described) > 40, name
    for patterns in SOURCES.values():
        folder = "/".join(patterns[0].split("/")[:2])
        assert any(f"~/{folder}" in described for described in listed.values()), folder


def test_messages_that_foveate_exported_are_imported(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "Which port?"}, {"role": "assistant", "content": "8443."}]
    with client_of(tmp_path / "a.db") as client:
        client.post("/api/v1/sessions", json={"id": "work"})
        client.post("/api/v1/sessions/work/turns", json={"messages": said})
        exported = client.get("/ui/sessions/work/export?format=foveate").content
    with client_of(tmp_path / "b.db") as client:
        page = client.post("/ui/import", files={"file": ("work.json", exported)}).text
        assert "2 of 2 messages are new" in page
        assert "16 formats" in page
