#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# The first process of a real node, in namespaces of its own: with it all that runs in
# the node ends, and its mounts and interfaces. Descriptor 3 takes a word when the node
# is there.
#
#   node.sh NAME LIB LOG ADDRESS/BITS MAC
set -eu
name=$1 lib=$2 log=$3 address=$4 mac=$5

# Who starts it says when its record is written and its cable is there. If that one is
# gone by then, so is this.
read -r _

mount --make-rshared / # of this namespace: what the kubelet mounts, containers may see
mount -t proc proc /proc
mount -t tmpfs -o mode=0755 run /run
mount --bind "$lib" /var/lib
mount --bind "$log" /var/log
hostname "$name"

# The kubelet sets these for the whole machine, unless it finds them set.
while IFS='=' read -r setting value; do
	[[ -e /proc/sys/$setting ]] || continue
	echo "$value" >"/run/${setting##*/}"
	mount --bind "/run/${setting##*/}" "/proc/sys/$setting"
done <<'EOF'
vm/overcommit_memory=1
vm/panic_on_oom=0
kernel/panic=10
kernel/panic_on_oops=1
kernel/keys/root_maxkeys=1000000
kernel/keys/root_maxbytes=25000000
EOF

# The pods' bridge is one with the cluster's: there is one network for all.
ip link set lo up
ip link add cni0 address "$mac" type bridge
ip link set eth0 master cni0 up
ip address add "$address" dev cni0
ip link set cni0 up

echo ready >&3
exec 3>&- </dev/null

# As the first process it inherits all orphans, which bash buries while it waits.
trap 'exit 0' TERM
while true; do
	sleep infinity &
	wait "$!" || true
done
