"""Rows of windows that are not full yet, which lie elsewhere until they are needed.

As long as no row of a group expires, what its runs hold is all that counts. To keep its rows would take fresh memory
for every one of them; the caller that pushed them has them anyway, in files. When a window is about to be full, all
earlier pushes are read again once, for the rows of that group and of all others whose window is half full. So the
pushes are read again each time their number has doubled, where groups grow at all rates. Where groups come and go, so
that they would be read more often, all rows are kept from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from topwatch.algorithms.topk.kernels.pages import Pages
from topwatch.core.group_numbers import rows_at, scattered
from topwatch.core.kernels.partition import by_group
from topwatch.core.kernels.scoring import Floats, Ints

Push = tuple[Ints, Sequence[Sequence[Floats]]]  # the group of each row, and for each column the values, in pieces
Past = Callable[[], Iterator[Push]]
OFTEN = 2  # how many times a row may be read again, on average, before all are kept

_NONE = np.empty(0, np.int64)


def no_past() -> Iterator[Push]:
    """Return an empty past: there are no earlier pushes."""
    return iter(())


class Recalling:
    """Which groups are needed, and their rows from earlier pushes.

    Parameters
    ----------
    rows : int
        Of a window.
    unmaterialised : bool
        Whether rows of new groups are unmaterialised at first.
    """

    def __init__(self, rows: int, unmaterialised: bool) -> None:
        self._rows = rows
        self.unmaterialised = unmaterialised
        self.begun = 0  # the last tick before the pushes that can be read again
        self._again = 0  # rows that were read again

    def due(self, pages: Pages, group: Ints, count: Ints, tick: int) -> Ints:
        """Return the groups whose rows have to be materialised before so many more of some groups come."""
        if not self.unmaterialised:
            return _NONE
        some: Ints = group[(pages.unmaterialised[group] == 1) & (pages.held[group] + count > self._rows)]
        if not pages.held[some].any():
            return some
        self._again += tick - self.begun
        if self._again > OFTEN * tick:
            self.unmaterialised = False
            return np.arange(pages.unmaterialised.size)
        half = np.flatnonzero((pages.unmaterialised == 1) & (2 * pages.held >= self._rows))
        result: Ints = np.union1d(some, half)
        return result

    def rows(
        self, unmaterialised: Ints, held: Ints, groups: Ints, past: Past
    ) -> Iterator[tuple[Ints, Ints, Floats, Ints]]:
        """Yield the unmaterialised rows of some groups, push by push: groups, where each begins, values, ticks.

        ``unmaterialised`` and ``held`` are those of the pages. The groups count as materialised from then on.
        """
        chosen = np.zeros(unmaterialised.size, np.bool_)
        chosen[groups] = unmaterialised[groups] == 1
        unmaterialised[chosen] = 0
        missing = int(held[chosen].sum())
        if missing == 0:
            return
        first = self.begun + 1
        for group, columns in past():
            ticks = first + by_group(group, chosen.size)[0]
            first += group.size
            mine = np.flatnonzero(chosen[group])
            if mine.size < group.size:
                group, ticks = group[mine], ticks[mine]
                columns = [[np.concatenate(pieces)[mine]] for pieces in columns]
            index, result, start = by_group(group, chosen.size)
            missing -= group.size
            yield result, start, rows_at(columns, index), scattered([ticks], index)
        if missing:
            raise RuntimeError(f"{missing} rows of windows that are needed again were not among those given again")
