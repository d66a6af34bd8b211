#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# The initial program of the Flux instance. It waits until as many brokers are online as the
# annotation of the lead's pod says, or until its own timeout is over. Then it runs the command
# with the nodes and tasks that are there. Its exit code is that of the command. If the instance
# is interactive, this script runs beside the broker, and makes the lead's pod ready instead.

fe_here=${FLUX_OPERATOR_DIR:-/flux_operator}
# shellcheck source=/dev/null
. "$fe_here/settings.sh"
# shellcheck source=sizes.sh
. "$fe_here/sizes.sh"
# shellcheck source=common.sh
. "$fe_here/common.sh"
# shellcheck source=again.sh
. "$fe_here/again.sh"

unset FLUX_FAKE_HOSTNAME # wait-0.sh sets it for the broker

# online prints the number of brokers that are up and may get work. It counts only the brokers
# of this MiniCluster, if other MiniClusters have joined the instance.
online() {
  local total=0 n
  while read -r n; do
    total=$((total + n))
  done < <(flux resource list ${FE_OWN_HOSTS:+-i "$FE_OWN_HOSTS"} -s up -no '{nnodes}')
  echo "$total"
}

# joined prints the number of brokers that have joined the instance, whether they may get work or not; 0 if Flux does not tell.
# It takes a hundredth of a second. `online`, as each command of Flux in Python, takes a fifth, and more on a busy node.
joined() {
  local n=0 state
  while read -r _ _ state _; do
    [[ $state != full && $state != partial && $state != degraded ]] || ((n += 1))
  done < <(flux overlay status --no-pretty 2>/dev/null)
  echo "$n"
}

# target prints the number of brokers to wait for, which the controller wrote on the pod.
target() {
  local n=
  read -r n 2>/dev/null <"$fe_here/quorum" || true
  echo "${n:-$FE_SIZE}"
}

