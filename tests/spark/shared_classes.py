"""The classes that Spark loads, in one file that every JVM of the tests maps into memory: it starts
in half the time then, and so does whatever it does first.

    python -m tests.spark.shared_classes      # `make test` does it once

A JVM that does not fit the file (another Java, another class path) goes without, and says nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

FILE = Path(sys.prefix) / "spark-classes.jsa"
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
"""No JVM of a test runs long enough for well-compiled code to pay."""


def jvm_options() -> str:
    """With which every JVM of the tests starts."""
    return f"{_QUICK} -XX:SharedArchiveFile={FILE}" if FILE.exists() else _QUICK


def main() -> None:
    made = FILE.with_suffix(".new")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_QUICK} -XX:ArchiveClassesAtExit={made}"
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        _use_spark(Path(folder))
    if made.exists():  # not every Java can write it
        made.replace(FILE)


def _use_spark(folder: Path) -> None:
    """A little of all that tests do. Its JVM writes the file when it ends."""
    import penstock.spark  # noqa: PLC0415 - what only asks for the options needs no Spark
    from tests.servers import RedisServer  # noqa: PLC0415
    from tests.spark.archive_rig import Rig  # noqa: PLC0415

    server = RedisServer(folder).start()
    try:
        config = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
        spark = penstock.spark.session("local[2]", "penstock", config)
        with penstock.connect(server.url) as ps:
            rig = Rig(spark, ps, server, folder / "history")
            rig.world.end_jobs(10)
            rig.archive("mail")
            penstock.spark.make_report(rig.lake.uri, spark=spark)
        rows = spark.range(10).selectExpr("cast(id AS string) AS payload")
        target = rows.write.format("penstock").mode("append").option("url", server.url)
        target.options(queue="files", batch_id="classes").save()
        jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        spark.stop()
        jvm.stdin.close()
        jvm.wait(120)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
