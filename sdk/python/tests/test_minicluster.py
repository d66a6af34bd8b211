# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
import copy
import os
import pickle
import subprocess
import sys
import threading

import pytest
from kubernetes import client

import fluxelastic
from fakeapi import FakeAPI, until
from fluxelastic import Cluster, MiniCluster, submit_all, wait_all


def new(name="lj", **fields):
    return MiniCluster(name, **{"image": "lammps", "command": "lmp", "size": 4, **fields})


def posts(api):
    return [r for r in api.requests if r.startswith("POST")]


def test_the_keywords_are_fields_of_the_spec_and_of_the_container():
    mc = new(min_size=2, cpu=7, memory="16Gi", working_dir="/data", namespace="n", labels={"a": "b"}).to_dict()
    assert mc["spec"] == {"size": 4, "minSize": 2, "containers": [
        {"image": "lammps", "command": "lmp", "workingDir": "/data", "resources": {"limits": {"cpu": "7", "memory": "16Gi"}}}]}
    assert mc["metadata"]["labels"] == {"a": "b"}


def test_it_runs_to_its_end(api, cluster):
    api.play = api.run()
    result = new(tasks=28).submit().wait()
    assert (result.state, result.exit_code, result.size, result.tasks, result.nodes) == ("Succeeded", 0, 4, 28, "node-[0-3]")
    assert (result.wait_seconds, result.run_seconds, result.attempt) == (5, 20, 1)
    assert (result.to_dict()["waitSeconds"], result.to_dict()["runSeconds"], result.to_dict()["finished"]) == (5, 20, "2026-01-01T00:00:30Z")


def test_nothing_is_submitted_twice(api, cluster):
    new().submit()
    new().submit()
    assert len(api.miniclusters) == 1
    with pytest.raises(fluxelastic.NameTaken, match="with another specification"):
        new(size=5).submit()


def test_an_answer_that_is_lost_does_not_submit_twice(api, cluster):
    lost = []

    def instead(method, path, query):
        if method == "POST" and not lost:
            lost.append(api.create(new().to_dict()))
            return 503, {"reason": "ServiceUnavailable", "message": "later"}
        return None

    api.instead = instead
    new().submit()
    assert len(posts(api)) == 2 and len(api.miniclusters) == 1


def test_what_the_api_server_refuses_has_its_sentence(api, cluster):
    api.instead = lambda method, path, query: (422, {"reason": "Invalid", "message": "minSize must be at most size"})
    with pytest.raises(fluxelastic.RequestError, match="minSize must be at most size") as error:
        new().submit()
    assert (error.value.reason, error.value.status, len(api.requests)) == ("Invalid", 422, 1)


def test_an_api_server_that_does_not_answer_is_told(cluster, api):
    cluster.patience = 0
    api.close()
    with pytest.raises(fluxelastic.RequestError, match="the API server does not answer"):
        new().submit()


@pytest.mark.parametrize("state, reason, error", [
    ("Failed", "CommandFailed", fluxelastic.Failed),
    ("Rejected", "PodRejected", fluxelastic.Rejected),
    ("Queued", "NeverFits", fluxelastic.NeverFits),
])
def test_an_end_without_success_is_an_error_with_its_reason(api, cluster, state, reason, error):
    api.play = lambda mc: api.tell("lj", state, reason, "because of this", exitCode=3 if state == "Failed" else None)
    with pytest.raises(error, match="because of this") as got:
        new().submit().wait()
    assert got.value.reason == reason
    if state == "Failed":
        assert got.value.exit_code == 3 and got.value.result.state == "Failed"


def test_a_deletion_ends_a_wait(api, cluster):
    mc = new().submit()
    api.start(api.miniclusters["default", "lj"])
    threading.Timer(0.2, api.delete, ["lj"]).start()
    with pytest.raises(fluxelastic.Deleted) as error:
        mc.wait()
    assert (error.value.result.state, error.value.result.nodes, error.value.result.wait_seconds) == ("Deleted", "node-[0-3]", 5)
    with pytest.raises(fluxelastic.Deleted, match="there is no MiniCluster lj in namespace default"):
        mc.result()


def test_the_outcome_is_no_error(api, cluster):
    def play(mc):
        name = mc["metadata"]["name"]
        if name == "gone":
            api.delete(name)
        else:
            api.tell(name, *{"fails": ("Failed", "CommandFailed"), "rejected": ("Rejected", "PodRejected"), "ok": ("Succeeded", "Succeeded")}[name])

    api.play = play
    outcomes = {name: new(name).submit().outcome(timeout=20) for name in ("fails", "rejected", "gone", "ok")}
    assert {name: (result.name, result.state) for name, result in outcomes.items()} == {
        "fails": ("fails", "Failed"), "rejected": ("rejected", "Rejected"), "gone": ("gone", "Deleted"), "ok": ("ok", "Succeeded")}


