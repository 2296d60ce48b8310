"""Rows of a DataFrame to chunks of jobs, as they are staged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from penstock.codec.chunks import EMPTY, STRING, array_header, pack_chunk, pack_string
from penstock.codec.heads import pack_head
from penstock.errors import InvalidArgument, Unserialisable
from penstock.model.job_options import JobOptions, make_options
from penstock.model.staging import MAX_CHUNK_JOBS, batch_tag
from penstock.spark.job_ids import ids_of_rows
from penstock.spark.packing import Chunk, join_strings, split
from penstock.spark.rows import json_rows
from penstock.spark.write_kinds import JOB_COLUMNS, JOB_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.types import StructType

    from penstock.spark.options import Request
    from penstock.spark.packing import Refuse

_GROUP = 5
"""How many strings come before the jobs of a group."""


class _Row(NamedTuple):
    options: JobOptions
    id: bytes
    """empty if it is made later"""
    data: bytes


@dataclass(frozen=True, slots=True)
class JobPacker:
    """Makes a job of each row: its data from one column or from all that are left, its options the
    same for all rows or from columns.
    """

    settings: Mapping[str, Any]
    """options that all jobs share, and their type unless that has a column"""
    columns: Mapping[str, str]
    """option, or "type" -> the column that has it"""
    data_column: str | None
    data_columns: tuple[str, ...]
    """what makes up the data if there is no column for it"""
    max_payload: int
    batch_id: str = ""
    key_columns: tuple[str, ...] = ()
    """what makes the id of a job, with the batch; none: ids are made when jobs are moved"""

    def pack(self, batch: pa.RecordBatch, refuse: Refuse) -> Iterator[Chunk]:
        kept, data = self._data(batch, refuse)
        if not self.columns and not self.key_columns:
            options = _options(dict(self.settings))
            array = pa.array(data, pa.binary())
            for part, sizes in split(array, MAX_CHUNK_JOBS):
                head = b"".join(map(pack_string, _group(options, len(part))))
                jobs = join_strings(part, sizes, EMPTY + STRING)
                strings = array_header(_GROUP + 2 * len(part))
                yield Chunk(strings + head + jobs, len(part), int(sizes.max()))
            return
        rows = self._with_options(batch, kept, data, refuse)
        for part, sizes in split(pa.array([row.data for row in rows], pa.binary()), MAX_CHUNK_JOBS):
            taken, rows = rows[: len(part)], rows[len(part) :]
            yield Chunk(pack_chunk(_strings(taken)), len(part), int(sizes.max()))

    def _data(self, batch: pa.RecordBatch, refuse: Refuse) -> tuple[list[int], list[bytes]]:
        """Which rows have data that can be sent, and that data."""
        try:
            data = self._json(batch)
        except Unserialisable:
            data = [self._json_of_row(batch, row, refuse) for row in range(batch.num_rows)]
        kept = []
        for row, item in enumerate(data):
            if item is not None and len(item) > self.max_payload:
                limit = f"{self.max_payload} is the limit"
                refuse(row, f"the data of the job has {len(item)} bytes and {limit}")
            elif item is not None:
                kept.append(row)
        return kept, [item for row in kept if (item := data[row]) is not None]

    def _json(self, batch: pa.RecordBatch) -> list[bytes | None]:
        if self.data_column is None:
            return list(json_rows(batch, self.data_columns))
        column = batch.column(self.data_column)
        if pa.types.is_struct(column.type):
            fields = [field.name for field in column.type]
            return list(json_rows(pa.RecordBatch.from_struct_array(column), fields))
        values = column.to_pylist()
        if None in values:
            raise Unserialisable(f"column {self.data_column!r} is null")
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return [_checked_json(self.data_column, value) for value in values]
        return list(values)

    def _json_of_row(self, batch: pa.RecordBatch, row: int, refuse: Refuse) -> bytes | None:
        try:
            return self._json(batch.slice(row, 1))[0]
        except Unserialisable as error:
            refuse(row, str(error))
            return None

    def _with_options(
        self, batch: pa.RecordBatch, kept: list[int], data: list[bytes], refuse: Refuse
    ) -> list[_Row]:
        ids = self._ids(batch)
        names = list(self.columns)
        columns = [batch.column(self.columns[name]).to_pylist() for name in names]
        known: dict[str, JobOptions | str] = {}
        found = []
        for row, item in zip(kept, data, strict=True):
            given = {
                name: column[row]
                for name, column in zip(names, columns, strict=True)
                if column[row] is not None
            }
            key = repr(given)
            options = known.get(key)
            if options is None:
                options = known[key] = self._try_options(given)
            if isinstance(options, str):
                refuse(row, options)
            else:
                found.append(_Row(options, ids[row], item))
        return found

    def _ids(self, batch: pa.RecordBatch) -> list[bytes]:
        if not self.key_columns:
            return [b""] * batch.num_rows
        return [b"%d" % id for id in ids_of_rows(self.batch_id, batch, self.key_columns)]

    def _try_options(self, given: dict[str, Any]) -> JobOptions | str:
        try:
            return _options({**self.settings, **given})
        except InvalidArgument as error:
            return str(error)


def job_packer(request: Request, schema: StructType, max_payload: int) -> JobPacker:
    """A packer for these rows; refuses columns that are not there, an option that is given both for
    all rows and by a column, and one that is wrong for all rows.
    """
    values = request.values
    settings = {name: values[name] for name in JOB_OPTIONS if values[name] is not None}
    columns = {
        name: values[f"{name}_column"]
        for name in JOB_COLUMNS
        if values[f"{name}_column"] is not None
    }
    for name in settings.keys() & columns.keys():
        raise InvalidArgument(
            f"the options {name!r} and '{name}_column' say the same thing in two ways; give one"
        )
    if "type" not in settings.keys() | columns.keys():
        raise InvalidArgument(
            "a job needs a type; give the option 'type' for all rows, or 'type_column'"
        )
    data_column = values["data_column"]
    _check_columns(schema, {**columns, **({"data": data_column} if data_column else {})})
    # What is wrong for all rows is said before any is written.
    unique = {"unique": "key"} if "unique" in columns else {}
    _options({"type": "type", **unique, **settings})
    used = {data_column, *columns.values()}
    left = tuple(name for name in schema.fieldNames() if name not in used)
    batch_id, key_columns = values["batch_id"] or "", tuple(values["key_columns"] or ())
    if (key_columns or values["keep_for"] is not None) and not batch_id:
        raise InvalidArgument(
            "key_columns and keep_for need the option batch_id as well, which says to which batch "
            "the jobs belong"
        )
    _check_columns(schema, {f"key {number}": name for number, name in enumerate(key_columns)})
    if values["keep_for"] is not None:
        settings["tags"] = [*settings.get("tags", ()), batch_tag(batch_id)]
    return JobPacker(settings, columns, data_column, left, max_payload, batch_id, key_columns)


def _check_columns(schema: StructType, columns: Mapping[str, str]) -> None:
    names = schema.fieldNames()
    for name, column in columns.items():
        option = "key_columns" if name.startswith("key ") else f"{name}_column"
        if column not in names:
            raise InvalidArgument(
                f"option {option!r} names the column {column!r}, which is not there; the columns "
                f"are {', '.join(names)}"
            )
    if "data" in columns:
        kind = schema[columns["data"]].dataType.typeName()
        if kind not in ("string", "binary", "struct"):
            raise InvalidArgument(
                f"column {columns['data']!r} is to be the data of the jobs and has the type "
                f"{kind}; give a column of JSON text, of bytes, or a struct"
            )


def _options(given: dict[str, Any]) -> JobOptions:
    kind = given.pop("type", None)
    if kind is None:
        raise InvalidArgument("a job needs a type, and the row has none")
    return make_options(kind, given)  # type: ignore[arg-type]


def _group(options: JobOptions, count: int) -> list[bytes]:
    numbers = (options.delay_ms, options.run_at_ms, options.window_ms, count)
    return [pack_head(options), *(b"%d" % number for number in numbers)]


def _strings(rows: list[_Row]) -> list[bytes]:
    """Jobs with the same options stand together, each group where the first of them does."""
    groups: dict[JobOptions, list[_Row]] = {}
    for row in rows:
        groups.setdefault(row.options, []).append(row)
    strings: list[bytes] = []
    for options, members in groups.items():
        strings += _group(options, len(members))
        strings += (part for row in members for part in (row.id, row.data))
    return strings


def _checked_json(column: str, value: str) -> bytes:
    try:
        json.loads(value)
    except ValueError as error:
        raise Unserialisable(
            f"column {column!r} is to be the data of the job, but is no JSON: {error}"
        ) from None
    return value.encode()
