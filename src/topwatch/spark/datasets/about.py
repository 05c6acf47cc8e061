"""What a job did to the rows of a data set: counted while it runs, kept beside the rows, printed at the end."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

ABOUT = "_about.json"  # Spark passes over files whose names start with an underscore


@dataclass
class About:
    """What was done to make a stream of a data set.

    Attributes
    ----------
    name, options
        Of the data set; how it was asked for.
    order : list of str
        What rows are sorted by.
    rows_in, rows_out, files, rows_per_file : int
        Rows that were read and written, and how these are cut.
    dropped : dict
        Rows left out, by the reason.
    nulls : dict
        Missing values that were kept, by column.
    clipped : dict
        By column: the bound, and how many values lay above it.
    ranges : dict
        By column: what became 0 and what became 1.
    notes : list of str
        What else was done, in sentences.
    columns : dict
        Names and types of the result.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    rows_in: int = 0
    rows_out: int = 0
    files: int = 0
    rows_per_file: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)
    clipped: dict[str, dict[str, float]] = field(default_factory=dict)
    ranges: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return it as text, the same for the same input: without times and paths."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def __str__(self) -> str:
        r"""Return it in lines.

        >>> print(About("luce", rows_in=9, rows_out=8, files=1, rows_per_file=10, dropped={"time is null": 1}))
        luce: 9 rows in, 8 rows out in 1 file of up to 10 rows
          dropped: 1 (time is null)
        """
        files = f"{self.files:,} file{'s' * (self.files != 1)} of up to {self.rows_per_file:,} rows"
        lines = [f"{self.name}: {self.rows_in:,} rows in, {self.rows_out:,} rows out in {files}"]
        if self.order:
            lines.append(f"order: {', '.join(self.order)}")
        lines += [f"dropped: {count:,} ({reason})" for reason, count in self.dropped.items() if count]
        lines += [f"nulls kept: {count:,} in {column}" for column, count in self.nulls.items() if count]
        lines += [
            f"clipped: {int(clip['values']):,} values of {column} above {clip['above']:g}"
            for column, clip in self.clipped.items()
        ]
        lines += [f"0 to 1: {column} from {low:g} to {high:g}" for column, (low, high) in self.ranges.items()]
        return "\n  ".join([*lines, *self.notes])
