# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""Many MiniClusters with different parameters, and a record of each."""
from __future__ import annotations

import contextlib
import copy
import hashlib
import itertools
import json
import os
import re
import sys
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Union

from . import errors
from . import logs as output
from ._model import plain
from .cluster import GROUP
from .minicluster import MiniCluster
from .records import Record, RecordFile, Records
from .transport import Limit

# Not the labels of kubectl minicluster experiment, whose MiniClusters are none of a sweep's business.
NAME_LABEL = "sweep." + GROUP + "/name"

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
            runs.append(Run(f"{name}-{_digest(case)}-{repetition}", case, repetition))
    if len({run.name for run in runs}) < len(runs):
        raise ValueError("the same parameters are there twice: repeats says how often each case runs")
    return runs


def _digest(case: Dict[str, Any]) -> str:
    """Return what distinguishes a case from others, in every process."""
    for name, value in case.items():
        try:
            json.dumps(plain(value), sort_keys=True)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the parameter {name} is {value!r}: it has to be a number, a text, or a list or dictionary of them") from error
    return hashlib.sha256(json.dumps(plain(case), sort_keys=True).encode()).hexdigest()[:12]


def sweep(name: str, make: Callable[..., MiniCluster], parameters: Parameters, *, repeats: int = 1, max_active: int = 16,
          records: Optional[str] = None, logs: Optional[str] = None, figures: Optional[Callable[[str], Dict[str, float]]] = None,
          keep: bool = False, progress: bool = True) -> Records:
    """Run a MiniCluster for each case, several times each, and return a record of each run.

    make gets the parameters of a case as keywords, and returns a MiniCluster, of which the sweep runs a copy with another
    name. Threads of the sweep call make, one call at a time. The same parameters have to give the same specification.
    parameters are a dictionary of lists, of which all combinations run, or a list of dictionaries. max_active is how many
    runs are under way at once.

    records is the file to which each record is written as the run ends, by default NAME.jsonl. The same call goes on
    where a sweep ended: runs with a record are not repeated, and runs whose MiniCluster is in the cluster are taken up.

    logs is a directory to which the output of each run is written. figures reads numbers from the output. A MiniCluster
    is deleted once the run has a record, unless keep is True, or the output could not be read: then the record has kept,
    and the same call reads the output again.

    A run that fails or is rejected has a record like others. Ctrl-C ends the sweep, and leaves the MiniClusters.

    Errors: ValueError for parameters and files that cannot be read and for a MiniCluster with cleanup, Error if another
    program has the file, NameTaken if the records are those of another specification, and RequestError.
    """
    if max_active < 1:
        raise ValueError(f"max_active {max_active}: it has to be at least 1")
    runs = runs_of(name, parameters, repeats)
    with contextlib.closing(RecordFile(records or name + ".jsonl")) as file:
        todo = _Sweep(name, make, runs, file, logs, figures, keep, progress)
        try:
            todo.clear()
            todo.run(max_active)
        except KeyboardInterrupt:
            todo.say_goodbye()
            raise
    return Records(todo.done[run.name] for run in runs if run.name in todo.done)


