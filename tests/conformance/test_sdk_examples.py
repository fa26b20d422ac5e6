"""The SDK's examples run as a user would run them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.conftest import BrokerUnderTest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("quickstart", "received  orders-"),
        ("partitioners", "records per partition"),
        ("asyncio_streams", "received  1000 records"),
    ],
)
def test_example(broker: BrokerUnderTest, name: str, told: str) -> None:
    program = [sys.executable, str(EXAMPLES / f"{name}.py"), broker.bootstrap]
    finished = subprocess.run(program, capture_output=True, text=True, timeout=100, check=False)
    assert finished.returncode == 0, finished.stderr
    assert told in finished.stdout