def test_it_is_taken_up_by_its_name_or_from_a_file(api, cluster):
    mc = new(labels={"a": "b"}).submit()
    found = MiniCluster.get("lj")
    assert found.to_dict()["spec"] == {**mc.to_dict()["spec"], "deadlineSeconds": 31500000, "tasks": 1} and found.labels == {"a": "b"}
    assert found.submit() is found and len(api.miniclusters) == 1
    found.spec.size = 5
    with pytest.raises(fluxelastic.NameTaken):
        found.submit()
    assert MiniCluster.from_dict(mc.to_dict()).to_dict() == mc.to_dict()
    with pytest.raises(fluxelastic.Deleted):
        MiniCluster.get("other")


def test_a_timeout_says_why_it_waits(api, cluster):
    mc = new().submit()
    api.tell("lj", "Queued", "NoRoom", "needs room for 4 brokers")
    with pytest.raises(fluxelastic.WaitTimeout, match="lj is Queued: needs room for 4 brokers") as error:
        mc.wait(timeout=0.1)
    assert error.value.reason == "NoRoom" and isinstance(error.value, TimeoutError)


def test_a_deleted_minicluster_can_be_made_again(api, cluster):
    api.play = api.run()
    for _ in range(3):
        mc = new().submit()
        assert mc.wait().succeeded
        mc.cancel()
    mc.cancel()  # it is gone already


def test_a_minicluster_that_is_being_deleted_is_not_taken_up(api, cluster):
    api.lingers = True
    first = new().submit()
    first.cancel(wait=False)
    submitter = threading.Thread(target=new().submit)
    submitter.start()
    until(lambda: any("watch=" in r for r in api.requests))  # it waits for the end
    assert submitter.is_alive()
    api.delete("lj")
    submitter.join(20)
    assert len(posts(api)) == 3 and "deletionTimestamp" not in api.miniclusters["default", "lj"]["metadata"]


def test_one_that_is_gone_before_it_is_read_is_submitted_again(api, cluster):
    new().submit()

    def instead(method, path, query):
        if method == "GET" and ("default", "lj") in api.miniclusters and len(posts(api)) == 2:
            api.delete("lj")
        return None

    api.instead = instead
    new().submit()
    assert len(posts(api)) == 3 and len(api.miniclusters) == 1


def test_one_of_another_client_is_not_taken_up(api, cluster):
    made = new().to_dict()
    del made["metadata"]["annotations"]
    api.create(made)
    with pytest.raises(fluxelastic.NameTaken, match="that this client did not submit"):
        new().submit()
    assert MiniCluster.get("lj").submit().name == "lj"


def test_another_minicluster_of_the_name_is_left_alone(api, cluster):
    mc = new().submit()
    api.delete("lj")
    api.run()(api.create(new(size=5).to_dict()))
    mc.cancel()
    with pytest.raises(fluxelastic.Deleted):
        mc.resize(9)
    assert api.miniclusters["default", "lj"]["spec"]["size"] == 5
    with pytest.raises(fluxelastic.Deleted):
        mc.wait(timeout=20)
    with pytest.raises(fluxelastic.Deleted, match="its name belongs to another MiniCluster"):
        mc.result()


def test_what_is_deleted_after_its_success_has_succeeded(api, cluster):
    api.play, api.lingers = api.run(), True
    mc = new().submit()
    mc.wait()
    mc.cancel(wait=False)
    assert mc.wait(timeout=20).state == "Succeeded" and mc.wait("running", timeout=20).exit_code == 0


def test_the_resources_of_the_caller_stay_as_they_are(cluster):
    resources = {"limits": {"memory": "1Gi"}}
    mc = new(resources=resources, cpu=7)
    assert resources == {"limits": {"memory": "1Gi"}}
    assert mc.to_dict()["spec"]["containers"][0]["resources"] == {"limits": {"memory": "1Gi", "cpu": "7"}}
    typed = new(resources=client.V1ResourceRequirements(requests={"cpu": "1"}), gpus=1)
    assert typed.to_dict()["spec"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}


def test_a_minicluster_passes_from_one_process_to_another(api, cluster):
    mc = pickle.loads(pickle.dumps(new().submit()))
    api.run()(api.miniclusters["default", "lj"])
    assert mc.wait(timeout=20).succeeded


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_goes_to_the_cluster_of_the_first(api, cluster, copied):
    other = FakeAPI()
    try:
        first = new(cluster=Cluster(api_client=other.client(), namespace="there"))
        copied(first).submit()
        assert list(other.miniclusters) == [("there", "lj")] and not api.miniclusters
        with pytest.raises((TypeError, AttributeError), match="pickle"):  # a connection does not pass to a process
            pickle.dumps(first)
    finally:
        other.close()


