"""Conversion of values for PostgreSQL: the shared schema has numbers, texts and bytes."""

from __future__ import annotations

import psycopg
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper, NumericBinaryLoader

ESCAPE = "\ufdd0"
"""A code point that no text uses. PostgreSQL's texts can't hold U+0000, which is stored as this one and `0`."""


class _TextDumper(Dumper):
    oid = psycopg.postgres.types["text"].oid

    def dump(self, obj: str) -> bytes:
        if "\0" in obj or ESCAPE in obj:
            obj = obj.replace(ESCAPE, ESCAPE + "1").replace("\0", ESCAPE + "0")
        return obj.encode()


class _TextLoader(Loader):
    format = Format.BINARY

    def load(self, data: bytes | bytearray | memoryview) -> str:
        text = str(data, "utf-8")
        return text.replace(ESCAPE + "0", "\0").replace(ESCAPE + "1", ESCAPE) if ESCAPE in text else text


class _SumLoader(NumericBinaryLoader):
    """Loads the sum of integers, a `numeric` in PostgreSQL."""

    def load(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        return int(super().load(data))


class _FlagDumper(Int8BinaryDumper):
    """Dumps flags as numbers, as in the shared schema."""

    def dump(self, obj: int) -> bytes | bytearray | memoryview | None:
        return super().dump(int(obj))


def adapters_map() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(str, _TextDumper)
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(bool, _FlagDumper)
    adapters.register_loader("text", _TextLoader)
    adapters.register_loader("numeric", _SumLoader)
    return adapters
