"""Streams on several hosts: some of what ``make hosts`` tries, with both state backends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.hosts.bench import AFTER, EQUAL, REFUSED, Bench, Outcome, bench
from tests.support.hosts.namespaces import Host, wait_for, why_not
from tests.support.hosts.trials import BOTH, LOST, MIDDLE, kill_executor


def gone(pids: Sequence[int]) -> None:
    """Wait until processes have ended, and nothing is left to wait for."""
    wait_for(lambda: not [pid for pid in pids if Path(f"/proc/{pid}").exists()], f"the end of {pids}", seconds=20.0)


@pytest.fixture(scope="module")
def hosts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with bench(tmp_path_factory.mktemp("hosts"), int(request.config.getoption("--seed"))) as made:
        yield made
        pids = [process.pid for host in made.cluster.workers for process in host.processes()]
    assert pids
    gone(pids)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    made = Host("alone", "127.0.0.2", tmp_path, [tmp_path])
    yield made
    made.stop()


def test_a_host_shares_nothing_but_a_folder(host: Host, tmp_path: Path) -> None:
    (tmp_path / "shared").write_text("seen\n")
    script = f"cat {tmp_path}/shared; touch /tmp/own /dev/shm/own; ls /tmp /dev/shm; ls -d /proc/[0-9]* | wc -l"
    assert host.run(["sh", "-c", script], "script", {}).wait(20) == 0
    seen, *entries, processes = host.text("script").splitlines()
    assert seen == "seen"
    assert [entry for entry in entries if entry] == ["/dev/shm:", "own", "/tmp:", "own", tmp_path.parts[2]]
    assert int(processes) < 10, "its own only"
    assert host.inside("/tmp/own").exists()
    assert not Path("/tmp/own").exists()
    host.hide(tmp_path)
    assert host.run(["cat", tmp_path / "shared"], "hidden", {}).wait(20) != 0
    assert (tmp_path / "shared").exists()


def test_nothing_outlives_a_host(host: Host) -> None:
    started = host.run(["sh", "-c", "setsid sleep 1000 & setsid sleep 1001"], "sleep", {})
    wait_for(lambda: sum("sleep 100" in process.command for process in host.processes()) == 3, "the processes")
    pids = [process.pid for process in host.processes()]
    host.stop()
    assert started.wait(20) != 0
    gone(pids)


def test_hosts_end_with_the_tests(tmp_path: Path) -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    script = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.support.hosts.namespaces import Host
host = Host("orphan", "127.0.0.2", Path({str(tmp_path)!r}), [])
host.run(["sleep", "1000"], "sleep", {{}})
while len(host.processes()) < 3:
    time.sleep(0.02)
print(*[process.pid for process in host.processes()], flush=True)
time.sleep(1000)
"""
    program = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with program:
        assert program.stdout is not None
        pids = [int(pid) for pid in program.stdout.readline().split()]
        program.kill()  # as when memory is short: nobody has time to clean up
    assert len(pids) >= 3
    gone(pids)


@pytest.mark.slow
def test_streams_on_several_hosts(hosts: Bench) -> None:
    # With one driver, since starting Spark takes longer than all the rest; `make hosts` has many more.
    files = [hosts.run(stream, "files", batches=2) for stream in ("pruned", "ranking-by", "incomplete")]
    store = [hosts.run(stream, "store", batches=2) for stream in ("ranking", "latest-by")]
    held = {"side": AFTER, "batch": MIDDLE}
    disturbed = [hosts.run("ranking-by", backend, batches=2, holds=[held]) for backend in BOTH]
    hidden = hosts.run("ranking-by", "files", batches=1)
    hosts.cluster.workers[0].hide(hidden.segments)
    with hosts.drive([*files, *store, *disturbed, hidden]) as driver:
        for run in (*files, *store):
            driver.finish(run)
        for run in disturbed:
            kill_executor(hosts, run, driver.held(run))
            run.go()
            driver.finish(run)
        driver.finish(hidden)
        assert driver.seen(LOST) >= len(disturbed)
    for run in (*files, *store, *disturbed):
        assert run.outcome(hosts.seed) == Outcome(run.stream, EQUAL), run
        assert {task["host"] for task in run.tasks()} == {host.address for host in hosts.cluster.workers}, run
    outcome = hidden.outcome(hosts.seed, str(hidden.segments))
    assert outcome.result == REFUSED, outcome
