"""The picture of a request as it was sent: the same as that of the context it was made from."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foveate.client import Foveate
from foveate.session.picture import picture_of
from foveate.session.sent import SentRequest
from foveate.session.values import Context
from support.gateway import HEADERS, LONG, gateway
from support.servers import call
from support.upstream import Upstream, say

from foveate.server.gateway import prepare


def without_texts(picture: Any) -> Any:
    return replace(picture, parts=tuple(replace(part, text="") for part in picture.parts), ticks=())
