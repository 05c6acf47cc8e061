"""What Python workers of one machine share, and how they start. Optional: streams are the same without it.

``TOPWATCH_NODE_OFF`` in the environment switches parts off, for measurements: names of :data:`PARTS`, or ``all``.
"""

from __future__ import annotations

import os
import stat

PARTS = ("class_data", "peers")

_off = frozenset(os.environ.get("TOPWATCH_NODE_OFF", "").replace(",", " ").split())


def enabled(part: str) -> bool:
    """Tell whether a part is used.

    >>> enabled("peers")
    True
    """
    return part not in _off and "all" not in _off


def check_own(folder: str) -> None:
    """Refuse a folder that another user owns or can write to or read, and a link to one."""
    about = os.lstat(folder)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o077:
        raise PermissionError(f"{folder} is no folder of this user alone")
