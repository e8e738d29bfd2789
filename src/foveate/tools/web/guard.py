"""Check which addresses may be fetched: public ones, and hosts that the settings allow.

A name is resolved here, every address of it is checked, and the connection goes to a checked address. So a name that
resolves differently a moment later changes nothing.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

from foveate.tools.tool import ToolError, missing_extra

if TYPE_CHECKING:
    import httpx2

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolve a host name to addresses, as text."""
MAX_URL_CHARS = 4_000
PORTS = frozenset({80, 443, 8080, 8443})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NUMBER = re.compile(r"(?i)(?:\d+|0x[0-9a-f]*)$")
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")

_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
            "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
            "168.63.129.16/32",  # a public address that cloud machines use for an internal service
        ),
    )
)  # fmt: skip
_PUBLIC_V6 = IPv6Network("2000::/3")
_SPECIAL_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
"""Tunnels, which contain an IPv4 address, and documentation."""
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv4 addresses as name servers write them in networks with IPv6 only."""


@dataclass(frozen=True, slots=True)
class CheckedTarget:
    """A URL that may be fetched, and the addresses to connect to."""

    url: httpx2.URL
    addresses: tuple[str, ...]


def is_public(address: str) -> bool:
    """Check whether an address is public, including an IPv4 address inside an IPv6 one."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        if found.scope_id is not None:
            return False
        inner = found.ipv4_mapped
        if found in _TRANSLATED:
            inner = IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is None:
            return found in _PUBLIC_V6 and not any(found in network for network in _SPECIAL_V6)
        found = inner
    return not any(found in network for network in _SPECIAL_V4)


async def resolve(host: str, port: int) -> Sequence[str]:
    """Resolve a host by the system's resolver."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolError(f"the host {host} was not found: {error}") from None
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


async def check(given: str | httpx2.URL, allow_hosts: Sequence[str], resolver: Resolver = resolve) -> CheckedTarget:
    """Check a URL and return its target; `ToolError` names why it may not be fetched."""
    url = parse(given)
    host = url.host.lower().rstrip(".")
    port = url.port or _DEFAULT_PORTS[url.scheme]
    allowed = {entry.lower() for entry in allow_hosts}
    if f"{host}:{port}" in allowed:
        return CheckedTarget(url, tuple(await _addresses(host, port, resolver)))
    if port not in PORTS:
        raise ToolError(f"port {port} is not fetched; allowed: {', '.join(map(str, sorted(PORTS)))}")
    found = tuple(await _addresses(host, port, resolver))
    if host not in allowed and not all(map(is_public, found)):
        raise ToolError(
            f"{host} is not fetched: it has an address that is not public. "
            "A person can allow the host by the setting tools.web.allow_hosts"
        )
    return CheckedTarget(url, found)


def parse(given: str | httpx2.URL) -> httpx2.URL:
    """Parse a URL with the parser that is used to connect; `ToolError` for all but plain http and https."""
    try:
        import httpx2  # noqa: PLC0415 # of the extra `tools`
    except ImportError:
        raise missing_extra("fetch_url") from None
    text = str(given)
    if len(text) > MAX_URL_CHARS or _UNSAFE.search(text):
        raise ToolError("the URL has spaces, control characters or backslashes, or is too long")
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL as error:
        raise ToolError(f"the URL is invalid: {error}") from None
    if url.scheme not in _DEFAULT_PORTS:
        raise ToolError(f"only http and https URLs are fetched, not {url.scheme or 'relative'} ones")
    if url.userinfo or "@" in url.netloc.decode("ascii", "replace"):
        raise ToolError("a URL with a user name or password is not fetched")
    if not url.host or "%" in url.host:
        raise ToolError("the URL has no host, or one that is no name")
    _refuse_disguised(url.host)
    return url


def _refuse_disguised(host: str) -> None:
    """Reject numbers that some programs read as an address: decimal, octal, hexadecimal or shortened."""
    last = host.rstrip(".").rpartition(".")[2]
    if ":" in host or not _NUMBER.fullmatch(last):
        return
    try:
        IPv4Address(host)
    except ValueError:
        raise ToolError(f"{host} is not an address in its usual form of four decimal numbers") from None


async def _addresses(host: str, port: int, resolver: Resolver) -> Sequence[str]:
    try:
        return (str(ip_address(host)),)
    except ValueError:
        pass
    found = await resolver(host, port)
    if not found:
        raise ToolError(f"the host {host} has no address")
    return found
