# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
import csv
import errno
import json
import os
import threading
import time

import pytest

import fluxelastic
from fakeapi import until
from fluxelastic import MiniCluster, Records, sweep
from fluxelastic.sweeps import NAME_LABEL, runs_of


def make(size, seed=0):
    return MiniCluster("any", image="lammps", command=f"lmp {seed}", size=size)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "runs.jsonl")


def test_all_combinations_run_and_have_names_that_stay():
    runs = runs_of("a", {"size": [1, 2], "seed": [3, 4]}, 2)
    assert len(runs) == 8 and len({run.name for run in runs}) == 8
    more = runs_of("a", {"size": [0, 1, 2], "seed": [3, 4, 5]}, 3)
    assert {run.name for run in runs} < {run.name for run in more}
    assert [run.parameters for run in runs_of("a", [{"size": 1}, {"size": 4}], 1)] == [{"size": 1}, {"size": 4}]


@pytest.mark.parametrize("arguments, sentence", [
    (("a", {"size": 3}, 1), "the parameter size is 3: it has to be a list"),
    (("a", {"size": "34"}, 1), "it has to be a list"),
    (("A", {"size": [3]}, 1), "name 'A': it has to begin with a letter"),
    (("a", {"size": [3]}, 0), "repeats 0"),
    (("a", {"size": [3, 3]}, 1), "the same parameters are there twice"),
    (("a", {"size": [3], "x": [object()]}, 1), "the parameter x is <object object"),
    (("a", {"size": [3], "x": [{1, 2}]}, 1), "the parameter x is {1, 2}: it has to be a number"),
])
def test_bad_input_gets_a_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        runs_of(*arguments)


def test_each_run_has_a_record_and_its_minicluster_is_deleted(api, cluster, path, tmp_path):
    api.play = api.run("Loop time of 4.5 on 28 procs\n")
    records = sweep("lj", make, {"size": [1, 2], "seed": [7]}, repeats=3, records=path, logs=str(tmp_path / "logs"), progress=False,
                    figures=lambda text: {"loop": float(text.split()[3])})
    assert len(records) == 6 and not api.miniclusters
    assert sorted(Records.read(path), key=lambda r: r["name"]) == sorted(records, key=lambda r: r["name"])
    row = records.rows()[0]
    assert (row["parameter.size"], row["parameter.seed"], row["state"], row["runSeconds"], row["attempt"], row["figure.loop"]) == (1, 7, "Succeeded", 20, 1, 4.5)
    with open(records[0]["log"], encoding="utf-8") as file:
        assert file.read() == "Loop time of 4.5 on 28 procs\n"
    records.to_csv(str(tmp_path / "runs.csv"))
    with open(tmp_path / "runs.csv", newline="", encoding="utf-8") as file:
        assert [line["state"] for line in csv.DictReader(file)] == ["Succeeded"] * 6
    assert "6 runs, 6 succeeded" in records._repr_html_()


def test_no_more_are_active_than_allowed(api, cluster, path):
    most = []

    def play(mc):
        with api.changed:
            most.append(len(api.miniclusters))
        api.run()(mc)

    api.play = play
    sweep("lj", make, {"size": [1], "seed": list(range(20))}, max_active=3, records=path, progress=False)
    assert len(most) == 20 and max(most) <= 3


def test_a_failure_has_a_record_and_the_others_run(api, cluster, path):
    def play(mc):
        if mc["spec"]["size"] == 1:
            api.tell(mc["metadata"]["name"], "Rejected", "PodRejected", "a policy says no")
        elif mc["spec"]["size"] == 2:
            api.tell(mc["metadata"]["name"], "Failed", "CommandFailed", "exit code 3", exitCode=3)
        else:
            api.run()(mc)

    api.play = play
    records = sweep("lj", make, {"size": [1, 2, 3]}, records=path, progress=False)
    assert [(r["state"], r["reason"]) for r in records] == [
        ("Rejected", "PodRejected"), ("Failed", "CommandFailed"), ("Succeeded", "Succeeded")]
    assert not api.miniclusters