# When Flux is asked to end, it sends SIGHUP to this script, which passes it on to the command. The
# command may need some time to end.
fe_hung_up=false fe_signals=0 fe_command=''
fe_began=${FE_READY%/*}/began
trap 'fe_hung_up=true; ((fe_signals += 1)); [[ -z $fe_command ]] || kill -HUP -- "-$fe_command" 2>/dev/null' HUP

# The controller lowers the quorum when the quorum timeout is over. If it has not done so some
# seconds later, it is away, and this script decides alone.
fe_alone=$((FE_QUORUM_TIMEOUT + (FE_QUORUM_TIMEOUT < 10 ? FE_QUORUM_TIMEOUT : 10)))

# drain_leaving drains the ranks that are to leave, so that they get no work.
drain_leaving() {
  local leave=
  read -r leave 2>/dev/null <"$fe_here/drain" || true
  [[ -z $leave || $leave == "$fe_drained" ]] || flux resource drain --update "$leave" flux-elastic || true
  fe_drained=$leave
}
fe_drained=''

# drain_surplus drains the ranks that are online above the size with which this script starts alone. The controller
# gives their nodes back.
drain_surplus() {
  local there
  there=$(up)
  flux resource drain --update "$(minus "$there" "$(first "$fe_nodes" "$there")")" flux-elastic >/dev/null || true
}

# await waits for the quorum, and sets fe_nodes to the number of brokers for the command. The
# controller writes the quorum and the leaving ranks in one write, and both belong together. So
# await returns only if the quorum was the same before and after it read the leaving ranks.
await() {
  local up want pause=0.1
  while true; do
    [[ $fe_hung_up == false && ! -s $fe_here/stop ]] || exit 143
    want=$(target)
    drain_leaving
    up=$(joined)
    if ((up == 0 || up >= want || SECONDS >= fe_alone)); then
      up=$(online)
    fi
    if ((up >= want)) && [[ $(target) == "$want" ]]; then
      fe_nodes=$want
      return
    fi
    if ((SECONDS >= fe_alone)); then
      set_largest "$up"
      if ((fe_nodes > 0)); then
        [[ $fe_nodes == "$up" || -n $FE_OWN_HOSTS ]] || drain_surplus
        return
      fi
    fi
    ((SECONDS < 3)) || pause=0.5
    fe_pause "$pause"
  done
}

# tell_lost tells the lost ranks: those that were online and did not leave in good order. Their
# pods may be gone before the controller has seen them fail.
tell_lost() {
  local lost rank state
  lost=$(flux overlay status --no-pretty | while read -r rank _ state _; do
    [[ $state != lost ]] || echo "$rank"
  done | sort -n | paste -sd,) || true
  [[ -z $lost ]] || fe_tell "lost ranks $lost"
}

# is_one_job SUBMISSION is true for a plain `flux submit` that prints the id of one job, and
# nothing else.
is_one_job() {
  local plain='^flux[[:space:]]+submit[[:space:]]' other=$'[;&|\n]|[[:space:]]--(b?cc|dry|log|qui|wa)'
  [[ $1 =~ $plain && ! $1 =~ $other ]]
}

# begin runs the command in the background, and sets fe_command to its process group.
begin() {
  local fe_submission
  set_tasks "$fe_nodes"
  export FLUX_MINICLUSTER_NODES=$fe_nodes FLUX_MINICLUSTER_TASKS=$fe_tasks FLUX_MINICLUSTER_RESTART=$((FE_RUN + fe_restarts))
  # The user's prefix, submitCommand and optionFlags are shell: eval reads them below.
  set_flags "$fe_nodes" "$fe_tasks"
  [[ -z $fe_ranks ]] || fe_flags+=" --requires=rank:$fe_ranks"
  fe_submission="/bin/bash $fe_here/task.sh $fe_here/$(command_file)${FE_CHECKPOINT_SIGNAL:+ $FE_CHECKPOINT_SIGNAL}"
  case $FE_MODE in
  submit) fe_submission="$(submit_command) $fe_submission" ;;
  batch) fe_submission="/bin/bash $fe_here/submit.sh flux batch --output=kvs --error=kvs $fe_flags $FE_OPTION_FLAGS $fe_here/batch-job.sh" ;;
  esac
  fe_submission="${FE_PREFIX:+$FE_PREFIX }$fe_submission"
  [[ -z $fe_written ]] || rm -f "$fe_written"
  fe_say "Starting on $fe_nodes of $FE_SIZE nodes: $fe_submission"
  fe_tell "the command began" # it may end before a probe sees FE_READY
  set -m                      # gives the command a process group, whose id is fe_command
  {
    trap : HUP TERM # this shell waits for the command, which gets these signals, too
    fe_timed fluxsubmit eval "$fe_submission"
  } {fe_still}<&- &
  fe_command=$!
  set +m
  if [[ $fe_hung_up == true ]]; then # the trap knew no command, and the new shell has no trap at once
    fe_pause 0.5
    kill -HUP -- "-$fe_command" 2>/dev/null
  fi
  fe_next=$((SECONDS + FE_CHECKPOINT_INTERVAL))
  echo "$$ $fe_command" >"$fe_began" # for wait-0.sh
}

# command_file prints the name of the file with the command: the one that goes on from a checkpoint, if there may be one.
command_file() {
  if [[ -s $fe_here/restart-command.sh ]] && ((FE_RUN + fe_restarts > 0)) &&
    { [[ -z $FE_CHECKPOINT_PATH ]] || [[ -n $(ls -A "$FE_CHECKPOINT_PATH" 2>/dev/null) ]]; }; then
    echo restart-command.sh
  else
    echo command.sh
  fi
}

# submit_command prints the user's submit command with its options.
submit_command() {
  local flags=$fe_flags fe_submission
  [[ $FE_DEBUG != true ]] || flags+=" -vvv"
  [[ $FE_LABEL != true ]] || flags+=" --label-io"
  fe_submission="$FE_SUBMIT $flags $FE_OPTION_FLAGS"
  if [[ $fe_submission =~ ^flux[[:space:]]+run[[:space:]] ]]; then
    fe_submission+=" --quiet" # flux run prints the output anyway
  elif is_one_job "$fe_submission"; then
    fe_submission="/bin/bash $fe_here/submit.sh $fe_submission"
  else
    fe_submission+=" --quiet --watch"
  fi
  echo "$fe_submission"
}

if [[ $FE_MODE == interactive ]]; then
  until [[ -e ${FE_READY%/*}/joined ]]; do fe_pause 0.2; done # joined.sh makes this file
  fe_sockets=("${FE_READY%/*}"/local*)                        # its name depends on flux.disableSocket
  export FLUX_URI=local://${fe_sockets[0]}
fi
/bin/bash "$fe_here/members.sh" &
fe_members=$!
trap 'kill "$fe_members" $fe_reader 2>/dev/null' EXIT # SIGHUP may have ended them already
await
if [[ $FE_MODE == interactive ]]; then
  fe_tell "the command began"
  touch "$FE_READY"
  wait "$fe_members"
  exit
fi
[[ $FE_RESIZE != Restart ]] || choose_ranks
touch "$FE_READY"
while true; do
  begin
  attend
  goes_on || break
done
fe_final=$fe_code
[[ $fe_code != 0 || ($fe_hung_up == false && $fe_asked == false) ]] || fe_final=143 # a command that was asked to end is no success
if [[ $fe_hung_up == false ]]; then
  echo "$fe_final" >"${FE_READY%/*}/over" # for wait-0.sh
  fe_tell "the command began"             # and ended by itself, whatever signal has come
fi
if [[ $fe_asked == true ]]; then
  tell_asked
elif [[ $fe_code != 0 && $fe_retried == true ]]; then
  fe_tell "the command failed after its checkpoint"
elif [[ $fe_code != 0 ]]; then
  tell_lost
fi
exit "$fe_final"
