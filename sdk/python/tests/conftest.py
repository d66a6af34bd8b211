# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
import os
import sys

import pytest

sys.path[:0] = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__))]

from fakeapi import FakeAPI  # noqa: E402

from fluxelastic import Cluster, minicluster  # noqa: E402


@pytest.fixture
def api():
    server = FakeAPI()
    yield server
    server.close()


@pytest.fixture
def cluster(api, monkeypatch):
    """The cluster of the server, which is also the default."""
    out = Cluster(api_client=api.client(), namespace="default", patience=3)
    monkeypatch.setattr(minicluster, "_cluster", out)
    return out
