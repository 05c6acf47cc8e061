"""The kernel cache: several processes fill it, entries are damaged or swapped, folders belong to somebody else."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.sizes import COMPILED
from topwatch.core import kernel_cache

pytestmark = pytest.mark.skipif(not COMPILED, reason="there is no cache with the compiler off")

# Numba makes sort and argsort of one function, with other code under the same name.
KERNELS = """
import numpy as np
from topwatch.core.jit import kernel

@kernel
def by_value(x):
    y = x.copy()
    y.sort()
    return y

@kernel
def by_rank(x):
    y = x.copy()
    return np.argsort(y)

@kernel
def doubled(x):
    return x + x

@kernel
def tripled(x):
    return x + x + x
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A module with kernels, and a cache beside it that is empty."""
    (tmp_path / "kernels_of_test.py").write_text(KERNELS)
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path


def run(
    folder: Path, code: str, module: str = "kernels_of_test", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, with the module of kernels at hand."""
    code = f"import numpy as np, os\nimport {module} as k\nx = np.arange(100)[::-1] + 1000\n{code}"
    paths = [str(folder), *filter(None, sys.path)]
    given = {"TOPWATCH_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(paths), **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], env=dict(os.environ, **given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def entries(folder: Path, name: str = "") -> list[Path]:
    return sorted((folder / "cache").glob(f"kernels-*/kernels_of_test.{name}*{kernel_cache.ENDING}"))


USE_BOTH = "print(k.by_value(x)[:2].tolist(), k.by_rank(x)[:2].tolist())"


def test_code_of_two_processes_is_not_mixed_up(folder: Path) -> None:
    """With Numba's own cache the third process takes the sort for the argsort."""
    run(folder, "k.by_value(x)")
    run(folder, "k.by_rank(x)")
    assert len(entries(folder)) == 2
    assert run(folder, USE_BOTH).stdout == "[1000, 1001] [99, 98]\n"


def test_code_of_forked_processes_is_not_mixed_up(folder: Path) -> None:
    """As Spark makes its Python workers: copies of a process in which kernels are loaded and not compiled."""
    run(
        folder,
        """
for use in (k.by_value, k.by_rank):
    if os.fork() == 0:
        use(x)
        os._exit(0)
    os.wait()
""",
    )
    assert len(entries(folder)) == 2
    assert run(folder, USE_BOTH).stdout == "[1000, 1001] [99, 98]\n"


def test_symbols_name_their_compilation(folder: Path) -> None:
    """All that the linker may merge by name has a number that no other process gives.

    But for Numba's runtime, and destructors, whose code depends on nothing but the type in their name.
    """
    run(folder, "k.by_value(x)")
    look = f"""
import re, llvmlite.binding as llvm
from topwatch.core import kernel_cache as cache
module = llvm.parse_bitcode(cache._opened(open({str(entries(folder)[0])!r}, "rb").read())[2][0][2][1])
own = (llvm.Linkage.internal.value, llvm.Linkage.private.value)
symbols = [s for s in (*module.functions, *module.global_variables) if not s.is_declaration]
merged = [s.name for s in symbols if int(s.linkage) not in own and not s.name.startswith(("NRT_", ".dtor."))]
print(len(merged) > 2, [name for name in merged if not re.search("B[0-9]+v[0-9]{{12,}}", name)])
"""
    assert run(folder, look).stdout == "True []\n"


def test_a_damaged_entry_is_compiled_again(folder: Path) -> None:
    use = "print(k.doubled(x)[-1])"
    run(folder, use)
    (path,) = entries(folder)
    data = path.read_bytes()
    at = len(data) // 2
    flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    for harmed in (data[:at], flipped, b"", b"something else" + data):
        path.write_bytes(harmed)
        done = run(folder, use)
        assert done.stdout == "2000\n"
        assert f"removed {path}" in done.stderr
        assert path.read_bytes()[: len(kernel_cache.MAGIC)] == kernel_cache.MAGIC
    assert "removed" not in run(folder, use).stderr


def test_an_entry_under_the_name_of_another_is_not_taken_for_it(folder: Path) -> None:
    """What Numba's index and data of two processes could become: code of another function or signature."""
    run(folder, "k.tripled(x)\nk.doubled(x)\nk.doubled(x * 0.5)")
    whole, halves = entries(folder, "doubled")
    (other,) = entries(folder, "tripled")
    whole_data, halves_data = whole.read_bytes(), halves.read_bytes()
    use = "print(k.doubled(x)[-1], k.doubled(x * 0.5)[-1])"
    for path, data in ((whole, halves_data), (halves, whole_data), (whole, other.read_bytes())):
        path.write_bytes(data)
        assert run(folder, use).stdout == "2000 1000.0\n"
    assert {whole.read_bytes() == whole_data, halves.read_bytes() == halves_data} == {False}  # they were made again


USE = "print(k.doubled(x)[-1], sum(k.doubled._cache_misses.values()))"


def entry_and_lock(folder: Path) -> tuple[Path, Path]:
    """Compile a kernel; return its entry and the name of its lock, neither of which is there any more."""
    assert run(folder, USE).stdout == "2000 1\n"
    (path,) = entries(folder)
    assert not list(path.parent.glob("*.lock"))
    kept = folder / "kept"
    path.rename(kept)
    return kept, path.with_name(path.name + kernel_cache.LOCK)


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """Hold a lock, as a process does that compiles."""
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_what_another_process_compiles_is_waited_for(folder: Path) -> None:
    kept, lock = entry_and_lock(folder)
    with held(lock), ThreadPoolExecutor(1) as aside:
        waiting = aside.submit(run, folder, "print(0, flush=True)\n" + USE)
        time.sleep(3.0)
        assert not waiting.done()
        kept.rename(str(lock).removesuffix(kernel_cache.LOCK))
        assert waiting.result().stdout == "0\n2000 0\n", "loaded, and not compiled"


def test_a_process_that_keeps_a_lock_for_ever_is_not_waited_for(folder: Path) -> None:
    _, lock = entry_and_lock(folder)
    with held(lock):
        impatient = "from topwatch.core import kernel_cache\nkernel_cache.LONGEST_WAIT = 0.1\n"
        assert run(folder, impatient + USE).stdout == "2000 1\n"
    assert len(entries(folder)) == 1


def test_a_process_that_was_killed_keeps_no_lock(folder: Path) -> None:
    _, lock = entry_and_lock(folder)
    kill = """
from topwatch.core import kernel_cache as cache
cache.whole_file = lambda *_, **__: os.kill(os.getpid(), 9)
k.doubled(x)
"""
    with pytest.raises(AssertionError):
        run(folder, kill)
    assert lock.exists()
    never = "from topwatch.core import kernel_cache\nkernel_cache.LONGEST_WAIT = float('inf')\n"
    assert run(folder, never + USE).stdout == "2000 1\n"
    assert not lock.exists()


def test_what_cannot_be_compiled_keeps_no_lock(folder: Path) -> None:
    code = """
try:
    k.doubled("text", 1)
except TypeError:
    pass
try:
    k.doubled(object())
except Exception as error:
    print(type(error).__name__, k.doubled._cache._locks)
"""
    assert run(folder, code).stdout == "TypingError {}\n"


def test_a_source_that_has_changed_is_compiled_again(folder: Path) -> None:
    run(folder, "k.doubled(x)")
    (folder / "kernels_of_test.py").write_text(KERNELS.replace("return x + x\n", "return x + x + 1\n"))
    assert run(folder, "print(k.doubled(x)[-1])").stdout == "2001\n"


@pytest.mark.parametrize("package", [False, True], ids=["module", "package"])
def test_a_helper_that_has_changed_is_compiled_again(tmp_path: Path, package: bool) -> None:
    """A user's algorithm, and a function that it takes from a module beside it."""
    (tmp_path / "cache").mkdir(mode=0o700)
    inside = tmp_path / "mine" / "inner" if package else tmp_path
    inside.mkdir(parents=True, exist_ok=True)
    if package:
        (tmp_path / "mine" / "__init__.py").touch()
        (inside / "__init__.py").touch()
    helper = (tmp_path / "mine" if package else inside) / "helper_of_test.py"
    name, source = ("mine.inner.", "mine.") if package else ("", "")
    (inside / "kernels_of_test.py").write_text(
        f"from topwatch.core.jit import kernel\nfrom {source}helper_of_test import more\n"
        "@kernel\ndef doubled(x):\n    return x + more(x)\n"
    )
    for factor in (1, 2):
        helper.write_text(f"from topwatch.core.jit import inner\n@inner\ndef more(x):\n    return {factor} * x\n")
        done = run(tmp_path, "print(k.doubled(x)[0])", module=f"{name}kernels_of_test")
        assert done.stdout.strip() == str(1099 * (1 + factor)), done.stderr


def test_what_is_typed_in_at_a_prompt_is_compiled_without_a_cache(folder: Path) -> None:
    code = """
from topwatch.core.jit import kernel
made = {"kernel": kernel, "__name__": "__main__"}
exec(compile("@kernel\\ndef fourfold(x):\\n    return 4 * x\\n", "<stdin>", "exec"), made)
print(made["fourfold"](x)[0])
"""
    assert run(folder, code).stdout.strip() == str(4 * 1099)
    assert not list((folder / "cache").rglob("*fourfold*"))


def test_settings_of_numba_have_entries_of_their_own(folder: Path) -> None:
    run(folder, "k.doubled(x)")
    run(folder, "k.doubled(x)", NUMBA_BOUNDSCHECK="1")
    assert len({path.parent for path in entries(folder)}) == 2


def test_a_folder_that_others_may_write_to_is_not_used(folder: Path, tmp_path: Path) -> None:
    user_folder = tmp_path / "home"
    (folder / "cache").chmod(0o777)
    done = run(folder, "print(k.doubled(x)[-1])", XDG_CACHE_HOME=str(user_folder))
    assert done.stdout == "2000\n"
    assert "can be written by other users" in done.stderr
    assert not entries(folder)
    assert list((user_folder / "topwatch").rglob(f"*{kernel_cache.ENDING}"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The last resort is a name under the folder for temporary files, which anybody can make first."""
    monkeypatch.delenv("TOPWATCH_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    taken = tmp_path / f"topwatch-cache-{os.getuid()}"
    taken.mkdir(mode=0o700)
    assert kernel_cache.cache_directory("kernels") == str(taken / "kernels")
    os.chown(taken, 12345, 12345)
    assert kernel_cache.cache_directory("kernels") is None
    assert "belongs to another user" in caplog.text
    taken.rename(tmp_path / "elsewhere")
    taken.symlink_to(tmp_path / "elsewhere")
    assert kernel_cache.cache_directory("kernels") is None
