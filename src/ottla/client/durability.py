"""`send(..., min_insync_replicas=2)`: a promise about the topic, checked against the topic.

How many replicas must confirm an acks=all write is the topic's `min.insync.replicas`, and never more than it has
replicas; the protocol has no such field in a produce request. So the SDK looks the topic up, once, and refuses to
send where it would confirm with fewer. From then on the broker enforces it, write by write (NOT_ENOUGH_REPLICAS).
"""

from typing import Final

from ottla.client.errors import ConfigError
from ottla.client.options import ACKS_ALL, ClientKind, Settings, settings

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class InSyncMinimums:
    def __init__(self, chosen: Settings) -> None:
        self._settings = chosen
        self._known: dict[str, tuple[int, int]] = {}  # topic -> (minimum, replicas)

    def check(self, topic: str, asked: int, *, acks: str) -> None:
        if acks != ACKS_ALL:
            raise ConfigError(
                f"min_insync_replicas={asked} means something with acks='all' alone, not with acks={acks}"
            )
        if topic not in self._known:
            self._known[topic] = self._ask(topic)
        minimum, replicas = self._known[topic]
        if replicas < asked:
            raise ConfigError(f"{topic} has {replicas} replicas, {asked} in sync were asked for: it needs more of them")
        if minimum < asked:
            raise ConfigError(
                f"{topic} confirms acks=all with {minimum} in-sync replicas, {asked} were asked for. "
                f"Set it on the topic: Admin.alter_configs({topic!r}, {{'{MIN_INSYNC_REPLICAS}': {asked}}})",
            )

    def _ask(self, topic: str) -> tuple[int, int]:
        from ottla.client.admin import Admin  # here: few producers need an admin client, and it opens connections

        with Admin(connection_options(self._settings)) as admin:
            minimum = int(admin.describe_configs(topic)[MIN_INSYNC_REPLICAS].value or "1")
            replicas = min(len(info.replicas) for info in admin.describe_topic(topic).partitions)
            return minimum, replicas


def connection_options(chosen: Settings) -> dict[str, object]:
    """What another client needs in order to reach the same cluster in the same way."""
    prefixes = ("bootstrap.", "client.", "security.", "sasl.", "ssl.")
    reach = {name: value for name, value in chosen.kafka.items() if name.startswith(prefixes)}
    return dict(settings(ClientKind.ADMIN, reach).kafka)
