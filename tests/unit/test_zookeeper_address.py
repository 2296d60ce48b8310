"""Addresses of ZooKeeper."""

from __future__ import annotations

import pytest

from penstock.coordination.address import ZooKeeperAddress, parse_zookeeper_address
from penstock.errors import InvalidUrl


def test_a_server_has_the_usual_port_unless_it_names_one() -> None:
    assert parse_zookeeper_address("zk").servers == "zk:2181"
    assert parse_zookeeper_address("zk:2182").servers == "zk:2182"
    assert parse_zookeeper_address("[::1]:2182").servers == "[::1]:2182"


def test_an_ensemble_may_have_a_folder() -> None:
    address = parse_zookeeper_address("a:1,b,c:3/prod/queues/")

    assert address == ZooKeeperAddress("a:1,b:2181,c:3", "/prod/queues")


def test_user_and_password_may_have_any_characters_and_are_not_shown() -> None:
    address = parse_zookeeper_address("zookeeper://me%40home:s%3Acret@zk/x")

    assert (address.username, address.password) == ("me@home", "s:cret")
    assert "cret" not in f"{address} {address!r}"


def test_options_choose_sasl_and_tls() -> None:
    address = parse_zookeeper_address(
        "zookeeper://u:p@zk?auth=sasl&tls=on&ca=/ca.pem&cert=/c.pem&key=/k.pem"
    )

    assert address.uses_sasl
    assert address.uses_tls
    assert (address.ca, address.cert, address.key) == ("/ca.pem", "/c.pem", "/k.pem")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is not a server"),
        ("zk:0", "'zk:0' is not a server"),
        ("zk:70000", "'zk:70000' is not a server"),
        ("a,,b", "'' is not a server"),
        ("zk?tlss=on", "option 'tlss' of the ZooKeeper address is unknown"),
        ("zk?tls=yes", "tls is 'yes', which is neither on nor off"),
        ("zk?auth=none", "auth is 'none', which is neither digest nor sasl"),
    ],
)
def test_what_is_no_address_is_refused_with_the_forms_that_are(text: str, problem: str) -> None:
    with pytest.raises(InvalidUrl, match="use host:2181") as caught:
        parse_zookeeper_address(text)

    assert problem in str(caught.value)
