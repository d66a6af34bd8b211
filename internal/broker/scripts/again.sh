#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# What lead.sh does for a command that runs: it asks for checkpoints, ends the command when that is
# asked of it, and runs the command again with other brokers. An annotation of the lead's pod says
# how often the command was to run again, and with which ranks. lead.sh reads this file.
#
# shellcheck disable=SC2034,SC2154 # lead.sh reads what is set here, and sets what is read here

fe_restarts=0      # how often the command was run again in this attempt
fe_told=0          # the last restart that the annotation told
fe_ranks=''        # of the command, an idset; '' if Flux chooses
fe_again=false     # whether the command is ended to be run again
fe_ended=false     # whether it ended by itself then
fe_retried=false   # whether its last run failed while it wrote a checkpoint
fe_asked=false     # whether the command was asked to end for good
fe_checkpointed='' # what to tell about the checkpoint then
fe_next=0          # when the next checkpoint is due, in SECONDS
fe_reader=''       # the process that makes the pod ready again
fe_written=''      # the file by which the program tells that a checkpoint is written
if [[ -n $FE_CHECKPOINT_PATH ]]; then
  mkdir -p "$FE_CHECKPOINT_PATH" 2>/dev/null
  fe_written=$FE_CHECKPOINT_PATH/.written
  export FLUX_MINICLUSTER_CHECKPOINT=$FE_CHECKPOINT_PATH FLUX_MINICLUSTER_CHECKPOINT_WRITTEN=$fe_written
fi

fe_pause 0 # opens its pipe before a signal comes, and before the command begins

# runs is true while the command runs.
runs() { kill -0 "$fe_command" 2>/dev/null; }

# attend waits until the command has ended, and sets fe_code. Every second it does what the command needs. No signal tells
# of that: Bash may run a trap while it reads a command substitution, and then takes the rest for a part of that. And Bash
# may forget a child that ends while a signal ends `wait`, and would then wait for the child forever. So attend calls `wait`
# only for a command that has ended, and believes `wait` only if no SIGHUP came.
attend() {
  local rounds=0 signals=-1
  while runs; do
    if ((++rounds % 5 == 0)) && [[ $FE_ATTENDS == true || -s $fe_here/stop ]]; then
      look
    fi
    fe_pause 0.2
  done
  until ((signals == fe_signals)); do
    signals=$fe_signals
    wait "$fe_command" 2>/dev/null || true # a SIGHUP just before `wait` may end it, too
    fe_code=0
    wait "$fe_command" 2>/dev/null || fe_code=$?
  done
}

# runs_for SECONDS waits until the command has ended, and is true if it still runs after that time.
runs_for() {
  local until=$((SECONDS + $1))
  while runs; do
    ((SECONDS < until)) || return 0
    fe_pause 0.2
  done
  return 1
}

# signal_tasks SIGNAL sends a signal to all tasks of the command.
signal_tasks() {
  if [[ $FE_MODE == launcher ]]; then
    kill -s "${1#SIG}" -- "-$fe_command" 2>/dev/null
  else
    flux job killall --force --signal="$1" 2>/dev/null
  fi
}

# end_command SECONDS ends the command: by force if it still runs after that time. Nothing of it is
# left then, as far as Flux knows.
end_command() {
  if runs; then
    signal_tasks SIGTERM
    if runs_for "$1"; then
      echo "The command still runs $1 s after SIGTERM, and is killed" >&2
      signal_tasks SIGKILL
      ! runs_for 5 || kill -KILL -- "-$fe_command" 2>/dev/null
    fi
  fi
  [[ $FE_MODE != launcher ]] || kill -KILL -- "-$fe_command" 2>/dev/null # what it left behind
  flux cancel --all --quiet 2>/dev/null
  until timeout 10 flux queue idle --quiet 2>/dev/null || [[ $fe_asked == true || $fe_hung_up == true || -s $fe_here/stop ]]; do
    fe_pause 1
  done
}

