"""A real MQTT broker for tests: Mosquitto on a loopback port, with or without users and TLS."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.loopback import free_port, serving
from tests.support.servers.maven_jars import UnavailableError

_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


@contextmanager
def mosquitto(
    folder: Path, users: Mapping[str, str] | None = None, tls: tuple[Path, Path] | None = None, port: int | None = None
) -> Iterator[int]:
    """Run a broker and yield its port. With users each may only publish under its own name; the first one may all."""
    port = port or free_port()
    lines = [f"listener {port} 127.0.0.1", "persistence false"]
    if users is None:
        lines.append("allow_anonymous true")
    else:
        passwords = folder / "passwords"
        passwords.write_text("")
        passwords.chmod(0o600)
        for name, password in users.items():
            subprocess.run([_program("mosquitto_passwd"), "-b", passwords, name, password], check=True, timeout=60)
        access = [f"user {next(iter(users))}", "topic readwrite topwatch/#", "pattern write topwatch/up/%u"]
        access += ["pattern read topwatch/down/%u", "pattern read topwatch/tick"]
        (folder / "access").write_text("\n".join(access) + "\n")
        (folder / "access").chmod(0o600)
        lines += ["allow_anonymous false", f"password_file {passwords}", f"acl_file {folder / 'access'}"]
    if tls is not None:
        lines += [f"certfile {tls[0]}", f"keyfile {tls[1]}"]
    if os.geteuid() == 0:
        lines.append("user root")  # else it becomes a user that may not read the folder
    configuration = folder / "mosquitto.conf"
    configuration.write_text("\n".join(lines) + "\n")
    command = [_program("mosquitto"), "-c", configuration]
    with serving(command, port, folder / "mosquitto.log", signal.SIGTERM):
        yield port


def _program(name: str) -> str:
    result = shutil.which(name, path=_PATH)
    if result is None:
        raise UnavailableError(f"no {name}: install Mosquitto (on Debian: apt-get install mosquitto)")
    return result
