"""The settings of a source or a sink, as read from a pipeline file: what is needed, and what goes through to Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from topwatch.query.errors import QueryError

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"


def needed(settings: Mapping[str, Any], where: str, name: str) -> Any:
    """Return a setting that cannot be left out.

    >>> needed({"path": "out/"}, "sink.parquet", "path")
    'out/'
    """
    if name not in settings:
        raise QueryError(f"{where}.{name}: is missing")
    return settings[name]


def text_options(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that pass through, as Spark wants them: text, and booleans in lower case.

    >>> text_options({"options": {"header": True, "maxFilesPerTrigger": 1}})
    {'header': 'true', 'maxFilesPerTrigger': '1'}
    """
    options = settings.get("options", {})
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def check_connector(spark: SparkSession, where: str) -> None:
    """Refuse Kafka where Spark was started without the connector, before anything runs."""
    try:
        # This connects to nothing: Spark only looks for the connector.
        spark.readStream.format("kafka").option("kafka.bootstrap.servers", "-").option("subscribe", "-").load()
    except AnalysisException as error:
        if error.getCondition() != "KAFKA_DATA_SOURCE_NOT_ENABLED":
            raise
        package = f"{CONNECTOR}:{spark.version}"
        raise QueryError(
            f"{where}: this Spark has no Kafka connector; run it with spark.jars.packages={package}"
        ) from None
