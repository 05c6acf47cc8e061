"""Spark's daemon for Python workers, but the n-th worker has the same process id on every host, as in containers.

For ``spark.python.daemon.module``. Only in pid namespaces of the tests' own: it sets where the kernel counts on from.
"""

from __future__ import annotations

import os
from itertools import count

from pyspark import daemon

LAST = "/proc/sys/kernel/ns_last_pid"
_fork, _numbers = os.fork, count(20_000, 10)


def fork() -> int:
    """Fork, with the next number of the row as process id unless another thread is quicker."""
    with open(LAST, "w") as file:
        file.write(str(next(_numbers)))
    return _fork()


if __name__ == "__main__":
    os.fork = fork
    daemon.manager()
