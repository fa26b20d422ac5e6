"""`ottla cluster` and `ottla features`: who is there, who controls, what they can do. Its other commands are beside it."""

from dataclasses import dataclass

import typer

from ottla.cli import add_broker, cluster_status, decommission, reassign, rebalance
from ottla.cli.connection import connected
from ottla.cli.options import DEFAULT_SERVERS, AsJson, Properties, Servers, connection_of, examples
from ottla.cli.output import facts, number, plain, print_json, print_table, table
from ottla.wire import api

cluster_app = typer.Typer(
    help="The cluster: how it is, who belongs to it, and where replicas lie.", no_args_is_help=True
)
features_app = typer.Typer(help="Features that the cluster has switched on.", no_args_is_help=True)

cluster_app.command(epilog=cluster_status.STATUS_EXAMPLES)(cluster_status.status)
cluster_app.command(epilog=cluster_status.BROKERS_EXAMPLES)(cluster_status.brokers)
cluster_app.command(epilog=cluster_status.QUORUM_EXAMPLES)(cluster_status.quorum)
cluster_app.add_typer(reassign.app, name="reassign")
cluster_app.command(epilog=rebalance.EXAMPLES)(rebalance.rebalance)
cluster_app.command(epilog=add_broker.EXAMPLES)(add_broker.add)
cluster_app.command(epilog=decommission.EXAMPLES)(decommission.decommission)


@cluster_app.command("describe", epilog=examples(("who is there", "ottla cluster describe")))
def describe_cluster(
    servers: Servers = DEFAULT_SERVERS, properties: Properties = None, as_json: AsJson = False
) -> None:
    """Show brokers, controller and cluster id."""
    with connected(connection_of(servers, properties)) as connection:
        cluster = connection.admin().describe_cluster()
    if as_json:
        print_json(
            {
                "cluster_id": cluster.cluster_id,
                "controller": cluster.controller,
                "brokers": [
                    {"id": broker.id, "host": broker.host, "port": broker.port, "rack": broker.rack}
                    for broker in cluster.brokers
                ],
            }
        )
        return
    print_table(facts([("cluster id", plain(cluster.cluster_id)), ("controller", plain(cluster.controller))]))
    rows = [
        (
            plain(broker.id),
            plain(f"{broker.host}:{broker.port}"),
            plain(broker.rack),
            plain("controller" if broker.id == cluster.controller else ""),
        )
        for broker in cluster.brokers
    ]
    print_table(table([">broker", "address", "rack", ""], rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    name: str
    finalized: int
    supported_min: int | None
    supported_max: int | None


def features_of(abilities: api.ApiVersionsResponse) -> list[Feature]:
    """What the broker supports, with the level that the cluster has agreed on; 0 is off."""
    levels = {each.name: each.max_version_level for each in abilities.finalized_features}
    supported = {each.name: (each.min_version, each.max_version) for each in abilities.supported_features}
    return [
        Feature(
            name=name,
            finalized=levels.get(name, 0),
            supported_min=supported[name][0] if name in supported else None,
            supported_max=supported[name][1] if name in supported else None,
        )
        for name in sorted(levels.keys() | supported.keys())
    ]


@features_app.command("describe", epilog=examples(("levels in force and levels possible", "ottla features describe")))
def describe_features(
    servers: Servers = DEFAULT_SERVERS, properties: Properties = None, as_json: AsJson = False
) -> None:
    """Show each feature's level in force, and the levels that the broker supports."""
    with connected(connection_of(servers, properties)) as connection, connection.cluster() as cluster:
        abilities = cluster.abilities()
    features = features_of(abilities)
    if as_json:
        print_json(
            {
                "epoch": abilities.finalized_features_epoch,
                "features": [
                    {
                        "name": each.name,
                        "finalized": each.finalized,
                        "supported_min": each.supported_min,
                        "supported_max": each.supported_max,
                    }
                    for each in features
                ],
            }
        )
        return
    print_table(facts([("epoch", number(epoch if (epoch := abilities.finalized_features_epoch) >= 0 else None))]))
    rows = [
        (
            plain(each.name),
            plain(each.finalized or "off"),
            plain(None if each.supported_max is None else f"{each.supported_min} to {each.supported_max}"),
        )
        for each in features
    ]
    print_table(table(["feature", ">in force", "supported"], rows))
