from ottla.log.clean_shutdown import NO_BROKER_EPOCH, take_marker, write_marker
from tests.unit.log.support import new_disk


def test_the_marker_is_kafkas_and_good_for_one_start() -> None:
    disk = new_disk()
    write_marker(disk, "/logs", 42)
    assert disk.read("/logs/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    assert take_marker(disk, "/logs") == 42
    assert take_marker(disk, "/logs") is None


def test_an_empty_marker_of_an_older_broker_is_clean_too() -> None:
    disk = new_disk()
    disk.replace("/logs/.kafka_cleanshutdown", b"")
    assert take_marker(disk, "/logs") == NO_BROKER_EPOCH