class _Sweep:
    """A sweep that goes on from the records in its file."""

    def __init__(self, name: str, make: Callable[..., MiniCluster], runs: List[Run], file: RecordFile, logs: Optional[str],
                 figures: Optional[Callable[[str], Dict[str, float]]], keep: bool, progress: bool) -> None:
        self.name, self.make, self.runs, self.file, self.logs, self.figures = name, make, runs, file, logs, figures
        self.keep, self.progress = keep, progress
        self.done: Dict[str, Record] = {}
        self.namespaces: Set[str] = set()
        self._stopped, self._making = threading.Event(), threading.Lock()
        self._limit = Limit(stop=self._stopped.is_set)
        self._take_up()
        self.left = [run for run in runs if run.name not in self.done or (logs or figures) and "kept" in self.done[run.name]]
        if logs:
            os.makedirs(logs, exist_ok=True)

    def _take_up(self) -> None:
        """Take the records in the file that are of this sweep. The first record of a run counts that knows the end."""
        for record in self.file.records:
            earlier = self.done.get(record["name"])
            if earlier is None or "kept" in earlier or earlier["state"] == "Deleted":
                self.done[record["name"]] = record
        for run in self.runs:
            record = self.done.get(run.name, {})
            if record and record.get("digest") != self.minicluster(run).digest:
                raise errors.NameTaken(f"{self.file.path} has a record of {run.name} with another specification: choose another "
                                       "name or file, or remove the file", "AlreadyExists")

    def say_goodbye(self) -> None:
        """Say how to go on after Ctrl-C."""
        ends = " && ".join(f"kubectl delete minicluster -n {namespace} -l {NAME_LABEL}={self.name}" for namespace in sorted(self.namespaces))
        print(f"{self._count()} are recorded in {self.file.path}. The "
              f"MiniClusters go on without this program. To go on: the same sweep again. To end them: {ends}", file=sys.stderr)

    def _count(self) -> str:
        return f"{sum(run.name in self.done for run in self.runs)} of {len(self.runs)} runs"

    def _tell(self, end: str = "") -> None:
        if self.progress:
            print(f"\r{self.name}: {self._count()}", end=end, file=sys.stderr, flush=True)

    def minicluster(self, run: Run) -> MiniCluster:
        """Return the MiniCluster of a run."""
        with self._making:  # make may return the same object again and again
            mc = copy.deepcopy(self.make(**run.parameters))
        if mc.spec.cleanup:
            raise ValueError("cleanup: a sweep deletes each MiniCluster itself, once the sweep has read the end and the output")
        mc.name, mc._uid = run.name, None
        self.namespaces.add(mc.namespace)
        mc.labels[NAME_LABEL] = self.name
        return mc

    def clear(self) -> None:
        """Delete the MiniClusters of runs that have a record: a program was killed before it deleted them."""
        recorded = {self.done[run.name].get("uid") for run in self.runs if "kept" not in self.done.get(run.name, {"kept": True})}
        if self.keep or not recorded:
            return
        cluster = self.minicluster(self.runs[0]).cluster
        for namespace in self.namespaces:
            for found in cluster.list(namespace, f"{NAME_LABEL}={self.name}"):
                metadata = found.metadata or {}
                if metadata["uid"] in recorded:
                    mc = MiniCluster(metadata["name"], namespace=namespace, cluster=cluster)
                    mc._is(metadata)
                    mc.cancel(wait=False)

    def run(self, max_active: int) -> None:
        """Carry out what is left. The first error ends the sweep, once what is active has been told."""
        waiting, active = iter(self.left), set()  # type: Iterator[Run], set[Future[None]]
        pool = ThreadPoolExecutor(max_active)
        try:
            while True:
                self._tell()
                for run in itertools.islice(waiting, max_active - len(active)):
                    active.add(pool.submit(self._one, run))
                if not active:
                    return
                ended, active = wait(active, return_when=FIRST_COMPLETED)
                for future in ended:
                    future.result()
        finally:
            self._stopped.set()
            pool.shutdown()
            self._tell("\n")

    def _one(self, run: Run) -> None:
        """Submit a run or take it up, wait for its end, write its record, and delete its MiniCluster. Of a run whose
        output was kept, only the output is read."""
        mc, kept = self.minicluster(run), self.done.get(run.name)
        try:
            if kept is None:
                self._submit(mc)
                record = {**mc._outcome(self._limit).to_dict(), "uid": mc._uid, "parameters": run.parameters,
                          "repetition": run.repetition, "digest": mc.digest}
            else:
                mc._uid = kept["uid"]
                record = {name: value for name, value in kept.items() if name not in ("kept", "logError")}
            record.update(self._output(mc))
            if record != kept:
                self.done[run.name] = self.file.write(record)
            if not self.keep and "kept" not in record:
                mc._cancel(False, self._limit)
        except errors.WaitTimeout:  # the sweep was stopped
            return

    def _submit(self, mc: MiniCluster) -> None:
        """Submit a MiniCluster, once the quota of the namespace has room."""
        while not self._stopped.is_set():
            try:
                mc._submit(self._limit)
                return
            except errors.RequestError as error:
                if error.status != 403 or "exceeded quota" not in error.message:
                    raise
            self._stopped.wait(_QUOTA_PAUSE)
        raise errors.WaitTimeout(f"{mc.name} was not submitted")

    def _output(self, mc: MiniCluster) -> Record:
        """Return where the output of a run is, and the figures in the output."""
        if not self.logs and not self.figures:
            return {}
        try:
            text = "".join(line + "\n" for line in output.read(mc.cluster, mc.read, False, self._limit))
        except errors.RequestError as error:  # the log may be there
            return {"logError": str(error), "kept": True}
        except (errors.NoLog, errors.Deleted) as error:
            return {"logError": str(error)}
        found: Record = {}
        if self.logs:
            found["log"] = os.path.join(self.logs, mc.name + ".log")
            with open(found["log"], "w", encoding="utf-8") as file:
                file.write(text)
        if self.figures:
            try:
                found["figures"] = json.loads(json.dumps(plain(dict(self.figures(text))), allow_nan=False))
            except Exception as error:  # in the function of the user
                found["logError"] = f"reading figures: {error}"
        return found
