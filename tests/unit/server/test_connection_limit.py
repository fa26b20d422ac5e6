"""How many connections a node takes: what the user allows and the limit of open files leaves."""

import pytest

from ottla.broker.start import StartRefused
from ottla.server.connection_limit import CONNECTIONS_MIN, OPEN_FILES_MIN, ConnectionLimit, connection_limit

INT_MAX = (1 << 31) - 1


def test_the_smaller_of_the_two_limits_counts_and_is_named() -> None:
    assert connection_limit(100, open_files_max=4096) == ConnectionLimit(count=100, setting="max.connections")
    by_files = connection_limit(INT_MAX, open_files_max=4096)
    assert 1_900 < by_files.count < 2_048
    assert "ulimit -n" in by_files.setting


def test_the_fewest_files_that_are_accepted_leave_room_for_some_connections() -> None:
    limit = connection_limit(INT_MAX, open_files_max=OPEN_FILES_MIN)
    assert limit.count == CONNECTIONS_MIN


@pytest.mark.parametrize("open_files_max", [16, 128, OPEN_FILES_MIN - 1])
def test_too_few_files_refuse_the_start_and_name_the_remedy(open_files_max: int) -> None:
    with pytest.raises(StartRefused, match=rf"open files is {open_files_max}.*ulimit -n 4096"):
        connection_limit(INT_MAX, open_files_max=open_files_max)
