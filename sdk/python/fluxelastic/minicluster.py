# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""A MiniCluster that a program submits, waits for, looks at and ends."""
from __future__ import annotations

import copy
import dataclasses
import hashlib
import html
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import urllib3
from kubernetes import client

from . import errors, models, status
from ._model import nearest, parse_time, plain
from .cluster import GROUP, VERSION, Cluster, request_error

DIGEST = "client." + GROUP + "/digest"
"""The annotation with a digest of the specification with which a MiniCluster was submitted."""

_POLL = 0.5

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
        return mc

    def _set(self, fields: Dict[str, Any]) -> None:
        of_spec = {f.name for f in dataclasses.fields(models.MiniClusterSpec)}
        of_container = {f.name for f in dataclasses.fields(models.MiniClusterContainer)}
        for name, value in fields.items():
            if name in of_spec:
                setattr(self.spec, name, value)
            elif name in of_container:
                setattr(self.container, name, value)
            else:
                raise TypeError(f"a MiniCluster has no field {name}{nearest(name, of_spec | of_container)}")

    def _limit(self, amounts: Dict[str, Any]) -> None:
        for name, amount in amounts.items():
            if amount is not None:
                self.container.resources = self.container.resources or {}
                self.container.resources.setdefault("limits", {})[name] = str(amount)

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

    def to_dict(self) -> Dict[str, Any]:
        """Return the object that submit sends, with the names of the API."""
        spec = self.spec.to_dict()
        digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]
        metadata = {"name": self.name, "namespace": self.namespace, "annotations": {**self.annotations, DIGEST: digest}}
        if self.labels:
            metadata["labels"] = dict(self.labels)
        return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "MiniCluster", "metadata": metadata, "spec": spec}

    # What a user does.

    def submit(self) -> "MiniCluster":
        """Submit the MiniCluster, and return it.

        Nothing is submitted twice: if there is a MiniCluster of the name that was submitted with the same specification,
        also by a program that has ended since, that one is taken up. The error NameTaken says that the MiniCluster of the
        name has another specification.
        """
        body = self.to_dict()
        try:
            self.cluster.request("POST", self.cluster.path(self.namespace), body=body)
        except errors.RequestError as error:
            if error.reason != "AlreadyExists":
                raise
            found = (self.read().metadata or {}).get("annotations") or {}
            if found.get(DIGEST) != body["metadata"]["annotations"][DIGEST]:
                raise errors.NameTaken(f"namespace {self.namespace} has a MiniCluster {self.name} with another specification: "
                                       "delete it, or choose another name", "AlreadyExists") from error
        return self

    def read(self) -> models.MiniCluster:
        """Return the object as it is now."""
        return self.cluster.get(self.namespace, self.name)

    def wait(self, goal: str = "finished", timeout: Optional[float] = None, stop: Callable[[], bool] = lambda: False) -> status.Result:
        """Wait until the MiniCluster has nodes (admitted), its command runs (running) or has ended (finished), or the
        MiniCluster is gone (deleted). Return what is known of the MiniCluster then.

        timeout is in seconds. The wait also ends, as after a timeout, if stop returns True.

        Errors: Failed, Rejected, NeverFits and Deleted say why the MiniCluster does not reach the goal. WaitTimeout says
        where the MiniCluster is after the timeout. Ctrl-C ends the wait, and not the MiniCluster.
        """
        if goal not in status.GOALS:
            raise ValueError(f"goal {goal!r}: it has to be one of {', '.join(status.GOALS)}")
        end = None if timeout is None else time.monotonic() + timeout
        last: Optional[models.MiniCluster] = None
        with self.cluster.follow(self.namespace, self.name) as follower:
            while True:
                try:
                    mc = follower.next(None if end is None else end - time.monotonic(), stop)
                except TimeoutError:
                    where = status.headline(last) if last else f"nothing is known of {self.name}."
                    raise errors.WaitTimeout(f"after {timeout} s: {where}" if timeout is not None else where,
                                             status.reason_of(last) if last else "") from None
                except KeyboardInterrupt:
                    state = status.state_of(last) if last else "New"
                    print(f"{self.name} is {state}, and goes on without this program. To take it up: "
                          f"MiniCluster.get({self.name!r}).wait(). To end it: .cancel()", file=sys.stderr)
                    raise
                if mc is None and goal == "deleted":
                    return status.result_of(last or models.MiniCluster(metadata={"name": self.name}))
                if mc is None:
                    raise errors.Deleted(f"{self.name} was deleted", "Deleted")
                last = mc
                if status.reached(mc, goal):
                    return status.result_of(mc)

    def outcome(self, timeout: Optional[float] = None, stop: Callable[[], bool] = lambda: False) -> status.Result:
        """Wait for the end as wait does, and return what became of the MiniCluster, also without success.

        A MiniCluster that is rejected, never fits or was deleted has ended, too. The error WaitTimeout remains.
        """
        try:
            return self.wait(timeout=timeout, stop=stop)
        except errors.Failed as error:
            return error.result
        except errors.Deleted:
            return self._gone()
        except (errors.Rejected, errors.NeverFits):
            try:
                return self.result()
            except errors.Deleted:
                return self._gone()

    def _gone(self) -> status.Result:
        gone = status.result_of(models.MiniCluster(metadata={"name": self.name}))
        return dataclasses.replace(gone, state="Deleted", reason="Deleted")

    def why(self) -> str:
        """Say why the MiniCluster waits, where in its queue it is, and what would help; or how it ended."""
        mc = self.read()
        queue = None
        if status.state_of(mc) == "Queued" and mc.status and mc.status.queue:
            queue = self.cluster.queue(mc.status.queue)
        return "\n".join(status.explain(mc, queue, datetime.now(timezone.utc)))

    def resize(self, size: int) -> None:
        """Change the number of brokers that the MiniCluster wants, as kubectl scale does."""
        if size < 1:
            raise ValueError(f"size {size}: it has to be at least 1")
        self.cluster.request("PATCH", self.cluster.path(self.namespace, self.name, "scale"), body={"spec": {"replicas": size}},
                             content="application/merge-patch+json")
        self.spec.size = size

    def cancel(self, wait: bool = True) -> None:
        """Delete the MiniCluster with its pods and its log, and wait until it is gone. It may be gone already."""
        try:
            self.cluster.request("DELETE", self.cluster.path(self.namespace, self.name))
        except errors.RequestError as error:
            if error.status != 404:
                raise
            return
        if wait:
            self.wait("deleted")

    def result(self) -> status.Result:
        """Return what is known of the MiniCluster now: exit code, sizes, times, attempts."""
        return status.result_of(self.read())

    def logs(self, follow: bool = False) -> Iterator[str]:
        """Yield the lines of the output of the command: the log of the lead broker.

        With follow, wait until the log begins, and go on, also in further attempts, until the MiniCluster has finished.
        The error NoLog says that there is no log.
        """
        read, seen, pause = _Lines(), False, _POLL
        while True:
            mc = self.read()
            pods = self.cluster.pods(mc)
            lead = pods[0] if pods and _begun(pods[0], self.name) else None
            ended = status.has_ended(mc)
            if lead is not None:
                seen = True
                yield from self._print(lead, read, follow and not ended)
            if not follow or ended:
                if not seen:
                    raise errors.NoLog(f"there is no log of {self.name}: it is {status.state_of(mc)}", status.reason_of(mc))
                return
            time.sleep(pause)
            pause = min(2 * pause, 8 * _POLL)

    def _print(self, pod: Dict[str, Any], read: "_Lines", follow: bool) -> Iterator[str]:
        """Yield the lines of a pod that were not read yet, until the log ends or breaks off."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}/log"
        query = [("container", self.name), ("timestamps", "true")] + read.since(pod)
        try:
            for line in self.cluster.lines(path, query, follow):
                text = read.new(line)
                if text is not None:
                    yield text
        except (client.ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            if _is_simulated(pod, self.name):
                raise errors.NoLog(f"pod {pod['metadata']['name']} is on node {pod['spec'].get('nodeName')}, which is simulated: "
                                   "no command runs there, and there is no output", "Simulated") from error
            if not follow:
                raise request_error(error) from error

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


class _Lines:
    """What was read of a log, line by line. Each line begins with its time."""

    def __init__(self) -> None:
        self._pod = self._last = self._known = ""

    def since(self, pod: Dict[str, Any]) -> List[Tuple[str, Any]]:
        """Return what to ask for, so that the log goes on where it broke off."""
        if pod["metadata"]["uid"] != self._pod:
            self._pod, self._last = pod["metadata"]["uid"], ""
        self._known = self._last
        if not self._last:
            return []
        at = parse_time(self._last[:19] + "Z") or datetime.now(timezone.utc)
        return [("sinceTime", (at - timedelta(seconds=1)).isoformat().replace("+00:00", "Z"))]

    def new(self, line: str) -> Optional[str]:
        """Return the text of a line; None if it was read before."""
        stamp, _, text = line.partition(" ")
        if stamp <= self._known:
            return None
        self._last = max(stamp, self._last)
        return text.rstrip("\r")


def _status_of(pod: Dict[str, Any], container: str) -> Dict[str, Any]:
    for one in pod.get("status", {}).get("containerStatuses") or []:
        if one["name"] == container:
            return one
    return {}


def _begun(pod: Dict[str, Any], container: str) -> bool:
    state = _status_of(pod, container).get("state") or {}
    return bool(state.get("running") or state.get("terminated"))


def _is_simulated(pod: Dict[str, Any], container: str) -> bool:
    """Report whether a container began on a node without a kubelet, which gives an ID to each container it starts."""
    return _begun(pod, container) and not _status_of(pod, container).get("containerID")


def table(header: List[str], rows: Iterable[List[Any]]) -> str:
    """Return a table of HTML. What is None is empty."""
    def line(tag: str, cells: Iterable[Any]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape('' if c is None else str(c))}</{tag}>" for c in cells) + "</tr>"
    return "<table>" + line("th", header) + "".join(line("td", row) for row in rows) + "</table>"


def submit_all(miniclusters: Iterable[MiniCluster]) -> None:
    """Submit many MiniClusters. The first error ends the submission; a second call submits only what is missing."""
    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(mc.submit) for mc in miniclusters]:
            done.result()


def wait_all(miniclusters: Iterable[MiniCluster], timeout: Optional[float] = None) -> Iterator[Tuple[MiniCluster, status.Result]]:
    """Wait for many MiniClusters, and yield each with its result as it ends, also without success.

    The error WaitTimeout says that one has not ended within the timeout.
    """
    all_of_them = list(miniclusters)
    stopped = threading.Event()

    def end_of(mc: MiniCluster) -> Tuple[MiniCluster, status.Result]:
        return mc, mc.outcome(timeout, stopped.is_set)

    pool = ThreadPoolExecutor(max(1, len(all_of_them)))
    try:
        for done in as_completed([pool.submit(end_of, mc) for mc in all_of_them]):
            yield done.result()
    finally:
        stopped.set()
        pool.shutdown()
