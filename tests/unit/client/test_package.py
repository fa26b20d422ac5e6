"""`import ottla` is cheap, and the SDK is there by name."""

import subprocess
import sys

import ottla
import ottla.client


def test_importing_ottla_does_not_import_librdkafka() -> None:
    program = "import sys, ottla; ottla.__version__; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_sdk_is_there_by_name() -> None:
    for name in ottla.client.__all__:
        assert getattr(ottla, name) is getattr(ottla.client, name)


def test_what_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(ottla, "Subscriber")
    assert not hasattr(ottla, "__wrapped__")
