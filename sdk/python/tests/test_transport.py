# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
import json
import socket
import ssl
import threading

import pytest
import urllib3
from kubernetes import client, config

import fluxelastic
from fakeapi import until
from fluxelastic import Cluster, MiniCluster
from fluxelastic.cluster import collection, one_of
from fluxelastic.compat.resource.pods import cluster_of
from fluxelastic.transport import Limit, request_error


def new(name="lj", **fields):
    return MiniCluster(name, **{"image": "lammps", "command": "lmp", "size": 4, **fields})


def once(answer, matches=lambda method, path, query: True):
    """Return what answers the first request that matches, in place of the server."""
    left = [answer]
    return lambda *request: left.pop() if left and matches(*request) else None


class Common:
    """A client with the parameters of call_api that the versions 22 to 36 of the package kubernetes have."""

    def __init__(self, api):
        self.api, self.configuration = api, api.configuration

    def call_api(self, resource_path, method, path_params=None, query_params=None, header_params=None, body=None, post_params=None,
                 files=None, auth_settings=None, _return_http_data_only=None, collection_formats=None, _preload_content=True,
                 _request_timeout=None):
        assert not _preload_content, "how an answer is read differs"
        return self.api.call_api(resource_path, method, query_params=query_params, header_params=header_params, body=body,
                                 auth_settings=auth_settings, _return_http_data_only=_return_http_data_only,
                                 _preload_content=_preload_content, _request_timeout=_request_timeout)


def test_all_versions_of_the_package_kubernetes_have_one_way(api):
    cluster = Cluster(api_client=Common(api.client()), namespace="default", patience=0)
    api.play = api.run("one\n")
    mc = new(cluster=cluster).submit()
    assert mc.wait(timeout=20).succeeded and list(mc.logs()) == ["one"]
    with pytest.raises(fluxelastic.Deleted):
        MiniCluster.get("other", cluster=cluster)


@pytest.mark.parametrize("answer", [
    (200, b"<html>a page of a proxy</html>"),
    (409, {"reason": "Conflict", "message": "Operation cannot be fulfilled on resourcequotas"}),
    (429, {"reason": "TooManyRequests", "message": "later"}),
    (502, b"<html>a page of a proxy</html>"),
])
def test_trouble_that_passes_is_waited_for(api, cluster, answer):
    api.instead = once(answer)
    assert new().submit().read().spec.size == 4 and len(api.requests) == 3


@pytest.mark.parametrize("namespace, name", [
    ("default", ""), ("default", "../../pods"), ("default", "a?b"), ("default", "a,b=c"), ("default", ".."), ("", "lj"), ("../x", "lj")])
def test_a_request_is_about_one_minicluster(api, cluster, namespace, name):
    new().submit()
    del api.requests[:]
    mc = MiniCluster(name, cluster=Cluster(api_client=cluster.api, namespace=namespace or "x"), namespace=namespace)
    mc._namespace, mc.cluster.namespace = namespace, namespace
    for ask in (mc.cancel, mc.read, mc.wait, lambda: mc.resize(2), lambda: next(mc.logs())):
        with pytest.raises(ValueError, match="it has to have lower case letters"):
            ask()
    assert not api.requests and one_of(collection("a"), "b.c", "scale").endswith("/namespaces/a/miniclusters/b.c/scale")


def test_a_way_to_a_token_that_fails_is_an_error_of_this_package(cluster, monkeypatch):
    def call_api(*_, **__):
        raise config.ConfigException("no token file")

    monkeypatch.setattr(cluster.api, "call_api", call_api)
    with pytest.raises(fluxelastic.RequestError, match="no token file"):
        new().submit()


def chained(inner):
    """Return an error as urllib3 has them."""
    pool = urllib3.HTTPConnectionPool("host")
    return urllib3.exceptions.MaxRetryError(pool, "/", inner)


def unresolved():
    try:
        try:
            raise socket.gaierror(-2, "Name or service not known")
        except OSError as error:
            raise urllib3.exceptions.NewConnectionError(None, str(error)) from error
    except urllib3.exceptions.HTTPError as error:
        return chained(error)


