"""`/cabinet`: full tool results and fetched pages, by key."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.api.page import ItemList
from foveate.session.cabinet import CabinetEntry, Excerpt

routes = Endpoints("cabinet")


class CabinetList(ItemList[CabinetEntry], frozen=True):
    """Keys that have not expired, newest first."""


class LinesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The range of lines."""

    first_line: Annotated[int, Meta(ge=1)] = 1
    lines: Annotated[int, Meta(ge=1, le=10_000)] = 200


class CabinetPruneBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a prune."""

    dry_run: bool = False
    """Only report what would be removed."""


@routes.add("GET", "/cabinet", right="read")
async def list_cabinet(call: Call) -> CabinetList:
    """List the keys of the file cabinet."""
    return CabinetList(items=list(await call.view.cabinet.list()))


@routes.add("GET", "/cabinet/{file}", right="read")
async def get_cabinet_entry(call: Call, file: str) -> CabinetEntry:
    """Get the metadata of a key; 404 says when an expired key ended, and how to get its content again."""
    return await call.view.cabinet.entry(file)


@routes.add("GET", "/cabinet/{file}/lines", right="read")
async def read_cabinet_lines(call: Call, file: str, query: LinesQuery) -> Excerpt:
    """Read lines of a text. A line of more than 1,000 characters counts as several."""
    return await call.view.cabinet.excerpt(file, query.first_line, query.lines)


@routes.add("GET", "/cabinet/{file}/content", right="read", media="application/octet-stream")
async def get_cabinet_content(call: Call, file: str) -> bytes:
    """Get the full content, byte for byte."""
    content = await call.view.cabinet.content(file)
    # A browser must never display a stored page as one of this server.
    headers = {"content-disposition": "attachment", "x-content-type-options": "nosniff"}
    return Response(content, media_type="application/octet-stream", headers=headers)  # type: ignore[return-value]


@routes.add("POST", "/cabinet/prune", right="write")
async def prune_cabinet(call: Call, body: CabinetPruneBody) -> CabinetList:
    """Remove expired keys, and content that no turn refers to."""
    return CabinetList(items=list(await call.view.cabinet.prune(dry_run=body.dry_run)))
