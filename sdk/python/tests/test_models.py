# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import glob
import inspect
import os

import pytest
import yaml
from kubernetes.client import ApiClient, V1ObjectMeta

from fluxelastic import MiniCluster, models

ROOT = os.path.join(os.path.dirname(__file__), "..", "..", "..")
EXAMPLES = sorted(glob.glob(os.path.join(ROOT, "examples", "*", "minicluster.yaml")))


def test_there_are_examples():
    assert len(EXAMPLES) > 5


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example_is_written_as_it_was_read(path):
    with open(path, encoding="utf-8") as file:
        for data in yaml.safe_load_all(file):
            if data["kind"] == "MiniCluster":
                assert models.MiniCluster.from_dict(data, strict=True).to_dict() == data


def test_every_class_of_a_field_exists():
    for _, of in inspect.getmembers(models, dataclasses.is_dataclass):
        for field in dataclasses.fields(of):
            if isinstance(field.metadata["of"], str):
                assert dataclasses.is_dataclass(getattr(models, field.metadata["of"])), (of, field.name)


def test_objects_in_lists_and_maps_are_read_and_written():
    data = {"containers": [{"image": "app", "volumes": {"data": {"path": "/data", "hostPath": "/disk"}}}]}
    spec = models.MiniClusterSpec.from_dict(data)
    assert spec.containers[0].volumes["data"].host_path == "/disk"
    assert spec.to_dict() == data


def test_times_are_read_and_written():
    data = {"startTime": "2026-01-01T00:00:00Z", "lastDecision": {"time": "2026-01-01T00:00:00.123456Z"}}
    status = models.MiniClusterStatus.from_dict(data)
    assert status.last_decision.time.microsecond == 123456
    assert status.to_dict() == data


def test_the_package_kubernetes_writes_a_model():
    mc = models.MiniCluster(kind="MiniCluster", metadata=V1ObjectMeta(name="a"), spec=models.MiniClusterSpec(min_size=2))
    want = {"kind": "MiniCluster", "metadata": {"name": "a"}, "spec": {"minSize": 2}}
    assert ApiClient().sanitize_for_serialization(mc) == want
    assert mc.to_dict() == want


def test_a_name_that_does_not_exist_is_told_with_what_was_meant():
    with pytest.raises(ValueError, match="MiniClusterSpec has no field minsize: did you mean minSize?"):
        models.MiniClusterSpec.from_dict({"minsize": 1}, strict=True)
    with pytest.raises(TypeError, match="a MiniCluster has no field imag: did you mean image?"):
        MiniCluster("a", imag="app")
    assert models.MiniClusterSpec.from_dict({"later": 1}).to_dict() == {}  # a newer manager may have it
