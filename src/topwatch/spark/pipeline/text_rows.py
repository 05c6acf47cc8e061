"""Rows out of text: JSON or CSV records, one a row, each with its columns or else with what is wrong with it.

A record is parsed once into the columns' own types, by Spark. Only where that fails it is parsed again as plain text,
column by column, which names the column and the value at fault, and accepts numbers in quotes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from topwatch.query.errors import QueryError
from topwatch.spark.session import quoted

RAW = "_raw"
PROBLEM = "_problem"

_UNREAD = "_unread"  # where Spark puts a record that it could not parse
_BLANK = " \t\r\n"
_SHOWN = 80  # characters of a bad value
_SCALAR = (NumericType, StringType, BooleanType, DateType, TimestampType, TimestampNTZType)
_OURS = {
    "mode": "records that cannot be read go to the quarantine",
    "columnNameOfCorruptRecord": "records that cannot be read go to the quarantine",
    "multiLine": "a record is one line",
    "wholetext": "a record is one line",
    "encoding": "text is UTF-8",
    "charset": "text is UTF-8",
}


def schema_of(schema: str | StructType, taken: Iterable[str] = ()) -> StructType:
    """Return the schema that was given as Spark's DDL, or ready made.

    Its names are not ``taken``, be it in upper or in lower case.
    """
    columns = _from_ddl(schema) if isinstance(schema, str) else schema
    names = [name.lower() for name in columns.fieldNames()]
    for name in names:
        if names.count(name) > 1:
            raise QueryError(f"schema: column {name!r} is there twice; Spark does not tell upper case from lower")
        if name in (RAW, PROBLEM, _UNREAD, *taken):
            raise QueryError(f"schema: a column cannot be called {name!r}; that name is topwatch's own")
    if not names:
        raise QueryError("schema: expected at least one column, got none")
    return columns


def _check_options(options: Mapping[str, str]) -> None:
    """Refuse options of Spark's readers that would undo what is done here."""
    ours = {name.lower(): (name, reason) for name, reason in _OURS.items()}
    for given, value in options.items():
        if given.lower() in ours and str(value).lower() not in ("utf-8", "utf8", "false"):
            name, reason = ours[given.lower()]
            raise QueryError(f"options.{name}: cannot be set to {value!r}: {reason}")


def parse(
    records: DataFrame, form: str, schema: StructType, options: Mapping[str, str], carried: Sequence[str]
) -> DataFrame:
    """Parse the text column ``value``.

    Parameters
    ----------
    records : DataFrame
        With a string column ``value`` and the columns ``carried``.
    form : "json" or "csv"
        What the text is.
    schema : StructType
        Columns to find in it, of scalar types.
    options : mapping
        Options of Spark's JSON or CSV reader, for example ``sep``.
    carried : list of str
        Columns to keep as they are.

    Returns
    -------
    DataFrame
        The columns of the schema and those carried, ``_raw`` with the text, and ``_problem``: null, or why the
        record cannot be used.
    """
    _check_options(options)
    for field in schema.fields:
        if not isinstance(field.dataType, _SCALAR):
            raise QueryError(
                f"schema: column {field.name!r} is {field.dataType.simpleString()};"
                " accepted are numbers, strings, booleans, dates and timestamps"
            )
    keep = [sf.col(quoted(name)) for name in carried]
    value = sf.col("value")
    # A partition's number is never negative; reading it marks the column as not deterministic. Otherwise Spark
    # moves a later filter on _problem in front of the parser and parses every record twice.
    once = sf.when(sf.spark_partition_id() >= 0, value)
    typed = records.select(value, *keep, _read(form, once, schema, options).alias("typed"))
    failed = sf.col("typed").isNull() | sf.col("typed").getField(_UNREAD).isNotNull()
    texts = StructType([StructField(field.name, StringType()) for field in schema.fields])
    parsed = typed.select(
        "*", sf.when(failed, _read(form, value, texts, options)).alias("text"), failed.alias("failed")
    )
    return parsed.select(
        *[_value(field).alias(field.name) for field in schema.fields],
        *keep,
        sf.make_valid_utf8(value).alias(RAW),
        _problem(form, schema, options).alias(PROBLEM),
    )


def _read(form: str, text: Column, schema: StructType, options: Mapping[str, str]) -> Column:
    wide = StructType([*schema.fields, StructField(_UNREAD, StringType())])
    how = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _UNREAD}
    return sf.from_json(text, wide, how) if form == "json" else sf.from_csv(text, _ddl(wide), how)


def _from_ddl(text: str) -> StructType:
    try:
        return cast(StructType, StructType.fromDDL(text))
    except ParseException as error:
        raise QueryError(
            f"schema: {text!r} is not a list of columns and Spark types such as 'flow string, bytes double'"
            f" ({error.getCondition()})"
        ) from None


def _ddl(schema: StructType) -> str:
    return ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in schema.fields)


def _value(field: StructField) -> Column:
    text = sf.col("text").getField(field.name)
    return sf.coalesce(sf.col("typed").getField(field.name), _cast(text, field.dataType))


def _cast(text: Column, kind: DataType) -> Column:
    return text if isinstance(kind, StringType) else text.try_cast(kind)


def _problem(form: str, schema: StructType, options: Mapping[str, str]) -> Column:
    value, text, failed = sf.col("value"), sf.col("text"), sf.col("failed")
    trimmed = sf.btrim(value, sf.lit(_BLANK))
    empty = sf.when(value.isNull() | (trimmed == ""), "empty record")
    unread = failed & (text.isNull() | text.getField(_UNREAD).isNotNull())
    if form == "json":
        whole = sf.when(unread, "unparsable JSON")
        more = [sf.when(_is_more_than_one(trimmed, schema, options), "unparsable JSON: more than one object")]
    else:
        whole, more = sf.when(unread, f"unparsable CSV: expected {len(schema.fields)} columns"), []
    columns = [_bad_value(field) for field in schema.fields if not isinstance(field.dataType, StringType)]
    return sf.coalesce(empty, whole, *more, sf.when(failed, sf.coalesce(*columns)) if columns else sf.lit(None))


def _bad_value(field: StructField) -> Column:
    text, kind = sf.col("text").getField(field.name), field.dataType
    message = sf.lit(f"column {field.name!r}: expected {kind.simpleString()}, got '")
    return sf.when(
        text.isNotNull() & _value(field).isNull(), sf.concat(message, sf.substring(text, 1, _SHOWN), sf.lit("'"))
    )


def _is_more_than_one(text: Column, schema: StructType, options: Mapping[str, str]) -> Column:
    """Return whether something follows the first object: Spark's parser stops there, and what follows would be lost."""
    first = StructType([StructField(schema.fields[0].name, StringType())])
    listed = sf.from_json(
        sf.concat(sf.lit("["), text, sf.lit("]")), f"array<{first.simpleString()}>", {**options, "mode": "PERMISSIVE"}
    )
    # A flat object has its only brace at the end, which is quick to see.
    flat = sf.instr(text, "}") == sf.length(text)
    return ~flat & sf.coalesce(sf.size(listed) != 1, sf.lit(True))
