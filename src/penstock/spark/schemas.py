"""The fixed schema of everything that can be read, for Spark and for Arrow."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def _schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in columns.items()])


TASKS = _schema(
    payload=BinaryType(),
    position=LongType(),
    queue=StringType(),
)

JOBS = _schema(
    id=StringType(),
    queue=StringType(),
    type=StringType(),
    state=StringType(),
    data=StringType(),
    data_bytes=BinaryType(),
    priority=IntegerType(),
    tenant=StringType(),
    tags=ArrayType(StringType()),
    limit_key=StringType(),
    unique=StringType(),
    attempts=IntegerType(),
    failures=IntegerType(),
    crashes=IntegerType(),
    lapses=IntegerType(),
    created_at=TimestampType(),
    due_at=TimestampType(),
    started_at=TimestampType(),
    finished_at=TimestampType(),
    worker=StringType(),
    reason=StringType(),
    result=StringType(),
    result_bytes=BinaryType(),
    error_type=StringType(),
    error_message=StringType(),
    error_traceback=StringType(),
)

RESULTS = _schema(
    job=StringType(),
    state=StringType(),
    result=StringType(),
    result_bytes=BinaryType(),
    error_type=StringType(),
    error_message=StringType(),
    attempts=IntegerType(),
    created_at=TimestampType(),
    started_at=TimestampType(),
    finished_at=TimestampType(),
)

HISTORY = _schema(
    queue=StringType(),
    place=StringType(),
    job=StringType(),
    type=StringType(),
    tenant=StringType(),
    priority=IntegerType(),
    attempt=IntegerType(),
    outcome=StringType(),
    state=StringType(),
    error_type=StringType(),
    worker=StringType(),
    created_at=TimestampType(),
    ended_at=TimestampType(),
    waited_ms=LongType(),
    ran_us=LongType(),
    cpu_us=LongType(),
    bytes=LongType(),
)

MESSAGES = _schema(
    key=StringType(),
    body=BinaryType(),
    headers=MapType(StringType(), StringType()),
    partition=IntegerType(),
    offset=StringType(),
    timestamp=TimestampType(),
)

RANGES = _schema(
    name=StringType(),
    incarnation=StringType(),
    partition=IntegerType(),
    start=StringType(),
    end=StringType(),
)

_ARROW_TYPES = {
    BinaryType(): pa.binary(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    StringType(): pa.string(),
    TimestampType(): pa.timestamp("us", "UTC"),
    MapType(StringType(), StringType()): pa.map_(pa.string(), pa.string()),
    ArrayType(StringType()): pa.list_(pa.field("element", pa.string())),
}


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark wants record batches of this schema to look like; it takes nothing similar."""
    return pa.schema([(field.name, _ARROW_TYPES[field.dataType]) for field in schema.fields])
