"""Transactions in the simulated world: `sim/transaction_scenario.py` says what must hold."""

import pytest

from sim.transaction_scenario import TransactionScenario, transactions_on_one_node


def scenario(seed: int) -> TransactionScenario:
    """As `python -m sim` runs it."""
    return transactions_on_one_node(seed, version=1 if seed % 4 == 3 else 2, is_power_safe=seed % 2 == 0)


@pytest.mark.parametrize("first_seed", range(20_000, 20_024, 6))
def test_six_seeds_from(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 6):
        try:
            scenario(seed).run()
        except BaseException as error:
            error.add_note(f"python -m sim --scenario transactions --seed {seed}")
            raise


def test_a_seed_twice_gives_the_same_trace() -> None:
    first = [scenario(seed).run() for seed in (0, 3)]
    assert first == [scenario(seed).run() for seed in (0, 3)]
    assert len(set(first)) == 2
