# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""The records of a sweep, and their file."""
from __future__ import annotations

import contextlib
import csv
import json
import os
import threading
from typing import Any, Dict, Iterable, List, Sequence

from . import errors
from ._model import plain
from .minicluster import table

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Record = Dict[str, Any]


class Records(Sequence[Record]):
    """The records of runs that have ended: dictionaries with the names of `kubectl minicluster experiment`."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records = list(records)

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: Any) -> Any:
        return self._records[index]

    @classmethod
    def read(cls, path: str) -> "Records":
        """Read a file of records. A last line that was not written to its end does not count."""
        with open(path, "rb") as file:
            return cls(_parse(path, file.read()))

    def rows(self) -> List[Record]:
        """Return a flat row for each record: what became of the run, its times in seconds, parameter.NAME of each of its
        parameters, and figure.NAME of each of its figures."""
        return [_row(record) for record in self]

    def to_csv(self, path: str) -> None:
        """Write the rows as a table."""
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        with open(path, "w", newline="", encoding="utf-8") as file:
            out = csv.DictWriter(file, names)
            out.writeheader()
            out.writerows(rows)

    def __repr__(self) -> str:
        return f"{len(self)} runs, {sum(r['state'] == 'Succeeded' for r in self)} succeeded"

    def _repr_html_(self) -> str:
        rows = self.rows()[:50]
        names = [n for n in dict.fromkeys(name for row in rows for name in row) if n not in ("message", "nodes")]
        return f"<p>{self!r}</p>" + table(names, ([row.get(name) for name in names] for row in rows))


_COLUMNS = ("state", "reason", "message", "exitCode", "wanted", "size", "tasks", "nodes", "attempt", "submitted", "waitSeconds",
            "runSeconds", "usefulNodeSeconds", "lostNodeSeconds")


def _row(record: Record) -> Record:
    return {
        "name": record["name"], "repetition": record.get("repetition"),
        **{"parameter." + name: value for name, value in record.get("parameters", {}).items()},
        **{name: record.get(name) for name in _COLUMNS},
        **{"figure." + name: value for name, value in record.get("figures", {}).items()},
    }


class RecordFile:
    """A file of records that grows. One program has the file at a time, where the file system has locks.

    Errors: Error if another program has the file, and ValueError if the file has something else than records.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file = open(path, "a+b", buffering=0)
        try:
            self._lock_file()
            self.records = self._read()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(self._file, fcntl.LOCK_UN)  # a process that was forked meanwhile has the file, too
        self._file.close()

    def _lock_file(self) -> None:
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise errors.Error(f"another program runs the sweep of {self.path}", "InUse") from error
        except OSError:  # a file system without locks
            pass

    def _read(self) -> List[Record]:
        """Read the records, and remove a last line that was not written to its end."""
        self._file.seek(0)
        data = self._file.read()
        records, size = _parse(self.path, data), data.rfind(b"\n") + 1
        if not b'{"name"'.startswith(data[size:][:7]):
            raise ValueError(f"{self.path} is no file of records: its last line has no end")
        self._file.truncate(size)
        return records

    def write(self, record: Record) -> Record:
        """Write a record so that a crash afterwards does not lose the record. Return the record as the file has it."""
        line = json.dumps(plain(record))
        with self._lock:
            size = os.fstat(self._file.fileno()).st_size
            try:
                data = (line + "\n").encode()
                while data:
                    data = data[self._file.write(data):]
                os.fsync(self._file.fileno())
            except OSError:  # such as a full disk: half a line would hide what is written later
                self._file.truncate(size)
                raise
        return json.loads(line)


def _parse(path: str, data: bytes) -> List[Record]:
    records = []
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            records.append(json.loads(line))
            records[-1]["name"], records[-1]["state"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: it is no record") from error
    return records
