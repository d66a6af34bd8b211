# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""How scripts for the Flux Operator create and delete a MiniCluster."""
from __future__ import annotations

import sys
from typing import Any, Dict, Optional

from kubernetes import client

from ... import minicluster
from ...cluster import Cluster, client_of
from .. import models


def cluster_of(api: Any = None) -> Cluster:
    """Return the cluster of a client of the package kubernetes; else that of the configuration that the script has
    loaded, or of the kubeconfig."""
    if api is not None:
        return Cluster(api_client=api.api_client)
    configuration = client.Configuration.get_default_copy()
    if configuration.host == "http://localhost":
        return minicluster.default_cluster()
    return Cluster(api_client=client_of(configuration))


def create_minicluster(*_: Any, **kwargs: Any) -> Dict[str, Any]:
    """Create a MiniCluster of one container, and return the object. The keywords are name, namespace, container (a
    dictionary), and fields of MiniClusterSpec. A MiniCluster of the same name and specification is taken up."""
    for required in ("namespace", "name", "container"):
        if required not in kwargs:
            sys.exit(f'A "{required}" field is required as a keyword argument.')
    cluster = cluster_of(kwargs.pop("crd_api", None))
    name, namespace, container = kwargs.pop("name"), kwargs.pop("namespace"), kwargs.pop("container")
    if isinstance(container, dict):
        container = models._classes["MiniClusterContainer"](**{"run_flux": True, **container})
    spec = models._classes["MiniClusterSpec"](containers=[container], **kwargs)
    mc = minicluster.MiniCluster(name, namespace=namespace, cluster=cluster, spec=spec)
    return mc.submit().read().to_dict()


def delete_minicluster(name: str, namespace: str, **kwargs: Any) -> Optional[Dict[str, Any]]:
    """Delete a MiniCluster, and do not wait."""
    minicluster.MiniCluster(name, namespace=namespace, cluster=cluster_of(kwargs.get("crd_api"))).cancel(wait=False)
    return None
