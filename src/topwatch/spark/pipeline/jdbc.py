"""A database table that takes each micro-batch once, whatever is tried again.

Spark's tasks can only add rows in transactions of their own, so they write to ``<table>_staging``. One transaction of
the driver's then moves the batch from there into the table and records (query, batch) in ``<table>_batches``: a crash
before its end leaves neither, a batch that is recorded is not moved again. Rows of a batch have numbers, which are the
same where a task ran twice, so that it counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from topwatch.query.errors import QueryError
from topwatch.spark.session import quoted

QUERY = "_query_id"
BATCH = "_batch_id"
ROW = "_row"  # its number in the batch

_TYPES = "createTableColumnTypes"  # an option of Spark's: types that it would not choose itself


def numbered(frame: DataFrame, name: str) -> DataFrame:
    """Add a column that numbers the rows of a micro-batch, with the same numbers where a task is tried again.

    Values alone do not distinguish rows: ids may repeat, and then two changes may be equal. The order in which a task
    gives its rows may be another one the next time; sorted by their values they have one, but for rows that are equal.
    """
    ordered = frame.sortWithinPartitions(*[sf.col(quoted(column)) for column in frame.columns])
    return ordered.select("*", sf.monotonically_increasing_id().alias(name))


class Table:
    """A table of a database.

    Parameters
    ----------
    spark : SparkSession
        The session to write with; its JVM has the driver's jar.
    name : str
        The table's name as the database knows it. Where it does not exist, Spark makes it.
    options : mapping
        Options of Spark's JDBC writer: ``url``, ``driver``, ``user``, ``password`` and others.

    Raises
    ------
    QueryError
        The driver's jar is not there.
    """

    def __init__(self, spark: SparkSession, name: str, options: Mapping[str, str]) -> None:
        self._spark, self._name, self._options = spark, name, dict(options)
        self._staging, self._batches = f"{name}_staging", f"{name}_batches"
        self._is_ready = False
        try:
            self._jdbc().DriverRegistry.register(options["driver"])
        except Py4JJavaError:
            raise QueryError(
                f"sink.jdbc: this Spark has no JDBC driver {options['driver']!r}; run it with spark.jars.packages or"
                " spark.jars naming the driver's jar"
            ) from None

    def write(self, frame: DataFrame, query: str, batch: int) -> None:
        """Add a batch to the table, or nothing if it is there already.

        The frame is always computed, once: Spark commits state and watermarks only of batches that ran.
        """
        staged = numbered(frame, ROW).select(sf.lit(query).alias(QUERY), sf.lit(batch).cast("long").alias(BATCH), "*")
        if not self._is_ready:
            self._prepare(frame, staged)
            self._is_ready = True
        self._transact(lambda connection: self._clear(connection, query))
        self._append(staged, self._staging)
        self._transact(lambda connection: self._move(connection, frame.columns, query, batch))

    def _prepare(self, frame: DataFrame, staged: DataFrame) -> None:
        # Spark knows how a database writes its types; a frame without rows makes the table and nothing else.
        self._append(self._spark.createDataFrame([], frame.schema), self._name)
        types = ", ".join(filter(None, [f"`{QUERY}` VARCHAR(36)", self._options.get(_TYPES)]))
        self._append(self._spark.createDataFrame([], staged.schema), self._staging, {_TYPES: types})
        if not self._exists(self._batches):
            columns = f"{self._quoted(QUERY)} VARCHAR(36) NOT NULL, {self._quoted(BATCH)} BIGINT NOT NULL"
            key = f"PRIMARY KEY ({self._quoted(QUERY)}, {self._quoted(BATCH)})"
            self._transact(lambda connection: _run(connection, f"CREATE TABLE {self._batches} ({columns}, {key})"))

    def _append(self, frame: DataFrame, table: str, options: Mapping[str, str] | None = None) -> None:
        how = {**self._options, **(options or {}), "dbtable": table}
        frame.write.format("jdbc").options(**how).mode("append").save()

    def _clear(self, connection: Any, query: str) -> None:
        _run(connection, f"DELETE FROM {self._staging} WHERE {self._quoted(QUERY)} = ?", query)

    def _move(self, connection: Any, columns: list[str], query: str, batch: int) -> None:
        this = f"{self._quoted(QUERY)} = ? AND {self._quoted(BATCH)} = ?"
        if not _has_rows(connection, f"SELECT 1 FROM {self._batches} WHERE {this}", query, batch):
            names = ", ".join(self._quoted(name) for name in columns)
            once = f"SELECT DISTINCT {self._quoted(ROW)}, {names} FROM {self._staging} WHERE {this}"
            _run(connection, f"INSERT INTO {self._name} ({names}) SELECT {names} FROM ({once}) staged", query, batch)
            key = f"{self._quoted(QUERY)}, {self._quoted(BATCH)}"
            _run(connection, f"INSERT INTO {self._batches} ({key}) VALUES (?, ?)", query, batch)
        self._clear(connection, query)

    def _exists(self, table: str) -> bool:
        connection = self._connect()
        try:
            _has_rows(connection, self._dialect().getTableExistsQuery(table))
            return True
        except Py4JJavaError:
            return False
        finally:
            connection.close()

    def _transact(self, work: Any) -> None:
        connection = self._connect()
        try:
            connection.setAutoCommit(False)
            work(connection)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        finally:
            connection.close()

    def _connect(self) -> Any:
        """Open a connection as Spark does: java.sql alone does not see drivers that came with ``spark.jars``."""
        url, jvm = self._options["url"], self._jvm()
        options = self._jdbc().JDBCOptions(url, self._name, jvm.PythonUtils.toScalaMap(self._options))
        return self._dialect().createConnectionFactory(options).apply(-1)

    def _dialect(self) -> Any:
        return self._jvm().org.apache.spark.sql.jdbc.JdbcDialects.get(self._options["url"])

    def _jdbc(self) -> Any:
        return self._jvm().org.apache.spark.sql.execution.datasources.jdbc

    def _jvm(self) -> Any:
        return self._spark.sparkContext._jvm

    def _quoted(self, name: str) -> str:
        return str(self._dialect().quoteIdentifier(name))


def _run(connection: Any, sql: str, *values: str | int) -> None:
    statement = _prepared(connection, sql, values)
    try:
        statement.executeUpdate()
    finally:
        statement.close()


def _has_rows(connection: Any, sql: str, *values: str | int) -> bool:
    statement = _prepared(connection, sql, values)
    try:
        return bool(statement.executeQuery().next())
    finally:
        statement.close()


def _prepared(connection: Any, sql: str, values: tuple[str | int, ...]) -> Any:
    statement = connection.prepareStatement(sql)
    for index, value in enumerate(values, 1):
        if isinstance(value, str):
            statement.setString(index, value)
        else:
            statement.setLong(index, value)
    return statement
