# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""The way to the API server: bounded requests that are repeated, and one watch for all who wait."""
from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import urllib3
from kubernetes import client, config

from . import errors, models

GROUP = "flux-framework.org"
VERSION = "v1alpha2"
_POD_LABEL = GROUP + "/minicluster"
_UID_LABEL = GROUP + "/minicluster-uid"
_ROLE_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
_NAMESPACE_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


class Cluster:
    """A cluster, as a user of one namespace sees it. Threads may share a Cluster.

    Without arguments, the context of the kubeconfig counts, or in a pod its service account.

    max_requests bounds the requests that wait for an answer at the same time, and patience for how many seconds a
    request is repeated while the API server or the way to it has trouble that passes.
    """

    def __init__(self, kubeconfig: Optional[str] = None, context: Optional[str] = None, namespace: Optional[str] = None,
                 api_client: Any = None, max_requests: int = 8, patience: float = 300) -> None:
        self.api = api_client
        found = None
        if self.api is None:
            self.api, found = _connect(kubeconfig, context)
        self.namespace = namespace or found or "default"
        self.patience = patience
        self._max_requests = max_requests
        self._forget()

    def _forget(self) -> None:
        """Begin anew in a process that was forked: it has none of the threads, and must not share connections."""
        self._pid = os.getpid()
        self._slots = threading.BoundedSemaphore(self._max_requests)
        self._lock = threading.Lock()
        self._watches: Dict[str, _Watch] = {}

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            self.api = client.ApiClient(self.api.configuration)
            self._forget()

    # Requests.

    def request(self, method: str, path: str, query: Optional[List[Tuple[str, Any]]] = None, body: Any = None,
                content: str = "application/json", timeout: float = 60) -> Any:
        """Send a request, and return the answer as JSON has it. Errors are RequestErrors."""
        self._check_process()
        end, pause = time.monotonic() + self.patience, 0.5
        while True:
            try:
                with self._slots:
                    return self._send(method, path, query, body, content, timeout)
            except (client.ApiException, urllib3.exceptions.HTTPError, OSError) as error:
                pause = max(pause, _delay(error))
                if not _passes(error) or time.monotonic() + pause > end:
                    raise request_error(error) from error
            time.sleep(pause)
            pause = min(2 * pause, 15)

    def _send(self, method: str, path: str, query: Any, body: Any, content: str, timeout: float, preload: bool = True) -> Any:
        return self.api.call_api(
            path, method, query_params=query or [], body=body, header_params={"Accept": "application/json", "Content-Type": content},
            response_type="object" if preload else None, auth_settings=["BearerToken"], _return_http_data_only=True,
            _preload_content=preload, _request_timeout=(10, timeout))

    def lines(self, path: str, query: List[Tuple[str, Any]], follow: bool) -> Iterator[str]:
        """Return the lines of a log: all that are there as a request like others, or with follow as they come."""
        self._check_process()
        if follow:
            return self.stream(path, query + [("follow", "true")], 3600)
        with self._slots:
            return iter(list(self.stream(path, query, 60)))

    def stream(self, path: str, query: List[Tuple[str, Any]], timeout: float) -> Iterator[str]:
        """Send a GET, and yield the lines of the answer as they come. timeout is the longest time without a line."""
        response = self._send("GET", path, query, None, "application/json", timeout, preload=False)
        rest = b""
        try:
            for chunk in response.stream(amt=None, decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line.decode(errors="replace")
            if rest:
                yield rest.decode(errors="replace")
        finally:
            response.close()
            response.release_conn()

    # MiniClusters.

    def path(self, namespace: str, name: str = "", part: str = "") -> str:
        """Return the path of a MiniCluster, of one of its parts, or of all of a namespace."""
        tail = "".join("/" + word for word in (name, part) if word)
        return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/miniclusters{tail}"

    def get(self, namespace: str, name: str) -> models.MiniCluster:
        """Return a MiniCluster; the error Deleted if there is none."""
        try:
            return models.MiniCluster.from_dict(self.request("GET", self.path(namespace, name)))
        except errors.RequestError as error:
            if error.status == 404:
                raise errors.Deleted(f"there is no MiniCluster {name} in namespace {namespace}", "NotFound") from error
            raise

    def list(self, namespace: str, selector: str = "") -> List[models.MiniCluster]:
        """Return the MiniClusters of a namespace that a selector of labels selects."""
        answer = self.request("GET", self.path(namespace), [("labelSelector", selector)] if selector else None)
        return [models.MiniCluster.from_dict(item) for item in answer["items"]]

    def queue(self, name: str) -> Optional[models.MiniClusterQueue]:
        """Return a queue; None if there is none, or the user may not read it."""
        try:
            return models.MiniClusterQueue.from_dict(self.request("GET", f"/apis/{GROUP}/{VERSION}/miniclusterqueues/{name}"))
        except errors.RequestError as error:
            if error.status in (403, 404):
                return None
            raise

    def follow(self, namespace: str, name: str) -> "Follower":
        """Return what follows a MiniCluster. All who follow MiniClusters of a namespace share one watch."""
        self._check_process()
        with self._lock:
            watch = self._watches.get(namespace)
            if watch is None or not watch.join(name):
                # The first MiniCluster is watched alone: other processes may each wait for their own.
                watch = _Watch(self, namespace, name if watch is None or watch.ended else "")
                watch.join(name)
                self._watches[namespace] = watch
        return Follower(watch, name)

    # Pods.

    def pods(self, mc: models.MiniCluster) -> List[Dict[str, Any]]:
        """Return the pods of the brokers that have nodes, by rank. The newest pod of a rank counts, and the recorded lead."""
        metadata = mc.metadata or {}
        selector = f"{_UID_LABEL}={metadata.get('uid')},{_POD_LABEL}={metadata.get('name')}"
        answer = self.request("GET", f"/api/v1/namespaces/{metadata.get('namespace')}/pods", [("labelSelector", selector)])
        lead = mc.status.admission.lead if mc.status and mc.status.admission else None
        newest: Dict[int, Dict[str, Any]] = {}
        for pod in sorted(answer["items"], key=lambda pod: pod["metadata"]["creationTimestamp"]):
            rank = rank_of(pod)
            if rank is None or not pod["spec"].get("nodeName") or rank == 0 and lead not in (None, "", pod["metadata"]["uid"]):
                continue
            newest[rank] = pod
        return [newest[rank] for rank in sorted(newest)]


def rank_of(pod: Dict[str, Any]) -> Optional[int]:
    """Return the rank of a pod in the Flux instance, 0 for the lead; None for a pod that is no broker."""
    labels = pod["metadata"].get("labels") or {}
    role, index = labels.get(_ROLE_LABEL), labels.get(_INDEX_LABEL, "")
    if role == "0":
        return 0
    if role == "w" and index.isdigit():
        return int(index) + 1
    return None


def _connect(kubeconfig: Optional[str], context: Optional[str]) -> Tuple[Any, Optional[str]]:
    """Return a client, and the namespace of its context."""
    configuration = client.Configuration()
    configuration.connection_pool_maxsize = 64
    try:
        config.load_kube_config(kubeconfig, context, configuration)
        contexts, active = config.list_kube_config_contexts(kubeconfig)
        chosen = next((c for c in contexts if c["name"] == context), active)
        return client.ApiClient(configuration), chosen["context"].get("namespace")
    except config.ConfigException as error:
        if kubeconfig or context or not os.path.exists(_NAMESPACE_FILE):
            raise errors.Error(f"there is no way to a cluster: {error}") from error
    config.load_incluster_config(client_configuration=configuration)
    with open(_NAMESPACE_FILE, encoding="utf-8") as file:
        return client.ApiClient(configuration), file.read().strip()


def _passes(error: Exception) -> bool:
    """Report whether the same request may succeed later."""
    if isinstance(error, client.ApiException):
        return error.status == 0 or error.status == 429 or error.status >= 500
    return True


def _delay(error: Exception) -> float:
    """Return after how many seconds the API server wants to be asked again."""
    headers = getattr(error, "headers", None) or {}
    try:
        return min(float(headers.get("Retry-After", 0)), 30)
    except ValueError:
        return 0


def request_error(error: Exception) -> errors.RequestError:
    """Return the error with the sentence of the API server."""
    if not isinstance(error, client.ApiException):
        return errors.RequestError(f"the API server does not answer: {error}", "NoAnswer")
    try:
        answer = json.loads(error.body)
    except (TypeError, ValueError):
        answer = {}
    message = answer.get("message") or error.body or error.reason
    if isinstance(message, bytes):
        message = message.decode(errors="replace")
    return errors.RequestError(str(message).strip(), answer.get("reason") or str(error.reason), error.status)


class Follower:
    """What waits for changes of a MiniCluster. It is a context manager."""

    def __init__(self, watch: "_Watch", name: str) -> None:
        self._watch, self.name, self._seen = watch, name, 0

    def __enter__(self) -> "Follower":
        try:
            self._watch.ask(self.name)
        except BaseException:
            self._watch.leave(self.name)
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self._watch.leave(self.name)

    def next(self, timeout: Optional[float], stop: Callable[[], bool] = lambda: False) -> Optional[models.MiniCluster]:
        """Wait for a state that was not returned yet. It is None if the MiniCluster is gone.

        The error TimeoutError says that there was none within the timeout, or that stop returned True.
        """
        self._seen, mc = self._watch.next(self.name, self._seen, timeout, stop)
        return mc


class _Seen(NamedTuple):
    """A state that was seen: its number, which rises, the version of the API server, and None if the object was gone."""

    number: int = 0
    version: int = 0
    mc: Optional[models.MiniCluster] = None


class _Watch:
    """A list and a watch of the MiniClusters of a namespace, or of one of them, in a thread.

    The thread ends soon after the last follower has left.
    """

    SERVER_TIMEOUT = 60

    def __init__(self, cluster: Cluster, namespace: str, only: str) -> None:
        self._cluster, self._namespace, self._only = cluster, namespace, only
        self._changed = threading.Condition()
        self._followers: Dict[str, int] = {}
        self._states: Dict[str, _Seen] = {}
        self._number = 0
        self._listed: Optional[str] = None
        self._error: Optional[errors.RequestError] = None
        self.ended = False
        self._thread: Optional[threading.Thread] = None

    def join(self, name: str) -> bool:
        """Begin to follow a MiniCluster. It is False if the watch does not see the MiniCluster."""
        with self._changed:
            if self.ended or self._only not in ("", name):
                return False
            self._followers[name] = self._followers.get(name, 0) + 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="fluxelastic-watch", daemon=True)
                self._thread.start()
            return True

    def ask(self, name: str) -> None:
        """Read a MiniCluster. What the watch has seen before somebody followed this name was not kept."""
        try:
            mc = self._cluster.get(self._namespace, name)
            self._keep(name, mc, _version(mc.metadata))
        except errors.Deleted:
            self._keep(name, None, 0)

    def leave(self, name: str) -> None:
        with self._changed:
            self._followers[name] -= 1
            if not self._followers[name]:
                del self._followers[name]
                self._states.pop(name, None)

    def next(self, name: str, seen: int, timeout: Optional[float], stop: Callable[[], bool]) -> Tuple[int, Optional[models.MiniCluster]]:
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                last = self._states.get(name, _Seen())
                if last.number > seen:
                    return last.number, last.mc
                if self._error is not None:
                    raise self._error
                left = 1 if end is None else min(1, end - time.monotonic())
                if stop() or left <= 0:
                    raise TimeoutError
                self._changed.wait(left)

    def _keep(self, name: str, mc: Optional[models.MiniCluster], version: int) -> None:
        """Remember the state of a MiniCluster that somebody follows, unless a later one is known."""
        with self._changed:
            last = self._states.get(name, _Seen())
            if name not in self._followers or version < last.version or last.number and version == last.version:
                return
            self._number += 1
            self._states[name] = _Seen(self._number, version, mc)
            self._changed.notify_all()

    def _run(self) -> None:
        pause = 0.5
        while self._wanted():
            try:
                self._list_and_watch()
                pause = 0.5
            except (client.ApiException, urllib3.exceptions.HTTPError, OSError, ValueError, errors.RequestError) as error:
                self._listed = None
                status = getattr(error, "status", None)
                if status in (401, 403):
                    self._fail(error if isinstance(error, errors.RequestError) else request_error(error))
                    return
                if status != 410:
                    time.sleep(pause)
                    pause = min(2 * pause, 15)

    def _wanted(self) -> bool:
        with self._changed:
            self.ended = not self._followers
            return not self.ended

    def _fail(self, error: errors.RequestError) -> None:
        with self._changed:
            self._error, self.ended = error, True
            self._changed.notify_all()

    def _list_and_watch(self) -> None:
        path = self._cluster.path(self._namespace)
        query: List[Tuple[str, Any]] = [("fieldSelector", "metadata.name=" + self._only)] if self._only else []
        if self._listed is None:
            with self._changed:
                followed = list(self._followers)  # those who come later ask
            answer = self._cluster.request("GET", path, query)
            found = {item["metadata"]["name"]: item for item in answer["items"]}
            for name in followed:
                item = found.get(name)
                self._keep(name, models.MiniCluster.from_dict(item), _version((item or answer)["metadata"]))
            self._listed = answer["metadata"]["resourceVersion"]
        query += [("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", self._listed),
                  ("timeoutSeconds", self.SERVER_TIMEOUT)]
        for line in self._cluster.stream(path, query, self.SERVER_TIMEOUT + 30):
            self._take(json.loads(line))
            if not self._wanted():
                return

    def _take(self, event: Dict[str, Any]) -> None:
        item = event["object"]
        if event["type"] == "ERROR":
            raise client.ApiException(status=item.get("code"), reason=item.get("reason"))
        self._listed = item["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return
        mc = None if event["type"] == "DELETED" else models.MiniCluster.from_dict(item)
        self._keep(item["metadata"]["name"], mc, _version(item["metadata"]))


def _version(metadata: Any) -> int:
    """Return the version of an object or a list, which rises with each change."""
    text = str((metadata or {}).get("resourceVersion", ""))
    return int(text) if text.isdigit() else 0
