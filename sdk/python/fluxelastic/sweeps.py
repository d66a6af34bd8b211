# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""Many MiniClusters with different parameters, and a record of each."""
from __future__ import annotations

import csv
import hashlib
import itertools
import json
import os
import re
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union

from . import errors, status
from .cluster import GROUP
from .minicluster import DIGEST, MiniCluster, table

_LABELS = "experiment." + GROUP + "/"  # as kubectl minicluster experiment
NAME_LABEL = _LABELS + "name"
REPETITION_LABEL = _LABELS + "repetition"

_QUOTA_PAUSE = 10

Parameters = Union[Mapping[str, Sequence[Any]], Iterable[Mapping[str, Any]]]


class Run(NamedTuple):
    """One MiniCluster of a sweep. repetition counts from 1."""

    name: str
    parameters: Dict[str, Any]
    repetition: int


def cases_of(parameters: Parameters) -> List[Dict[str, Any]]:
    """Return the parameters of each case: all combinations of a dictionary of lists, or a list of dictionaries as it is."""
    if not isinstance(parameters, Mapping):
        return [dict(case) for case in parameters]
    for name, values in parameters.items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise ValueError(f"the parameter {name} is {values!r}: it has to be a list of values")
    return [dict(zip(parameters, values)) for values in itertools.product(*parameters.values())]


def runs_of(name: str, parameters: Parameters, repeats: int) -> List[Run]:
    """Return all runs. A run has the same name whenever the sweep has its parameters, so that a sweep may grow."""
    if repeats < 1:
        raise ValueError(f"repeats {repeats}: it has to be at least 1")
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name):
        raise ValueError(f"name {name!r}: it has to begin with a letter, and to have only lower case letters, digits and '-'")
    runs = []
    for repetition in range(1, repeats + 1):
        for case in cases_of(parameters):
            digest = hashlib.sha256(json.dumps(case, sort_keys=True, default=str).encode()).hexdigest()[:8]
            runs.append(Run(f"{name}-{digest}-{repetition}", case, repetition))
    if len({run.name for run in runs}) < len(runs):
        raise ValueError("the same parameters are there twice: repeats says how often each case runs")
    return runs


class Records(Sequence[Dict[str, Any]]):
    """The records of runs that have ended: dictionaries with the names of `kubectl minicluster experiment`."""

    def __init__(self, records: Iterable[Dict[str, Any]] = ()) -> None:
        self._records = list(records)

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: Any) -> Any:
        return self._records[index]

    @classmethod
    def read(cls, path: str) -> "Records":
        """Read a file of records. A last line that was not written to its end does not count."""
        with open(path, "rb") as file:
            return cls(json.loads(line) for line in file if line.endswith(b"\n"))

    def rows(self) -> List[Dict[str, Any]]:
        """Return a flat row for each record: the parameters, what became of the run, its times in seconds, its figures."""
        return [_row(record) for record in self]

    def to_csv(self, path: str) -> None:
        """Write the rows as a table."""
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        with open(path, "w", newline="", encoding="utf-8") as file:
            out = csv.DictWriter(file, names)
            out.writeheader()
            out.writerows(rows)

    def dataframe(self) -> Any:
        """Return the rows as a DataFrame. This needs pandas."""
        import pandas  # type: ignore[import-untyped]

        return pandas.DataFrame(self.rows())

    def __repr__(self) -> str:
        return f"{len(self)} runs, {sum(r['state'] == 'Succeeded' for r in self)} succeeded"

    def _repr_html_(self) -> str:
        rows = self.rows()[:50]
        names = [n for n in dict.fromkeys(name for row in rows for name in row) if n not in ("message", "nodes")]
        return f"<p>{self!r}</p>" + table(names, ([row.get(name) for name in names] for row in rows))


