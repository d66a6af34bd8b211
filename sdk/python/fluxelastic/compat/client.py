# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""FluxOperator and FluxMiniCluster, as scripts for the Flux Operator use them.

What differs, since a MiniCluster may wait in a queue, start smaller, and have other names of pods: pods are those of the
brokers that have nodes, by rank, and are found by labels. To wait for pods is to wait until the command begins. A
MiniCluster that fails, is rejected or never fits ends a wait with an error of fluxelastic.
"""
from __future__ import annotations

import functools
import json
import time
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

import urllib3
from kubernetes import client
from kubernetes.stream import stream

from .. import errors, status
from ..cluster import Cluster, one_of, pods_of, rank_of
from ..minicluster import MiniCluster
from .resource.network import port_forward
from .resource.pods import cluster_of, create_minicluster, delete_minicluster

_LABEL = "flux-framework.org/minicluster"
_RUN = ["Running", "Succeeded", "Completed"]


def timed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method write its seconds to self.times, under its name or the keyword timed_name."""

    @functools.wraps(function)
    def call(self: Any, *args: Any, timed_name: Optional[str] = None, **kwargs: Any) -> Any:
        start = time.time()
        out = function(self, *args, **kwargs)
        self.times[timed_name or function.__name__] = round(time.time() - start, 3)
        return out

    return call


