# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
import threading

import pytest
from kubernetes import config

import fluxelastic
from fakeapi import until
from fluxelastic import MiniCluster, models, watch
from fluxelastic.transport import Limit


def new(name="lj", **fields):
    return MiniCluster(name, **{"image": "lammps", "command": "lmp", "size": 4, **fields})


def test_an_older_state_does_not_replace_a_later_one(api, cluster):
    new().submit()
    with cluster.follow("default", "lj") as follower:
        assert follower.next(Limit(20)) is not None
        with cluster._watches["default"].lock:
            follower.tell(None, 1)  # the end of an earlier MiniCluster of this name, seen late
        assert not follower.gone


def test_what_changes_between_the_first_read_and_the_list_is_seen(api, cluster):
    for name in "abcd":
        new(name).submit()
    late = []

    def instead(method, path, query):
        """While the list of the namespace is under way, two others are followed, and end."""
        if path.endswith("/miniclusters") and not query and not late:
            late.extend([cluster.follow("default", "c"), cluster.follow("default", "d")])
            assert all(follower.next(Limit(20)) for follower in late)
            api.run()(api.miniclusters["default", "c"])
            api.delete("d")
        return None

    api.instead = instead
    with cluster.follow("default", "a"), cluster.follow("default", "b") as follower:
        assert follower.next(Limit(20))
        until(lambda: len(late) == 2 and any("watch=" in r and "fieldSelector" not in r for r in api.requests))
        assert late[0].next(Limit(20)).status.exit_code == 0
        assert late[1].next(Limit(20)) is None


def test_what_is_deleted_before_the_list_and_read_before_is_gone(api, cluster):
    """The answer of a read comes after a list that is newer."""
    for name in "abc":
        new(name).submit()
    late, listed = [], threading.Event()

    def instead(method, path, query):
        if path.endswith("/miniclusters") and not query and not listed.is_set():
            late.append(cluster.follow("default", "c"))
            threading.Thread(target=ask).start()
            assert asked.wait(20)
            api.delete("c")
            listed.set()
        if path.endswith("/c") and not asked.is_set():
            answer = api.miniclusters["default", "c"]
            asked.set()
            until(lambda: cluster._watches["default"]._listed)
            return 200, answer
        return None

    asked, seen = threading.Event(), []

    def ask():
        seen.append(late[0].next(Limit(20)))

    api.instead = instead
    with cluster.follow("default", "a"), cluster.follow("default", "b"):
        assert listed.wait(20)
        until(lambda: seen)
        assert seen == [None]


def test_a_read_that_is_answered_late_does_not_hide_the_end(cluster):
    """The watch tells a state, breaks off, and begins anew with a list that has another MiniCluster of the name. Then
    the read is answered with the state that the watch has told."""
    first, other = ({"metadata": {"name": "lj", "uid": uid, "resourceVersion": version}} for uid, version in (("a", "14"), ("b", "16")))

    def get(*_):
        lj._take({"type": "MODIFIED", "object": first})
        lj._list()
        return models.MiniCluster.from_dict(first)

    class Transport:
        def request(self, *_, **__):
            return {"metadata": {"resourceVersion": "17"}, "items": [other]}

    lj = watch.Watch(Transport(), "", "lj", get)
    lj._thread = threading.current_thread()  # the watch is played here
    assert lj.join("lj", "a").next(Limit(20)) is None


