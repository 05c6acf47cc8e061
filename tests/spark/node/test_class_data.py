"""Java's classes are kept from one start of Spark to the next, where they can be."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.servers.maven_jars import UnavailableError, java
from topwatch.spark.node import class_data

STARTED = """
import os

from topwatch.spark.node import class_data as classes
from topwatch.spark.pipeline.launch import start_spark

spark = start_spark("local[1]")
number = spark._jvm.java.lang.ProcessHandle.current().pid()
with open(f"/proc/{number}/maps") as maps:
    print(any(os.environ["TOPWATCH_CACHE_DIR"] in line for line in maps))
classes.keep()
spark.stop()
"""


def maps_what_was_kept(cache: Path) -> bool:
    """Start Spark in a process of its own; tell whether its Java has mapped a kept file."""
    env = {**os.environ, "TOPWATCH_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", STARTED], env=env, capture_output=True, text=True, check=True)
    return done.stdout.split() == ["True"]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_second_start_maps_what_the_first_has_kept(tmp_path: Path) -> None:
    try:
        java()
    except UnavailableError as error:
        pytest.skip(str(error))
    assert not maps_what_was_kept(tmp_path)
    until = time.monotonic() + 120
    while not any(whole(path) for path in (tmp_path / "classes").glob("*.jsa.*[0-9]")):
        assert time.monotonic() < until, "Java has not written its classes"
        time.sleep(0.2)
    assert maps_what_was_kept(tmp_path)
    assert [path.suffix for path in (tmp_path / "classes").iterdir()] == [".jsa"]


def whole(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == class_data.MAGIC


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of the archive that Java is to write, with an empty cache."""
    monkeypatch.setenv("TOPWATCH_CACHE_DIR", str(tmp_path))
    for name in class_data.CONFIGURATIONS:
        monkeypatch.delenv(name, raising=False)
    options = class_data.options()
    if not options:
        pytest.skip("there is no Java, or no room on the disk")
    return options.split("=")[-1]


def test_what_a_run_without_a_micro_batch_has_loaded_is_not_kept(archive: str) -> None:
    Path(archive).write_bytes(class_data.MAGIC)
    assert "ArchiveClassesAtExit" in class_data.options()
    assert not Path(archive).exists()


def test_a_file_that_is_being_written_is_left_alone_and_not_written_again(archive: str) -> None:
    Path(archive).write_bytes(bytes(8))
    assert class_data.options() == ""
    assert Path(archive).exists()
    os.utime(archive, (0, 0))
    assert "ArchiveClassesAtExit" in class_data.options(), "nobody writes for that long"


def test_files_of_other_versions_go_when_nobody_has_used_them_for_long(archive: str) -> None:
    other = Path(archive).parent / "0123456789abcdef.jsa"
    other.write_bytes(class_data.MAGIC)
    class_data.options()
    assert other.exists()
    os.utime(other, (0, 0))
    class_data.options()
    assert not other.exists()


@pytest.mark.parametrize("environment", [{"PATH": ""}, {"HADOOP_CONF_DIR": "/etc/hadoop"}, {"JAVA_HOME": "/nowhere"}])
def test_no_option_is_given_where_nothing_can_be_kept(environment: dict[str, str]) -> None:
    assert class_data.options(environment) == ""