def _row(record: Dict[str, Any]) -> Dict[str, Any]:
    result = status.Result.from_dict(record)
    return {
        **record.get("parameters", {}), "name": result.name, "repetition": record.get("repetition"), "state": result.state,
        "reason": result.reason, "message": result.message, "exitCode": result.exit_code, "wanted": result.wanted,
        "size": result.size, "tasks": result.tasks, "nodes": result.nodes, "attempts": len(result.attempts) + (result.attempt > 0),
        "submitted": record.get("submitted"), "waitSeconds": result.wait_seconds, "runSeconds": result.run_seconds,
        "usefulNodeSeconds": result.useful_node_seconds, "lostNodeSeconds": result.lost_node_seconds, **record.get("figures", {}),
    }


def sweep(name: str, make: Callable[..., MiniCluster], parameters: Parameters, *, repeats: int = 1, max_active: int = 16,
          records: Optional[str] = None, logs: Optional[str] = None, figures: Optional[Callable[[str], Dict[str, float]]] = None,
          keep: bool = False, progress: bool = True) -> Records:
    """Run a MiniCluster for each case, several times each, and return a record of each run.

    make returns the MiniCluster of a case; it gets the parameters as keywords. Its name is replaced. parameters are a
    dictionary of lists, of which all combinations run, or a list of dictionaries. max_active is how many MiniClusters
    there are at once.

    records is the file to which each record is written as the run ends, by default NAME.jsonl. The same call goes on
    where a sweep ended: runs with a record are not repeated, and runs whose MiniCluster is in the cluster are taken up.

    logs is a directory to which the output of each run is written. figures reads numbers from the output. A MiniCluster
    is deleted once it has a record, unless keep is True.

    A run that fails or is rejected has a record like others. Ctrl-C ends the sweep, and leaves the MiniClusters.
    """
    if max_active < 1:
        raise ValueError(f"max_active {max_active}: it has to be at least 1")
    path = records or name + ".jsonl"
    todo = _Sweep(name, make, runs_of(name, parameters, repeats), path, logs, figures, keep)
    bar = _bar(len(todo.runs), name, progress)
    bar.update(len(todo.runs) - len(todo.left))
    try:
        todo.clear()
        todo.run(max_active, bar.update)
    except KeyboardInterrupt:
        bar.close()
        print(f"{len(todo.done)} of {len(todo.runs)} runs are recorded in {path}. The MiniClusters go on without this program. To go on: "
              f"the same sweep again. To end them: kubectl delete minicluster -l {NAME_LABEL}={name}", file=sys.stderr)
        raise
    bar.close()
    return Records(todo.done[run.name] for run in todo.runs if run.name in todo.done)


