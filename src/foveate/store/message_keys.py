"""Keys of messages: a write whose key is known stores nothing. After an erasure a key is kept as a hash only.

A writer may choose a key from what it writes. The hash still recognises a repeated write, so that what was erased is
not stored again.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

HISTORY_PREFIX: Final = "g:"
"""Prefix of the keys under which the gateway records messages: hashes of a client's history."""
ERASED_PREFIX: Final = "erased:"
HASH_BYTES: Final = 16
_IS_HASH = re.compile(rf"(?:{HISTORY_PREFIX}|{ERASED_PREFIX})[0-9a-f]{{{2 * HASH_BYTES}}}")


def hashed(prefix: str, data: bytes) -> str:
    return prefix + hashlib.blake2b(data, digest_size=HASH_BYTES).hexdigest()


def erased_key(key: str) -> str:
    """Return what is kept of a key; one that is a hash stays as it is."""
    return key if _IS_HASH.fullmatch(key) else hashed(ERASED_PREFIX, key.encode("utf-8", "surrogatepass"))


def stored_forms(key: str) -> tuple[str, ...]:
    """Return the forms in which the message of a key may be stored: as it was given, and after an erasure."""
    return tuple(dict.fromkeys((key, erased_key(key))))