def test_a_sweep_goes_on_where_it_ended(api, cluster, path):
    api.play = api.run()
    first = sweep("lj", make, {"size": [1, 2]}, repeats=2, records=path, progress=False)
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"name": "lj-broken')  # a program was killed while it wrote
    left = runs_of("lj", {"size": [1, 2, 3]}, 2)[-1]
    api.play = None
    killed = make(1)  # a program was killed after it had written the record of this, and before it deleted this
    killed.name = first[0]["name"]
    killed.labels[NAME_LABEL] = "lj"
    killed.submit()
    with api.changed:
        api.miniclusters["default", killed.name]["metadata"]["uid"] = first[0]["uid"]
    taken_up = make(3)  # a program was killed after it had submitted this
    taken_up.name = left.name
    taken_up.submit()
    api.run()(api.miniclusters["default", left.name])
    api.play = api.run()
    before = len([r for r in api.requests if r.startswith("POST")])
    records = sweep("lj", make, {"size": [1, 2, 3]}, repeats=2, records=path, progress=False)
    assert len(records) == 6 and [r for r in records if r["name"] in {f["name"] for f in first}] == list(first)
    assert len([r for r in api.requests if r.startswith("POST")]) == before + 2  # of them one is there already
    assert not api.miniclusters
    with open(path, encoding="utf-8") as file:
        assert len([json.loads(line)["name"] for line in file]) == 6


class Scalar:
    """A number as numpy has it."""

    def __init__(self, value):
        self.value = value

    def tolist(self):
        return self.value


def test_numbers_of_numpy_are_numbers(api, cluster, path):
    assert [run.name for run in runs_of("a", {"size": [Scalar(4)]}, 1)] == [run.name for run in runs_of("a", {"size": [4]}, 1)]
    api.play = api.run("1\n")
    records = sweep("lj", make, {"size": [Scalar(4)]}, records=path, progress=False, figures=lambda text: {"loop": Scalar(1.5)})
    assert records[0]["parameters"] == {"size": 4} and records[0]["figures"] == {"loop": 1.5}
    assert list(Records.read(path)) == list(records) and records.rows()[0]["wanted"] == 4


def test_columns_of_parameters_and_figures_replace_no_others(api, cluster, path):
    api.play = api.run("1\n")
    records = sweep("lj", lambda nodes, state: make(2 * nodes), {"nodes": [2], "state": ["solid"]}, records=path, progress=False,
                    figures=lambda text: {"size": 7})
    row = records.rows()[0]
    assert (row["parameter.nodes"], row["parameter.state"], row["figure.size"]) == (2, "solid", 7)
    assert (row["nodes"], row["state"], row["size"]) == ("node-[0-3]", "Succeeded", 4)


@pytest.mark.parametrize("labels", [
    {"experiment.flux-framework.org/name": "lj"},  # of kubectl minicluster experiment
    {NAME_LABEL: "lj"},  # somebody has copied the labels
])
def test_miniclusters_of_others_stay(api, cluster, path, labels):
    api.play = api.run()
    sweep("lj", make, {"size": [1]}, records=path, progress=False)
    api.play = None
    for name, annotations in (("lj-01-1", {}), ("lj-01-2", None), (Records.read(path)[0]["name"], None)):
        api.create({"metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": annotations}, "spec": {}})
    sweep("lj", make, {"size": [1]}, records=path, progress=False)
    assert len(api.miniclusters) == 3


def test_a_log_that_cannot_be_read_is_kept(api, cluster, path, tmp_path):
    api.play = api.run("1\n")
    api.instead = lambda method, where, query: (403, {"reason": "Forbidden", "message": "you may not"}) if where.endswith("/log") else None
    arguments = {"records": path, "logs": str(tmp_path / "logs"), "progress": False}
    records = sweep("lj", make, {"size": [1]}, **arguments)
    assert (records[0]["state"], records[0]["logError"], records[0]["kept"]) == ("Succeeded", "you may not", True)
    assert list(sweep("lj", make, {"size": [1]}, **arguments)) == list(records) and len(api.miniclusters) == 1
    assert MiniCluster.get(records[0]["name"]).labels == {NAME_LABEL: "lj"} and len(Records.read(path)) == 1


@pytest.mark.parametrize("is_gone", [False, True])
def test_an_output_that_was_kept_is_read_by_the_next_call(api, cluster, path, is_gone):
    api.play = api.run("3\n")
    api.instead = lambda method, where, query: (403, {"reason": "Forbidden", "message": "you may not"}) if where.endswith("/log") else None
    arguments = {"records": path, "progress": False, "figures": lambda text: {"loop": float(text)}}
    kept = sweep("lj", make, {"size": [1]}, **arguments)[0]
    api.instead = None
    assert list(sweep("lj", make, {"size": [1]}, records=path, progress=False)) == [kept] and api.miniclusters  # nobody reads the output
    if is_gone:
        api.delete(kept["name"])
    records = sweep("lj", make, {"size": [1]}, **arguments)
    assert (records[0]["state"], records[0]["uid"], "kept" in records[0]) == ("Succeeded", kept["uid"], False)
    assert ("was deleted" in records[0]["logError"] or "there is no" in records[0]["logError"]) if is_gone else records[0]["figures"] == {"loop": 3}
    assert list(sweep("lj", make, {"size": [1]}, **arguments)) == list(records) and len(Records.read(path)) == 2
    assert not api.miniclusters and len([r for r in api.requests if r.startswith("POST")]) == 1


