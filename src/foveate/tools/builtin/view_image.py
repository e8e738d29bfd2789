"""`view_image`: an image file for the model to see."""

from __future__ import annotations

import base64
from typing import Annotated

from foveate.formats.media_tokens import image_size
from foveate.tools.files import read_whole
from foveate.tools.tool import READ_ONLY, ToolError, ToolOutput, tool
from foveate.tools.workspace import Workspace
from foveate.turn import Attachment

MAX_IMAGE_BYTES = 3_750_000
"""5 MB in base64, which every provider accepts."""


@tool(annotations=READ_ONLY)
def view_image(workspace: Workspace, *, path: Annotated[str, "PNG, JPEG, GIF or WebP file"]) -> ToolOutput:
    """Look at an image file."""
    data = read_whole(workspace.path(path), path, workspace.settings.max_file_bytes)
    media_type = _media_type(data)
    if media_type is None:
        raise ToolError(f"{path} is not a PNG, JPEG, GIF or WebP image; read_file reads text")
    if len(data) > MAX_IMAGE_BYTES:
        raise ToolError(f"{path} has {len(data):,} bytes; images up to {MAX_IMAGE_BYTES:,} can be shown")
    encoded = base64.b64encode(data).decode("ascii")
    size = image_size(encoded)
    if size is None:
        raise ToolError(f"{path} is a damaged {media_type}: it has no width and height")
    shown = workspace.shown(workspace.path(path))
    text = f"{shown}: {media_type}, {size.width} x {size.height} pixels, {len(data):,} bytes\n"
    return ToolOutput(text, (Attachment("image", data=encoded, media_type=media_type, name=shown),))


def _media_type(data: bytes) -> str | None:
    """Detect the media type by the first bytes, regardless of the file's name."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None
