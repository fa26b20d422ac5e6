"""`python -m sim`: many seeds of every scenario over all cores, or one seed in full.

    python -m sim --seeds 200                     seeds 0 to 199
    python -m sim --seeds 10000 --resume done     the same, in several sittings: what the file notes is not run again
    python -m sim --seed 17                       one seed of every scenario, with what the nodes log and the traceback

Exit code 1 if any seed failed. The last line of a failure is the command that fails again.
"""

import argparse
import json
import logging
import os
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final, NamedTuple

from sim.scenarios import SCENARIOS

PORTION_SEEDS: Final = 20  # What one process runs at a time, and what is noted as done.


class Portion(NamedTuple):
    """Some seeds of one scenario."""

    scenario: str
    first: int
    seed_count: int


class Outcome(NamedTuple):
    failures: list[tuple[int, str]]
    hits: dict[str, int]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sim", description="Simulated worlds by seed.")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds of each scenario (default: 100)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: 0)")
    parser.add_argument("--seed", type=int, help="this one seed only, with all that can be told about it")
    parser.add_argument("--scenario", choices=list(SCENARIOS), help="this scenario only")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many (default: one per core)")
    parser.add_argument("--resume", type=Path, help="a file that notes what is done, and says what need not be run")
    arguments = parser.parse_args()
    names = [arguments.scenario] if arguments.scenario else list(SCENARIOS)
    if arguments.seed is not None:
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        failed_count = sum(not _run_in_full(name, arguments.seed) for name in names)
    else:
        seeds = range(arguments.first, arguments.first + arguments.seeds)
        with ProcessPoolExecutor(arguments.processes, initializer=_be_quiet) as pool:
            failed_count = sum(_run_seeds(pool, name, seeds, arguments.resume) for name in names)
    return 1 if failed_count else 0


def _run_in_full(name: str, seed: int) -> bool:
    try:
        print(f"{name}: seed {seed}, trace {SCENARIOS[name](seed).run()}")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        traceback.print_exc()
        _tell_failure(name, seed, str(error))
        return False
    return True


def _run_seeds(pool: ProcessPoolExecutor, name: str, seeds: range, notes: Path | None) -> int:
    """Returns how many of them failed."""
    begin = time.perf_counter()
    portions = {Portion(name, first, min(PORTION_SEEDS, seeds.stop - first)) for first in seeds[::PORTION_SEEDS]}
    outcomes = {portion: outcome for portion, outcome in _noted(notes).items() if portion in portions}
    futures = {pool.submit(run_portion, portion): portion for portion in sorted(portions - outcomes.keys())}
    for future in as_completed(futures):
        portion = futures[future]
        outcomes[portion] = future.result()
        _note(notes, portion, outcomes[portion])
    failures = sorted(failure for outcome in outcomes.values() for failure in outcome.failures)
    for seed, reason in failures:
        _tell_failure(name, seed, reason)
    run_count = sum(portion.seed_count for portion in futures.values())
    rate = run_count / (time.perf_counter() - begin)
    print(f"{name}: {len(seeds)} seeds, {rate:.1f} seeds/s, {len(failures)} failed")
    hits = sum((Counter(outcome.hits) for outcome in outcomes.values()), Counter[str]())
    for what, count in hits.most_common():
        print(f"  {count:>8}  {what}")
    sys.stdout.flush()
    return len(failures)


def run_portion(portion: Portion) -> Outcome:
    """In a process of the pool."""
    failures: list[tuple[int, str]] = []
    hits: Counter[str] = Counter()
    for seed in range(portion.first, portion.first + portion.seed_count):
        scenario = SCENARIOS[portion.scenario](seed)
        try:
            scenario.run()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failures.append((seed, f"{type(error).__name__}: {error}"))
        hits += scenario.hits
    return Outcome(failures, dict(hits))


def _be_quiet() -> None:
    logging.disable(logging.CRITICAL)


def _tell_failure(name: str, seed: int, reason: str) -> None:
    print(f"FAILED: {reason}\n  python -m sim --scenario {name} --seed {seed}", file=sys.stderr)


def _noted(notes: Path | None) -> dict[Portion, Outcome]:
    """What is done already; failures are run again."""
    if notes is None or not notes.exists():
        return {}
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    return {Portion(*portion): Outcome([], hits) for portion, hits in lines}


def _note(notes: Path | None, portion: Portion, outcome: Outcome) -> None:
    if notes is not None and not outcome.failures:
        with notes.open("a") as file:
            file.write(json.dumps([portion, outcome.hits]) + "\n")


if __name__ == "__main__":
    sys.exit(main())
