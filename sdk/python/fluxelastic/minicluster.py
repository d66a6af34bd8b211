# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""A MiniCluster that a program submits, waits for, looks at and ends."""
from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import html
import json
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import datetime, timezone
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from . import errors, logs, models, status
from ._model import nearest, plain
from .cluster import GROUP, VERSION, Cluster, collection, one_of
from .transport import Limit
from .watch import Follower

DIGEST = "client." + GROUP + "/digest"
"""The annotation with a digest of the specification with which a MiniCluster was submitted."""

_cluster: Optional[Cluster] = None
_cluster_lock = threading.Lock()


def default_cluster() -> Cluster:
    """Return the cluster of all MiniClusters that name none: that of the kubeconfig, or of the pod."""
    global _cluster
    with _cluster_lock:
        if _cluster is None:
            _cluster = Cluster()
        return _cluster


class MiniCluster:
    """A MiniCluster by its name. It ends when somebody deletes the object, and not with the program.

    Keywords are fields of MiniClusterSpec (size, min_size, tasks, queue, deadline_seconds, ...), and of the container
    that runs the command (image, command, working_dir, environment, resources, ...). cpu, memory and gpus are what each
    broker gets. spec is a MiniClusterSpec, or a dictionary with the names of the API, that the keywords change.

        with MiniCluster("lj", image="lammps", command="lmp -in in.lj", size=16, min_size=8, tasks=112, cpu=7) as mc:
            print(mc.wait().run_seconds)

    As a context manager it is submitted at the beginning, and deleted at the end of the block.
    """

    def __init__(self, name: str, *, namespace: Optional[str] = None, cluster: Optional[Cluster] = None, spec: Any = None,
                 labels: Optional[Dict[str, str]] = None, annotations: Optional[Dict[str, str]] = None,
                 cpu: Any = None, memory: Any = None, gpus: Any = None, **fields: Any) -> None:
        self.name = name
        self.spec = copy.deepcopy(models.MiniClusterSpec.from_dict(plain(spec) or {}, strict=True))
        self.labels, self.annotations = dict(labels or {}), dict(annotations or {})
        self._cluster, self._namespace = cluster, namespace
        # The object in the cluster that this was submitted as or read from, and the digest of the specification then.
        self._uid: Optional[str] = None
        self._digest = ""
        self._set(fields)
        self._limit({"cpu": cpu, "memory": memory, "nvidia.com/gpu": gpus})

    @classmethod
    def from_dict(cls, data: Dict[str, Any], cluster: Optional[Cluster] = None) -> "MiniCluster":
        """Return the MiniCluster of a dictionary with the names of the API. A name that does not exist is a ValueError."""
        mc = models.MiniCluster.from_dict(data, strict=True)
        metadata = mc.metadata or {}
        return cls(metadata.get("name", ""), namespace=metadata.get("namespace"), cluster=cluster, spec=mc.spec,
                   labels=metadata.get("labels"), annotations=metadata.get("annotations"))

    @classmethod
    def get(cls, name: str, namespace: Optional[str] = None, cluster: Optional[Cluster] = None) -> "MiniCluster":
        """Return a MiniCluster that is in the cluster. The error Deleted says that there is none."""
        mc = cls(name, namespace=namespace, cluster=cluster)
        found = mc.read()
        mc.spec = found.spec
        mc.labels = dict((found.metadata or {}).get("labels") or {})
        mc.annotations = dict((found.metadata or {}).get("annotations") or {})
        mc._is(found.metadata)
        return mc

    def _is(self, metadata: Optional[Dict[str, Any]]) -> None:
        """Remember the object in the cluster."""
        self._uid, self._digest = (metadata or {}).get("uid"), self.digest

    def __getstate__(self) -> Dict[str, Any]:  # so that a MiniCluster passes from one process to another
        return {**vars(self), "_cluster": None if self._cluster is _cluster else self._cluster}

    def _set(self, fields: Dict[str, Any]) -> None:
        of_spec = {f.name for f in dataclasses.fields(models.MiniClusterSpec)}
        of_container = {f.name for f in dataclasses.fields(models.MiniClusterContainer)}
        for name, value in fields.items():
            if name in of_spec:
                setattr(self.spec, name, copy.deepcopy(value))
            elif name in of_container:
                setattr(self.container, name, copy.deepcopy(value))
            else:
                raise TypeError(f"a MiniCluster has no field {name}{nearest(name, of_spec | of_container)}")

    def _limit(self, amounts: Dict[str, Any]) -> None:
        limits = {name: str(amount) for name, amount in amounts.items() if amount is not None}
        if limits:
            resources = plain(self.container.resources) or {}
            self.container.resources = {**resources, "limits": {**resources.get("limits", {}), **limits}}

    @property
    def container(self) -> models.MiniClusterContainer:
        """The container that runs Flux and the command."""
        if not self.spec.containers:
            self.spec.containers = [models.MiniClusterContainer()]
        self.spec.containers = [models.MiniClusterContainer.from_dict(c) for c in self.spec.containers]
        return next((c for c in self.spec.containers if c.run_flux), self.spec.containers[0])

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            self._cluster = default_cluster()
        return self._cluster

    @property
    def namespace(self) -> str:
        return self._namespace or self.cluster.namespace

    @property
    def digest(self) -> str:
        """A digest of the specification."""
        return hashlib.sha256(json.dumps(self.spec.to_dict(), sort_keys=True).encode()).hexdigest()[:16]

    def to_dict(self) -> Dict[str, Any]:
        """Return the object that submit sends, with the names of the API."""
        metadata = {"name": self.name, "namespace": self.namespace, "annotations": {**self.annotations, DIGEST: self.digest}}
        if self.labels:
            metadata["labels"] = dict(self.labels)
        return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "MiniCluster", "metadata": metadata, "spec": self.spec.to_dict()}

    # What a user does.

    def submit(self) -> "MiniCluster":
        """Submit the MiniCluster, and return it.

        A MiniCluster of the name that is in the cluster, and was submitted with the same specification, is taken up, also
        if another program submitted it. The end of a MiniCluster that is being deleted is waited for. The error NameTaken
        says that the MiniCluster of the name has another specification.
        """
        return self._submit(Limit())

    def _submit(self, limit: Limit) -> "MiniCluster":
        while True:
            try:
                self._is(self.cluster.request("POST", collection(self.namespace), body=self.to_dict(), limit=limit)["metadata"])
                return self
            except errors.RequestError as error:
                if error.reason != "AlreadyExists":
                    raise
            try:
                found = self.cluster.get(self.namespace, self.name, limit)
            except errors.Deleted:
                continue
            if not status.is_deleted(found):
                self._take_up(found.metadata or {})
                return self
            self._wait("deleted", limit, (found.metadata or {}).get("uid"))

    def _take_up(self, found: Dict[str, Any]) -> None:
        digest = (found.get("annotations") or {}).get(DIGEST)
        is_known = found.get("uid") == self._uid and self.digest == self._digest
        if digest != self.digest and not is_known:
            why = "with another specification" if digest else "that this client did not submit"
            raise errors.NameTaken(f"namespace {self.namespace} has a MiniCluster {self.name} {why}: delete it, or choose another name",
                                   "AlreadyExists")
        self._is(found)

    def read(self, limit: Optional[Limit] = None) -> models.MiniCluster:
        """Return the object as it is now. The error Deleted also says that its name belongs to another MiniCluster."""
        found = self.cluster.get(self.namespace, self.name, limit)
        if self._uid not in (None, (found.metadata or {}).get("uid")):
            raise errors.Deleted(f"{self.name} was deleted, and its name belongs to another MiniCluster", "Deleted")
        return found

    def wait(self, goal: str = "finished", timeout: Optional[float] = None) -> status.Result:
        """Wait until the MiniCluster has nodes (admitted), its command runs (running) or has ended (finished), or the
        MiniCluster is gone (deleted). Return what is known of the MiniCluster then.

        timeout is in seconds.

        Errors: Failed, Rejected, NeverFits and Deleted say why the MiniCluster does not reach the goal. WaitTimeout says
        where the MiniCluster is after the timeout. Ctrl-C ends the wait, and not the MiniCluster.
        """
        if goal not in status.GOALS:
            raise ValueError(f"goal {goal!r}: it has to be one of {', '.join(status.GOALS)}")
        return self._wait(goal, Limit(timeout), self._uid)

    def _wait(self, goal: str, limit: Limit, uid: Optional[str]) -> status.Result:
        with self.cluster.follow(self.namespace, self.name, uid) as follower:
            while True:
                try:
                    gone = follower.next(limit) is None
                except errors.WaitTimeout as error:
                    where = status.headline(follower.last) if follower.last else str(error)
                    raise errors.WaitTimeout(where if limit.timeout is None else f"after {limit.timeout} s: {where}",
                                             status.reason_of(follower.last) if follower.last else error.reason) from None
                except KeyboardInterrupt:
                    if goal != "deleted":
                        self._say_goodbye(follower.last)
                    raise
                if gone and goal == "deleted":
                    return status.result_of(follower.last or models.MiniCluster(metadata={"name": self.name}))
                last = self._last(follower)
                if status.reached(last, goal):
                    return status.result_of(last)

    def _last(self, follower: Follower) -> models.MiniCluster:
        """Return the last state. The error Deleted says that the MiniCluster was deleted before the end of the command."""
        last = follower.last or models.MiniCluster(metadata={"name": self.name})
        if follower.gone and not status.holds(last, "Finished"):
            raise status.deleted(last)
        return last

    def _say_goodbye(self, last: Optional[models.MiniCluster]) -> None:
        print(f"{self.name} is {status.state_of(last) if last else 'New'}, and goes on without this program. To take it up: "
              f"MiniCluster.get({self.name!r}, namespace={self.namespace!r}).wait(). To end it: .cancel()", file=sys.stderr)

    def outcome(self, timeout: Optional[float] = None) -> status.Result:
        """Wait for the end as wait does, and return what became of the MiniCluster, also without success.

        A MiniCluster that is rejected, never fits or was deleted has ended, too. The error WaitTimeout remains.
        """
        return self._outcome(Limit(timeout))

    def _outcome(self, limit: Limit) -> status.Result:
        try:
            return self._wait("finished", limit, self._uid)
        except errors.NotReached as error:
            return error.result

    def why(self) -> str:
        """Say why the MiniCluster waits, where in its queue it is, and what would help; or how it ended."""
        mc = self.read()
        waits_in = None
        if status.state_of(mc) == "Queued" and mc.status and mc.status.queue:
            waits_in = self.cluster.queue(mc.status.queue)
        return errors.printable("\n".join(status.explain(mc, waits_in, datetime.now(timezone.utc))))

    def resize(self, size: int) -> None:
        """Change the number of brokers that the MiniCluster wants, as kubectl scale does.

        The error Deleted says that the MiniCluster is gone, also if its name belongs to another MiniCluster.
        """
        if size < 1:
            raise ValueError(f"size {size}: it has to be at least 1")
        self.read()
        self.cluster.request("PATCH", one_of(collection(self.namespace), self.name, "scale"), body={"spec": {"replicas": size}},
                             content="application/merge-patch+json")

    def cancel(self, wait: bool = True) -> None:
        """Delete the MiniCluster with its pods and its log, and wait until it is gone. It may be gone already.

        A MiniCluster that was made afterwards with the same name stays.
        """
        self._cancel(wait, Limit())

    def _cancel(self, wait: bool, limit: Limit) -> None:
        body = {"preconditions": {"uid": self._uid}} if self._uid else None
        try:
            answer = self.cluster.request("DELETE", one_of(collection(self.namespace), self.name), body=body, limit=limit)
        except errors.RequestError as error:
            if error.status == 404 or body and error.reason == "Conflict":
                return
            raise
        if wait:  # the answer is the object, or a Status with details
            self._wait("deleted", limit, (answer.get("details") or answer.get("metadata") or {}).get("uid"))

    def result(self) -> status.Result:
        """Return what is known of the MiniCluster now: exit code, sizes, times, attempts."""
        return status.result_of(self.read())

    def logs(self, follow: bool = False) -> Iterator[str]:
        """Yield the lines of the output of the command: the log of the lead broker.

        With follow, wait until the log begins, and go on, also in further attempts, until the MiniCluster has finished,
        is rejected or never fits. The error NoLog says that there is no log, and Deleted that the MiniCluster was deleted
        before the command ended.
        """
        if not follow:
            yield from logs.read(self.cluster, self.read, follow, Limit())
            return
        with self.cluster.follow(self.namespace, self.name, self._uid) as follower:
            follower.next(Limit())

            def last(_: Limit) -> models.MiniCluster:
                with contextlib.suppress(errors.WaitTimeout):  # nothing new
                    follower.next(Limit(0))
                return self._last(follower)
            yield from logs.read(self.cluster, last, follow, Limit())

    # How it is shown.

    def __enter__(self) -> "MiniCluster":
        return self.submit()

    def __exit__(self, *_: Any) -> None:
        self.cancel()

    def __repr__(self) -> str:
        return f"MiniCluster({self.name!r}, namespace={self._namespace!r}, size={self.spec.size})"

    def _repr_html_(self) -> str:
        try:
            result = self.result()
        except errors.Error as error:
            return f"<p>MiniCluster <b>{html.escape(self.name)}</b>: {html.escape(str(error))}</p>"
        return table(["name", "state", "reason", "size", "wanted", "tasks", "nodes", "wait", "run", "exit code"], [[
            result.name, result.state, result.reason or result.message, result.size, result.wanted, result.tasks, result.nodes,
            result.wait_seconds, result.run_seconds, result.exit_code]])


