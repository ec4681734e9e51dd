from __future__ import annotations

from ipaddress import ip_address

import pytest

from controlplane.lib.addresses import AddressPolicy, is_public

INTERNAL = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1"),
    *("169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1"),
    *("192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1"),
    *("255.255.255.255", "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:7f00:1"),
    *("64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1"),
    *("2002:7f00:1::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1"),
]


@pytest.mark.parametrize("address", INTERNAL)
def test_internal(address: str) -> None:
    assert not is_public(ip_address(address))
    assert not AddressPolicy().permits(ip_address(address), host="example.org", port=443)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"]
)
def test_public(address: str) -> None:
    assert is_public(ip_address(address))
    assert AddressPolicy().permits(ip_address(address), host="example.org", port=443)


def permits(policy: AddressPolicy, address: str, host: str = "x.test", port: int = 80) -> bool:
    return policy.permits(ip_address(address), host=host, port=port)


def test_networks_of_the_operator() -> None:
    policy = AddressPolicy(["10.0.0.0/8", "::1", "fd00::/8"])
    assert permits(policy, "10.1.2.3")
    assert permits(policy, "::1")
    assert permits(policy, "::ffff:10.1.2.3")
    assert not permits(policy, "192.168.0.1")
    assert not permits(policy, "127.0.0.1")


def test_a_wide_network_does_not_open_the_metadata_service() -> None:
    policy = AddressPolicy(["0.0.0.0/0", "::/0"])
    assert permits(policy, "127.0.0.1")
    for address in ("169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "100.100.100.200"):
        assert not permits(policy, address)
    assert permits(AddressPolicy(["169.254.169.254/32"]), "169.254.169.254")


def test_places_of_the_operator() -> None:
    policy = AddressPolicy(["Wiki.Internal:8080", "[::1]:9000", "127.0.0.1:7000"])
    assert permits(policy, "10.0.0.1", "wiki.internal", 8080)
    assert permits(policy, "10.0.0.1", "WIKI.internal.", 8080)
    assert not permits(policy, "10.0.0.1", "wiki.internal", 80)
    assert not permits(policy, "10.0.0.1", "other.internal", 8080)
    assert permits(policy, "::1", "::1", 9000)
    assert permits(policy, "127.0.0.1", "127.0.0.1", 7000)
    assert not permits(policy, "127.0.0.1", "localhost", 7000)


def test_a_scoped_address_is_refused() -> None:
    assert not permits(AddressPolicy(["fe80::/10"]), "fe80::1%eth0")


@pytest.mark.parametrize("entry", ["", "localhost", "10.0.0.1/8", "host:0", "host:70000", "http://host:80", "*"])
def test_a_wrong_entry_is_named(entry: str) -> None:
    with pytest.raises(ValueError, match=r"neither a network|port is not"):
        AddressPolicy([entry])
