# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""The classes of the Flux Operator's Python client, for scripts that were written for that client.

Write fluxelastic.compat for fluxoperator in the imports of a script. New scripts are shorter with fluxelastic itself.
"""
from .client import FluxBrokerMiniCluster, FluxMiniCluster, FluxOperator
from .models import *  # noqa: F401,F403

__all__ = ["FluxBrokerMiniCluster", "FluxMiniCluster", "FluxOperator"] + models.__all__  # type: ignore[name-defined]  # noqa: F405
