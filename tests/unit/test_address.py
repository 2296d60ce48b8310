"""Store URLs: what they mean, and that no message repeats a password."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.connection.address import Address, Endpoint, parse_url
from penstock.connection.settings import Settings
from penstock.errors import InvalidUrl

LOCAL = (Endpoint("localhost", 6379),)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://", Address("single", LOCAL)),
        ("redis://localhost", Address("single", LOCAL)),
        ("redis://localhost:6379/0", Address("single", LOCAL)),
        ("valkey://localhost", Address("single", LOCAL)),
        ("redis://localhost/7", Address("single", LOCAL, db=7)),
        ("redis://localhost?db=7", Address("single", LOCAL, db=7)),
        ("redis://h:1", Address("single", (Endpoint("h", 1),))),
        ("redis://[::1]", Address("single", (Endpoint("::1", 6379),))),
        ("redis://[fe80::1]:7000", Address("single", (Endpoint("fe80::1", 7000),))),
        ("redis://u:p@[::1]:7000", Address("single", (Endpoint("::1", 7000),), 0, "u", "p")),
        ("redis://:p@localhost", Address("single", LOCAL, password="p")),
        ("redis://u@localhost", Address("single", LOCAL, username="u")),
        ("redis://u:@localhost", Address("single", LOCAL, username="u", password="")),
        ("redis://u:a@b@localhost", Address("single", LOCAL, username="u", password="a@b")),
        ("redis://u:a:b@localhost", Address("single", LOCAL, username="u", password="a:b")),
        ("rediss://localhost", Address("single", LOCAL, is_tls=True)),
        ("valkeys://localhost", Address("single", LOCAL, is_tls=True)),
        (
            "rediss://localhost?ca=/ca.pem&cert=/c.pem&key=/k.pem",
            Address("single", LOCAL, is_tls=True, ca="/ca.pem", cert="/c.pem", key="/k.pem"),
        ),
        ("unix:///run/redis.sock", Address("single", (Endpoint(path="/run/redis.sock"),))),
        ("unix:///a%20b?db=3", Address("single", (Endpoint(path="/a b"),), db=3)),
        ("unix:///a@b.sock", Address("single", (Endpoint(path="/a@b.sock"),))),
        (
            "unix://u:p%2F@/run/redis.sock",
            Address("single", (Endpoint(path="/run/redis.sock"),), 0, "u", "p/"),
        ),
        (
            "redis+sentinel://a,b:1/main/2",
            Address("sentinel", (Endpoint("a", 26379), Endpoint("b", 1)), 2, master="main"),
        ),
        (
            "valkeys+sentinel://a/main?sentinel_username=u&sentinel_password=p%40",
            Address(
                "sentinel",
                (Endpoint("a", 26379),),
                master="main",
                is_tls=True,
                sentinel_username="u",
                sentinel_password="p@",
            ),
        ),
        (
            "redis+cluster://a,b:1,[::1]:2",
            Address("cluster", (Endpoint("a", 6379), Endpoint("b", 1), Endpoint("::1", 2))),
        ),
    ],
)
def test_a_url_is_understood(url: str, address: Address) -> None:
    assert parse_url(url) == address


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "begins with ''; use redis://host:6379/0"),
        ("localhost:6379", "begins with 'localhost'"),
        ("http://localhost", "begins with 'http'"),
        ("redis+other://localhost", r"begins with 'redis\+other'"),
        ("unix+cluster:///a.sock", r"begins with 'unix\+cluster'"),
        ("redis://host:0", "the port 0; a port is a number from 1 to 65535"),
        ("redis://host:65536", "the port 65536"),
        ("redis://host:x", "a port that is not a number"),
        ("redis://host:", "a port that is not a number"),
        ("redis://::1", "write an IPv6 address in brackets"),
        ("redis://[::1", "cannot be understood"),
        ("redis://host/x", "names database 'x'; a database is a number"),
        ("redis://host/-1", "names database '-1'"),
        ("redis://host?db=1.5", "names database '1.5'"),
        ("redis://a,b", "names several servers; use redis"),
        ("redis+cluster://a/3", "a cluster has only database 0, not 3"),
        ("redis+sentinel://a", "needs the name of the master"),
        ("unix://", "a unix URL needs the absolute path of a socket"),
        ("unix://run/redis.sock", "a unix URL needs the absolute path"),
        ("redis://host?retries=3", "unknown option 'retries'; known are ca, cert, db, key"),
    ],
)
def test_a_url_that_makes_no_sense_is_refused_with_the_reason(url: str, message: str) -> None:
    with pytest.raises(InvalidUrl, match=message) as caught:
        parse_url(url)
    assert caught.value.code == "invalid_url"


def test_what_is_not_text_is_refused() -> None:
    with pytest.raises(InvalidUrl, match="the store URL is text, not bytes"):
        parse_url(b"redis://localhost")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:hunter2@host:port",
        "redis://user:hunter2@host:99999",
        "redis://user:hunter2@host/x",
        "redis://user:hunter2@host?nonsense=1",
        "redis://user:hunter2@a,b",
        "redis://user:hunter2@::1",
        "redis://user:hunter2@[::1",
        "redis://user:hunter2\u2100@host",
        "redis://user:hunter2/@host",
        "redis://user:/hunter2@host",
        "redis://user:hunter2#@host",
        "redis://user:#hunter2@host",
        "redis://user:hunter2?@host",
        "redis://user:?hunter2=1@host",
        "redis://user:[hunter2@host",
        "redis://user:x@hunter2/@host",
        "redis://:hunter2",
        "redis+cluster://user:hunter2@host/1",
        "redis+sentinel://user:hunter2@host",
        "unix://user:hunter2@host/path",
        "http://user:hunter2@host",
        "//user:hunter2@host",
        ":hunter2@host",
        "redis+sentinel://host/main?sentinel_password=hunter2&x=1",
        "redis+sentinel://host/main?sentinel_password=@hunter2",
    ],
)
def test_a_refusal_does_not_repeat_the_password(url: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        parse_url(url)
    assert "hunter2" not in str(caught.value)


SECRETS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n"), min_size=1, max_size=40
)


@given(user=SECRETS, password=SECRETS)
@example(user="a:b", password="@/#?%[]:&=+ ,")
@example(user="ü", password="\u2100\x00")
def test_any_user_and_password_can_be_written_in_a_url(user: str, password: str) -> None:
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"

    for url in (f"redis://{login}@host", f"unix://{login}@/a.sock", f"redis+cluster://{login}@a,b"):
        address = parse_url(url)

        assert (address.username, address.password) == (user, password)


@given(password=SECRETS)
def test_a_password_that_was_not_escaped_is_taken_as_it_is_or_refused_unseen(
    password: str,
) -> None:
    secret = f"hunter2{password}hunter3"
    try:
        address = parse_url(f"redis://user:{secret}@host")
    except InvalidUrl as error:
        assert "hunter" not in str(error)
    else:
        assert "hunter" not in str(address)
        assert address.endpoints == (Endpoint("host", 6379),)


def test_printing_an_address_shows_no_password() -> None:
    url = "redis+sentinel://user:hunter2@host/main?sentinel_password=hunter3"
    address = parse_url(url)

    for shown in (str(address), repr(address), repr(Settings(address)), f"{address.endpoints}"):
        assert "hunter" not in shown
    assert address.password == "hunter2"
    assert address.sentinel_password == "hunter3"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis://u:p@host:1/2", "host:1"),
        ("rediss://host", "host:6379 (TLS)"),
        ("redis://[::1]", "[::1]:6379"),
        ("unix:///a.sock", "/a.sock"),
        ("redis+sentinel://a,b/main", "sentinel a:26379,b:26379"),
        ("rediss+cluster://a,b:7", "cluster a:6379,b:7 (TLS)"),
    ],
)
def test_an_address_prints_as_people_write_it(url: str, text: str) -> None:
    assert str(parse_url(url)) == text


def test_certificates_that_cannot_be_read_are_reported_as_such() -> None:
    address = parse_url("rediss://host?ca=/nowhere/ca.pem")

    with pytest.raises(InvalidUrl, match="certificates named in the store URL cannot be used"):
        assert address.tls


def test_without_tls_no_certificates_are_needed() -> None:
    assert parse_url("redis://host?ca=/nowhere/ca.pem").tls is None