def test_a_watch_whose_thread_did_not_start_is_started_by_the_next_wait(api, cluster, monkeypatch):
    mc = new().submit()

    def start(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            mc.wait(timeout=20)
    with cluster.follow("default", "lj") as follower:
        assert follower.next(Limit(20))
        api.run()(api.miniclusters["default", "lj"])
        assert follower.next(Limit(20))


def test_a_success_is_no_deletion_if_the_minicluster_is_cleaned_up(api, cluster):
    mc = new(cleanup=True).submit()

    def instead(method, path, query):
        """Before the first read is answered, the MiniCluster ends, and is deleted."""
        if path.endswith("/lj") and method == "GET" and ("default", "lj") in api.miniclusters:
            until(lambda: any("watch=" in r for r in api.requests))
            api.run()(api.miniclusters["default", "lj"])
            api.delete("lj")
            until(lambda: cluster._watches["default"]._followers["lj"][0].gone)
        return None

    api.instead = instead
    result = mc.outcome(timeout=20)
    assert (result.state, result.exit_code, result.run_seconds) == ("Succeeded", 0, 20)


def test_a_wait_does_not_go_over_to_another_minicluster_of_the_name(api, cluster):
    new().submit()
    with cluster.follow("default", "lj") as follower:
        assert follower.next(Limit(20))
        api.delete("lj")
        api.run()(api.create(new(size=5).to_dict()))
        until(lambda: follower.gone)
        assert follower.next(Limit(20)) is None and follower.last.spec.size == 4
        with pytest.raises(TimeoutError):
            follower.next(Limit(0))


def test_a_list_that_has_another_minicluster_of_the_name_says_that_the_first_is_gone(api, cluster):
    new().submit()
    with cluster.follow("default", "lj") as follower:
        assert follower.next(Limit(20))
        with cluster._watches["default"].lock:
            follower.tell(models.MiniCluster(metadata={"uid": "other"}), 10**6)
        assert follower.next(Limit(20)) is None and follower.last.spec.size == 4


@pytest.mark.parametrize("error", [AttributeError("getheaders"), config.ConfigException("no token")])
def test_whatever_ends_the_watch_ends_the_waits(api, cluster, monkeypatch, error):
    mc = new().submit()

    def stream(*_):
        raise error

    monkeypatch.setattr(cluster, "stream", stream)
    with pytest.raises(fluxelastic.RequestError, match="the client cannot send requests, or read answers"):
        mc.wait(timeout=20)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_list_that_is_refused_is_an_error(api, cluster, status):
    mc = new().submit()
    api.instead = lambda method, path, query: (status, {"reason": "No", "message": "no"}) if path.endswith("/miniclusters") else None
    with pytest.raises(fluxelastic.RequestError) as got:
        mc.wait(timeout=20)
    assert got.value.status == status
    api.instead = None
    api.run()(api.miniclusters["default", "lj"])
    assert mc.wait(timeout=20).succeeded  # with a new watch


def test_an_api_server_that_is_lost_ends_a_wait(api, cluster):
    cluster.patience = 1
    mc = new().submit()
    lost = 503, {"reason": "ServiceUnavailable", "message": "later"}
    api.ends_watches = True
    api.instead = lambda method, path, query: lost if path.endswith("/miniclusters") else None
    with pytest.raises(fluxelastic.RequestError, match="later"):
        mc.wait(timeout=20)


def test_a_watch_that_ends_at_once_is_opened_after_a_pause(api, cluster, monkeypatch):
    mc, pauses = new().submit(), []
    api.ends_watches = True

    def pause(seconds):
        pauses.append((len([r for r in api.requests if "watch=" in r]), seconds))
        if len(pauses) == 3:
            api.ends_watches = False
            api.run()(api.miniclusters["default", "lj"])

    monkeypatch.setattr(watch, "sleep", pause)
    monkeypatch.setattr(watch, "monotonic", lambda: 0)  # however slow the machine is
    assert mc.wait(timeout=60).succeeded and pauses[:3] == [(1, 0.5), (2, 1), (3, 2)]


def test_a_watch_that_nobody_needs_does_not_try_on(api, cluster):
    cluster.patience = 300
    new().submit()
    api.instead = lambda method, path, query: (503, {"reason": "ServiceUnavailable", "message": "later"})
    with cluster.follow("default", "lj") as follower, pytest.raises(TimeoutError):
        follower.next(Limit(0.1))
    cluster._watches["default"]._thread.join(20)
    assert not cluster._watches["default"]._thread.is_alive()


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
