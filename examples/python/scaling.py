#!/usr/bin/env python3
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
"""A scaling study of LAMMPS in Python: how much faster is a program on more nodes?

    python3 scaling.py                          # on a cluster: the time is that of LAMMPS' log
    python3 scaling.py --simulated --repeats=40 # on simulated nodes: 200 runs, where no command runs

It writes scaling.jsonl (a record of each run), scaling.csv and scaling.svg. Started again, it goes on where it ended.
"""
import argparse
import re
import statistics

from fluxelastic import MiniCluster, models, sweep

SIZES = [1, 2, 4, 8, 16]


def lammps(size, simulated):
    """The MiniCluster of a run. With simulated, an annotation says how long the simulator plays the command."""
    pod = None
    if simulated:
        pod = models.PodSpec(annotations={"sim.flux-framework.org/runtime": f"{1 + simulated / size:.1f}s"})
    return MiniCluster(
        "lammps", size=size, tasks=7 * size, cpu=7, memory="16Gi", pod=pod, deadline_seconds=1200,
        image="ghcr.io/converged-computing/metric-lammps:latest",
        working_dir="/opt/lammps/examples/reaxff/HNS",
        command="lmp -v x 8 -v y 8 -v z 8 -in in.reaxc.hns -nocite",
        flux=models.FluxSpec(container=models.FluxContainer(image="ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy")),
    )


def figures(text):
    """The numbers in the output of LAMMPS."""
    return {"loop": float(re.search(r"Loop time of (\S+)", text).group(1))}


def draw(points, path):
    """Draw the median time over the size, both on a scale of powers of two, and what a perfect program would do."""
    try:
        from matplotlib import pyplot
    except ImportError:
        return draw_svg(points, path)
    sizes = list(points)
    figure, axes = pyplot.subplots()
    axes.loglog(sizes, [statistics.median(points[s]) for s in sizes], "o-", base=2, label="median")
    axes.loglog(sizes, [statistics.median(points[sizes[0]]) * sizes[0] / s for s in sizes], "--", base=2, label="perfect")
    axes.set(xlabel="nodes", ylabel="seconds")
    axes.legend()
    figure.savefig(path)
    return path


def draw_svg(points, path):
    """Draw bars of the median times."""
    medians = {size: statistics.median(times) for size, times in points.items()}
    rows = []
    for row, (size, seconds) in enumerate(medians.items()):
        y, length = 20 + 30 * row, max(1, 400 * seconds / max(max(medians.values()), 1e-9))
        rows.append(f'<text x="60" y="{y + 15}" text-anchor="end">{size} nodes</text>'
                    f'<rect x="70" y="{y}" width="{length:.0f}" height="20" fill="#4878a8"/>'
                    f'<text x="{80 + length:.0f}" y="{y + 15}">{seconds:g} s</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="600" height="{40 + 30 * len(rows)}" '
                   f'font-family="sans-serif" font-size="14">{"".join(rows)}</svg>\n')
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="scaling")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--max-active", type=int, default=16)
    parser.add_argument("--simulated", nargs="?", type=float, const=20, default=0, metavar="SECONDS", help="of the run on one node")
    args = parser.parse_args()
    records = sweep(args.name, lammps, {"size": SIZES, "simulated": [args.simulated]}, repeats=args.repeats, max_active=args.max_active,
                    figures=None if args.simulated else figures)
    records.to_csv(args.name + ".csv")
    points = {}
    for row in records.rows():
        seconds = row["runSeconds"] if args.simulated else row.get("figure.loop")  # none of a run whose log was not read
        if row["state"] == "Succeeded" and seconds is not None:
            points.setdefault(row["parameter.size"], []).append(seconds)
    print(records)
    for size, times in points.items():
        print(f"{size:3} nodes: median {statistics.median(times):g} s of {len(times)} runs")
    if points:
        print("drawn in " + draw(points, args.name + ".svg"))


if __name__ == "__main__":
    main()
