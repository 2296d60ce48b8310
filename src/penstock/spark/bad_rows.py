"""Rows that cannot be sent: they refuse the batch, or go to a folder with the reason."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from pyarrow import fs

from penstock.errors import RowRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

_PENDING = "_pending"


class BadRows:
    """The rows of one attempt that cannot be sent, as lines of JSON: `reason` and `row`.

    The file has a name of the attempt until the batch is decided, and then one of the batch, so
    that attempts which Spark does not commit leave nothing in the folder. The folder is one that
    executors and the driver's machine share, or the URI of an object store.
    """

    def __init__(self, folder: str | None, stage: str) -> None:
        self._folder = folder
        self._path = f"{folder}/{_PENDING}/{stage}.jsonl" if folder else ""
        self._file: pa.NativeFile | None = None

    def collector(self, batch: pa.RecordBatch) -> Callable[[int, str], None]:
        """What a packer calls for each row of `batch` that cannot be sent.

        Raises RowRefused if there is no folder for them.
        """

        def refuse(row: int, reason: str) -> None:
            values = {name: batch.column(name)[row].as_py() for name in batch.schema.names}
            if self._folder is None:
                raise RowRefused(
                    f"a row cannot be sent: {reason}; the row is {_shown(values)}; nothing of the "
                    "batch was sent; mend or filter such rows, or name a folder for them by the "
                    "option 'bad_rows'"
                )
            self._write({"reason": reason, "row": values})

        return refuse

    def written(self) -> str:
        """The file, or empty if all rows could be sent."""
        return self._path if self._file is not None else ""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, row: dict[str, object]) -> None:
        if self._file is None:
            system, path = _open(self._path)
            system.create_dir(path.rpartition("/")[0], recursive=True)
            self._file = system.open_output_stream(path)
        self._file.write(json.dumps(row, default=_as_json).encode() + b"\n")

    @staticmethod
    def publish(files: Iterable[str], batch: str, version: int) -> None:
        """Give the files of a decided batch their final names; a repeated one takes its place."""
        for number, file in enumerate(filter(None, files)):
            system, path = _open(file)
            folder = path.rpartition(f"/{_PENDING}/")[0]
            name = quote(f"{batch} {version}".replace(" ", "-"), safe="")
            system.move(path, f"{folder}/{name}-{number}.jsonl")

    @staticmethod
    def discard(files: Iterable[str]) -> None:
        for file in filter(None, files):
            system, path = _open(file)
            system.delete_file(path)


def _open(uri: str) -> tuple[fs.FileSystem, str]:
    if "://" in uri:
        system, path = fs.FileSystem.from_uri(uri)
        return system, path
    return fs.LocalFileSystem(), uri


def _as_json(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _shown(values: dict[str, object]) -> str:
    text = json.dumps(values, default=_as_json)
    return text if len(text) <= 200 else f"{text[:200]}..."


@contextmanager
def bad_rows_of(folder: str | None, stage: str) -> Iterator[BadRows]:
    """The bad rows of one attempt, whose file is closed in the end."""
    bad_rows = BadRows(folder, stage)
    try:
        yield bad_rows
    finally:
        bad_rows.close()
