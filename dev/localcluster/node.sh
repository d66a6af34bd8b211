#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# The first process of a real node, in namespaces of its own. All processes, mounts and interfaces
# of the node end with this process. It writes a word to descriptor 3 when the node is ready. An
# ADDRESS has all that ip-address(8) is told of an address.
#
#   node.sh NAME LIB LOG MAC ADDRESS...
set -eu
name=$1 lib=$2 log=$3 mac=$4

# The caller writes a line when the record of this process is written and its interface exists. If
# the caller has ended before that, this process ends, too.
read -r _

mount --make-rshared / # of this namespace: containers can see mounts of the kubelet
mount -t proc proc /proc
mount -t tmpfs -o mode=0755 run /run
mount --bind "$lib" /var/lib
mount --bind "$log" /var/log
hostname "$name"

# The kubelet sets these values for the whole machine, unless they are set already.
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

# The bridge of the pods is connected to the bridge of the cluster: all are on one network.
ip link set lo up
ip link add cni0 address "$mac" type bridge
ip link set eth0 master cni0 up
for address in "${@:5}"; do
	# shellcheck disable=SC2086 # words
	ip address add dev cni0 $address
done
ip link set cni0 up

echo ready >&3
exec 3>&- </dev/null

# The first process is the parent of all orphans. bash reaps them while it waits.
trap 'exit 0' TERM
while true; do
	sleep infinity &
	wait "$!" || true
done
