"""The kernel cache: compiled kernels on disk, safe to fill from any number of processes at once.

Numba's own cache answers wrongly when several processes fill it. Two flaws of it were reproduced, and this one is
built so that neither can occur:

- *Symbols.* A compiled function's symbol ends in a number that counts the functions compiled in its process, and its
  object code brings along the functions it calls, as definitions that the linker may merge by name. Two processes can
  give one name to different code: ``run_quicksort1…v6`` is a sort in one and an argsort in the other. A third process
  that loads both entries runs one of them in place of the other (numba issues 4807, 10128, 10486). Here the count
  starts from a random number in every process, also in a forked one, so that a name belongs to one compilation.
- *Index.* An index names the data file of each signature, and index and data are written one after the other. Two
  processes that compile two signatures of a function at once can leave an index that names the other one's code. Here
  there is no index: an entry is one file, named after the function, its source, its signature and the processor.

An entry is written under a random name and renamed, carries a checksum, and holds its signature, which is compared when
it is read. One that is damaged is removed with a line in the log, and the kernel is compiled again.

One process compiles a kernel; others that need it wait for its lock and load it. Only time is at stake: entries are
right without locks, so a process goes without a lock that it cannot get, or that is not released in time. The system
releases the locks of a process that ends, however it ends.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import logging
import os
import pickle
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from topwatch.core.file_writer import whole_file

try:
    import fcntl
except ImportError:  # a system that has other locks: every process compiles for itself
    fcntl = None  # type: ignore[assignment]

MAGIC = b"topwatch kernel 1\n"
ENDING = ".kernel"
LOCK = ".lock"
KERNELS = "kernels-"  # how the names of folders with kernels begin; the hash of the sources follows
FOLDERS = ("core", "tables", "algorithms")  # whose sources kernels are made of
# Variables of Numba's that do not change the code it makes.
HARMLESS = ("NUMBA_CACHE_DIR", "NUMBA_DEBUG_CACHE", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER", "NUMBA_DISABLE_JIT")

LONGEST_WAIT = 60.0  # seconds for a lock; a process that was stopped keeps its lock for ever
PAUSE = 0.02  # seconds from one look to the next

_PACKAGE = Path(__file__).resolve().parent.parent

USER = os.getuid() if hasattr(os, "getuid") else None  # None where files have no owner of this kind

logger = logging.getLogger("topwatch")

_patient = True  # this process waits for locks


class KernelCache(_Cache):  # type: ignore[misc]
    """The entries of one function, in the form that Numba's dispatcher expects of a cache.

    Parameters
    ----------
    function : callable
        The function, not compiled.
    folder : str
        Where entries are; see :func:`cache_directory`.
    source : str
        A hash of the code that it may be made of; see :func:`source_of`.
    """

    def __init__(self, function: Callable[..., Any], folder: str, source: str) -> None:
        self._folder = folder
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._source = source
        self._enabled = True
        self._locks: dict[str, int] = {}  # of entries that this process is compiling

    @property
    def cache_path(self) -> str:
        """The folder."""
        return self._folder

    def enable(self) -> None:
        """Read and write entries."""
        self._enabled = True

    def disable(self) -> None:
        """Neither read nor write entries."""
        self._enabled = False

    def flush(self) -> None:
        """Remove this function's entries."""
        for path in Path(self._folder).glob(f"{self._name}-*{ENDING}"):
            path.unlink(missing_ok=True)

    def holds(self, sig: Any, target_context: Any) -> bool:
        """Return whether there is an entry for a signature."""
        target_context.refresh()
        return self._enabled and os.path.exists(self._path(self._key(sig, target_context.codegen())))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function for a signature, or None: then it is for this process to compile it."""
        target_context.refresh()
        if not self._enabled:
            return None
        key = self._key(sig, target_context.codegen())
        path = self._path(key)
        result = self._load(key, path, sig, target_context)
        if result is None and path not in self._locks:  # it is there where a function calls itself
            lock = acquire_lock(path + LOCK, path)
            if lock is not None:
                self._locks[path] = lock
            result = self._load(key, path, sig, target_context)  # another process may have compiled it meanwhile
            if result is not None:
                self.release(path)
        return result

    def _load(self, key: tuple[str, ...], path: str, sig: Any, target_context: Any) -> Any:
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        try:
            held, signature, reduced = _opened(data)
            if held != key or signature != sig:  # two signatures may look alike as text
                return None
            return CompileResult._rebuild(target_context, *reduced)
        except Exception as error:
            logger.warning("kernel cache: removed %s, which cannot be used (%s); compiling it again", path, error)
            with suppress(OSError):
                os.unlink(path)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function. What cannot be written is compiled again by the next process."""
        if not self._enabled or data.library.has_dynamic_globals or any(not part.can_cache for part in data.lifted):
            self.release()
            return
        key = self._key(sig, data.codegen)
        path = self._path(key)
        try:
            payload = dumps((key, sig, data._reduce()))
            with suppress(OSError), whole_file(path, sync=False) as file:
                file.write(MAGIC + hashlib.sha256(payload).digest() + payload)
        finally:
            self.release(path)

    def release(self, path: str | None = None) -> None:
        """Release the lock of an entry, or of all entries of this function: it is compiled, or cannot be."""
        for held in [path] if path is not None else list(self._locks):
            lock = self._locks.pop(held, None)
            if lock is not None:
                release_lock(lock, held + LOCK)

    def _key(self, sig: Any, codegen: Any) -> tuple[str, ...]:
        return (self._name, self._source, str(sig), *map(str, codegen.magic_tuple()))

    def _path(self, key: tuple[str, ...]) -> str:
        digest = hashlib.sha256("\0".join(key).encode()).hexdigest()[:32]
        return os.path.join(self._folder, f"{self._name}-{digest}{ENDING}")


