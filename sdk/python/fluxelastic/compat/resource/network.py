# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""Addresses of pods that this process reaches through the API server."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, Tuple

import urllib3.util.connection
from kubernetes import client
from kubernetes.stream import portforward


def pod_of(host: str) -> Tuple[str, str]:
    """Return the name and the namespace in POD.pod.NAMESPACE.kubernetes."""
    words = host.split(".")
    if len(words) != 4 or words[1] != "pod":
        raise ValueError(f"{host}: an address has to be POD.pod.NAMESPACE.kubernetes")
    return words[0], words[2]


@contextmanager
def port_forward(core_v1: Any) -> Iterator[None]:
    """Let this process reach http://POD.pod.NAMESPACE.kubernetes:PORT, in the block."""
    direct = urllib3.util.connection.create_connection
    configuration = core_v1.api_client.configuration

    def connect(address: Tuple[Any, int], *args: Any, **kwargs: Any) -> Any:
        host = address[0].decode() if isinstance(address[0], bytes) else address[0]
        if not host.endswith(".kubernetes"):
            return direct(address, *args, **kwargs)
        pod, namespace = pod_of(host)
        # A client of its own: the package kubernetes changes a client while it opens a stream.
        api = client.CoreV1Api(client.ApiClient(configuration))
        return portforward(api.connect_get_namespaced_pod_portforward, pod, namespace, ports=str(address[1])).socket(address[1])

    urllib3.util.connection.create_connection = connect  # type: ignore[assignment]
    try:
        yield
    finally:
        urllib3.util.connection.create_connection = direct