def table(header: List[str], rows: Iterable[List[Any]]) -> str:
    """Return a table of HTML. What is None is empty."""
    def line(tag: str, cells: Iterable[Any]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape('' if c is None else str(c))}</{tag}>" for c in cells) + "</tr>"
    return "<table>" + line("th", header) + "".join(line("td", row) for row in rows) + "</table>"


def submit_all(miniclusters: Iterable[MiniCluster]) -> None:
    """Submit many MiniClusters. The first error ends the submission; a second call submits only what is missing."""
    pool, stopped = ThreadPoolExecutor(16), threading.Event()
    try:
        for done in as_completed([pool.submit(mc._submit, Limit(stop=stopped.is_set)) for mc in miniclusters]):
            done.result()
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)


def wait_all(miniclusters: Iterable[MiniCluster], timeout: Optional[float] = None) -> Iterator[Tuple[MiniCluster, status.Result]]:
    """Wait for many MiniClusters, and yield each with its result as it ends, also without success.

    The error WaitTimeout says that one has not ended within the timeout.
    """
    all_of_them, stopped = list(miniclusters), threading.Event()
    ended: "queue.SimpleQueue[Tuple[MiniCluster, Any]]" = queue.SimpleQueue()

    def wait_for(mc: MiniCluster) -> None:
        try:
            ended.put((mc, mc._outcome(Limit(timeout, stopped.is_set))))
        except Exception as error:
            ended.put((mc, error))

    try:
        for mc in all_of_them:  # daemons: a program that looks at the first ends only may end
            threading.Thread(target=wait_for, args=(mc,), daemon=True).start()
        for _ in all_of_them:
            mc, outcome = ended.get()
            if isinstance(outcome, Exception):
                raise outcome
            yield mc, outcome
    finally:
        stopped.set()
