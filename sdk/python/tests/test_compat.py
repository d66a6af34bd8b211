# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import socket
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from kubernetes import client, config
from kubernetes.client import V1ObjectMeta

import fluxelastic
import fluxelastic.compat.client
from fakeapi import pod
from fluxelastic.compat import models
from fluxelastic.compat.client import FluxBrokerMiniCluster, FluxMiniCluster, FluxOperator
from fluxelastic.compat.resource.network import pod_of

SOURCE = os.environ.get("FLUX_OPERATOR_SRC")
EXAMPLES = sorted(glob.glob(os.path.join(SOURCE or "/nowhere", "sdk/python/v1alpha2/examples/*.py")))


@pytest.fixture
def loaded(api, cluster, monkeypatch):
    """The script has loaded a kubeconfig, or loads one."""
    monkeypatch.setattr(config, "load_kube_config", lambda *_, **__: None)
    monkeypatch.setattr(client.Configuration, "_default", api.client().configuration)


@pytest.fixture
def execs(monkeypatch):
    """What scripts run in pods. Every command answers as flux submit does."""
    seen = []

    def stream(_, pod_name, namespace, command, container=None, **__):
        seen.append((pod_name, namespace, container, command[-1]))
        return "ƒ2B6\n"

    monkeypatch.setattr(fluxelastic.compat.client, "stream", stream)
    return seen


def create(mini, name="lj", **fields):
    return mini.create(name=name, namespace="default", size=4, container={"image": "lammps", "command": "lmp"}, **fields)


def test_a_minicluster_is_created_waited_for_and_deleted(api, loaded):
    api.play = lambda mc: api.start(mc, "one\n")
    mini = FluxMiniCluster()
    pods = create(mini, min_size=2, flux={"optionFlags": "-ompi=pmix"}, logging={"quiet": True})
    assert [p.metadata.name for p in pods.items] == ["lj-0-0-0-abcde"] + [f"lj-w-0-{i}-abcde" for i in range(3)]
    assert mini.broker_pod == "lj-0-0-0-abcde" and len(mini.pods) == 4 and mini.size == 4
    spec = api.miniclusters["default", "lj"]["spec"]
    assert (spec["minSize"], spec["flux"], spec["containers"][0]["runFlux"]) == (2, {"optionFlags": "-ompi=pmix"}, True)
    mini.delete()
    assert not api.miniclusters and set(mini.times) == {"create", "delete"}


def test_it_waits_behind_the_gate_and_may_start_smaller(api, loaded):
    gated = threading.Event()

    def play(mc):
        with api.changed:
            api.pods += [pod(mc, rank, node=None) for rank in range(4)]
        api.tell("lj", "Queued", "NoRoom", "needs room")
        gated.wait(10)
        with api.changed:
            api.pods[:2] = [pod(mc, 0), pod(mc, 1)]
        api.tell("lj", "Running", admission={"attempt": 1, "size": 2, "quorum": 2, "nodes": "node-[0-1]", "time": "2026-01-01T00:00:05Z"})

    api.play = play
    mini, got = FluxMiniCluster(), []
    waiter = threading.Thread(target=lambda: got.extend(create(mini).items))
    waiter.start()
    while not any(p["spec"].get("nodeName") is None for p in api.pods):
        time.sleep(0.01)
    assert waiter.is_alive() and not got
    gated.set()
    waiter.join(10)
    assert [p.metadata.name for p in got] == ["lj-0-0-0-abcde", "lj-w-0-0-abcde"]


def test_what_never_starts_ends_the_wait_with_an_error(api, loaded):
    api.play = lambda mc: api.tell("lj", "Rejected", "PodRejected", "a policy says no")
    with pytest.raises(fluxelastic.Rejected, match="a policy says no"):
        create(FluxMiniCluster())


def test_the_output_is_written_and_returned(api, loaded, tmp_path, capsys):
    api.play = api.run("one\n  two\n")
    mini = FluxMiniCluster()
    create(mini)
    path = tmp_path / "out"
    assert mini.stream_output(str(path)) == ["one", "  two"]
    assert path.read_text() == "one\n  two\n" and "  two\n" in capsys.readouterr().out
    assert mini.stream_output(str(path), stdout=False, pod=mini.broker_pod) == ["one", "  two"]
    assert mini.stream_output(str(path), stdout=False, timestamps=True)[0] == "2026-01-01T00:00:10.000000000Z one"
    assert mini.ctrl.stream_output(str(path), name="lj", namespace="default", stdout=False, return_output=False) is None
    assert mini.result().exit_code == 0


def test_the_broker_is_the_lead_and_names_that_begin_alike_do_not_count(api, loaded, execs, capsys):
    api.play = api.start
    create(FluxMiniCluster(), name="lj-0")
    operator = FluxOperator("default")
    assert operator.get_broker_pod().metadata.name == "lj-0-0-0-0-abcde"  # the only one
    create(FluxMiniCluster())
    assert operator.get_broker_pod(name="lj").metadata.name == "lj-0-0-0-abcde"
    assert len(operator.get_pods("default", "lj").items) == 4 and len(operator.get_pods("default").items) == 8
    assert operator.kubectl_exec("hostname", name="lj", quiet=True) == "ƒ2B6\n"
    assert execs == [("lj-0-0-0-abcde", "default", "lj", "hostname")]
    with pytest.raises(fluxelastic.Error, match="namespace default has 2 MiniClusters: name one"):
        operator.get_broker_pod()
    operator.delete_minicluster("lj-0")
    assert "All pods are terminated." in capsys.readouterr().out
    assert operator.get_pods("default", "gone").items == [] and operator.get_nodes().items == []


