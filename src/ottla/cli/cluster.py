"""`ottla cluster`: who is there and who controls. Its other commands are in files beside this one."""

import typer

from ottla.cli import add_broker, cluster_status, decommission, reassign, rebalance
from ottla.cli.connection import connected
from ottla.cli.options import DEFAULT_SERVERS, AsJson, Properties, Servers, connection_of, examples
from ottla.cli.output import facts, plain, print_json, print_table, table

cluster_app = typer.Typer(
    help="The cluster: how it is, who belongs to it, and where replicas lie.", no_args_is_help=True
)

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
