"""``make soak``: new inputs until the time is over; exit 1 when one breaks a promise.

``--seconds 3600 --seed S``: the seed is printed, and the same seed gives the same inputs.
"""

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fuzz.fuzzers import FUZZERS
from tests.fuzz.hunting import hunt, keep, rounds

SLICE: int = 50


def main() -> int:
    """Each fuzzer in turn, a slice of inputs at a time, until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--only", nargs="*", choices=list(FUZZERS), default=list(FUZZERS))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    end = time.monotonic() + options.seconds
    counts, caught = dict.fromkeys(options.only, 0), 0
    for numbers, name in ((numbers, name) for numbers in rounds(SLICE) for name in options.only):
        if time.monotonic() > end:
            break
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            catch, count = hunt(name, options.seed, numbers, Path(folder))
        counts[name] += count
        if catch:
            caught += 1
            print(f"{name}: {catch.problem.strip()}\n  kept as {keep(name, catch)}", flush=True)
    print(", ".join(f"{name} {count}" for name, count in counts.items()))
    print(f"{sum(counts.values())} inputs, {caught} broke a promise")
    return 1 if caught else 0


if __name__ == "__main__":
    sys.exit(main())
