"""The command line, called in this process as a shell would call it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from unittest.mock import patch

from topwatch.cli.main import main

CODES = (0, 1, 2, 130)


def call(arguments: Sequence[str], stdin: str = "") -> tuple[int, str]:
    """Return exit code and what went to standard error, each line of which must be one of ours."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", how) for how in ("strict", "backslashreplace"))
    with (
        patch.object(sys, "argv", ["topwatch", *arguments]),
        patch.object(sys, "stdin", io.StringIO(stdin)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(os.getcwd()),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    err.flush()
    printed = err.buffer.getvalue().decode()
    assert code in CODES, f"exit code {code!r}"
    assert "Traceback" not in printed, printed
    if code == 2 and "Usage:" not in printed:
        lines = printed.splitlines()
        assert lines, "exit code 2 and not a word"
        for line in lines:
            assert line.startswith("topwatch: "), f"a line of standard error is not ours: {line!r}"
            assert len(line) < 2000, f"{len(line)} characters in a line"
    return code, printed
