"""The one place that writes files whole: under a random name first, synced before the real name is there.

Nobody ever sees a file that is half written, and two writers never share a scratch file: its name is random, since
process ids are the same in two containers. A writer that is killed leaves at most a scratch file, whose name begins
with a dot.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO


def scratch(name: str) -> str:
    """Return a name that no other writer uses.

    >>> scratch("a.json") != scratch("a.json")
    True
    """
    return f".{name}.{os.urandom(8).hex()}.part"


@contextmanager
def whole_file(path: str, sync: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that gets its name when the block has ended well, and else is never there.

    Parameters
    ----------
    path : str
        The file; one that is there is replaced.
    sync : bool
        Whether it has to outlive a power failure once the block has ended.
    """
    other = os.path.join(os.path.dirname(path), scratch(os.path.basename(path)))
    try:
        with open(other, "xb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        put_in_place(other, path, sync)
    except BaseException:
        with suppress(OSError):
            os.unlink(other)
        raise


def put_in_place(path: str, target: str, sync: bool = True) -> None:
    """Give a file that is written its real name."""
    os.replace(path, target)
    if sync:  # the name is as safe as the bytes
        folder = os.open(os.path.dirname(target) or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
