"""Try runs on several hosts: kill, lose, slow down, hide, start twice; compare what comes out with a ``Monitor``.

``python -m tests.support.hosts --seed 7 --trial "two drivers" --backend store``; all of them when none is named.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.support.hosts.bench import GOOD, NOT_TRIED, Outcome, bench
from tests.support.hosts.namespaces import why_not
from tests.support.hosts.trials import BOTH, TRIALS


def main() -> int:
    """Parse, try, print a line for each stream."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="same seed, same rows")
    parser.add_argument("--trial", action="append", choices=TRIALS, help="may be given several times; all by default")
    parser.add_argument("--backend", action="append", choices=BOTH, help="where windows are; both by default")
    parser.add_argument("--folder", type=Path, help="keep everything there")
    given = parser.parse_args()
    if (reason := why_not()) is not None:
        print(reason, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # no host outlives us
    print(f"--seed {given.seed}", flush=True)
    bad = 0
    with tempfile.TemporaryDirectory() as scratch, bench(given.folder or Path(scratch), given.seed) as hosts:
        for name in given.trial or TRIALS:
            trial, backends = TRIALS[name]
            for backend in backends:
                if backend not in (given.backend or BOTH):
                    continue
                began = time.monotonic()
                try:
                    outcomes = trial(hosts, backend)
                except AssertionError as error:  # the harm could not be done
                    outcomes = [Outcome("", NOT_TRIED, str(error)[:3000])]
                for stream, result, note in outcomes:
                    bad += result not in GOOD
                    print(f"{name:<13} {backend:<6} {stream:<41} {result:<9} {note}", flush=True)
                print(f"{'':<13} {time.monotonic() - began:.0f} s", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