def test_a_sweep_of_another_file_keeps_its_miniclusters(api, cluster, path):
    api.play = api.run()
    sweep("lj", make, {"size": [1]}, records=path, progress=False)
    api.play, there = None, []
    other = threading.Thread(target=lambda: there.extend(sweep("lj", make, {"size": [1]}, records=path + "2", progress=False)), daemon=True)
    other.start()
    until(lambda: api.miniclusters)
    assert len(sweep("lj", make, {"size": [1]}, records=path, progress=False)) == 1 and len(api.miniclusters) == 1
    api.run()(*api.miniclusters.values())
    other.join(20)
    assert [record["state"] for record in there] == ["Succeeded"]


def test_make_may_return_one_object_again_and_again(api, cluster, path):
    base = MiniCluster("any", image="lammps", command="lmp")

    def shared(size):
        base.spec.size = size
        return base

    api.play = api.run()
    records = sweep("lj", shared, {"size": [1, 2, 3, 4, 5, 6]}, records=path, progress=False)
    assert [(r["name"], r["state"], r["size"]) for r in records] == [
        (run.name, "Succeeded", run.parameters["size"]) for run in runs_of("lj", {"size": [1, 2, 3, 4, 5, 6]}, 1)]
    assert base.name == "any"


def test_a_sweep_deletes_its_miniclusters_itself(api, cluster, path):
    api.play = api.run()
    with pytest.raises(ValueError, match="cleanup: a sweep deletes each MiniCluster itself"):
        sweep("lj", lambda size: MiniCluster("any", image="lammps", size=size, cleanup=True), {"size": [1]}, records=path, progress=False)
    assert not api.miniclusters


def test_a_process_that_was_forked_does_not_keep_the_file(api, cluster, path):
    api.play, children = api.run("1\n"), []
    reader, writer = os.pipe()

    def figures(text):
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)  # to the end of the test
            os._exit(0)
        children.append(child)
        return {"loop": float(text)}

    try:
        for size in (1, 2):
            assert len(sweep("lj", make, {"size": [size]}, records=path, progress=False, figures=figures)) == 1
    finally:
        os.close(writer)
        for child in children:
            os.waitpid(child, 0)
        os.close(reader)
    assert len(children) == 2


def test_a_read_of_a_log_that_fails_once_loses_nothing(api, cluster, path):
    api.play, failed = api.run("2\n"), []

    def instead(method, where, query):
        if where.endswith("/log") and not failed:
            failed.append(where)
            return 503, {"reason": "ServiceUnavailable", "message": "etcdserver: leader changed"}
        return None

    api.instead = instead
    records = sweep("lj", make, {"size": [1]}, records=path, progress=False, figures=lambda text: {"loop": float(text)})
    assert records[0]["figures"] == {"loop": 2} and "logError" not in records[0] and not api.miniclusters


def test_two_programs_do_not_run_one_sweep(api, cluster, path):
    seen = []

    def play(mc):
        with pytest.raises(fluxelastic.Error, match="another program runs the sweep of"):
            sweep("lj", make, {"size": [1]}, records=path, progress=False)
        seen.append(mc)
        api.run()(mc)

    api.play = play
    assert len(sweep("lj", make, {"size": [1]}, records=path, progress=False)) == 1
    assert seen and len(sweep("lj", make, {"size": [1]}, records=path, progress=False)) == 1


def test_the_first_record_of_an_end_counts(api, cluster, path):
    api.play = api.run()
    record = dict(sweep("lj", make, {"size": [1]}, records=path, progress=False)[0])
    with open(path, "w", encoding="utf-8") as file:
        for state in ("Deleted", "Succeeded", "Failed"):
            file.write(json.dumps({**record, "state": state}) + "\n")
    assert sweep("lj", make, {"size": [1]}, records=path, progress=False)[0]["state"] == "Succeeded"


@pytest.mark.parametrize("text, sentence", [
    ('{"name": "a", "state": "Failed"}\n{"na{"name": "b"}\n', "runs.jsonl, line 2: it is no record"),
    ("[1]\n", "line 1: it is no record"),
    ("the thesis, without a newline", "is no file of records"),
])
def test_a_file_that_has_something_else_is_left_alone(api, cluster, path, text, sentence):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    with pytest.raises(ValueError, match=sentence):
        sweep("lj", make, {"size": [1]}, records=path, progress=False)
    with open(path, encoding="utf-8") as file:
        assert file.read() == text


