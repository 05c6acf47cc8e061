"""A real PostgreSQL for tests: a new database cluster in a temporary folder, on a loopback port."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.servers.loopback import HOST, free_port, serving
from tests.support.servers.maven_jars import Module, UnavailableError, fetch

USER = "topwatch"
_INSTALL = "on Debian: apt-get install postgresql"


class Server(NamedTuple):
    """A running server; ``sql`` asks it through psql, which shares no code with what is tested."""

    url: str
    password: str
    port: int
    psql: str

    def sql(self, statement: str) -> list[list[str]]:
        """Run a statement and return its rows, all values as text."""
        command = [self.psql, "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c", statement]
        where = ["-h", HOST, "-p", str(self.port), "-U", USER, "postgres"]
        done = subprocess.run(
            command + where,
            env={**os.environ, "PGPASSWORD": self.password},
            capture_output=True,
            text=True,
            timeout=60.0,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        return [line.split("\t") for line in done.stdout.splitlines()]


def driver() -> list[Path]:
    """Return the jars of PostgreSQL's JDBC driver."""
    return fetch(Module("org.postgresql", "postgresql", "42.7.11", alone=True))


@contextmanager
def postgres() -> Iterator[Server]:
    """Run a server whose only user has a password, and yield how to reach it."""
    initdb, server, psql = _program("initdb"), _program("postgres"), _program("psql")
    how = _as_another_user()
    # Not in pytest's own folder: only its owner may enter that, and the server may be someone else.
    folder = Path(tempfile.mkdtemp(prefix="topwatch-postgres-", dir="/tmp"))
    try:
        password, port = secrets.token_hex(16), free_port()
        secret = folder / "password"
        secret.write_text(password)
        if how:
            shutil.chown(folder, how["user"], how["group"])
            shutil.chown(secret, how["user"], how["group"])
        access = ["-U", USER, "--auth=scram-sha-256", f"--pwfile={secret}"]
        subprocess.run(
            [initdb, "-D", folder / "data", "-E", "UTF8", "--no-locale", "--no-sync", *access],
            check=True,
            capture_output=True,
            cwd=folder,
            timeout=120.0,
            **how,
        )
        command = [server, "-D", folder / "data", "-h", HOST, "-p", str(port), "-k", folder, "-F"]
        # SIGINT is PostgreSQL's fast shutdown: it does not wait until clients have gone.
        with serving(command, port, folder / "log", signal.SIGINT, cwd=folder, **how):
            yield Server(f"jdbc:postgresql://{HOST}:{port}/postgres", password, port, psql)
    finally:
        shutil.rmtree(folder)


def _program(name: str) -> str:
    """Return the path of one of PostgreSQL's programs; Debian keeps most of them out of PATH, one folder a version."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    path = os.pathsep.join([*map(str, reversed(versions)), os.environ.get("PATH", "")])
    result = shutil.which(name, path=path)
    if result is None:
        raise UnavailableError(f"no {name}: install PostgreSQL ({_INSTALL})")
    return result


def _as_another_user() -> dict[str, Any]:
    """PostgreSQL refuses to be run by root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise UnavailableError(f"no user to run PostgreSQL as ({_INSTALL})")
