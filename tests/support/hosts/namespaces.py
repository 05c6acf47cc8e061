"""Several hosts on one machine: a Spark standalone cluster whose members share nothing but a folder.

A host is a set of Linux namespaces (mount, ipc, pid) with its own ``/tmp`` and ``/dev/shm``, its own process ids from 1
up and its own loopback address. Killing the first process of a pid namespace kills all others in it, so that nothing
outlives a host, and the kernel kills that first process when the tests die. Namespaces need root; where they cannot be
had, :func:`why_not` says why.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, NamedTuple, Self

import pyspark

from tests.support.crashes.processes import LIGHT_JAVA
from tests.support.servers.loopback import free_port
from tests.support.servers.maven_jars import UnavailableError, java

SPARK_HOME = Path(pyspark.__file__).parent
PROGRAMS = ("unshare", "nsenter", "setpriv")
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
PYTHON = "pyspark.daemon"
STARTUP = 180.0  # seconds in which a server of Spark has to be there

_APART = ("--mount", "--ipc", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--propagation=private")
_SPACES = {"mount": "mnt", "ipc": "ipc", "pid": "pid_for_children"}  # by option of nsenter, files of unshare's process
# $1 is an empty folder; the others are seen by all hosts. Those below /tmp are bound into the private one.
_INIT = """
set -e
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs "$1"
stage=$1
shift
for folder in "$@"; do
    case $folder in /tmp/*)
        mkdir -p "$stage${folder#/tmp}"
        mount --bind "$folder" "$stage${folder#/tmp}";;
    esac
done
mount --move "$stage" /tmp
echo ready
while :; do sleep 3600 & wait $!; done
"""


class Process(NamedTuple):
    """A process of a host, with its ids as this machine has them."""

    pid: int
    parent: int
    command: str


def why_not() -> str | None:
    """Return why there can be no hosts on this machine, or None."""
    try:
        java()
    except UnavailableError as error:
        return str(error)
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"hosts need {', '.join(missing)} (Linux, util-linux)"
    command = ["unshare", *_APART, "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=STARTUP, check=False)
    return None if tried.returncode == 0 else f"hosts need namespaces and mounts, as root has: {tried.stderr.strip()}"


class Host:
    """A host, from its start until :meth:`stop`.

    Parameters
    ----------
    name, address : str
        The address is one of the loopback network.
    scratch : Path
        For logs; each host makes a folder there.
    shared : list of Path
        Folders that all hosts see.
    """

    def __init__(self, name: str, address: str, scratch: Path, shared: Sequence[Path]) -> None:
        self.name, self.address, self.folder = name, address, scratch / name
        self._started: list[subprocess.Popen[bytes]] = []
        self._space: int | None = None
        stage = self.folder / "stage"
        stage.mkdir(parents=True)
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", *_APART, "sh", "-c", _INIT, "sh", str(stage)]
        with self._log("init") as log:
            self._init = subprocess.Popen(
                [*command, *map(str, shared)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if name != "TMPDIR"},
                start_new_session=True,
            )
        try:
            wait_for(lambda: "ready" in self.text("init"), f"host {name}", self._alive)
            # Open until all is over: the number of a namespace that is gone is given to others.
            self._space = os.open(f"/proc/{self._init.pid}/ns/pid_for_children", os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            self.stop()
            raise

    def run(self, command: Sequence[str | Path], log: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a program on this host; what it prints is in a log of that name."""
        enter = [f"--{name}=/proc/{self._init.pid}/ns/{file}" for name, file in _SPACES.items()]
        own = {"SPARK_LOCAL_IP": self.address, "SPARK_LOCAL_HOSTNAME": self.address}
        inherited = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
        with self._log(log) as output:
            started = subprocess.Popen(
                ["nsenter", *enter, "sh", "-c", 'cd /tmp && exec "$@"', "sh", *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**inherited, **own, **environment},
                start_new_session=True,
            )
        self._started.append(started)
        return started

    def text(self, log: str) -> str:
        """Return what a log has by now."""
        return (self.folder / f"{log}.log").read_text(errors="replace")

    def inside(self, path: str) -> Path:
        """Return the path by which this machine sees one of the host's."""
        return Path(f"/proc/{self._first()}/root{path}")

    def hide(self, folder: Path) -> None:
        """Put an empty folder of this host's own in place of a shared one."""
        done = self.run(["mount", "-t", "tmpfs", "tmpfs", folder], "mount", {})
        assert done.wait(STARTUP) == 0, self.text("mount")

    def processes(self) -> list[Process]:
        """Return the processes that run on this host; none once it has stopped."""
        if self._space is None:
            return []
        number = f"pid:[{os.fstat(self._space).st_ino}]"
        result = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):  # it ended while we looked
                if os.readlink(entry / "ns/pid") != number:
                    continue
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    result.append(Process(int(entry.name), int(parent), command))
        return result

    def executors(self) -> list[int]:
        """Return the Java processes that run tasks."""
        return [process.pid for process in self.processes() if EXECUTOR in process.command]

    def python_workers(self) -> list[int]:
        """Return the Python processes that run tasks, without the one that forks them."""
        daemons = {process.pid for process in self.processes() if PYTHON in process.command}
        return [p.pid for p in self.processes() if p.pid in daemons and p.parent in daemons]

    def stop(self) -> None:
        """Kill everything on this host, as a power cut does; return when nothing runs any more."""
        self._init.kill()
        for process in (self._init, *self._started):
            process.wait(STARTUP)
        if self._space is not None:
            wait_for(lambda: not self.processes(), f"the end of host {self.name}")
            os.close(self._space)
            self._space = None

    def _alive(self) -> str | None:
        return None if self._init.poll() is None else self.text("init")

    def _first(self) -> int:
        return min(process.pid for process in self.processes() if process.parent == self._init.pid)

    def _log(self, name: str) -> IO[bytes]:
        return (self.folder / f"{name}.log").open("wb")


class Cluster:
    """A master and workers, each on a host of its own, and hosts for drivers; all stop when the block ends.

    Parameters
    ----------
    folder : Path
        Seen by all hosts; logs are there too.
    workers : int
        How many to start with, each with one core.
    shared : list of Path
        More folders that all hosts see, such as a cache.
    """

    def __init__(self, folder: Path, workers: int = 2, shared: Sequence[Path] = ()) -> None:
        self.folder, self.workers = folder, list[Host]()
        self._shared = [folder, *(path for path in shared if path.is_dir())]
        self._first, self._made, self._stack = workers, 0, ExitStack()

    def __enter__(self) -> Self:
        try:
            (self.folder / "conf").mkdir(exist_ok=True)
            master = self.host("master")
            port = free_port(master.address)
            self._serve(master, "master.Master", "--port", str(port))
            self.url = f"spark://{master.address}:{port}"
            wait_for(lambda: "I have been elected leader" in master.text("spark"), "the master")
            self.grow(self._first)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def host(self, name: str) -> Host:
        """Start a host."""
        self._made += 1
        host = Host(f"{name}-{self._made}", f"127.0.0.{self._made}", self.folder / "hosts", self._shared)
        self._stack.callback(host.stop)
        return host

    def grow(self, workers: int) -> None:
        """Start workers until there are so many."""
        fresh = [self.host("worker") for _ in range(workers - len(self.workers))]
        for host in fresh:
            size = ("--cores", "1", "--memory", "2g", "--work-dir", "/tmp/work")
            self._serve(host, "worker.Worker", *size, self.url)
        for host in fresh:
            wait_for(lambda: "Successfully registered with master" in host.text("spark"), host.name)  # noqa: B023
        self.workers += fresh

    def at(self, address: str) -> Host:
        """Return the worker's host with an address."""
        return next(host for host in self.workers if host.address == address)

    def _serve(self, host: Host, role: str, *arguments: str) -> None:
        environment = {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": LIGHT_JAVA,
        }
        command = [SPARK_HOME / "bin/spark-class", f"org.apache.spark.deploy.{role}", "--host", host.address]
        host.run([*command, "--webui-port", "0", *arguments], "spark", environment)


def wait_for(
    ready: Callable[[], object], what: str, failed: Callable[[], str | None] = lambda: None, seconds: float = STARTUP
) -> None:
    """Return when something is true; an error when it does not come in time, or cannot any more."""
    end = time.monotonic() + seconds
    while not ready():
        if (why := failed()) is not None:
            raise AssertionError(f"{what} failed: {why}")
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come in {seconds:.0f} s")
        time.sleep(0.02)


def kill(pids: Sequence[int]) -> None:
    """Kill processes, as the system does when memory is short."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
