"""A Spark session that knows `format("penstock")`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from penstock.server.project import PROJECT_VARIABLE, project_root
from penstock.spark.home import compiled_modules
from penstock.spark.java import find_java
from penstock.spark.source import PenstockSource

if TYPE_CHECKING:
    from collections.abc import Mapping

_QUIET = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}


def session(
    master: str | None = None,
    app_name: str = "penstock",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session in which `format("penstock")` works; the one that runs already, if any.

    Spark runs its Python processes with this interpreter unless PYSPARK_PYTHON is set, on a Java
    that `find_java` finds, and logs errors only unless `config` sets `spark.log.level`. `master` is
    what Spark takes, by default `local[*]`; "sc://host" is a Spark Connect server. The time zone of
    the session is left as it is.

    Raises JavaNotFound.
    """
    return register(open_session(master, app_name, config))


def open_session(
    master: str | None = None,
    app_name: str = "penstock",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """The same for what needs no data source: making one known takes Spark some seconds."""
    place = master or os.environ.get("SPARK_REMOTE", "")
    is_elsewhere = place.startswith("sc://")
    is_connect = is_elsewhere or "SPARK_REMOTE" in os.environ
    if not is_elsewhere and SparkSession.getActiveSession() is None:
        _prepare_environment()
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.remote(master) if is_elsewhere else builder.master(master)
    # A session of Spark Connect cannot change what its server has begun with.
    for name, value in {**({} if is_connect else _QUIET), **(config or {})}.items():
        builder = builder.config(name, value)
    with compiled_modules(master or (config or {}).get("spark.master")):
        return builder.getOrCreate()


def register(spark: SparkSession) -> SparkSession:
    """Make `format("penstock")` known to a session, classic or Spark Connect, and return it.

    Executors, and the driver's machine, need penstock installed for their Python.
    """
    spark.dataSource.register(PenstockSource)
    return spark


def _prepare_environment() -> None:
    """Spark hands down to its processes what is set when its JVM starts."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault(PROJECT_VARIABLE, str(project_root()))
    os.environ["JAVA_HOME"] = str(find_java())