def test_the_first_error_ends_a_submission(api, cluster):
    refused = (422, {"reason": "Invalid", "message": "no"})
    api.instead = lambda method, path, query: refused if method == "POST" else None
    with pytest.raises(fluxelastic.RequestError, match="no"):
        submit_all(new(f"mc-{n}") for n in range(200))
    assert len(posts(api)) < 200


def test_a_submission_that_has_ended_does_not_try_on(api, cluster):
    cluster.patience = 300
    later = (503, {"reason": "ServiceUnavailable", "message": "later"})
    refused = (422, {"reason": "Invalid", "message": "no"})
    api.instead = lambda method, path, query: (refused if len(posts(api)) > 8 else later) if method == "POST" else None
    with pytest.raises(fluxelastic.RequestError, match="no"):
        submit_all(new(f"mc-{n}") for n in range(20))


def test_a_program_that_looks_at_the_first_end_only_may_end(api):
    api.play = lambda mc: api.run()(mc) if mc["metadata"]["name"] == "a" else None
    program = f"""
import sys
sys.path.insert(0, {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))!r})
from kubernetes import client
from fluxelastic import Cluster, MiniCluster, submit_all, wait_all
configuration = client.Configuration()
configuration.host = {api.url!r}
cluster = Cluster(api_client=client.ApiClient(configuration), namespace="default")
both = [MiniCluster(name, image="lammps", cluster=cluster) for name in ("a", "b")]
submit_all(both)
waiting = wait_all(both)
print(next(waiting)[0].name)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "a\n"), ended.stderr


def test_the_context_ends_it(api, cluster):
    api.play = api.start
    with new() as mc:
        assert mc.wait("running").state == "Running"
    assert not api.miniclusters


def test_resize_changes_the_size_in_the_cluster(api, cluster):
    mc = new().submit()
    mc.resize(6)
    assert mc.read().spec.size == 6
    assert mc.submit() is mc and new().submit().read().spec.size == 6  # they are taken up as they are
    with pytest.raises(ValueError, match="at least 1"):
        mc.resize(0)


def test_why_says_the_place_in_the_queue_and_what_would_help(api, cluster):
    mc = new(min_size=2).submit()
    api.tell("lj", "Queued", "NoRoom", "needs room for 2 brokers", queue="research")
    api.queues["research"] = {"metadata": {"name": "research"}, "status": {
        "pending": 3, "waiting": [{"namespace": "default", "name": "lj", "position": 2}]}}
    lines = mc.why().splitlines()
    assert lines[0] == "lj is Queued: needs room for 2 brokers."
    assert lines[1].startswith("Reason: NoRoom. It has waited for ")
    assert lines[2] == "It is number 2 of 3 in queue research."
    assert any("a smaller min_size" in line for line in lines) and any("deadline_seconds" in line for line in lines)


def test_hundreds_share_one_watch_and_bounded_requests(api, cluster):
    api.play = api.run()
    all_of_them = [new(f"mc-{n}") for n in range(200)]
    submit_all(all_of_them)
    results = dict((mc.name, result) for mc, result in wait_all(all_of_them))
    assert len(results) == 200 and all(result.succeeded for result in results.values())
    watches = [r for r in api.requests if "watch=" in r]
    assert len(watches) <= 3, watches
    assert api.most_active <= 8
    assert len(api.miniclusters) == 200


def test_a_process_that_was_forked_goes_on(api, cluster):
    api.play = api.run()
    assert new("parent").submit().wait().succeeded
    child = os.fork()
    if child == 0:
        ok = False
        try:
            ok = new("child").submit().wait(timeout=20).succeeded
        finally:
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_error_passes_from_one_process_to_another():
    error = pickle.loads(pickle.dumps(fluxelastic.RequestError("no", "Invalid", 422)))
    assert (str(error), error.reason, error.status) == ("no", "Invalid", 422)


def test_a_notebook_shows_it(api, cluster):
    api.play = api.run()
    mc = new().submit()
    mc.wait()
    assert "<td>Succeeded</td>" in mc._repr_html_()
    mc.cancel()
    assert "there is no MiniCluster lj" in mc._repr_html_()


def test_a_goal_that_does_not_exist_is_told(cluster):
    with pytest.raises(ValueError, match="it has to be one of admitted, running, finished, deleted"):
        new().wait("done")
