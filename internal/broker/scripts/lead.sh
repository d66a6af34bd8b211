#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# The initial program of the Flux instance: waits until as many brokers are online
# as the lead's pod is told, or until its own time is up, and then runs the command
# with the nodes and tasks that are there. Its exit code is that of the command.

fe_here=${FLUX_OPERATOR_DIR:-/flux_operator}
# shellcheck source=/dev/null
. "$fe_here/settings.sh"
# shellcheck source=sizes.sh
. "$fe_here/sizes.sh"
# shellcheck source=common.sh
. "$fe_here/common.sh"

# online is the number of brokers that are up, of this MiniCluster alone where others
# have joined it.
online() {
  local total=0 n
  while read -r n; do
    total=$((total + n))
  done < <(flux resource list ${FE_OWN_HOSTS:+-i "$FE_OWN_HOSTS"} -s up -no '{nnodes}')
  echo "$total"
}

# target is the number to wait for: what the controller wrote on the pod.
target() {
  local n=
  read -r n 2>/dev/null <"$fe_here/quorum" || true
  echo "${n:-$FE_SIZE}"
}

# Flux hangs its program up when it is asked to end: the command, too, which may take
# its time.
fe_hung_up=false
trap 'fe_hung_up=true' HUP

# await sets nodes to the number of brokers to run the command with.
await() {
  local up want
  while true; do
    [[ $fe_hung_up == false ]] || exit 129
    up=$(online)
    want=$(target)
    if ((up >= want)); then
      fe_nodes=$want
      return
    fi
    if ((SECONDS >= FE_QUORUM_TIMEOUT)); then
      set_largest "$up"
      ((fe_nodes == 0)) || return 0
    fi
    sleep 1
  done
}

/bin/bash "$fe_here/drain.sh" &
fe_drainer=$!
trap 'kill "$fe_drainer"' EXIT
await
set_tasks "$fe_nodes"
export FLUX_MINICLUSTER_NODES=$fe_nodes FLUX_MINICLUSTER_TASKS=$fe_tasks

# What the user wrote in prefix, submitCommand and optionFlags is shell, and
# read as such.
set_flags "$fe_nodes" "$fe_tasks"
case $FE_MODE in
submit)
  [[ $FE_DEBUG != true ]] || fe_flags+=" -vvv"
  fe_watch=--watch
  [[ ! $FE_SUBMIT =~ ^flux[[:space:]]+run($|[[:space:]]) ]] || fe_watch= # it watches anyway, and knows no such option
  fe_submission="$FE_SUBMIT $fe_flags $FE_OPTION_FLAGS --quiet $fe_watch /bin/bash $fe_here/command.sh"
  ;;
batch) fe_submission="/bin/bash $fe_here/batch.sh $fe_flags $FE_OPTION_FLAGS" ;;
*) fe_submission="/bin/bash $fe_here/command.sh" ;;
esac
fe_submission="${FE_PREFIX:+$FE_PREFIX }$fe_submission"
fe_say "Starting on $fe_nodes of $FE_SIZE nodes: $fe_submission"
[[ -z ${FE_COMMAND_BEGAN:-} ]] || touch "$FE_COMMAND_BEGAN"
fe_timed fluxsubmit eval "$fe_submission"