class _Sweep:
    """A sweep that goes on from the records in its file."""

    def __init__(self, name: str, make: Callable[..., MiniCluster], runs: List[Run], path: str, logs: Optional[str],
                 figures: Optional[Callable[[str], Dict[str, float]]], keep: bool) -> None:
        self.name, self.make, self.runs, self.path, self.logs, self.figures, self.keep = name, make, runs, path, logs, figures, keep
        self.done: Dict[str, Dict[str, Any]] = {}
        if os.path.exists(path):
            self._read()
        self.left = [run for run in runs if run.name not in self.done]
        self._file_lock = threading.Lock()
        self._stopped = threading.Event()
        if logs:
            os.makedirs(logs, exist_ok=True)

    def _read(self) -> None:
        """Read the records, and remove a last line that was not written to its end."""
        self.done = {record["name"]: record for record in Records.read(self.path)}
        with open(self.path, "r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
        for run in self.runs:
            record = self.done.get(run.name)
            digest = self.minicluster(run).to_dict()["metadata"]["annotations"][DIGEST] if record else None
            if record and record.get("digest") != digest:
                raise errors.NameTaken(f"{self.path} has a record of {run.name} with another specification: choose another "
                                       "name or file, or remove the file", "AlreadyExists")

    def minicluster(self, run: Run) -> MiniCluster:
        """Return the MiniCluster of a run."""
        mc = self.make(**run.parameters)
        mc.name = run.name
        mc.labels.update({NAME_LABEL: self.name, REPETITION_LABEL: str(run.repetition)})
        return mc

    def clear(self) -> None:
        """Delete the MiniClusters of runs that have a record: a program was killed before it deleted them."""
        recorded = [run for run in self.runs if run.name in self.done]
        if self.keep or not recorded:
            return
        mc = self.minicluster(recorded[0])
        for found in mc.cluster.list(mc.namespace, f"{NAME_LABEL}={self.name}"):
            name, digest = status.name_of(found), (found.metadata or {}).get("annotations", {}).get(DIGEST)
            if self.done.get(name, {}).get("digest") == digest:
                MiniCluster(name, namespace=mc.namespace, cluster=mc.cluster).cancel(wait=False)

    def run(self, max_active: int, tell: Callable[[int], Any]) -> None:
        """Carry out what is left. The first error ends the sweep, once what is active has been told."""
        waiting, active = iter(self.left), set()  # type: Iterator[Run], set[Future[None]]
        pool = ThreadPoolExecutor(max_active)
        try:
            while True:
                for run in itertools.islice(waiting, max_active - len(active)):
                    active.add(pool.submit(self._one, run))
                if not active:
                    return
                ended, active = wait(active, return_when=FIRST_COMPLETED)
                for future in ended:
                    future.result()
                tell(len(ended))
        finally:
            self._stopped.set()
            pool.shutdown()

    def _one(self, run: Run) -> None:
        """Submit a run or take it up, wait for its end, write its record, and delete its MiniCluster."""
        mc = self.minicluster(run)
        if not self._submit(mc):
            return
        try:
            result = mc.outcome(stop=self._stopped.is_set)
        except errors.WaitTimeout:  # the sweep was stopped
            return
        record = {**result.to_dict(), "parameters": run.parameters, "repetition": run.repetition,
                  "digest": mc.to_dict()["metadata"]["annotations"][DIGEST]}
        record.update(self._output(mc))
        self._write(run, record)
        if not self.keep:
            mc.cancel(wait=False)

    def _submit(self, mc: MiniCluster) -> bool:
        """Submit a MiniCluster, once the quota of the namespace has room. It is False if the sweep was stopped before."""
        while not self._stopped.is_set():
            try:
                mc.submit()
                return True
            except errors.RequestError as error:
                if error.status != 403 or "exceeded quota" not in error.message:
                    raise
            self._stopped.wait(_QUOTA_PAUSE)
        return False

    def _output(self, mc: MiniCluster) -> Dict[str, Any]:
        """Return where the output of a run is, and the figures in the output."""
        if not self.logs and not self.figures:
            return {}
        try:
            text = "".join(line + "\n" for line in mc.logs())
        except errors.Error as error:
            return {"logError": str(error)}
        found: Dict[str, Any] = {}
        if self.logs:
            found["log"] = os.path.join(self.logs, mc.name + ".log")
            with open(found["log"], "w", encoding="utf-8") as file:
                file.write(text)
        if self.figures:
            try:
                found["figures"] = self.figures(text)
            except Exception as error:  # in the function of the user
                found["logError"] = f"reading figures: {error}"
        return found

    def _write(self, run: Run, record: Dict[str, Any]) -> None:
        """Write a record so that a crash afterwards does not lose the record."""
        with self._file_lock, open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record, default=str) + "\n")
            file.flush()
            os.fsync(file.fileno())
            self.done[run.name] = record


class _Line:
    """A line that counts runs, for programs without tqdm."""

    def __init__(self, total: int, name: str, shown: bool) -> None:
        self.total, self.name, self.shown, self.done, self.told = total, name, shown, 0, 0.0

    def update(self, more: int) -> None:
        self.done += more
        if self.shown and (self.done == self.total or time.monotonic() - self.told > 1):
            self.told = time.monotonic()
            print(f"\r{self.name}: {self.done} of {self.total} runs", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.shown:
            print(file=sys.stderr)


def _bar(total: int, name: str, shown: bool) -> Any:
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        return tqdm(total=total, desc=name, unit="run", disable=not shown)
    except ImportError:
        return _Line(total, name, shown)