# checkpoint SECONDS asks the command for a checkpoint. It is false if nobody knows after that time
# whether there is one. A checkpoint command that fails is tried again after 5 s.
checkpoint() {
  local until=$((SECONDS + $1)) next=$SECONDS
  [[ -z $fe_written ]] || rm -f "$fe_written"
  if [[ ! -s $fe_here/checkpoint-command.sh ]]; then
    [[ -n $FE_CHECKPOINT_SIGNAL ]] || return 1
    signal_tasks "$FE_CHECKPOINT_SIGNAL"
    next=$((until + 1))
  fi
  while ((SECONDS < until)); do
    runs || return 0
    if ((SECONDS >= next)); then
      ! timeout -k 5 "$((until > SECONDS ? until - SECONDS : 1))" /bin/bash "$fe_here/checkpoint-command.sh" || return 0
      next=$((SECONDS + 5))
    fi
    [[ -z $fe_written || ! -e $fe_written ]] || return 0
    [[ $fe_again == true || $fe_asked == true ]] || ! has_order || return 1
    fe_pause 0.2
  done
  return 1
}

# has_order is true if the command is to end.
has_order() {
  local number ranks
  read_order
  [[ -s $fe_here/stop ]] || ((number > fe_told))
}

# read_order sets number and ranks to what the annotation tells: how often the command was to run again, and where.
read_order() {
  number=0 ranks=''
  [[ $FE_RESIZE != Restart ]] || read -r number ranks 2>/dev/null <"$fe_here/restart" || true
  number=${number:-0}
}

# look does what the command needs now: it ends, is run again, or writes a checkpoint.
look() {
  local number=$fe_restarts ranks=$fe_ranks
  if [[ -s $fe_here/stop ]]; then
    stop_command
    return
  fi
  if take_order; then
    if ((fe_restarts == number)) && [[ $ranks == "$fe_ranks" ]]; then
      become_ready # after a loss, the command was run again with these ranks before anybody said so
    else
      fe_again=true
      stop_reader
      fe_say "The command has to end, and will run again on ranks $fe_ranks"
      if checkpoint "$FE_CHECKPOINT_WAIT"; then
        fe_checkpointed=', after a checkpoint'
      else
        echo "It is not known whether the command has written a checkpoint" >&2
      fi
      rm -f "$FE_READY"
      fe_ended=true
      ! runs || fe_ended=false
      end_command "$(kill_after)"
    fi
  elif ((FE_CHECKPOINT_INTERVAL > 0 && SECONDS >= fe_next)); then
    ! checkpoint "$FE_CHECKPOINT_WAIT" || ! runs || become_ready
    fe_next=$((SECONDS + FE_CHECKPOINT_INTERVAL))
  elif [[ -n $fe_written && -e $fe_written && -e $FE_READY.seen ]]; then # the program writes checkpoints by itself
    rm -f "$fe_written"
    become_ready
  fi
}

# take_order reads how the command is to run again; false if nothing new was told.
take_order() {
  local number ranks
  read_order
  ((number > fe_told)) || return 1
  fe_told=$number fe_ranks=$ranks
  ((fe_restarts >= number)) || fe_restarts=$number
}

# kill_after prints how many seconds a command has after SIGTERM. One that nobody can ask for a
# checkpoint may write it then.
kill_after() {
  if [[ -n $FE_CHECKPOINT_SIGNAL || -s $fe_here/checkpoint-command.sh || $FE_CHECKPOINT_WAIT == 0 ]]; then
    echo 15
  else
    echo "$FE_CHECKPOINT_WAIT"
  fi
}

# stop_command ends the command for good, in the time that it has, with a checkpoint if it can have one.
stop_command() {
  local why seconds until
  read -r why seconds <"$fe_here/stop" || true
  until=$((SECONDS + ${seconds:-15}))
  fe_asked=true fe_again=false
  tell_asked # this script may be killed
  if ((${seconds:-0} > 15)) && checkpoint "$((seconds - 15 < FE_CHECKPOINT_WAIT ? seconds - 15 : FE_CHECKPOINT_WAIT))"; then
    fe_checkpointed=', after a checkpoint'
  fi
  end_command "$((until > SECONDS + 1 ? until - SECONDS - 1 : 1))"
}

# tell_asked tells that the command has ended as the controller wanted.
tell_asked() { fe_tell "the command ended as it was asked to$fe_checkpointed"; }

# stop_reader keeps the pod as it is.
stop_reader() { [[ -z $fe_reader ]] || kill "$fe_reader" 2>/dev/null || true; }

