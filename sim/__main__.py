"""`python -m sim`: many seeds of every scenario over all cores, or one seed in full.

    python -m sim --seeds 200                     seeds 0 to 199
    python -m sim --seeds 10000 --resume FILE     in several sittings: what FILE notes of this very code is not run again
    python -m sim --seed 17                       one seed of every scenario, with what the nodes log and the traceback

Exit code 1 if any seed failed. The last line of a failure is the command that fails again. The file goes when all is done.
"""

import argparse
import logging
import multiprocessing.connection
import os
import sys
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from sim.notes import Notes, Outcome, Portion
from sim.scenarios import SCENARIOS

PORTION_SEEDS: Final = 20  # What one process runs at a time, and what is noted as done.


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
        with ProcessPoolExecutor(arguments.processes, initializer=_begin_process) as pool:
            notes = None if arguments.resume is None else Notes(arguments.resume)
            failed_count = sum(_run_seeds(pool, name, seeds, notes) for name in names)
            if notes is not None and not failed_count:
                notes.remove()
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


def _run_seeds(pool: ProcessPoolExecutor, name: str, seeds: range, notes: Notes | None) -> int:
    """Returns how many of them failed."""
    begin = time.perf_counter()
    portions = {Portion(name, first, min(PORTION_SEEDS, seeds.stop - first)) for first in seeds[::PORTION_SEEDS]}
    noted = {} if notes is None else notes.read()
    outcomes = {portion: outcome for portion, outcome in noted.items() if portion in portions}
    futures = {pool.submit(run_portion, portion): portion for portion in sorted(portions - outcomes.keys())}
    for future in as_completed(futures):
        portion = futures[future]
        outcomes[portion] = future.result()
        if notes is not None:
            notes.add(portion, outcomes[portion])
    failures = sorted(failure for outcome in outcomes.values() for failure in outcome.failures)
    for seed, reason in failures:
        _tell_failure(name, seed, reason)
    run_count = sum(portion.seed_count for portion in futures.values())
    rate = run_count / (time.perf_counter() - begin)
    noted_before = f", {len(seeds) - run_count} of them noted before" if run_count < len(seeds) else ""
    print(f"{name}: {len(seeds)} seeds{noted_before}, {rate:.1f} seeds/s, {len(failures)} failed")
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


def _begin_process() -> None:
    """A process of the pool: quiet, and gone when the one that started it is, however that ended."""
    logging.disable(logging.CRITICAL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _tell_failure(name: str, seed: int, reason: str) -> None:
    print(f"FAILED: {reason}\n  python -m sim --scenario {name} --seed {seed}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
