"""The class-data archive: Java's classes as they are in memory, kept from one start of Spark to the next.

To start, Spark reads, checks and links thousands of classes. Java can write them to a file that it maps at the next
start (application class data sharing), which takes some seconds off every start and off a stream's first micro-batch.
The first run on a machine that completes a micro-batch writes the file after it has ended, in the background. Java
itself checks whether the file suits it, and starts without it where it does not.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from glob import escape, glob

from topwatch.core.kernel_cache import cache_directory
from topwatch.spark import node

MAGIC = bytes.fromhex("a8ab0bf0")  # Java writes it last
FREE = 1 << 30  # bytes that must be free on the disk; the file has two hundred million
UNUSED = 30 * 86400.0  # seconds after which the file of another version is removed
UNFINISHED = 600.0  # and one that Java has not come to the end of
CONFIGURATIONS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")  # folders on the class path: Java refuses them

FOLDER = "classes"  # in the cache
ENDING = ".jsa"
GOOD = ".good"  # ending of a file that marks an archive with all that a stream needs

_written: list[str] = []  # by this process's Java, when it ends


def options(environment: Mapping[str, str] = os.environ) -> str:
    """Return options for Java's command line: to use the archive, or to write it at the end; none where neither can be.

    Parameters
    ----------
    environment : mapping
        Where ``JAVA_HOME`` and the like are looked up.
    """
    version = version_of(environment) if node.enabled("class_data") else None
    folder = cache_directory(FOLDER) if version is not None else None
    if folder is None or " " in folder:
        return ""
    path = os.path.join(folder, f"{version}{ENDING}")
    _tidy(folder, path)
    flags = "-Xshare:auto -Xlog:cds*=off"
    if os.path.exists(path):
        os.utime(path)
        return f"{flags} -XX:SharedArchiveFile={path}"
    if glob(f"{escape(path)}.*") or shutil.disk_usage(folder).free < FREE:
        return ""
    _written[:] = [f"{path}.{random.SystemRandom().randrange(10**18)}"]  # process ids are the same in containers
    return f"{flags} -XX:ArchiveClassesAtExit={_written[0]}"


def keep() -> None:
    """Mark what Java has loaded by now as worth keeping."""
    for path in _written:
        with suppress(OSError), open(path + GOOD, "wb"):
            pass


def version_of(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return a digest of the versions of Java and Spark; None where no archive can be kept."""
    import pyspark

    spark = environment.get("SPARK_HOME") or os.path.dirname(os.path.abspath(pyspark.__file__))
    java = shutil.which("java", path=environment.get("PATH"))
    home = environment.get("JAVA_HOME") or (os.path.dirname(os.path.dirname(os.path.realpath(java))) if java else "")
    if any(name in environment for name in CONFIGURATIONS) or os.path.exists(os.path.join(spark, "conf")):
        return None
    try:
        with open(os.path.join(home, "release"), "rb") as file:
            digest = hashlib.sha256(file.read())
        for entry in sorted(os.scandir(os.path.join(spark, "jars")), key=lambda entry: entry.path):
            digest.update(f"{entry.path} {entry.stat().st_size} {entry.stat().st_mtime_ns}".encode())
    except OSError:
        return None
    return digest.hexdigest()[:16]


def _tidy(folder: str, path: str) -> None:
    """Give the file its name if a run has finished it, and remove what has not been used for long."""
    for result in glob(f"{escape(path)}.*[0-9]"):
        with suppress(OSError), open(result, "rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                if os.path.exists(result + GOOD):
                    os.replace(result, path)
                    os.remove(result + GOOD)
                else:
                    os.remove(result)
    for entry in os.scandir(folder):
        unfinished = entry.path.startswith(f"{path}.")
        with suppress(OSError):
            if entry.path != path and time.time() - entry.stat().st_mtime > (UNFINISHED if unfinished else UNUSED):
                os.remove(entry.path)
