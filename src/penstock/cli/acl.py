"""`penstock acl`: what a user of Redis must be allowed to do."""

from __future__ import annotations

import click

from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import print_json
from penstock.client.connect import find_namespace, named_url
from penstock.connection.address import parse_url
from penstock.errors import InvalidArgument
from penstock.store.keys import NamespaceKeys
from penstock.store.permissions import ROLES, Role, acl_rules
from penstock.store.script import CLUSTER, STANDALONE


@click.command(
    epilog=examples(
        "penstock acl producer --user web | redis-cli",
        "penstock acl worker --namespace shop",
    )
)
@click.argument("role", type=click.Choice(ROLES))
@click.option("--user", metavar="NAME", help="Of whom the rules are. Default: penstock-ROLE.")
@with_store
def acl(at: Target, role: Role, user: str | None) -> None:
    """Print the rules for a Redis user who is a ROLE, and may do nothing else.

    A producer sends and waits for results, a worker does that and runs what was sent, an observer
    only looks. The user gets no password by them; it can use the keys and channels of one
    namespace. For a cluster, give its URL; no store is asked.
    """
    user = f"penstock-{role}" if user is None else user
    if not user or any(character.isspace() or character == "\0" for character in user):
        raise InvalidArgument(f"the user is {user!r}; Redis takes no name with spaces, or without")
    url = at.url or named_url()
    is_cluster = url is not None and parse_url(url).topology == "cluster"
    keys = NamespaceKeys(find_namespace(at.namespace))
    rules = acl_rules(role, keys, CLUSTER if is_cluster else STANDALONE)
    if at.is_json:
        print_json({"user": user, "role": role, "rules": rules})
    else:
        click.echo(f"ACL SETUSER {user} on {' '.join(rules)}")
