#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# Functions that the entry points of the containers share. They read the settings and fe_here.
# Our names begin with fe_ or FE_, so that they never clash with the user's variables.
#
# shellcheck disable=SC2034,SC2154 # the callers read what is set here, and set what is read here

fe_view=$FE_VIEW_BASE/view
fe_config=$FE_VIEW_BASE/config

fe_say() {
  [[ $FE_QUIET == true ]] || printf '%s\n' "$*"
}

# fe_tell writes the termination message of this container, which the controller reads.
fe_log=${FE_TERMINATION_LOG:-/dev/termination-log}
fe_tell() { [[ ! -w $fe_log ]] || echo "$*" >"$fe_log"; }

# fe_tell_end tells that a signal ends this container. wait-0.sh has one for leads.
fe_tell_end() { :; }

# fe_hook NAME runs a piece of the user's shell in this shell, so that later commands see the
# variables that it exports.
fe_hook() {
  local file=$fe_here/$1.sh
  [[ -s $file ]] || return 0
  if [[ $FE_QUIET == true ]]; then
    # shellcheck source=/dev/null
    . "$file" >/dev/null 2>&1
  else
    # shellcheck source=/dev/null
    . "$file"
  fi
}

# fe_paths adds Flux to the search paths, after the directories of the image.
fe_paths() {
  [[ $FE_VIEW_DISABLED != true ]] || return 0
  local python
  python=$(find "$fe_view/lib" -maxdepth 1 -name 'python3*' 2>/dev/null | sort | head -n 1) || true
  export PATH=$PATH:$fe_view/bin
  export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}${FE_PYTHON_PATH:-$python/site-packages}
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$fe_view/lib
}

# fe_run COMMAND... runs a command and forwards SIGTERM and SIGINT to it as SIGTERM, so that a
# broker shuts down cleanly when its pod is deleted. Returns the command's exit code.
fe_ending=false fe_early=false
fe_run() {
  trap 'fe_early=true' TERM INT # fe_attend forwards a signal that comes before it attends the command
  "$@" &
  fe_attend "$!" "$!"
}

# fe_run_all COMMAND... is fe_run that forwards the signals to all processes of the command.
fe_run_all() {
  trap 'fe_early=true' TERM INT
  set -m # gives the command a process group
  "$@" &
  set +m
  fe_attend "$!" "-$!"
}

# fe_attend CHILD TARGET waits for the child, and forwards SIGTERM and SIGINT to the target.
fe_attend() {
  local code fe_interrupted
  # A broker ignores SIGTERM while it starts.
  # shellcheck disable=SC2064 # expanded now: the arguments go with the function
  trap "fe_ending=true fe_interrupted=true; fe_tell_end || true; ((SECONDS - $SECONDS > 1)) || sleep 1.5; kill -TERM -- $2 2>/dev/null" TERM INT
  if [[ $fe_early == true ]]; then
    fe_early=false
    kill -TERM "$BASHPID"
  fi
  while true; do
    code=0 fe_interrupted=false
    wait "$1" || code=$?
    [[ $fe_interrupted == true ]] || break # a trap ends wait early: the child may still run
  done
  fe_unattended
  while [[ $fe_ending == true && $2 == -* ]] && kill -0 -- "$2" 2>/dev/null; do
    sleep 0.1 # until all processes of the group have ended
  done
  return "$code"
}

# fe_unattended makes this shell end on SIGTERM and SIGINT while it runs no child that gets
# them. Without a trap, the first process of a container ignores these signals.
fe_unattended() { trap 'fe_ending=true; exit "${fe_exit_code:-143}"' TERM INT; }
fe_unattended

# fe_pause SECONDS waits without a process of its own. SIGTERM ends a shell without a trap at once meanwhile.
fe_still=''
fe_pause() {
  [[ -n $fe_still ]] || exec {fe_still}<> <(:)               # a pipe on which nothing comes
  read -rt "$1" -u "$fe_still" || (($? > 128)) || sleep "$1" # without /dev/fd
}

# ids IDSET prints the ids of the idset, one per line.
ids() {
  local part
  for part in ${1//[],[]/ }; do
    seq "${part%-*}" "${part#*-}"
  done
}

# minus A B prints the ids of A that are not in B, as an idset: rising, as Flux wants them (RFC 22).
minus() {
  comm -23 <(ids "$1" | sort) <(ids "$2" | sort) | sort -n | paste -sd,
}

# fe_timed NAME COMMAND... runs a command. If logging.timed is set, it prints the time that the
# command took, in the format of GNU time.
fe_timed() {
  local began code=0 took
  began=$(date +%s%N)
  "${@:2}" || code=$?
  if [[ $FE_TIMED == true ]]; then
    took=$((($(date +%s%N) - began) / 10000000))
    if ((took < 360000)); then
      printf 'FLUXTIME %s wall time %d:%02d.%02d\n' "$1" $((took / 6000)) $((took / 100 % 60)) $((took % 100)) >&2
    else
      printf 'FLUXTIME %s wall time %d:%02d:%02d\n' "$1" $((took / 360000)) $((took / 6000 % 60)) $((took / 100 % 60)) >&2
    fi
  fi
  return "$code"
}
