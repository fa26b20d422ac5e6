"""A capture's file, and what is wrong with one."""

from pathlib import Path
from typing import Any

import pytest

from ottla.cdc.errors import CaptureError
from ottla.cdc.settings import TableName, read_settings, settings_of

DOCUMENT: dict[str, Any] = {
    "name": "Shop-1",
    "bootstrapServers": "localhost:9092",
    "postgres": {"dsn": "dbname=shop", "tables": ["public.orders", "customers"]},
}


def test_a_file_is_read_and_defaults_are_filled_in(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(
        """
name: Shop-1
bootstrapServers: localhost:9092
prefix: shop
postgres: {dsn: dbname=shop, tables: [public.orders, customers]}
topics: {compacted: true, partitions: 3}
kafka: {compression.type: zstd}
"""
    )
    settings = read_settings(file)
    assert settings.tables == (TableName("public", "orders"), TableName("public", "customers"))
    assert (settings.slot, settings.publication) == ("ottla_shop_1", "ottla_shop_1")
    assert (settings.is_compacted, settings.partition_count, settings.replication_factor) == (True, 3, -1)
    assert settings.client_options == {"compression.type": "zstd"}
    assert settings.topics == ["shop.public.orders", "shop.public.customers"]
    assert (settings.positions_topic, settings.transactional_id) == ("shop.offsets", "cdc-Shop-1")


def test_the_prefix_is_the_name_unless_told() -> None:
    assert settings_of(DOCUMENT).prefix == "Shop-1"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"name": None}, "name is missing"),
        ({"prefx": "a"}, "prefx is not known: did you mean prefix"),
        ({"postgres": {"dsn": "dbname=shop"}}, "postgres.tables is missing"),
        ({"postgres": {"dsn": "dbname=shop", "tables": "orders"}}, "postgres.tables is missing"),
        ({"postgres": {"dsn": "dbname=shop", "tables": ["public."]}}, "'public.' is not SCHEMA.TABLE"),
        ({"postgres": {"tables": ["orders"]}}, "postgres.dsn is missing"),
        ({"postgres": {"dsn": "d", "tables": ["t"], "slot": "My-Slot"}}, "postgres.slot: 'My-Slot'"),
        ({"topics": {"compacted": "yes"}}, "neither true nor false"),
        ({"topics": {"partitions": 0}}, "not a number from 1 on"),
        ({"postgres": []}, "postgres.dsn is missing"),
        ({"topics": [1]}, "topics must have keys"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        settings_of({**DOCUMENT, **changed})


def test_a_file_that_is_no_yaml_or_not_there_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [")
    with pytest.raises(CaptureError, match="is not YAML"):
        read_settings(broken)
    with pytest.raises(CaptureError, match="No such file"):
        read_settings(tmp_path / "missing.yaml")
