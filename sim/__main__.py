"""`python -m sim`: many seeds of every scenario, or one seed in full.

    python -m sim --seeds 200            seeds 0 to 199
    python -m sim --seed 17              one seed of every scenario, with what the node logs and the traceback of a failure

Exit code 1 if any seed failed. The last line of a failure is the command that fails again.
"""

import argparse
import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from sim.group_scenario import GroupScenario
from sim.log_scenario import COMPACTED, LogScenario
from sim.metadata_scenario import MetadataScenario
from sim.node_scenario import NodeScenario
from sim.raft_scenario import RaftScenario
from sim.transaction_scenario import TransactionScenario


class Scenario(Protocol):
    """One seed of one kind of trouble."""

    hits: Counter[str]

    def run(self) -> object: ...


SCENARIOS: Final[dict[str, Callable[[int], Scenario]]] = {
    "log": LogScenario,
    "compacted-log": lambda seed: LogScenario(seed, COMPACTED),
    "metadata": MetadataScenario,
    "raft": RaftScenario,
    "node": lambda seed: NodeScenario(seed, is_power_safe=seed % 2 == 0),
    "transactions": lambda seed: TransactionScenario(
        seed, version=1 if seed % 4 == 3 else 2, is_power_safe=seed % 2 == 0
    ),
    "groups": lambda seed: GroupScenario(seed, is_power_safe=seed % 2 == 0),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sim", description="Simulated worlds by seed.")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds of each scenario (default: 100)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: 0)")
    parser.add_argument("--seed", type=int, help="this one seed only, with all that can be told about it")
    parser.add_argument("--scenario", choices=list(SCENARIOS), help="this scenario only")
    arguments = parser.parse_args()
    if arguments.seed is None:
        logging.disable(logging.CRITICAL)
    else:
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    names = [arguments.scenario] if arguments.scenario else list(SCENARIOS)
    failed_count = sum(_run_seeds(name, seeds, is_told_in_full=arguments.seed is not None) for name in names)
    return 1 if failed_count else 0


def _run_seeds(name: str, seeds: range, *, is_told_in_full: bool) -> int:
    hits: Counter[str] = Counter()
    failed = []
    begin = time.perf_counter()
    for seed in seeds:
        scenario = SCENARIOS[name](seed)
        try:
            digest = scenario.run()
            if is_told_in_full:
                print(f"{name}: seed {seed}, trace {digest}")
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            failed.append(seed)
            if is_told_in_full:
                traceback.print_exc()
            print(f"FAILED: {error}\n  python -m sim --scenario {name} --seed {seed}", file=sys.stderr)
        hits += scenario.hits
    seconds = time.perf_counter() - begin
    print(f"{name}: {len(seeds)} seeds, {len(seeds) / seconds:.1f} seeds/s, {len(failed)} failed")
    for what, count in hits.most_common():
        print(f"  {count:>8}  {what}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
