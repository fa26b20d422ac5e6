"""A real broker for tests, in a fraction of a second: `with ottla.testing.broker() as b: ... b.bootstrap_servers`.

The broker is a child process with a data directory of its own; both are gone afterwards, also when the test was killed.
`with ottla.testing.cluster(nodes=3) as c:` gives three of them that form a cluster.
The pytest plugin (pytest_plugin.py) gives the same as the fixture `ottla_broker`.
"""

from ottla.testing.cluster import Cluster, cluster
from ottla.testing.embedded import Broker, BrokerFailed, Machine, broker

__all__ = ["Broker", "BrokerFailed", "Cluster", "Machine", "broker", "cluster"]