def test_a_follower_is_not_taken_for_the_lead(api, loaded, execs):
    api.play = api.start
    create(FluxMiniCluster())
    with api.changed:
        del api.pods[0]
    mini = FluxBrokerMiniCluster()
    mini.load(api.miniclusters["default", "lj"])
    assert mini.broker_pod is None and len(mini.pods) == 3
    with pytest.raises(fluxelastic.NoLog, match="the lead of lj has no pod"):
        mini.execute("flux jobs")
    assert not execs


def test_a_log_that_cannot_be_read_is_an_error_of_the_package(api, loaded, tmp_path):
    api.play = api.start
    mini = FluxMiniCluster()
    create(mini)
    api.instead = lambda method, path, query: (403, {"reason": "Forbidden", "message": "you may not"}) if path.endswith("/log") else None
    with pytest.raises(fluxelastic.RequestError, match="you may not"):
        mini.stream_output(str(tmp_path / "out"), pod="lj-w-0-0-abcde")
    with pytest.raises(ValueError, match="it has to have lower case letters"):
        mini.stream_output(str(tmp_path / "out"), pod="../lj")


def test_commands_of_flux_run_at_the_lead(api, loaded, execs):
    api.play = api.start
    mini = FluxBrokerMiniCluster()
    create(mini, interactive=True)
    assert mini.execute("flux jobs -a", print_result=False).startswith("ƒ")
    assert execs[-1][-1] == ". /mnt/flux/flux-view.sh && flux proxy $fluxsocket flux jobs -a"


def test_a_field_that_does_not_exist_is_left_out_with_a_warning():
    with pytest.warns(UserWarning, match="MiniClusterContainer has no field cores, which is left out"):
        container = models.MiniClusterContainer(image="app", cores=2, run_flux=True, commands={"workerPre": "sleep 1", "pre": "x"},
                                                volumes={"d": {"path": "/d", "host_path": "/e"}},
                                                security_context=models.SecurityContext(privileged=True, add_capabilities=["SYS_ADMIN"]))
    with pytest.warns(UserWarning, match="MiniClusterSpec has no field users"):
        spec = models.MiniClusterSpec(size=2, containers=[container], users=[models.MiniClusterUser(name="a")])
    mc = models.MiniCluster(kind="MiniCluster", metadata=V1ObjectMeta(name="a"), spec=spec)
    assert client.ApiClient().sanitize_for_serialization(mc) == mc.to_dict()
    assert mc.to_dict()["spec"] == {"size": 2, "containers": [{
        "image": "app", "runFlux": True, "commands": {"workerPre": "sleep 1", "pre": "x"}, "volumes": {"d": {"path": "/d", "hostPath": "/e"}},
        "securityContext": {"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}}]}


@pytest.fixture
def server(monkeypatch):
    """A server in the lead's pod."""
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_):
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()

    class Forwarded:
        def __init__(self, method, name, namespace, ports):
            assert name.endswith("-0-0-0-abcde") and namespace in ("default", "flux-operator") and ports == "5000"

        def socket(self, port):
            return socket.create_connection(http.server_address)

    monkeypatch.setattr("fluxelastic.compat.resource.network.portforward", Forwarded)
    yield http
    http.shutdown()
    http.server_close()


def test_a_port_of_the_lead_is_reached(api, loaded, server):
    api.play = api.start
    mini = FluxMiniCluster()
    create(mini, interactive=True)
    with mini.port_forward() as url:
        assert url == "http://lj-0-0-0-abcde.pod.default.kubernetes:5000"
    assert mini.times["restful_api_server_ready_seconds"] >= 0
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}") as answer:  # the way is as it was
        assert answer.read() == b"hello"
    with pytest.raises(ValueError, match="POD.pod.NAMESPACE.kubernetes"):
        pod_of("a.service.default.kubernetes")


@pytest.mark.skipif(not EXAMPLES, reason="FLUX_OPERATOR_SRC is no checkout of the Flux Operator")
@pytest.mark.parametrize("path", EXAMPLES or [None], ids=lambda path: os.path.basename(path or "none"))
@pytest.mark.filterwarnings("ignore:.*which is left out")
def test_an_example_of_the_flux_operator_runs(api, loaded, execs, server, monkeypatch, path):
    """With two changes: the import, and v1alpha1, which the Flux Operator does not serve any more."""
    def play(mc):
        api.start(mc)
        if not mc["spec"].get("interactive") and mc["spec"]["containers"][0].get("command"):
            api.succeed(mc)

    api.play = play
    with open(path, encoding="utf-8") as file:
        text = file.read().replace("fluxoperator", "fluxelastic.compat").replace("v1alpha1", "v1alpha2")
    slept = []
    monkeypatch.setattr(time, "sleep", lambda seconds, sleep=time.sleep: slept.append(seconds) or sleep(0.01))
    # The example reads a field of v1alpha1 in the answer.
    text = text.replace('result["spec"]["fluxRestful"]["secretKey"]', '""')
    exec(compile(text, path, "exec"), {"__name__": "__main__"})
    assert len([r for r in api.requests if r.startswith("POST")]) >= 1
    left = [name for _, name in api.miniclusters]
    assert left == (["lammps"] if "create-minicluster" in path else []), left