def test_a_full_disk_leaves_no_half_record(api, cluster, path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    api.play = api.run()
    with monkeypatch.context() as patched:
        patched.setattr("fluxelastic.records.os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            sweep("lj", make, {"size": [1]}, records=path, progress=False)
    assert list(Records.read(path)) == [] and len(api.miniclusters) == 1
    assert sweep("lj", make, {"size": [1]}, records=path, progress=False)[0]["state"] == "Succeeded"


def test_a_conflict_of_a_quota_does_not_end_a_sweep(api, cluster, path):
    api.play, refused = api.run(), []

    def instead(method, *_):
        if method == "POST" and not refused:
            refused.append(method)
            return 409, {"reason": "Conflict", "message": "Operation cannot be fulfilled on resourcequotas"}
        return None

    api.instead = instead
    assert sweep("lj", make, {"size": [1]}, records=path, progress=False)[0]["state"] == "Succeeded"


def test_an_error_ends_a_sweep_also_while_requests_are_repeated(api, cluster, path):
    cluster.patience = 300
    api.play = api.run()
    later = (503, {"reason": "ServiceUnavailable", "message": "later"})

    def instead(method, *_):
        if method != "POST":
            return None
        return (422, {"reason": "Invalid", "message": "no"}) if len(api.requests) > 3 else later

    api.instead = instead
    with pytest.raises(fluxelastic.RequestError, match="no"):
        sweep("lj", make, {"size": [1, 2, 3, 4]}, records=path, progress=False)


def test_records_of_another_specification_are_not_taken(api, cluster, path):
    api.play = api.run()
    sweep("lj", make, {"size": [1]}, records=path, progress=False)
    with pytest.raises(fluxelastic.NameTaken, match="with another specification"):
        sweep("lj", lambda size: MiniCluster("any", image="other", size=size), {"size": [1]}, records=path, progress=False)


def test_ctrl_c_leaves_what_runs_and_says_how_to_go_on(api, cluster, path, monkeypatch, capsys):
    api.play = api.start  # nothing ends

    def interrupted(active, return_when):
        while len(api.miniclusters) < 4:
            time.sleep(0.01)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("fluxelastic.sweeps.wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sweep("lj", make, {"size": [1, 2, 3, 4]}, records=path, progress=False)
    told = capsys.readouterr().err
    assert "0 of 4 runs are recorded" in told
    assert "kubectl delete minicluster -n default -l sweep.flux-framework.org/name=lj" in told
    assert len(api.miniclusters) == 4
    for mc in list(api.miniclusters.values()):
        api.succeed(mc)
    assert len(sweep("lj", make, {"size": [1, 2, 3, 4]}, records=path, progress=False)) == 4
    assert not api.miniclusters


def test_a_quota_is_waited_for(api, cluster, path, monkeypatch):
    monkeypatch.setattr("fluxelastic.sweeps._QUOTA_PAUSE", 0.1)
    api.play = api.run()
    full = threading.Event()

    def instead(method, *_):
        if method == "POST" and not full.is_set():
            full.set()
            return 403, {"reason": "Forbidden", "message": "exceeded quota: count/miniclusters"}
        return None

    api.instead = instead
    assert sweep("lj", make, {"size": [1]}, records=path, progress=False)[0]["state"] == "Succeeded"


def test_an_output_without_the_figure_does_not_end_the_sweep(api, cluster, path):
    api.play = api.run("nothing\n")
    records = sweep("lj", make, {"size": [1]}, records=path, progress=False, figures=lambda text: {"loop": float(text.split()[3])})
    assert records[0]["state"] == "Succeeded" and "list index out of range" in records[0]["logError"]


def test_a_figure_that_is_no_number_of_json_is_told(api, cluster, path):
    api.play = api.run("nan\n")
    records = sweep("lj", make, {"size": [1]}, records=path, progress=False, figures=lambda text: {"loop": float(text)})
    assert "not JSON compliant" in records[0]["logError"] and "figures" not in records[0]


def test_a_deleted_run_has_a_record(api, cluster, path):
    def play(mc):
        api.start(mc)
        api.delete(mc["metadata"]["name"])

    api.play = play
    assert sweep("lj", make, {"size": [1]}, records=path, progress=False)[0]["state"] == "Deleted"


def test_progress_is_told(api, cluster, path, capsys):
    api.play = api.run()
    sweep("lj", make, {"size": [1, 2]}, records=path)
    assert capsys.readouterr().err.endswith("\rlj: 2 of 2 runs\n")