@pytest.mark.parametrize("error, answered, passes", [
    (chained(urllib3.exceptions.SSLError(ssl.SSLCertVerificationError("self signed"))), True, False),
    (unresolved(), False, False),
    (unresolved(), True, True),
    (ConnectionResetError(), False, True),
    (client.ApiException(status=500), True, True),
    (client.ApiException(status=404), True, False),
    (TypeError("no argument"), True, False),
])
def test_a_wrong_configuration_is_not_tried_again(error, answered, passes):
    assert request_error(error, answered).passes is passes


def test_a_timeout_counts_also_while_the_first_read_is_repeated(api, cluster):
    cluster.patience = 300
    mc = new().submit()
    api.instead = lambda method, path, query: (503, {"reason": "ServiceUnavailable", "message": "etcd has no leader"})
    with pytest.raises(fluxelastic.WaitTimeout, match="after 0.1 s: etcd has no leader"):
        mc.wait(timeout=0.1)
    stopped = threading.Event()
    api.instead = lambda method, path, query: stopped.set() or (503, {"reason": "ServiceUnavailable", "message": "later"})
    with pytest.raises(fluxelastic.WaitTimeout, match="later"):
        mc._outcome(Limit(stop=stopped.is_set))


def test_a_timeout_counts_also_while_other_requests_wait_for_answers(api, cluster):
    mc = new().submit()
    for _ in range(8):
        assert cluster._slots.acquire(timeout=20)
    told = []

    def wait():
        try:
            mc.wait(timeout=0.1)
        except fluxelastic.WaitTimeout as error:
            told.append(str(error))

    threading.Thread(target=wait, daemon=True).start()
    until(lambda: told)
    assert told == ["after 0.1 s: 8 other requests wait for answers of the API server"]
    cluster._slots.release()
    api.run()(api.miniclusters["default", "lj"])
    assert mc.wait(timeout=20).succeeded


KUBECONFIG = {
    "apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "users": [{"name": "u", "user": {}}]}


@pytest.mark.parametrize("way", ["kubeconfig", "script"])
def test_a_request_is_sent_once_and_repeated_by_the_cluster_only(tmp_path, monkeypatch, way):
    """The server accepts a connection, and closes the connection without an answer."""
    server, accepted = socket.create_server(("127.0.0.1", 0)), []

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:  # the end of the test
                return
            accepted.append(connection.recv(4096))
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    host = f"http://127.0.0.1:{server.getsockname()[1]}"
    if way == "kubeconfig":
        path = tmp_path / "config"
        path.write_text(json.dumps({**KUBECONFIG, "clusters": [{"name": "c", "cluster": {"server": host}}]}), encoding="utf-8")
        cluster = Cluster(kubeconfig=str(path), patience=0)
    else:
        configuration = client.Configuration()
        configuration.host = host
        monkeypatch.setattr(client.Configuration, "_default", configuration)
        cluster = cluster_of()
        cluster.patience = 0
    with pytest.raises(fluxelastic.RequestError, match="does not answer"):
        cluster.get("default", "lj")
    server.close()
    assert len(accepted) == 1


def test_a_service_account_that_cannot_be_read_is_an_error_of_this_package(monkeypatch, tmp_path):
    token = tmp_path / "namespace"
    token.write_text("default", encoding="utf-8")
    monkeypatch.setattr("fluxelastic.cluster._NAMESPACE_FILE", str(token))
    monkeypatch.setattr(config, "load_kube_config", lambda *_: config.load_incluster_config())
    with pytest.raises(fluxelastic.Error, match="there is no way to a cluster"):
        Cluster()


def test_trouble_that_lasts_is_told_once(api, cluster, capsys):
    class Fast(Limit):
        def pause(self, seconds):
            return len(api.requests) < 9

    api.instead = lambda method, path, query: (503, {"reason": "ServiceUnavailable", "message": "etcd \x1b[2Jhas no leader"})
    cluster.patience = 300
    with pytest.raises(fluxelastic.WaitTimeout):
        cluster.get("default", "lj", Fast())
    assert capsys.readouterr().err == "etcd \\x1b[2Jhas no leader. Trying again for 300 s.\n"


def test_lines_are_the_same_in_whatever_parts_they_come(cluster, monkeypatch):
    class Response:
        def stream(self, amt, decode_content):
            yield from [b"on", b"", b"e\ntw", b"o\n\nth", b"ree"]

        def close(self):
            pass

        release_conn = close

    monkeypatch.setattr(cluster, "_send", lambda *_, **__: Response())
    assert list(cluster.stream("/", [], 1)) == ["one", "two", "", "three"]
