"""Skylines of many devices with few messages: the protocol of SIGMOD 2009 without transport, and its simulation.

A device holds a :class:`~topwatch.edge.protocol.client.Client`, the server a
:class:`~topwatch.edge.protocol.server.Server`; both take messages and values in and give messages out. :func:`simulate`
runs ten thousand of them over arrays.

Examples
--------
>>> import numpy as np
>>> import topwatch as tw
>>> snapshots = np.random.default_rng(0).random((1, 50, 2)) + np.zeros((20, 1, 1))
>>> report = tw.skyline.simulate(snapshots, {"price": "min", "stars": "max"})
>>> report.uplink, report.downlink  # each joins and gets a filter, then nothing moves
(50, 50)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topwatch.edge.protocol.client import Client as Client
    from topwatch.edge.protocol.server import Server as Server
    from topwatch.edge.protocol.simulation import Report as Report
    from topwatch.edge.protocol.simulation import simulate as simulate

_MODULE_OF = {"Client": "client", "Server": "server", "Report": "simulation", "simulate": "simulation"}

__all__ = ["Client", "Report", "Server", "simulate"]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:  # a device has no Numba: it imports the client and nothing else
        return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
