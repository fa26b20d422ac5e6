"""The arguments of `ottla up` and `ottla serve`: what cannot be is refused before anything starts."""

import pytest

from ottla.server.main import USAGE_ERROR, main


@pytest.mark.parametrize(
    ("port", "told"),
    [
        ("70000", "70000 is no port: 0 to 65535"),
        ("-1", "-1 is no port: 0 to 65535"),
        ("kafka", "kafka is no port: 0 to 65535"),
    ],
)
def test_a_port_that_is_none_is_refused_with_the_range(
    port: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["up", f"--port={port}"])
    assert ended.value.code == USAGE_ERROR
    assert told in capsys.readouterr().err


def test_a_setting_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--config", "num.partitions"]) == USAGE_ERROR
    assert "name=value" in capsys.readouterr().err
