#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# What the entry points of containers share. Reads the settings, and fe_here. Names of
# ours begin with fe_ or FE_: what the user's shell and variables are called must not matter.
#
# shellcheck disable=SC2034,SC2154 # what is set and read here is of the callers

fe_view=$FE_VIEW_BASE/view
fe_config=$FE_VIEW_BASE/config

fe_say() {
  [[ $FE_QUIET == true ]] || printf '%s\n' "$*"
}

# fe_hook NAME runs a piece of the user's shell in this one, so that what it exports is
# seen by what comes after it.
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

# fe_paths puts Flux on the path, after what the image has.
fe_paths() {
  [[ $FE_VIEW_DISABLED != true ]] || return 0
  local python
  python=$(find "$fe_view/lib" -maxdepth 1 -name 'python3*' 2>/dev/null | sort | head -n 1) || true
  export PATH=$PATH:$fe_view/bin
  export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}${FE_PYTHON_PATH:-$python/site-packages}
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$fe_view/lib
}

# fe_run COMMAND... runs it and passes on the request to end, so that a broker shuts
# down cleanly when its pod is deleted. Returns its exit code.
fe_ending=false
fe_run() {
  "$@" &
  fe_attend "$!" "$!"
}

# fe_run_all COMMAND... does so with all processes that the command starts.
fe_run_all() {
  set -m # gives it a process group
  "$@" &
  set +m
  fe_attend "$!" "-$!"
}

# fe_attend CHILD TARGET waits for the child; the request to end goes to the target.
fe_attend() {
  local code fe_interrupted
  # A broker ignores the request while it begins.
  # shellcheck disable=SC2064 # expanded now: the arguments go with the function
  trap "fe_ending=true fe_interrupted=true; ((SECONDS - $SECONDS > 1)) || sleep 1.5; kill -TERM -- $2 2>/dev/null" TERM INT
  while true; do
    code=0 fe_interrupted=false
    wait "$1" || code=$?
    [[ $fe_interrupted == true ]] || break # a trap ends wait early; the child still has to end
  done
  fe_unattended
  while [[ $fe_ending == true && $2 == -* ]] && kill -0 -- "$2" 2>/dev/null; do
    sleep 0.1 # what it started ends, too
  done
  return "$code"
}

# fe_unattended ends this shell when it is asked to end and has nothing to pass that on to.
# The first process of a container would not end by itself.
fe_unattended() { trap 'fe_ending=true; exit "${fe_exit_code:-143}"' TERM INT; }
fe_unattended

# fe_pause SECONDS sleeps, and leaves nothing behind when this shell is told to end. It is
# for shells that run beside another.
fe_pause() {
  # shellcheck disable=SC2046 # its jobs, this sleep alone, may be none yet
  trap 'kill $(jobs -p) 2>/dev/null; exit' TERM
  sleep "$1" &
  wait "$!"
  trap - TERM
}

# fe_uri prints where the broker of this pod is reached, whatever its socket is called.
fe_uri() {
  local sockets=("$fe_config"/run/flux/local*)
  echo "local://${sockets[0]}"
}

# fe_until STATE waits until the broker of this pod is in a state that the pattern
# matches. Unlike most of what asks Flux, this is no Python, and may be asked often.
fe_until() {
  until [[ $(FLUX_URI=$(fe_uri) flux uptime 2>/dev/null) =~ ^\ *[^\ ]+\ ($1)\  ]]; do
    fe_pause 0.5
  done
}

# fe_timed NAME COMMAND... runs a command and, where that is wanted, tells how long it took,
# as GNU time tells it.
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