class FluxOperator:
    """What a script does with the MiniClusters of a namespace. Without a name, the only one of the namespace is meant."""

    def __init__(self, namespace: Optional[str] = None, **kwargs: Any) -> None:
        self._core_v1 = kwargs.get("core_v1_api")
        self._cluster: Optional[Cluster] = None
        self.namespace = namespace

    @property
    def cluster(self) -> Cluster:
        """The cluster of fluxelastic that this uses."""
        if self._cluster is None:
            self._cluster = cluster_of(self._core_v1)
        return self._cluster

    @property
    def core_v1(self) -> Any:
        if self._core_v1 is None:
            self._core_v1 = client.CoreV1Api(self.cluster.api)
        return self._core_v1

    def _find(self, name: Optional[str], namespace: Optional[str]) -> MiniCluster:
        namespace = namespace or self.namespace or self.cluster.namespace
        if name is None:
            names = [status.name_of(mc) for mc in self.cluster.list(namespace)]
            if len(names) != 1:
                raise errors.Error(f"namespace {namespace} has {len(names)} MiniClusters: name one", "NoName")
            name = names[0]
        return MiniCluster(name, namespace=namespace, cluster=self.cluster)

    def _typed(self, pods: List[Dict[str, Any]]) -> Any:
        """Return pods as a V1PodList."""

        class Answer:
            data = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods})

        return client.ApiClient(self.cluster.api.configuration).deserialize(Answer, "V1PodList")

    def get_nodes(self) -> Any:
        """Return the nodes of the cluster."""
        return self.core_v1.list_node()

    def get_pods(self, namespace: Optional[str] = None, name: Optional[str] = None) -> Any:
        """Return the brokers of a MiniCluster that have nodes, by rank; without a name, all pods of the namespace."""
        namespace = namespace or self.namespace or self.cluster.namespace
        if name is None:
            return self._typed(self.cluster.request("GET", pods_of(namespace))["items"])
        try:
            return self._typed(self.cluster.pods(self.cluster.get(namespace, name)))
        except errors.Deleted:
            return self._typed([])

    def wait_pods(self, size: Optional[int] = None, name: Optional[str] = None, namespace: Optional[str] = None,
                  states: Any = None, retry_seconds: float = 1, quiet: bool = False) -> Any:
        """Wait until the command begins, and return its brokers. With states, wait until all brokers are in one of these
        phases, too. size is not needed: a MiniCluster may start at another size."""
        mc = self._find(name, namespace)
        mc.wait("running")
        wanted = _RUN if states is None else states if isinstance(states, list) else [states]
        pods = self.get_pods(mc.namespace, mc.name)
        while states is not None and not all(pod.status.phase in wanted for pod in pods.items):
            if status.has_ended(mc.read()):
                raise errors.Failed(f"{mc.name} has ended, and its pods are not {' or '.join(wanted)}", "Ended", mc.result())
            time.sleep(retry_seconds)
            pods = self.get_pods(mc.namespace, mc.name)
        if not quiet:
            print('All pods are in states "' + '" or "'.join(wanted) + '"')
        return pods

    def get_broker_pod(self, quiet: bool = False, name: Optional[str] = None, namespace: Optional[str] = None) -> Any:
        """Wait until the command begins, and return the pod of the lead broker."""
        mc = self._find(name, namespace)
        pods = self.wait_pods(name=mc.name, namespace=mc.namespace, quiet=quiet)
        lead = _lead_of(pods)
        if lead is None:
            raise errors.NoLog(f"the lead of {mc.name} has no pod", "NoPod")
        if not quiet:
            print(f"Found broker pod {lead.metadata.name}")
        return lead

    def stream_output(self, filename: str, name: Optional[str] = None, namespace: Optional[str] = None, pod: Optional[str] = None,
                      stdout: bool = True, return_output: bool = True, timestamps: bool = False) -> Optional[List[str]]:
        """Write the log of a pod to a file as it comes, to its end. Without a pod, it is that of the lead broker."""
        namespace = namespace or self.namespace or self.cluster.namespace
        lines: List[str] = []
        with open(filename, "w", encoding="utf-8") as file:
            for line in self._log(name, namespace, pod, timestamps):
                file.write(line.rstrip() + "\n")
                if stdout:
                    print(line)
                if return_output:
                    lines.append(line)
        return lines if return_output else None

    def _log(self, name: Optional[str], namespace: str, pod: Optional[str], timestamps: bool) -> Iterator[str]:
        if pod is None and not timestamps:
            return self._find(name, namespace).logs(follow=True)
        if pod is None:
            lead = self.get_broker_pod(quiet=True, name=name, namespace=namespace)
            name, pod = lead.metadata.labels[_LABEL], lead.metadata.name
        query = [("timestamps", str(timestamps).lower())] + ([("container", name)] if name else [])
        return self.cluster.stream(one_of(pods_of(namespace), pod, "log"), query + [("follow", "true")], 3600)

    def kubectl_exec(self, command: str, pod: Optional[str] = None, quiet: bool = False, namespace: Optional[str] = None,
                     name: Optional[str] = None) -> str:
        """Run a command in a shell in a pod, and return its output. Without a pod, it is that of the lead broker."""
        namespace = namespace or self.namespace or self.cluster.namespace
        if pod is None:
            lead = self.get_broker_pod(quiet=quiet, name=name, namespace=namespace)
            name, pod = lead.metadata.labels[_LABEL], lead.metadata.name
        if not quiet:
            print(command)
        # A client of its own: the package kubernetes changes a client while it opens a stream.
        api = client.CoreV1Api(client.ApiClient(self.cluster.api.configuration))
        container = {"container": name} if name else {}
        return stream(api.connect_get_namespaced_pod_exec, pod, namespace, command=["/bin/sh", "-c", command], stderr=True,
                      stdin=False, stdout=True, tty=False, **container)

    def wait_termination_pods(self, name: Optional[str] = None, namespace: Optional[str] = None, retry_seconds: float = 1,
                              quiet: bool = False) -> None:
        """Wait until no pod of a MiniCluster is left; without a name, no pod of any."""
        namespace = namespace or self.namespace or self.cluster.namespace
        selector = f"{_LABEL}={name}" if name else _LABEL
        while self.cluster.request("GET", pods_of(namespace), [("labelSelector", selector), ("limit", 1)])["items"]:
            time.sleep(retry_seconds)
        if not quiet:
            print("All pods are terminated.")

    def delete_minicluster(self, name: Optional[str] = None, namespace: Optional[str] = None, **_: Any) -> None:
        """Delete a MiniCluster, and wait until it and its pods are gone."""
        mc = self._find(name, namespace)
        mc.cancel()
        self.wait_termination_pods(mc.name, mc.namespace)


