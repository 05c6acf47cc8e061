"""Extras of the package: what a plain ``pip install topwatch`` leaves out, and the message where it is missing."""

from __future__ import annotations

import importlib.util

from topwatch.query.errors import TopwatchError

# module → the extra that installs it
EXTRAS = dict.fromkeys(("google.protobuf", "pandas", "py4j", "pyspark", "xxhash", "yaml"), "spark")
STREAMS = ("pyspark", "pandas", "google.protobuf", "xxhash")  # what a watched DataFrame needs


class MissingModuleError(TopwatchError, ImportError):
    """A module that comes with an extra of the package is not installed."""


def missing(module: str) -> MissingModuleError | None:
    """Return the error that says which extra installs a module; None where no extra does.

    >>> raise missing("xxhash")
    Traceback (most recent call last):
    ...
    topwatch.query.extras.MissingModuleError: spark: the module xxhash is not installed; run pip install ...
    """
    for known, extra in EXTRAS.items():
        if module.partition(".")[0] == known.partition(".")[0]:
            return MissingModuleError(
                f"{extra}: the module {known} is not installed; run pip install 'topwatch[{extra}]'"
            )
    return None


def require(*modules: str) -> None:
    """Refuse to go on where a module is not installed. Nothing is imported but packages around it."""
    for module in modules:
        error = missing(module)
        if error is not None and not _installed(module):
            raise error


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False
    except ValueError:  # imported, by something that does not say from where
        return True
