# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
import threading

import pytest

import fluxelastic
from fakeapi import NOW, pod, until
from fluxelastic import MiniCluster

LEAD = "lj-0-0-0-abcde"


@pytest.fixture
def mc(api, cluster):
    return MiniCluster("lj", image="lammps", command="lmp", size=4).submit()


@pytest.fixture
def made(api, mc):
    return api.miniclusters["default", "lj"]


def test_logs_are_those_of_the_recorded_lead(api, mc, made):
    other = pod(made, 0)
    other["metadata"].update(name="lj-0-0-0-other", uid="other", creationTimestamp="2026-01-01T01:00:00Z")
    api.pods.append(other)
    api.start(made, "one\ntwo 2\n")
    assert list(mc.logs()) == ["one", "two 2"]


def test_logs_follow_to_the_end_and_no_line_comes_twice(api, mc, made):
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(mc.logs(follow=True)))
    reader.start()
    api.start(made, "one\n")
    until(lambda: lines)
    api.logs[LEAD] = "one\ntwo\n"
    api.succeed(made)
    reader.join(20)
    assert lines == ["one", "two"]


def test_a_cleanup_after_the_end_ends_the_lines(api, mc, made):
    api.start(made, "one\n")
    lines = mc.logs(follow=True)
    assert next(lines) == "one"
    with api.changed:
        api.succeed(made)
        api.delete("lj")
    assert list(lines) == []


def test_a_deletion_before_the_end_is_an_error_of_the_lines(api, mc, made):
    api.start(made, "one\n")
    lines = mc.logs(follow=True)
    assert next(lines) == "one"
    api.delete("lj")
    with pytest.raises(fluxelastic.Deleted) as error:
        list(lines)
    assert (error.value.result.state, error.value.result.nodes) == ("Deleted", "node-[0-3]")


def test_a_node_that_was_lost_is_not_simulated(api, mc, made):
    api.start(made, "one\n")
    api.succeed(made)
    for one in api.pods:
        status = one["status"]["containerStatuses"][0]
        del status["containerID"]
        status["state"] = {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}}
    failed = []

    def instead(method, path, query):
        if path.endswith("/log") and not failed:
            failed.append(path)
            return 503, {"reason": "ServiceUnavailable", "message": "later"}
        return None

    api.instead = instead
    assert list(mc.logs()) == ["one"]


def test_a_simulated_node_has_no_log(api, mc, made):
    api.start(made)
    del api.logs[LEAD]
    for one in api.pods:
        del one["status"]["containerStatuses"][0]["containerID"]
    with pytest.raises(fluxelastic.NoLog, match="simulated"):
        list(mc.logs())


def test_a_queued_minicluster_has_no_log(api, mc):
    api.tell("lj", "Queued", "NoRoom")
    with pytest.raises(fluxelastic.NoLog, match="it is Queued") as error:
        list(mc.logs())
    assert error.value.reason == "NoRoom"


def test_a_follower_is_not_the_lead(api, mc, made):
    api.start(made, "of the lead\n")
    api.logs["lj-w-0-0-abcde"] = "of a follower\n"
    lead = api.pods.pop(0)
    with pytest.raises(fluxelastic.NoLog):
        list(mc.logs())
    api.pods.append(lead)
    assert list(mc.logs()) == ["of the lead"]


@pytest.mark.parametrize("older", [{"deletionTimestamp": NOW}, {"resourceVersion": "7"}])
def test_the_newest_pod_of_a_rank_counts(api, mc, made, older):
    new = pod(made, 1)
    new["metadata"].update(name="new", resourceVersion="10")
    old = pod(made, 1)
    old["metadata"].update({"name": "old", "resourceVersion": "11", **older})
    api.pods += [new, old]
    assert [p["metadata"]["name"] for p in mc.cluster.pods(mc.read())] == ["new"]


@pytest.mark.parametrize("zone", [0, 2, -5])
def test_a_log_that_breaks_off_goes_on(api, mc, made, zone):
    api.zone, api.breaks_after = zone, 2
    api.start(made, "one\ntwo\nthree\nfour\n")
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(mc.logs(follow=True)))
    reader.start()
    until(lambda: api.breaks_after is None)
    api.succeed(made)
    reader.join(20)
    assert lines == ["one", "two", "three", "four"]


def test_a_line_of_the_kubelet_is_shown(api, mc, made):
    api.start(made)
    api.instead = lambda method, path, query: (200, b"no log is there\n") if path.endswith("/log") else None
    assert list(mc.logs()) == ["no log is there"]


def test_a_read_of_a_log_is_repeated(api, mc, made):
    api.start(made, "one\n")
    failed = []

    def instead(method, path, query):
        if path.endswith("/log") and not failed:
            failed.append(path)
            return 503, {"reason": "ServiceUnavailable", "message": "etcdserver: leader changed"}
        return None

    api.instead = instead
    assert list(mc.logs()) == ["one"] and failed


@pytest.mark.parametrize("status", [401, 403])
def test_a_log_that_nobody_may_read_is_an_error(api, mc, made, status):
    api.start(made, "one\n")
    reads = []

    def instead(method, path, query):
        if not path.endswith("/log"):
            return None
        reads.append(path)
        if len(reads) == 2:
            api.succeed(made)  # so that nobody reads for ever
        return status, {"reason": "No", "message": "you may not"}

    api.instead = instead
    with pytest.raises(fluxelastic.RequestError, match="you may not"):
        list(mc.logs(follow=True))
    assert len(reads) == 1


def test_what_never_fits_ends_a_log(api, mc):
    api.tell("lj", "Queued", "NeverFits")
    with pytest.raises(fluxelastic.NoLog, match="it is Queued"):
        list(mc.logs(follow=True))
