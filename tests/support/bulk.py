"""The promises on as many random programs as asked: `python -m tests.support.bulk 100000 --jobs 2 --first 0`.

Prints each program that breaks a promise as it is found, and at the end a table of what was run. The exit code is 1
if anything was found.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from tests.support.promises import PROMISES, case_for

CHUNK = 50


def broken(name: str, seed: int) -> str | None:
    """How the program of `seed` breaks a promise; None if it does not."""
    promise = PROMISES[name]
    case = case_for(promise, seed)
    try:
        promise.check(case)
    except Exception as error:
        where = f"seed {seed}, sizes {case.sizes}"
        return f"{name} is broken: {where}\n{type(error).__name__}: {error}\n{case.f}\n"
    return None


def run_chunk(job: tuple[str, int, int]) -> tuple[str, int, float, list[str]]:
    """Check a promise on the programs of a range of seeds. Return its name, the number of programs, the seconds, and
    the findings."""
    name, first, last = job
    start = time.perf_counter()
    share = PROMISES[name].share
    seeds = [seed for seed in range(first, last) if seed % share == 0]
    found = [message for seed in seeds if (message := broken(name, seed)) is not None]
    return name, len(seeds), time.perf_counter() - start, found


def jobs(names: list[str], first: int, programs: int) -> Iterator[tuple[str, int, int]]:
    """Ranges of seeds, each with all promises before the next range."""
    for begin in range(first, first + programs, CHUNK):
        for name in names:
            yield name, begin, min(begin + CHUNK, first + programs)


def main() -> int:
    """Run the promises; return 1 if one is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=int)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing new after so long")
    parser.add_argument("--only", nargs="*", choices=[*PROMISES], default=[*PROMISES])
    options = parser.parse_args()
    tried: Counter[str] = Counter()
    seconds = dict.fromkeys(options.only, 0.0)
    failures: Counter[str] = Counter()
    start = time.perf_counter()
    todo = jobs(options.only, options.first, options.programs)
    with ProcessPoolExecutor(options.jobs, max_tasks_per_child=200) as pool:
        while time.perf_counter() - start < options.minutes * 60:
            batch = list(islice(todo, 8 * options.jobs))
            if not batch:
                break
            for name, number, spent, found in pool.map(run_chunk, batch):
                tried[name] += number
                seconds[name] += spent
                failures[name] += len(found)
                for message in found:
                    print(message, flush=True)
    for name in options.only:
        print(f"{name:52} {tried[name]:8} programs {seconds[name]:8.0f} s {failures[name]:6} broken")
    total = f"{sum(tried.values())} checks of {max(tried.values(), default=0)} random programs"
    print(f"{total} in {time.perf_counter() - start:.0f} s: {sum(failures.values())} broken")
    return int(sum(failures.values()) > 0)


if __name__ == "__main__":
    sys.exit(main())
