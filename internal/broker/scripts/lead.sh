#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# The initial program of the Flux instance: waits until as many brokers are online
# as the lead's pod is told, or until its own time is up, and then runs the command
# with the nodes and tasks that are there. Its exit code is that of the command. Where
# the instance is for people it runs beside the broker, and the lead is ready then.

fe_here=${FLUX_OPERATOR_DIR:-/flux_operator}
# shellcheck source=/dev/null
. "$fe_here/settings.sh"
# shellcheck source=sizes.sh
. "$fe_here/sizes.sh"
# shellcheck source=common.sh
. "$fe_here/common.sh"

# online is the number of brokers that are up and may get work, of this MiniCluster alone
# where others have joined it.
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

# The controller moves the quorum when the time is up. Some seconds later it is away.
fe_alone=$((FE_QUORUM_TIMEOUT + (FE_QUORUM_TIMEOUT < 10 ? FE_QUORUM_TIMEOUT : 10)))

# drain_leaving drains those who are to leave: they get none of the work.
drain_leaving() {
  local leave=
  read -r leave 2>/dev/null <"$fe_here/drain" || true
  [[ -z $leave || $leave == "$fe_drained" ]] || flux resource drain --update "$leave" flux-elastic || true
  fe_drained=$leave
}
fe_drained=''

# await sets nodes to the number of brokers to run the command with. The quorum and who leaves
# are written at once, and belong together: it begins when the one was the same before and
# after it read the other.
await() {
  local up want
  while true; do
    [[ $fe_hung_up == false ]] || exit 143
    want=$(target)
    drain_leaving
    up=$(online)
    if ((up >= want)) && [[ $(target) == "$want" ]]; then
      fe_nodes=$want
      return
    fi
    if ((SECONDS >= fe_alone)); then
      set_largest "$up"
      ((fe_nodes == 0)) || return 0
    fi
    sleep 1
  done
}

# tell_lost leaves word of the ranks that were online and did not leave in good order, where
# the controller finds it when their pods are gone: the termination message of this container.
tell_lost() {
  local log=${FE_TERMINATION_LOG:-/dev/termination-log} lost='' rank state
  while read -r rank _ state _; do
    [[ $state != lost ]] || lost+=${lost:+,}$rank
  done < <(flux overlay status --no-pretty)
  [[ -z $lost || ! -w $log ]] || echo "lost ranks $lost" >"$log"
}

if [[ $FE_MODE == interactive ]]; then
  fe_until run
  FLUX_URI=$(fe_uri)
  export FLUX_URI
fi
/bin/bash "$fe_here/members.sh" &
fe_members=$!
trap 'kill "$fe_members" 2>/dev/null' EXIT # it may have been hung up
await
if [[ $FE_MODE == interactive ]]; then
  touch "$FE_READY"
  wait "$fe_members"
  exit
fi
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
echo "$$" >"$FE_READY" # that it was made tells wait.sh, too; and whom to kill
fe_code=0
fe_timed fluxsubmit eval "$fe_submission" || fe_code=$?
[[ $fe_code == 0 ]] || tell_lost
[[ $fe_code != 0 || $fe_hung_up == false ]] || fe_code=143 # asked to end, it has not done its work
exit "$fe_code"
