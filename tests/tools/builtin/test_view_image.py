"""`view_image`: known by its bytes, within a size."""

from __future__ import annotations

import base64
from pathlib import Path

from foveate.tools.builtin.view_image import MAX_IMAGE_BYTES
from support.tooling import call, refusal

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)


def test_an_image_is_known_by_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_bytes(PIXEL)
    output = call(tmp_path, "view_image", path="plan.txt")
    assert output.text == "plan.txt: image/png, 1 x 1 pixels, 70 bytes\n"
    (image,) = output.attachments
    assert base64.b64decode(image.data or "") == PIXEL
    assert (image.media, image.media_type) == ("image", "image/png")


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("text")
    (tmp_path / "cut.png").write_bytes(PIXEL[:12])
    (tmp_path / "large.png").write_bytes(PIXEL + b"\0" * MAX_IMAGE_BYTES)
    assert "is not a PNG, JPEG, GIF or WebP image" in refusal(tmp_path, "view_image", path="a.png")
    assert "damaged image/png" in refusal(tmp_path, "view_image", path="cut.png")
    assert "can be shown" in refusal(tmp_path, "view_image", path="large.png")
