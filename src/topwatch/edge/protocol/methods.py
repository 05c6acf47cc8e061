"""The methods by name; the one place that knows them all."""

from __future__ import annotations

from topwatch.edge.protocol.filter import FilterMethod
from topwatch.edge.protocol.hybrid import Hybrid
from topwatch.edge.protocol.naive import Naive
from topwatch.edge.protocol.records import Records, Settings
from topwatch.edge.protocol.sampling import Sampling
from topwatch.query.errors import PlanError, nearest_name

METHODS: dict[str, type[Records]] = {"naive": Naive, "filter": FilterMethod, "sampling": Sampling, "hybrid": Hybrid}


def build(method: str, settings: Settings) -> Records:
    """Return the server's side of a method.

    >>> type(build("hybrid", Settings(columns=2))).__name__
    'Hybrid'
    """
    if not isinstance(method, str) or method not in METHODS:
        hint = nearest_name(method, METHODS) if isinstance(method, str) else ""
        raise PlanError(f"method: accepted are {', '.join(METHODS)}, got {method!r}{hint}")
    return METHODS[method](settings)
