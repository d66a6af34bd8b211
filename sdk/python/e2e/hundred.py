#!/usr/bin/env python3
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""A script as it is written for the Flux Operator's client: many MiniClusters in processes of their own. Of what the
script says, only the import is that of flux-elastic."""
import multiprocessing
import sys

from kubernetes import config

from fluxelastic.compat.client import FluxMiniCluster


def run(number):
    """Run a MiniCluster, and return the last line of its output and the times."""
    _, context = config.list_kube_config_contexts()
    mini = FluxMiniCluster()
    mini.create(
        name=f"lammps-{number}",
        namespace=context["context"]["namespace"],
        size=1 + number % 4,
        tasks=4 * (1 + number % 4),
        container={"image": "ghcr.io/rse-ops/lammps:flux-sched-focal", "command": "lmp -in in.reaxc.hns", "working_dir": "/home/flux",
                   "resources": {"limits": {"cpu": "7"}}},
        pod={"annotations": {"sim.flux-framework.org/runtime": "2s"}},
    )
    lines = mini.stream_output(f"lammps-{number}.out", stdout=False)
    mini.delete()
    return lines[-1], mini.times


def main():
    count = int(sys.argv[1])
    with multiprocessing.Pool(count) as pool:
        results = pool.map(run, range(count), chunksize=1)
    for line in {line for line, _ in results}:
        print(f"{sum(line == found for found, _ in results)} logs that end with: {line}")
    print(f"{count} MiniClusters")
    print(f"{sum({'create', 'delete'} <= set(times) for _, times in results)} times of create and delete")
    print(f"slowest create: {max(times['create'] for _, times in results)} s")


if __name__ == "__main__":
    main()
