#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints an experiment: many MiniClusters of mixed sizes, which want seven CPUs on each node.
#
#   ./generate.sh [COUNT] [LARGEST] [SEED] | kubectl create -f -
#
# It prints COUNT (200) MiniClusters of 2 to LARGEST (64) brokers; small sizes are more frequent. The
# same SEED (1) gives the same output. On simulated nodes each command runs for 5 to 15 seconds.
set -eu

count=${1:-200}
largest=${2:-64}
RANDOM=${3:-1}

sizes=()
for ((size = largest, times = 1; size >= 2; size /= 2, times += 1)); do
	for ((i = 0; i < times; i++)); do sizes+=("$size"); done
done

for ((i = 0; i < count; i++)); do
	size=${sizes[RANDOM % ${#sizes[@]}]} runtime=$((5 + RANDOM % 11))
	cat <<-YAML
		---
		apiVersion: flux-framework.org/v1alpha2
		kind: MiniCluster
		metadata:
		  name: $(printf 'many-%03d' "$i")
		  labels: {experiment: many}
		spec:
		  size: $size
		  tasks: $((size * 7))
		  pod:
		    annotations: {sim.flux-framework.org/runtime: ${runtime}s}
		  flux:
		    container: {image: "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy"}
		  containers:
		    - image: ghcr.io/converged-computing/metric-lammps:latest
		      workingDir: /opt/lammps/examples/reaxff/HNS
		      command: lmp -v x 2 -v y 2 -v z 2 -in in.reaxc.hns -nocite
		      resources:
		        limits: {cpu: "7", memory: 16Gi}
	YAML
done
