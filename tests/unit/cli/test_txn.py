"""`ottla txn` and a transaction whose driver is away: how long it has been open, and an end to it."""

import json
import re

from ottla.client.raw.cluster import Cluster
from ottla.client.raw.transactions import Transactions
from ottla.testing import Broker
from tests.conformance.handles import write
from tests.unit.cli.conftest import Run


def test_the_age_of_a_prepared_transaction_is_shown_until_it_is_aborted(
    run: Run, ottla_broker: Broker, ottla_topic: str
) -> None:
    servers = ("-b", ottla_broker.bootstrap_servers)
    transactional_id = "prepared"
    run("topic", "create", ottla_topic, *servers)
    with Cluster(ottla_broker.bootstrap_servers, client_id="test", timeout_s=10) as cluster:
        handle = Transactions(cluster, timeout_s=10).begin(transactional_id, timeout_ms=60_000, is_two_phase=True)
        write(cluster, handle, ottla_topic, b"prepared")

    listed = run("txn", "list", *servers).stdout
    [line] = [line for line in listed.splitlines() if transactional_id in line]
    assert re.search(r"Ongoing, two-phase +[\d.]+ m?s ", line)
    assert re.search(r"open for +[\d.]+ m?s", run("txn", "describe", transactional_id, *servers).stdout)
    assert run("txn", "abort", transactional_id, *servers).exit_code == 0
    document = json.loads(run("txn", "list", "--json", *servers).stdout)
    [after] = [each for each in document if each["transactional_id"] == transactional_id]
    assert after["started_ms"] is None

    again = run("txn", "abort", transactional_id, *servers)
    assert again.exit_code == 1 and "no open transaction" in again.stderr
    assert run("txn", "abort", transactional_id, "--force", *servers).exit_code == 0
    nonsense = run("txn", "list", "--state", "Nonsense", *servers)
    assert nonsense.exit_code != 0 and "Ongoing" in nonsense.stderr
