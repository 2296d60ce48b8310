"""A ZooKeeper that wants to know who comes: passwords of both kinds, and TLS."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from penstock.coordination.address import parse_zookeeper_address
from penstock.coordination.coordinator import Group
from penstock.coordination.sessions import new_session
from penstock.coordination.zookeeper import ZooKeeperCoordinator
from penstock.errors import PermissionMissing
from penstock.server.zookeeper_program import ask, free_ports, write_config, zookeeper_command
from tests.coordination.members import MemoryPositions, run, until
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.xdist_group("zookeeper")

GROUP = Group("clicks", "g", 2)
_JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_ant="se:cr@t" user_bee="other";
};
"""


@dataclass(frozen=True)
class Secured:
    """A server with two ports; who comes by the second has to speak TLS."""

    port: int
    tls_port: int
    ca: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home = tmp_path_factory.mktemp("secured")
    _make_certificate(home)
    (home / "jaas.conf").write_text(_JAAS)
    port, tls_port = free_ports(2)
    config = write_config(
        home,
        port,
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"secureClientPort={tls_port}",
        "secureClientPortAddress=127.0.0.1",
        f"ssl.keyStore.location={home / 'server.keys.pem'}",
        f"ssl.trustStore.location={home / 'ca.pem'}",
        "ssl.clientAuth=none",
    )
    java, *rest = zookeeper_command()
    class_path = rest.index("-cp") + 1
    netty = sorted(Path(str(pyspark.__file__)).parent.glob("jars/netty-*.jar"))
    rest[class_path] = os.pathsep.join(map(str, [rest[class_path], *netty]))
    login = f"-Djava.security.auth.login.config={home / 'jaas.conf'}"
    with (home / "log").open("wb") as output:
        server = subprocess.Popen([java, login, *rest, config], stdout=output, stderr=output)
    try:
        wait_for(lambda: server.poll() is not None or ask(f"127.0.0.1:{port}", b"srvr"), 60.0)
        assert server.poll() is None, (home / "log").read_text()
        yield Secured(port, tls_port, home / "ca.pem")
    finally:
        server.kill()
        server.wait()


def _make_certificate(home: Path) -> None:
    """A CA, and a certificate of it for `localhost`."""
    key = "-newkey rsa:2048 -nodes"
    (home / "names").write_text("subjectAltName=DNS:localhost\n")
    for command in (
        f"req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=ca "
        "-addext keyUsage=critical,keyCertSign,cRLSign",
        f"req {key} -keyout server.key -out server.csr -subj /CN=server",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
        "-extfile names -out server.pem",
    ):
        subprocess.run(["openssl", *command.split()], cwd=home, check=True, capture_output=True)
    both = (home / "server.key").read_text() + (home / "server.pem").read_text()
    (home / "server.keys.pem").write_text(both)


def coordinator(address: str, namespace: str) -> ZooKeeperCoordinator:
    positions = MemoryPositions()
    parsed = parse_zookeeper_address(address)
    return ZooKeeperCoordinator(parsed, namespace, lambda group: positions, settle_s=0.3)


async def read_a_little(address: str, namespace: str) -> None:
    """Join, own and commit: everything that a member does."""
    member = await coordinator(address, namespace).join(GROUP, "ant")
    try:
        await until(lambda: member.assigned == {0, 1})
        assert await member.claim(0) is not None
        await member.commit(0, "5-0")
    finally:
        await member.leave()


def users_of(address: str, path: str) -> list[str]:
    """Who may do what there, as another client sees it."""
    session = new_session(parse_zookeeper_address(address), 10.0)
    session.start(timeout=30.0)
    try:
        return [
            f"{one.id.scheme}:{one.id.id.partition(':')[0]}" for one in session.get_acls(path)[0]
        ]
    finally:
        session.stop()
        session.close()


@pytest.mark.parametrize(
    ("who", "options", "owner"),
    [("ant:se%3Acr%40t", "&auth=sasl", "sasl:ant"), ("ant:se%3Acr%40t", "", "digest:ant")],
    ids=["sasl", "digest"],
)
@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
def test_a_member_says_who_it_is_and_owns_its_nodes(
    secured: Secured, namespace: str, who: str, options: str, owner: str, has_tls: bool
) -> None:
    port = secured.tls_port if has_tls else secured.port
    options += f"&tls=on&ca={secured.ca}" if has_tls else ""
    address = f"zookeeper://{who}@localhost:{port}/{namespace}/deep?session=10{options}"

    run(read_a_little(address, namespace))

    path = f"/deep/penstock/{namespace}/clicks/g/offsets/0"
    assert users_of(address.replace("/deep", ""), path) == [owner]


def test_a_wrong_password_is_refused_with_what_to_look_at(secured: Secured, namespace: str) -> None:
    address = f"zookeeper://ant:wrong@localhost:{secured.port}?auth=sasl"

    with pytest.raises(PermissionMissing, match="refuses user 'ant': it does not accept") as error:
        run(read_a_little(address, namespace))

    assert "wrong" not in str(error.value)


def test_nodes_of_another_user_are_refused(secured: Secured, namespace: str) -> None:
    place = f"localhost:{secured.port}/{namespace}"
    run(read_a_little(f"zookeeper://ant:1@{place}", namespace))

    with pytest.raises(PermissionMissing, match=f"refuses user 'bee': nodes below '/{namespace}/"):
        run(read_a_little(f"zookeeper://bee:2@{place}", namespace))
    with pytest.raises(PermissionMissing, match="refuses clients without a user"):
        run(read_a_little(place, namespace))


# kazoo leaves it to the garbage collector to close what it does not trust.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("host", "ca"), [("localhost", False), ("127.0.0.1", True)], ids=["other CA", "other name"]
)
def test_a_server_that_cannot_prove_who_it_is_is_told_nothing(
    secured: Secured, namespace: str, host: str, ca: bool
) -> None:
    options = f"tls=on&ca={secured.ca}" if ca else "tls=on"
    address = f"zookeeper://{host}:{secured.tls_port}?{options}"

    with pytest.raises(TimeoutError):
        run(read_a_little(address, namespace), timeout_s=3.0)
