"""Jars: whether Kafka's connector and a database's driver can be there when Spark starts.

Spark brings neither. They come with ``spark.jars.packages`` or ``spark.jars``, or lie among Spark's own jars. What
else may bring them (``spark-submit``, a folder of configuration) is not read: where there is any, nothing is refused.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence

from topwatch.query.errors import QueryError
from topwatch.spark.pipeline.config.sink_models import Jdbc, KafkaTopic
from topwatch.spark.pipeline.config.source_models import Kafka
from topwatch.spark.pipeline.config.yaml_nodes import FieldPath

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
PACKAGES, JARS = "spark.jars.packages", "spark.jars"

# Settings and variables by which jars may come that are not looked at here.
SETTINGS = ("spark.driver.extraClassPath", "spark.jars.ivySettings", "spark.driver.defaultExtraClassPath")
VARIABLES = (
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CLASSPATH",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_SUBMIT_OPTS",
)

# Packages that bring what they are for and nothing else; another one may depend on whatever it likes.
KNOWN = {
    "org.apache.spark:spark-sql-kafka-0-10": PROVIDER,
    "org.postgresql:postgresql": "org.postgresql.Driver",
    "org.mariadb.jdbc:mariadb-java-client": "org.mariadb.jdbc.Driver",
    "com.mysql:mysql-connector-j": "com.mysql.cj.jdbc.Driver",
    "com.microsoft.sqlserver:mssql-jdbc": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}

_DRIVERS = {
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "oracle": "oracle.jdbc.OracleDriver",
    "postgresql": "org.postgresql.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}


def driver_of(url: str) -> str:
    """Return the class of the driver for an address; Spark finds by itself only drivers that it was started with.

    >>> driver_of("jdbc:postgresql://localhost/topwatch")
    'org.postgresql.Driver'
    """
    database = url.split(":")[1] if url.startswith("jdbc:") else url.split(":")[0]
    if database not in _DRIVERS:
        # Not the whole address: it may hold a password.
        raise QueryError(f"sink.jdbc.options.driver: is missing, and {database!r} does not tell the driver's class")
    return _DRIVERS[database]


def absent(
    source: object, sink: object, settings: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> Iterator[tuple[FieldPath, str]]:
    """Yield the path of a source or a sink that Spark is certain not to know when it starts, and what is missing.

    Parameters
    ----------
    source, sink : parts of a pipeline
        As the pipeline's file describes them.
    settings : mapping
        Of Spark: those of the file and of the command line.
    environment : mapping
        Variables of the environment.
    """
    how = f"name its jar in {PACKAGES} or {JARS}, under spark in the file or with --conf"
    kafka = [("source", "kafka")] if isinstance(source, Kafka) else []
    kafka += [("sink", "kafka")] if isinstance(sink, KafkaTopic) else []
    if kafka and _is_absent(PROVIDER, settings, environment):
        for path in kafka:
            version = _version()
            yield path, f"Spark will have no Kafka connector; run it with {PACKAGES}={CONNECTOR}:{version}"
    if isinstance(sink, Jdbc):
        try:
            driver = sink.options.get("driver") or driver_of(sink.url)
        except QueryError as error:
            yield ("sink", "jdbc", "options", "driver"), str(error).partition(": ")[2]
            return
        if _is_absent(driver, settings, environment):
            yield ("sink", "jdbc"), f"Spark will have no JDBC driver {driver!r}; {how}"


def _is_absent(name: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Return whether it is certain that Spark's Java will not have a class."""
    spark = environment.get("SPARK_HOME") or _pyspark()
    if spark is None or os.path.exists(os.path.join(spark, "conf")):
        return False
    if any(setting in settings for setting in SETTINGS) or any(variable in environment for variable in VARIABLES):
        return False
    packages, jars = (_listed(settings.get(setting, "")) for setting in (PACKAGES, JARS))
    brought = [KNOWN.get(_artifact(package)) for package in packages]
    if None in brought or name in brought:
        return False
    own = glob.glob(os.path.join(glob.escape(spark), "jars", "*.jar"))
    return bool(own) and _in_none(name, [*jars, *own])


def _in_none(name: str, jars: Sequence[str]) -> bool:
    """Return whether all jars can be read, and none has a class."""
    entry = name.replace(".", "/") + ".class"
    for path in jars:
        try:
            with zipfile.ZipFile(path.removeprefix("file://").removeprefix("file:")) as jar:
                if entry in jar.NameToInfo:
                    return False
        except (OSError, zipfile.BadZipFile):  # on another machine, a pattern, not there yet
            return False
    return True


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _artifact(package: str) -> str:
    """Return group and name without Scala's version.

    >>> _artifact("org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0")
    'org.apache.spark:spark-sql-kafka-0-10'
    """
    group, _, rest = package.partition(":")
    return f"{group}:{rest.partition(':')[0].partition('_')[0]}"


def _pyspark() -> str | None:
    """Return the folder of the installed pyspark, without importing it."""
    try:
        spec = importlib.util.find_spec("pyspark")
    except (ImportError, ValueError):
        return None
    return next(iter(spec.submodule_search_locations or ()), None) if spec is not None else None


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return "4.3.0"