class FluxMiniCluster:
    """One MiniCluster of a script. times has the seconds of create and delete."""

    def __init__(self, **kwargs: Any) -> None:
        self.times: Dict[str, float] = {}
        self.metadata: Dict[str, Any] = {}
        self._pods: Any = None
        self.ctrl = FluxOperator(**kwargs)

    def load(self, metadata: Dict[str, Any]) -> Any:
        """Take up a MiniCluster that was created, and wait for its pods."""
        self.metadata = metadata
        return self.wait_pods()

    @timed
    def create(self, *args: Any, **kwargs: Any) -> Any:
        """Create a MiniCluster, and wait for its pods. The keywords are those of create_minicluster."""
        return self.load(create_minicluster(*args, **kwargs))

    def wait_pods(self, retry_seconds: float = 1, quiet: bool = False) -> Any:
        """Wait until the command begins, and return its brokers."""
        self._pods = self.ctrl.wait_pods(namespace=self.namespace, name=self.name, retry_seconds=retry_seconds, quiet=quiet)
        return self._pods

    def get_nodes(self) -> Any:
        return self.ctrl.get_nodes()

    def get_pods(self) -> Any:
        """Return the brokers, as they were when the command began."""
        return self._pods or self.ctrl.get_pods(name=self.name, namespace=self.namespace)

    @property
    def pods(self) -> Set[str]:
        """The names of the brokers' pods."""
        return {pod.metadata.name for pod in self.get_pods().items}

    @property
    def broker_pod(self) -> Optional[str]:
        """The name of the lead broker's pod."""
        lead = _lead_of(self._pods) if self._pods else None
        return lead.metadata.name if lead else None

    @contextmanager
    def port_forward(self, retry_seconds: float = 1, port: int = 5000) -> Iterator[str]:
        """Yield a URL of the lead broker's pod, once a server answers there."""
        start = time.time()
        with port_forward(self.ctrl.core_v1):
            url = f"http://{self.broker_pod}.pod.{self.namespace}.kubernetes:{port}"
            print(f"Waiting for {url} to be ready")
            while not _answers(url):
                time.sleep(retry_seconds)
                if status.has_ended(self.ctrl.cluster.get(self.namespace, self.name)):
                    raise errors.Failed(f"{self.name} has ended, and {url} did not answer", "NoAnswer")
            self.times["restful_api_server_ready_seconds"] = time.time() - start
            yield url

    def stream_output(self, filename: str, stdout: bool = True, timestamps: bool = False, pod: Optional[str] = None) -> Optional[List[str]]:
        """Write the log of a pod to a file as it comes, to its end. Without a pod, it is that of the lead broker."""
        return self.ctrl.stream_output(filename=filename, stdout=stdout, namespace=self.namespace, timestamps=timestamps,
                                       name=self.name, pod=pod)

    @timed
    def delete(self) -> None:
        """Delete the MiniCluster, and wait until it and its pods are gone."""
        self.ctrl.delete_minicluster(name=self.name, namespace=self.namespace)

    def result(self) -> status.Result:
        """Return what is known of the MiniCluster now. The Flux Operator's client does not have this."""
        return status.result_of(self.ctrl.cluster.get(self.namespace, self.name))

    @property
    def name(self) -> str:
        return self.metadata["metadata"]["name"]

    @property
    def namespace(self) -> str:
        return self.metadata["metadata"]["namespace"]

    @property
    def size(self) -> int:
        return self.metadata["spec"]["size"]


class FluxBrokerMiniCluster(FluxMiniCluster):
    """A MiniCluster in which commands are run at the lead broker."""

    def __init__(self, source_view: Optional[str] = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source_view = source_view or "/mnt/flux/flux-view.sh"

    def execute(self, command: str, print_result: bool = True) -> str:
        """Run a command of Flux in the instance, and return its output."""
        return self.kubectl_exec(f". {self.source_view} && flux proxy $fluxsocket {command}", print_result)

    def kubectl_exec(self, command: str, print_result: bool = True) -> str:
        """Run a command in the lead broker's pod, and return its output."""
        out = self.ctrl.kubectl_exec(command, name=self.name, namespace=self.namespace, pod=self.broker_pod)
        if print_result:
            print(out, end="")
        return out


def _lead_of(pods: Any) -> Any:
    """Return the pod of the lead broker in a V1PodList; None if there is none."""
    return next((pod for pod in pods.items if rank_of(pod.metadata.labels) == 0), None)


def _answers(url: str) -> bool:
    try:
        return urllib3.PoolManager().request("GET", url, retries=False, timeout=10).status == 200
    except (client.ApiException, urllib3.exceptions.HTTPError, OSError):  # the server, or the way to it, is not there yet
        return False


__all__ = ["FluxBrokerMiniCluster", "FluxMiniCluster", "FluxOperator", "create_minicluster", "delete_minicluster", "timed"]
