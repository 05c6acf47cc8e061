"""The names in a schema. Spark parses the types later; the names are needed before it starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from topwatch.spark.pipeline.config.parts import refuse

DDL = "a schema such as 'flow STRING, ts TIMESTAMP, bytes DOUBLE'"

_QUOTED = re.compile(r"""`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_COLUMN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))(?:\s*:\s*|\s+)\w.*", re.DOTALL)


def columns_of(ddl: str) -> tuple[str, ...]:
    """Return the names of the top-level columns.

    >>> columns_of(
    ...     "flow STRING COMMENT 'a, b', `net bytes` DECIMAL(10, 2) NOT NULL, at: STRUCT<lat: DOUBLE, lon: DOUBLE>"
    ... )
    ('flow', 'net bytes', 'at')
    """
    names: dict[str, None] = {}
    for part in _parts(ddl):
        match = _COLUMN.fullmatch(part)
        if match is None:
            raise refuse(f"expected {DDL}, got {part.strip()!r} where a name and a type should stand")
        name = match[2] or match[1].replace("``", "`")
        if name in names:
            raise refuse(f"names the column {name!r} twice")
        names[name] = None
    return tuple(names)


def _parts(ddl: str) -> Iterator[str]:
    depth, start = 0, 0
    plain = _QUOTED.sub(lambda match: "_" * len(match[0]), ddl)
    for index, character in enumerate(plain):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            yield ddl[start:index]
            start = index + 1
    left = "quote" if set("`'\"") & set(plain) else "bracket" if depth else ""
    if left:
        raise refuse(f"expected {DDL}, got a {left} without its pair in {ddl!r}")
    yield ddl[start:]


def _checked(ddl: str) -> str:
    columns_of(ddl)
    return ddl


Ddl = Annotated[str, Field(min_length=1), AfterValidator(_checked)]
