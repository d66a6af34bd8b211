# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""What a user does with the objects of a cluster: MiniClusters, queues and pods."""
from __future__ import annotations

import os
import re
import threading
from typing import Any, Dict, List, Optional, Tuple

from kubernetes import client, config

from . import errors, models
from .transport import Limit, Transport
from .watch import Follower, Watch

GROUP = "flux-framework.org"
VERSION = "v1alpha2"
_POD_LABEL = GROUP + "/minicluster"
_UID_LABEL = GROUP + "/minicluster-uid"
_ROLE_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
_NAMESPACE_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


def collection(namespace: str) -> str:
    """Return the path of the MiniClusters of a namespace. A DELETE there would delete all of them."""
    return f"/apis/{GROUP}/{VERSION}/namespaces/{_checked('namespace', namespace)}/miniclusters"


def pods_of(namespace: str) -> str:
    """Return the path of the pods of a namespace."""
    return f"/api/v1/namespaces/{_checked('namespace', namespace)}/pods"


def one_of(path: str, name: str, part: str = "") -> str:
    """Return the path of an object in a collection, or of a part of the object, such as log."""
    return f"{path}/{_checked('name', name)}" + (f"/{part}" if part else "")


def _checked(what: str, word: str) -> str:
    """Return a word that may stand in a path. Without a name, or with a '/', the path would be that of other objects."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", word):
        raise ValueError(f"{what} {word!r}: it has to have lower case letters, digits, '-' and '.' only, and to begin and end "
                         "with a letter or a digit")
    return word


class Cluster(Transport):
    """A cluster, as a user of one namespace sees it. Threads may share a Cluster.

    Without arguments, the context of the kubeconfig counts, or in a pod its service account.

    max_requests bounds the requests that wait for an answer at the same time, and patience for how many seconds a
    request is repeated while the API server or the way to it has trouble that passes. An api_client should have a
    configuration with retries=False, since each attempt of the Cluster has the api_client's own retries.
    """

    def __init__(self, kubeconfig: Optional[str] = None, context: Optional[str] = None, namespace: Optional[str] = None,
                 api_client: Any = None, max_requests: int = 8, patience: float = 300) -> None:
        found = None
        if api_client is None:
            api_client, found = _connect(kubeconfig, context)
        super().__init__(api_client, max_requests, patience)
        self.namespace = namespace or found or "default"

    def __deepcopy__(self, _memo: Any) -> "Cluster":  # a copy of a MiniCluster belongs to the same Cluster
        return self

    def _forget(self) -> None:
        super()._forget()
        self._lock = threading.Lock()
        self._watches: Dict[str, Watch] = {}

    # MiniClusters.

    def get(self, namespace: str, name: str, limit: Optional[Limit] = None) -> models.MiniCluster:
        """Return a MiniCluster; the error Deleted if there is none."""
        try:
            return models.MiniCluster.from_dict(self.request("GET", one_of(collection(namespace), name), limit=limit))
        except errors.RequestError as error:
            if error.status == 404:
                raise errors.Deleted(f"there is no MiniCluster {name} in namespace {namespace}", "NotFound") from error
            raise

    def list(self, namespace: str, selector: str = "") -> List[models.MiniCluster]:
        """Return the MiniClusters of a namespace that a selector of labels selects."""
        answer = self.request("GET", collection(namespace), [("labelSelector", selector)] if selector else None)
        return [models.MiniCluster.from_dict(item) for item in answer["items"]]

    def queue(self, name: str) -> Optional[models.MiniClusterQueue]:
        """Return a queue; None if there is none, or the user may not read it."""
        try:
            return models.MiniClusterQueue.from_dict(self.request("GET", one_of(f"/apis/{GROUP}/{VERSION}/miniclusterqueues", name)))
        except errors.RequestError as error:
            if error.status in (403, 404):
                return None
            raise

    def follow(self, namespace: str, name: str, uid: Optional[str] = None) -> Follower:
        """Return what follows a MiniCluster, also if another of its name is made afterwards. All who follow MiniClusters
        of a namespace share one watch."""
        self._check_process()
        path = collection(namespace)
        with self._lock:
            watch = self._watches.get(namespace)
            follower = watch.join(name, uid) if watch else None
            if follower is None:
                # The first MiniCluster is watched alone: other processes may each wait for their own.
                only = _checked("name", name) if watch is None or watch.ended else ""
                watch = self._watches[namespace] = Watch(self, path, only, lambda name, limit: self.get(namespace, name, limit))
                follower = watch.join(name, uid)
        assert follower is not None
        return follower

    # Pods.

    def pods(self, mc: models.MiniCluster, limit: Optional[Limit] = None) -> List[Dict[str, Any]]:
        """Return the pods of the brokers that have nodes, by rank. The newest pod of a rank counts, and the recorded lead."""
        metadata = mc.metadata or {}
        selector = f"{_UID_LABEL}={metadata.get('uid')},{_POD_LABEL}={metadata.get('name')}"
        answer = self.request("GET", pods_of(metadata.get("namespace", "")), [("labelSelector", selector)], limit=limit)
        lead = mc.status.admission.lead if mc.status and mc.status.admission else None
        newest: Dict[int, Dict[str, Any]] = {}
        for pod in sorted(answer["items"], key=_age):
            rank = rank_of(pod["metadata"].get("labels"))
            if rank is None or not pod["spec"].get("nodeName") or rank == 0 and lead not in (None, "", pod["metadata"]["uid"]):
                continue
            newest[rank] = pod
        return [newest[rank] for rank in sorted(newest)]

    def lead(self, mc: models.MiniCluster, limit: Optional[Limit] = None) -> Optional[Dict[str, Any]]:
        """Return the pod of the lead broker, which has the output; None while the lead has no node."""
        return next((pod for pod in self.pods(mc, limit) if rank_of(pod["metadata"].get("labels")) == 0), None)


def _age(pod: Dict[str, Any]) -> Tuple[bool, str, int]:
    """Return what sorts pods of a rank, the newest last: one that ends is older, and times have whole seconds."""
    metadata = pod["metadata"]
    return not metadata.get("deletionTimestamp"), metadata["creationTimestamp"], int(metadata.get("resourceVersion") or 0)


def rank_of(labels: Optional[Dict[str, str]]) -> Optional[int]:
    """Return the rank in the Flux instance of a pod with labels, 0 for the lead; None for a pod that is no broker."""
    labels = labels or {}
    role, index = labels.get(_ROLE_LABEL), labels.get(_INDEX_LABEL, "")
    if role == "0":
        return 0
    if role == "w" and index.isdigit():
        return int(index) + 1
    return None


def client_of(configuration: Any) -> Any:
    """Return a client of the package kubernetes that sends each request once: Transport repeats requests, and looks at
    limits in between."""
    configuration.connection_pool_maxsize, configuration.retries = 64, False
    return client.ApiClient(configuration)


def _connect(kubeconfig: Optional[str], context: Optional[str]) -> Tuple[Any, Optional[str]]:
    """Return a client, and the namespace of its context."""
    configuration = client.Configuration()
    try:
        try:
            config.load_kube_config(kubeconfig, context, configuration)
            contexts, active = config.list_kube_config_contexts(kubeconfig)
            chosen = next((c for c in contexts if c["name"] == context), active)
            return client_of(configuration), chosen["context"].get("namespace")
        except config.ConfigException:
            if kubeconfig or context or not os.path.exists(_NAMESPACE_FILE):
                raise
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException as error:
        raise errors.Error(f"there is no way to a cluster: {error}") from error
    with open(_NAMESPACE_FILE, encoding="utf-8") as file:
        return client_of(configuration), file.read().strip()