def separate_symbols() -> bool:
    """Begin this process's symbols from a random number; return whether Numba still names them as it did.

    Numba has no setting for it. The number is a class attribute that it takes the next symbol's number from.
    """
    if not hasattr(FunctionIdentity, "_unique_ids"):
        return False
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(62))
    return True


def sources_hash() -> str | None:
    """Return a hash of what compiled code depends on: sources, versions, and the settings of Numba.

    None where sources cannot be read, as in a zip file: then one version could not be told apart from another.
    """
    versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.implementation.cache_tag)
    settings = [f"{name}={value}" for name, value in sorted(os.environ.items()) if _changes_code(name)]
    digest = hashlib.sha256("\0".join([*map(str, versions), *settings]).encode())
    for folder in FOLDERS:
        paths = sorted((_PACKAGE / folder).rglob("*.py"))
        if not paths:
            return None
        for path in paths:
            digest.update(path.relative_to(_PACKAGE).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def kernel_directory() -> str | None:
    """Return the folder of these sources' kernels, or None where there is none that can be trusted."""
    version = sources_hash()
    # Without names of its own, code from a cache may be linked with that of another process.
    if version is None or not separate_symbols():
        return None
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=separate_symbols)
    return cache_directory(f"{KERNELS}{version}")


def cache_roots() -> list[str]:
    """Return the folders that the cache may be in: the first that can be used is taken."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    roots = [
        os.environ.get("TOPWATCH_CACHE_DIR"),
        os.path.join(home, "topwatch"),
        os.path.join(tempfile.gettempdir(), f"topwatch-cache-{USER or 0}"),
    ]
    return [root for root in roots if root]


def cache_directory(name: str) -> str | None:
    """Return a writable directory of this user for what is kept between starts, or None where there is none.

    Entries are code that will be run: a folder that belongs to somebody else, or that others may write to, is not used.
    """
    for root in cache_roots():
        path = os.path.join(root, name)
        try:
            for folder in (root, path):
                os.makedirs(os.path.dirname(folder), exist_ok=True)
                with suppress(FileExistsError):
                    os.mkdir(folder, mode=0o700)
            problem = distrust(root) or distrust(path)
            if problem:
                logger.warning("cache: %s; not used", problem)
                continue
            tempfile.TemporaryFile(dir=path).close()
        except OSError:
            continue
        return path
    return None


def distrust(path: str) -> str | None:
    """Return why a folder is not to be trusted, or None."""
    if USER is None:
        return None
    result = os.lstat(path)
    if not stat.S_ISDIR(result.st_mode) and not os.path.isdir(path):
        return f"{path} is no folder"
    if stat.S_ISLNK(result.st_mode) and result.st_uid == USER:  # a link that the user has made
        result = os.stat(path)
    if result.st_uid != USER:
        return f"{path} belongs to another user"
    if stat.S_IMODE(result.st_mode) & 0o022:
        return f"{path} can be written by other users (chmod 700 would mend it)"
    return None


def _opened(data: bytes) -> tuple[Any, Any, Any]:
    size = len(MAGIC)
    if data[:size] != MAGIC:
        raise ValueError("another format")
    digest, payload = data[size : size + 32], data[size + 32 :]
    if hashlib.sha256(payload).digest() != digest:
        raise ValueError("damaged")
    key, signature, reduced = pickle.loads(payload)
    return key, signature, reduced


def _changes_code(name: str) -> bool:
    return name.startswith("NUMBA_") and name not in HARMLESS


def source_of(function: Callable[..., Any]) -> str | None:
    """Return a hash of the code that a function may be made of, or None where that cannot be read.

    Of a function of this package it is its file, since the folder of the cache is named after all the others. Of any
    other one it is its whole package, or the modules beside its own: helpers that it calls may be in any of them.
    """
    try:
        return _digest_beside(Path(inspect.getfile(function)).resolve())
    except (OSError, TypeError):  # typed in at a prompt, for instance
        return None


@cache
def _digest_beside(path: Path) -> str:
    paths = [path]
    if _PACKAGE not in path.parents:
        packages = list(itertools.takewhile(lambda folder: (folder / "__init__.py").exists(), path.parents))
        paths += sorted(packages[-1].rglob("*.py") if packages else path.parent.glob("*.py"))
    digest = hashlib.sha256()
    for one in paths:
        digest.update(hashlib.sha256(one.read_bytes()).digest())
    return digest.hexdigest()[:16]


def acquire_lock(path: str, made: str) -> int | None:
    """Lock the file of this name, which is made if need be; return its descriptor.

    Returns None once the file ``made`` is there, which the lock is for; where there are no locks; and where another
    process keeps this one for too long. From then on this process no longer waits.
    """
    global _patient
    if fcntl is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return None
    end = time.monotonic() + LONGEST_WAIT
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            there = os.path.exists(made)
            if not there and _patient and time.monotonic() < end:
                time.sleep(PAUSE)
                continue
            _patient = _patient and there
        except OSError:
            pass  # a file system without locks
        os.close(descriptor)
        return None


def try_lock(descriptor: int) -> bool:
    """Lock an open file if nobody else has; return whether it can be used. Where there are no locks, it can."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # a file system without locks
    return True


def release_lock(descriptor: int, path: str) -> None:
    """Release a lock."""
    # A process that waits for the old file and one that makes a new file may both get a lock: both compile, no more.
    with suppress(OSError):
        os.unlink(path)
    os.close(descriptor)
