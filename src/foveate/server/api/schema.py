"""The OpenAPI 3.1 document, generated from the declarations of the endpoints."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

import foveate
from foveate.server.api.endpoint import BASE, IDEMPOTENCY_KEY, JSON, KEY_PATTERN, MAX_KEY_CHARS, Endpoint
from foveate.server.problems import MEDIA_TYPE, Problem

REF = "#/components/schemas/{name}"
DESCRIPTION = """Sessions, turns, contexts and search of a Foveate store.

Errors are problem details (RFC 9457). Pass `next_cursor` of a list as `cursor` to get its next page. A write that is
repeated with the same `Idempotency-Key` gets the same response and is not executed again. Bodies may be compressed
with gzip or zstd."""


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI document."""
    kinds: list[Any] = [Problem]
    for endpoint in endpoints:
        kinds += [kind for kind in (endpoint.query, endpoint.body, endpoint.answer) if kind not in (None, str)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REF)
    of_kind = {_key(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    queries = {endpoint.query.__name__ for endpoint in endpoints if endpoint.query}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, of_kind, components)
        paths.setdefault(f"{BASE}{endpoint.path}", {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Foveate", "version": foveate.__version__, "description": DESCRIPTION},
        "security": [{"key": []}, {"keyHeader": []}, {}],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in queries},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key of 'foveate keys create'."},
                "keyHeader": {"type": "apiKey", "in": "header", "name": "X-Foveate-Key"},
            },
        },
    }


def _operation(endpoint: Endpoint, of_kind: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    summary, _, more = endpoint.summary.partition("\n\n")
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "tags": [endpoint.tag],
        "summary": " ".join(summary.split()),
        "description": " ".join(f"{more} Needs the right `{endpoint.right}`.".split()),
        "x-right": endpoint.right,
        "parameters": _parameters(endpoint, components),
        "responses": {
            str(endpoint.status): _answer(endpoint, of_kind),
            "default": {"description": "A problem.", "content": {MEDIA_TYPE: {"schema": of_kind[_key(Problem)]}}},
        },
    }
    if endpoint.body:
        content = {JSON: {"schema": of_kind[_key(endpoint.body)]}}
        is_needed = bool(components[endpoint.body.__name__].get("required"))  # otherwise an empty body is "{}"
        operation["requestBody"] = {"required": is_needed, "content": content}
    elif endpoint.takes:
        content = {endpoint.takes: {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _answer(endpoint: Endpoint, of_kind: dict[str, Any]) -> dict[str, Any]:
    if endpoint.answer is None:
        return {"description": "Done."}
    is_text = endpoint.media != JSON
    schema = {"type": "string"} if is_text else of_kind[_key(endpoint.answer)]
    said = inspect.getdoc(endpoint.answer) if endpoint.answer is not str else None
    return {"description": (said or "Text.").partition("\n")[0], "content": {endpoint.media: {"schema": schema}}}


def _parameters(endpoint: Endpoint, components: dict[str, Any]) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in endpoint.parameters
    ]
    if endpoint.query:
        parameters += _query_parameters(endpoint.query, components)
    if endpoint.method != "GET":
        key = {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS, "pattern": KEY_PATTERN}
        parameters.append({"name": IDEMPOTENCY_KEY, "in": "header", "required": False, "schema": key})
    if endpoint.media == "text/event-stream":
        last = {"type": "string", "pattern": "^[0-9]{1,18}$"}
        parameters.append({"name": "last-event-id", "in": "header", "required": False, "schema": last})
    return parameters


def _query_parameters(query: type[Struct], components: dict[str, Any]) -> list[dict[str, Any]]:
    described = components[query.__name__]
    return [
        {"name": name, "in": "query", "required": name in described.get("required", ()), "schema": schema}
        for name, schema in described["properties"].items()
    ]


def _key(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
