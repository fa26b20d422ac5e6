"""Where a capture goes on from: its last position, also where its topic has another leader since a moment ago."""

from ottla.cdc.positions import position_record, read_position
from ottla.cdc.settings import CaptureSettings
from ottla.wire.records import BatchBuilder
from tests.unit.client.new_leader import NewLeader

LSN = 0x1_0000_0007


def capture_at(bootstrap_servers: str) -> CaptureSettings:
    return CaptureSettings(
        name="shop",
        dsn="",
        tables=(),
        prefix="shop",
        bootstrap_servers=bootstrap_servers,
        slot="ottla",
        publication="ottla",
    )


def test_a_position_is_found_though_it_is_not_known_to_be_committed_yet() -> None:
    record = position_record(capture_at("unused"), LSN)
    builder = BatchBuilder()
    builder.append(0, record.key, record.value)
    leader = NewLeader(record.topic, bytes(builder.build()), end_offset=1)
    assert leader.answer(lambda bootstrap_servers: read_position(capture_at(bootstrap_servers))) == LSN
