# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
import os
import pickle
import threading

import pytest

import fluxelastic
from fakeapi import pod
from fluxelastic import MiniCluster, submit_all, wait_all


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
    assert fluxelastic.Result.from_dict(result.to_dict()) == result


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
    threading.Timer(0.2, api.delete, ["lj"]).start()
    with pytest.raises(fluxelastic.Deleted):
        mc.wait()
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
    assert found.to_dict()["spec"] == mc.to_dict()["spec"] and found.labels == {"a": "b"}
    assert found.submit() is found and MiniCluster.from_dict(mc.to_dict()).to_dict() == mc.to_dict()
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


def test_the_context_ends_it(api, cluster):
    api.play = api.start
    with new() as mc:
        assert mc.wait("running").state == "Running"
    assert not api.miniclusters


def test_resize_changes_the_size_in_the_cluster(api, cluster):
    mc = new().submit()
    mc.resize(6)
    assert mc.read().spec.size == 6
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


def test_logs_are_those_of_the_recorded_lead(api, cluster):
    mc = new().submit()
    made = api.miniclusters["default", "lj"]
    other = pod(made, 0)
    other["metadata"].update(name="lj-0-0-0-other", uid="other", creationTimestamp="2026-01-01T01:00:00Z")
    api.pods.append(other)
    api.start(made, "one\ntwo 2\n")
    assert list(mc.logs()) == ["one", "two 2"]


def test_logs_follow_to_the_end_and_no_line_comes_twice(api, cluster):
    mc = new().submit()
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(mc.logs(follow=True)))
    reader.start()
    made = api.miniclusters["default", "lj"]
    api.start(made, "one\n")
    while not lines:
        pass
    api.logs["lj-0-0-0-abcde"] = "one\ntwo\n"
    api.succeed(made)
    reader.join(20)
    assert lines == ["one", "two"]


def test_a_simulated_node_has_no_log(api, cluster):
    mc = new().submit()
    api.start(api.miniclusters["default", "lj"])
    del api.logs["lj-0-0-0-abcde"]
    for one in api.pods:
        del one["status"]["containerStatuses"][0]["containerID"]
    with pytest.raises(fluxelastic.NoLog, match="simulated"):
        list(mc.logs())


def test_a_queued_minicluster_has_no_log(api, cluster):
    mc = new().submit()
    api.tell("lj", "Queued", "NoRoom")
    with pytest.raises(fluxelastic.NoLog, match="it is Queued") as error:
        list(mc.logs())
    assert error.value.reason == "NoRoom"


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


def test_an_older_state_does_not_replace_a_later_one(api, cluster):
    new().submit()
    with cluster.follow("default", "lj") as follower:
        assert follower.next(20) is not None
        follower._watch._keep("lj", None, 1)  # the end of an earlier MiniCluster of this name, seen late
        with pytest.raises(TimeoutError):
            follower.next(0.2)


def test_a_watch_that_is_too_old_begins_anew(api, cluster):
    mc = new().submit()
    api.oldest = api.version + 2  # the first watch is refused
    threading.Timer(0.3, api.run(), [api.miniclusters["default", "lj"]]).start()
    assert mc.wait(timeout=20).succeeded


def test_a_watch_that_is_forbidden_is_an_error(api, cluster):
    mc = new().submit()
    api.instead = lambda method, path, query: (403, {"reason": "Forbidden", "message": "you may not"}) if "watch" in query else None
    with pytest.raises(fluxelastic.RequestError, match="you may not"):
        mc.wait(timeout=20)


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
