"""A command on a terminal of its own, as a user sits in front of it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Sequence

ENTER_SCREEN, LEAVE_SCREEN, SHOW_CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"


def on_a_terminal(
    command: Sequence[object], width: int, height: int, seconds: float, keys: str = "", when: str = ""
) -> tuple[int, str]:
    """Run a command, press keys once it has written some words, and return its exit code and all it wrote."""
    words = [str(word) for word in command]
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        environment |= {"TERM": "xterm-256color", "PYTHONUTF8": "1"}
        os.execve(words[0], words, environment)
    output = b""
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 1.0)[0]:
                try:
                    piece = os.read(terminal, 65_536)
                except OSError:  # how Linux says that the other end is closed
                    break
                if not piece:
                    break
                output += piece
            if keys and when.encode() in output:
                os.write(terminal, keys.encode())
                keys = ""
    finally:
        os.close(terminal)
        if time.monotonic() >= deadline:
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, output.decode(errors="replace")