# become_ready makes the pod ready, after it was seen not to be: the command runs again, or has
# written a checkpoint. The probe adds a dot to the file with the suffix .missed while the pod is not ready, and makes
# .seen while it is. The kubelet has seen both, however often the program writes checkpoints.
become_ready() {
  local looks
  stop_reader
  rm -f "$FE_READY" "$FE_READY.missed" "$FE_READY.seen"
  {
    for ((i = 0; i < 120; i++)); do
      looks=
      read -r looks 2>/dev/null <"$FE_READY.missed" || true
      ((${#looks} < 2)) || break # as the probe demands
      fe_pause 0.5
    done
    : >"$FE_READY"
  } &
  fe_reader=$!
}

# up prints the ranks that are online and may get work, an idset.
up() { flux resource list -s up -no '{ranks}' | paste -sd,; }

# first N IDSET prints the first ids of an idset, as an idset.
first() {
  local id begin='' end='' out=''
  while read -r id; do
    if [[ -n $end ]] && ((id == end + 1)); then
      end=$id
      continue
    fi
    [[ -z $begin ]] || out+=$begin$([[ $begin == "$end" ]] || echo "-$end"),
    begin=$id end=$id
  done < <(ids "$2" | sort -n | head -n "$1")
  echo "$out$begin$([[ $begin == "$end" ]] || echo "-$end")"
}

# choose_ranks chooses the ranks on which the command begins: those that the lead was told before,
# or the first ones.
choose_ranks() {
  if take_order; then
    await_ranks
  else
    fe_ranks=$(first "$fe_nodes" "$(up)")
  fi
}

# is_asked is true if the command was asked to end for good, which may come while it ends to be run again.
is_asked() { [[ -s $fe_here/stop ]] && fe_asked=true; }

# goes_on decides whether the command is run again after it has ended with fe_code, and sets
# fe_nodes and fe_ranks for that.
goes_on() {
  [[ $fe_asked == false && $fe_hung_up == false ]] || return 1
  if [[ $fe_again == true ]]; then
    fe_again=false fe_retried=false
    if [[ $fe_ended == true ]] && ((fe_code != 0 && fe_code < 128)); then # not by a signal
      fe_retried=true fe_checkpointed=''
      echo "The command failed with exit code $fe_code while it wrote a checkpoint, and is run once more" >&2
    fi
    await_ranks
    ! is_asked && [[ $fe_hung_up == false ]] || return 1
    fe_checkpointed=''
    become_ready
  else
    [[ $fe_code != 0 && $FE_RESIZE == Restart && $FE_ON_LOSS == Recreate ]] && rescue && ! is_asked || return 1
    fe_retried=false
    await_order
  fi
}

# await_order keeps the pod not ready until the controller tells that the command was run again: it may hear of the loss
# later than Flux. After two minutes it makes the pod ready anyway.
await_order() {
  stop_reader
  rm -f "$FE_READY"
  {
    fe_pause 120
    : >"$FE_READY"
  } &
  fe_reader=$!
}

# await_ranks waits for the ranks of the command, and goes without those that do not come.
await_ranks() {
  local there until=$((SECONDS + 30))
  while true; do
    ! take_order || until=$((SECONDS + 30))
    there=$(up)
    fe_nodes=$(ids "$fe_ranks" | wc -l)
    [[ -n $(minus "$fe_ranks" "$there") ]] || return 0
    if [[ -s $fe_here/stop ]]; then
      tell_asked
      exit 143
    fi
    [[ $fe_hung_up == false ]] || exit 143
    if ((SECONDS >= until)) && take_left "$there"; then return; fi
    fe_pause 0.5
  done
}

# take_left IDSET lets the command run on those of its ranks that are in the idset; false if these
# are too few.
take_left() {
  local left
  left=$(minus "$fe_ranks" "$(minus "$fe_ranks" "$1")")
  fe_nodes=$(ids "$left" | wc -l)
  ((fe_nodes > FE_SIZE)) || set_largest "$fe_nodes" # above that size any number is allowed
  ((fe_nodes > 0)) || return 1
  fe_ranks=$(first "$fe_nodes" "$left")
}

# rescue finds out whether the command failed since brokers were lost, and takes those that are
# left; false if none was lost, or too few are left. Flux may notice the loss a moment later.
rescue() {
  local there i
  for ((i = 0; i < 8; i++)); do
    there=$(up)
    if [[ -n $(minus "$fe_ranks" "$there") ]]; then
      end_command 15
      [[ $fe_hung_up == false ]] && take_left "$(up)" || return 1
      ((fe_restarts += 1))
      echo "Brokers were lost; the command runs again on ranks $fe_ranks" >&2
      return 0
    fi
    fe_pause 0.5
  done
  return 1
}
