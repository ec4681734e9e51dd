"""Which network addresses the plane may call on behalf of tenants: public ones, and what the operator allows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Written out, because what `is_global` says has changed between Python releases.
_INTERNAL: Final[tuple[Network, ...]] = tuple(
    ip_network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "::/96",  # unspecified, loopback, IPv4-compatible
        "::ffff:0:0/96",  # IPv4-mapped
        "::ffff:0:0:0/96",  # IPv4-translated
        *("64:ff9b::/96", "64:ff9b:1::/48"),  # NAT64 leads to IPv4 addresses that were not looked at
        *("100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16"),
        *("fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
    )
)
# Cloud credentials are served here; a wide network in the allowlist does not open them.
_METADATA: Final = frozenset(
    ip_address(address) for address in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254")
)
_HOST_PORT: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


def is_public(address: Address) -> bool:
    """Say whether this address belongs to somebody on the open internet."""
    return address.is_global and not any(address in network for network in _INTERNAL)


class AddressPolicy:
    """Public addresses, and those the operator's allowlist names: networks (10.0.0.0/8) and places (host:port)."""

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self._networks: list[Network] = []
        self._places: set[tuple[str, int]] = set()
        for entry in allow:
            self._add(entry.strip())

    def permits(self, address: Address, *, host: str, port: int) -> bool:
        """Say whether a connection to this address, asked for under this host and port, may be made."""
        if (host.lower().rstrip("."), port) in self._places:
            return True
        if getattr(address, "scope_id", None):
            return False
        if is_public(address):
            return True
        address = getattr(address, "ipv4_mapped", None) or address
        return any(
            address in network and (network.num_addresses == 1 or address not in _METADATA)
            for network in self._networks
        )

    def _add(self, entry: str) -> None:
        if place := _HOST_PORT.fullmatch(entry):
            if not 1 <= int(place[2]) <= 65535:
                raise ValueError(f"{entry}: the port is not between 1 and 65535")
            self._places.add((place[1].strip("[]").lower().rstrip("."), int(place[2])))
            return
        try:
            self._networks.append(ip_network(entry))
        except ValueError as error:
            raise ValueError(f"{entry!r} is neither a network (10.0.0.0/8) nor host:port: {error}") from None
