# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""The client on a real API server, with simulated nodes of 8 CPUs. test/e2e-python runs these."""
import json
import subprocess
import sys
import threading
import time

import pytest

import fluxelastic
from fluxelastic import MiniCluster, models, sweep
from fluxelastic.transport import Limit

RUNTIME = "sim.flux-framework.org/runtime"


def new(name, runtime="1s", **fields):
    pod = models.PodSpec(annotations={RUNTIME: runtime, **fields.pop("simulated", {})})
    return MiniCluster(name, **{"image": "lammps", "command": "lmp", "cpu": 7, "pod": pod, **fields})


def test_it_runs_and_says_what_became_of_it():
    with new("lj", size=4, tasks=28) as mc:
        result = mc.wait(timeout=300)
        assert (result.state, result.exit_code, result.wanted, result.size, result.tasks) == ("Succeeded", 0, 4, 4, 28)
        assert result.run_seconds is not None and result.useful_node_seconds >= 0 and result.attempt == 1
        lines = list(mc.logs(follow=True))
        assert len(lines) == 2 and lines[1].startswith("Loop time of ")
        assert new("lj", size=4, tasks=28).submit().result() == result  # it is not submitted again
        with pytest.raises(fluxelastic.NameTaken):
            new("lj", size=5).submit()
    with pytest.raises(fluxelastic.Deleted):
        mc.result()


def test_a_failure_has_the_exit_code():
    with new("fails", simulated={"sim.flux-framework.org/exit-code": "3"}) as mc:
        with pytest.raises(fluxelastic.Failed) as error:
            mc.wait(timeout=300)
        assert (error.value.reason, error.value.exit_code) == ("CommandFailed", 3)


def test_what_cannot_start_says_why():
    with new("large", size=5000) as mc:
        with pytest.raises(fluxelastic.NeverFits, match="large never fits"):
            mc.wait(timeout=300)
        lines = mc.why().splitlines()
        assert lines[0].startswith("large is Queued: ") and lines[1].startswith("Reason: NeverFits."), lines
    with new("tasks", size=1, tasks=100) as mc:
        with pytest.raises(fluxelastic.Rejected) as error:
            mc.wait(timeout=300)
        assert error.value.reason
    with pytest.raises(fluxelastic.RequestError, match="minSize must be at most size") as error:
        new("invalid", size=1, min_size=2).submit()
    assert error.value.reason == "Invalid"


def test_a_launcher_follows_its_size():
    with new("grows", runtime="1h", launcher=True, size=2, max_size=4) as mc:
        assert mc.wait("running", timeout=300).size == 2
        mc.resize(4)
        grown = threading.Event()

        def watch():
            with mc.cluster.follow(mc.namespace, mc.name) as follower:
                while True:
                    if follower.next(Limit(300)).status.size == 4:
                        grown.set()
                        return

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        assert grown.wait(300)


def test_a_sweep_that_is_killed_goes_on(tmp_path):
    program = tmp_path / "study.py"
    program.write_text(
        "from fluxelastic import MiniCluster, models, sweep\n"
        "def make(size):\n"
        f"    pod = models.PodSpec(annotations={{'{RUNTIME}': '1s'}})\n"
        "    return MiniCluster('any', image='lammps', command='lmp', cpu=7, size=size, pod=pod)\n"
        "records = sweep('study', make, {'size': [1, 2]}, repeats=6, max_active=3, records='runs.jsonl', logs='logs',\n"
        "                figures=lambda text: {'loop': float(text.split('Loop time of ')[1].split()[0])})\n"
        "print(repr(records))\n", encoding="utf-8")
    path = tmp_path / "runs.jsonl"
    first = subprocess.Popen([sys.executable, str(program)], cwd=tmp_path)
    while not path.exists() or path.read_text().count("\n") < 3:
        assert first.poll() is None
        time.sleep(0.1)
    first.kill()
    first.wait()
    again = subprocess.run([sys.executable, str(program)], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "12 runs, 12 succeeded" in again.stdout
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({record["name"] for record in records}) == len(records) == 12
    assert {record["figures"]["loop"] for record in records} == {4.5}


def test_a_sweep_of_a_program_in_threads():
    records = sweep("threads", lambda size: new("any", size=size), {"size": [1, 2, 3]}, repeats=2, records="threads.jsonl", progress=False)
    assert [row["state"] for row in records.rows()] == ["Succeeded"] * 6
