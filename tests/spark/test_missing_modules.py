"""After a plain ``pip install topwatch`` everything that needs Spark's extra says in one line how to install it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pipelines import written

# A finder that refuses modules, as if they were not installed.
HIDDEN = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r} or name.startswith({module!r} + "."):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""
COMMAND = "import sys; from topwatch.cli.main import main; sys.argv = ['topwatch', {command!r}, 'p.yml']; main()"


def without(module: str, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    source = HIDDEN.format(module=module) + code
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-c", source], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("command", "module"),
    [
        *(("run", module) for module in ("xxhash", "pyspark", "py4j", "pandas", "yaml", "google.protobuf")),
        ("check", "yaml"),
        ("explain", "yaml"),
    ],
)
def test_a_command_says_what_to_install(tmp_path: Path, command: str, module: str) -> None:
    (tmp_path / "p.yml").write_text(written())
    done = without(module, COMMAND.format(command=command), tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        f"topwatch: spark: the module {module} is not installed; run pip install 'topwatch[spark]'\n"
    )


@pytest.mark.parametrize("module", ["pyspark", "pandas", "xxhash", "yaml"])
def test_check_needs_no_more_than_it_reads(tmp_path: Path, module: str) -> None:
    (tmp_path / "p.yml").write_text(written())
    done = without(module, COMMAND.format(command="check"), tmp_path)
    assert (done.returncode == 0) == (module != "yaml"), done.stderr


@pytest.mark.parametrize("name", ["watch", "top", "register", "SETTINGS"])
@pytest.mark.parametrize("module", ["pyspark", "pandas", "xxhash"])
def test_names_of_spark_say_what_to_install(tmp_path: Path, name: str, module: str) -> None:
    code = (
        "import topwatch as tw\n"
        f"try:\n    tw.spark.{name}\n"
        "except tw.TopwatchError as error:\n    print(error, isinstance(error, ImportError))"
    )
    done = without(module, code, tmp_path)
    message = f"spark: the module {module} is not installed; run pip install 'topwatch[spark]' True\n"
    assert (done.stdout, done.stderr) == (message, "")


def test_another_missing_module_is_no_matter_of_an_extra(tmp_path: Path) -> None:
    done = without("rich", COMMAND.format(command="demo").replace(", 'p.yml'", ""), tmp_path)
    assert "No module named 'rich" in done.stderr
    assert "pip install" not in done.stderr
