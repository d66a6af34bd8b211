# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""A client of flux-elastic: MPI jobs on Kubernetes.

    from fluxelastic import MiniCluster

    mc = MiniCluster("lj", image="lammps", command="lmp -in in.lj", size=16, min_size=8, tasks=112, cpu=7).submit()
    print(mc.why())
    print(mc.wait().run_seconds)
"""
from .cluster import Cluster
from .errors import Deleted, Error, Failed, NameTaken, NeverFits, NoLog, Rejected, RequestError, WaitTimeout
from .minicluster import MiniCluster, submit_all, wait_all
from .records import Records
from .status import Result
from .sweeps import sweep

__version__ = "0.1.0"

__all__ = [
    "Cluster", "Deleted", "Error", "Failed", "MiniCluster", "NameTaken", "NeverFits", "NoLog", "Records", "Rejected",
    "RequestError", "Result", "WaitTimeout", "submit_all", "sweep", "wait_all",
]
