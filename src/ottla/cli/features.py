"""`ottla features`: which levels are in force, which the brokers support, and how to raise them after an upgrade.

A level is in force for the whole cluster. It is granted only if the controller and every registered broker support it, and
from then on no broker joins that does not: that is what makes it safe to run nodes of two versions for a while.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from ottla.cli.connection import connected
from ottla.cli.options import DEFAULT_SERVERS, AsJson, Properties, Servers, connection_of, examples
from ottla.cli.output import done, facts, number, plain, print_json, print_table, table
from ottla.client.admin_cluster import check
from ottla.wire import api
from ottla.wire.apis import ApiKey

TIMEOUT_MS: Final = 30_000
UPGRADE: Final = 1

app = typer.Typer(help="Features that the cluster has switched on.", no_args_is_help=True)


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


@app.command("describe", epilog=examples(("levels in force and levels possible", "ottla features describe")))
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


@app.command(
    "upgrade",
    epilog=examples(
        ("after the last node was upgraded: everything that all of them can do", "ottla features upgrade"),
        ("would it be granted?", "ottla features upgrade --dry-run"),
        ("one feature", "ottla features upgrade metadata.version=29"),
    ),
)
def upgrade_features(
    wanted: Annotated[
        list[str] | None, typer.Argument(metavar="FEATURE=LEVEL…", help="Default: all, as high as the broker can.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only ask whether it would be granted.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Raise feature levels, which every node must support. An older node cannot join any more afterwards."""
    asked = levels_of(wanted or [])
    with connected(connection_of(servers, properties)) as connection, connection.cluster() as cluster:
        features = {each.name: each for each in features_of(cluster.abilities())}
        raised = raised_levels(features.values(), asked)
        if raised:
            answer = cluster.ask(
                ApiKey.UPDATE_FEATURES, update_request(raised, dry_run=dry_run), api.UpdateFeaturesResponse
            )
            check(answer.error_code, "upgrading features", answer.error_message)
    if as_json:
        print_json({"raised": raised, "dry_run": dry_run})
    elif not raised:
        done("every feature is in force as high as it can be")
    else:
        verb = "would be granted" if dry_run else "in force"
        done(", ".join(f"{name} {level} {verb}" for name, level in raised.items()))


def levels_of(wanted: Iterable[str]) -> dict[str, int]:
    levels = {}
    for text in wanted:
        name, _, level = text.partition("=")
        if not name or not level.isdecimal():
            raise typer.BadParameter(f"{text}: a feature and its level, as in metadata.version=29")
        levels[name] = int(level)
    return levels


def raised_levels(features: Iterable[Feature], asked: Mapping[str, int]) -> dict[str, int]:
    """What is asked for, or else the highest level of everything that is not there yet."""
    if asked:
        return dict(asked)
    return {
        each.name: each.supported_max
        for each in features
        if each.supported_max is not None and each.supported_max > each.finalized
    }


def update_request(levels: Mapping[str, int], *, dry_run: bool) -> api.UpdateFeaturesRequest:
    kind = api.UpdateFeaturesRequest
    return kind(
        timeout_ms=TIMEOUT_MS,
        feature_updates=[
            kind.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=UPGRADE)
            for name, level in levels.items()
        ],
        validate_only=dry_run,
    )
