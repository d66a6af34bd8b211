#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# The initial program of the Flux instance: waits until as many brokers are online
# as the lead's pod is told, or until its own time is up, and then runs the command
# with the nodes and tasks that are there. Its exit code is that of the command.

here=${FLUX_OPERATOR_DIR:-/flux_operator}
# shellcheck source=/dev/null
. "$here/settings.sh"
# shellcheck source=sizes.sh
. "$here/sizes.sh"

# online is the number of brokers that are up.
online() {
	local total=0 n
	while read -r n; do
		total=$((total + n))
	done < <(flux resource list -s up -no '{nnodes}')
	echo "$total"
}

# target is the number to wait for: what the controller wrote on the pod.
target() {
	local n=
	read -r n 2>/dev/null <"$here/quorum" || true
	echo "${n:-$SIZE}"
}

# await sets nodes to the number of brokers to run the command with.
await() {
	local up want
	while true; do
		up=$(online)
		want=$(target)
		if ((up >= want)); then
			nodes=$want
			return
		fi
		if ((SECONDS >= QUORUM_TIMEOUT)); then
			set_largest "$up"
			((nodes == 0)) || return 0
		fi
		sleep 1
	done
}

await
set_tasks "$nodes"
export FLUX_MINICLUSTER_NODES=$nodes FLUX_MINICLUSTER_TASKS=$tasks
export FLUX_MINICLUSTER_SIZE=$SIZE FLUX_MINICLUSTER_MIN_SIZE=$MIN_SIZE FLUX_MINICLUSTER_ATTEMPT=$ATTEMPT

# What the user wrote in prefix, submitCommand and optionFlags is shell, and
# read as such.
submission="${PREFIX:+$PREFIX }/bin/bash $here/command.sh"
if [[ $MODE == submit ]]; then
	set_flags "$nodes" "$tasks"
	watch=--watch
	[[ $SUBMIT != "flux run"* ]] || watch= # it watches anyway, and knows no such option
	[[ $DEBUG != true ]] || flags+=" -vvv"
	submission="${PREFIX:+$PREFIX }$SUBMIT $flags $OPTION_FLAGS --quiet $watch /bin/bash $here/command.sh"
fi
[[ $QUIET == true ]] || printf 'Starting on %s of %s nodes: %s\n' "$nodes" "$SIZE" "$submission"
if [[ $TIMED == true ]]; then
	submission="/usr/bin/time -f 'FLUXTIME fluxsubmit wall time %E' $submission"
fi
eval "$submission"
