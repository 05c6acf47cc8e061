"""Which timestamps are sampled: the same for all that know the seed, be they devices far apart or monitors restored.

Zhang et al., SIGMOD 2009, section 5. The number of a timestamp gives its draw, so that a client that joins late needs
nothing but the number of timestamps that have passed.
"""

from __future__ import annotations

import math

from topwatch.query.errors import QueryError

_GOLDEN = 0x9E3779B97F4A7C15
_BITS = (1 << 64) - 1


def sampling_rate(window: int, share: float, epsilon: float, delta: float) -> float:
    """Return the share of timestamps to be sampled (Theorem 5.1), 1 at most.

    With it, a record that is reported is in the skyline of more than ``(share - epsilon) * window`` of the last
    ``window`` snapshots, with probability ``1 - 2 * delta``.

    >>> round(sampling_rate(window=1000, share=0.8, epsilon=0.2, delta=0.1), 3)
    0.178
    """
    spread = math.log(1.0 / delta)
    return min(1.0, math.sqrt(spread / (2.0 * window)) + 2.0 * spread / (epsilon * epsilon * share * window))


def draw(seed: int, tick: int) -> float:
    """Return the random number in [0, 1) of a timestamp: splitmix64 of seed and tick.

    >>> draw(0, 1) == draw(0, 1), 0.0 <= draw(7, 12345) < 1.0
    (True, True)
    """
    z = (seed * 0xD1342543DE82EF95 + (tick + 1) * _GOLDEN) & _BITS
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _BITS
    return ((z ^ (z >> 31)) >> 11) / float(1 << 53)


def is_sampled(seed: int, rate: float, tick: int) -> bool:
    """Return whether a timestamp is sampled. The first one, 0, always is: clients join with their values.

    >>> [tick for tick in range(20) if is_sampled(1, 0.2, tick)]
    [0, 6, 11, 18]
    """
    return tick == 0 or draw(seed, tick) <= rate


def check_guarantee(window: int, share: float, epsilon: float, delta: float, seed: int) -> None:
    """Refuse a window, a share, a guarantee or a seed that makes no sense."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _BITS:
        raise QueryError(f"seed: expected a whole number from 0 to 2**64 - 1, got {seed!r}")
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        raise QueryError(f"window: expected a whole number of at least 1, got {window!r}")
    for name, value in (("share", share), ("epsilon", epsilon), ("delta", delta)):
        whole = name == "share"
        fine = isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value <= 1.0
        if not fine or (value == 1.0 and not whole):
            accepted = "above 0 and at most 1" if whole else "between 0 and 1"
            raise QueryError(f"{name}: expected a number {accepted}, got {value!r}")
