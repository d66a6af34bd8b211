#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# The entry point of the Flux container. It starts the broker of this pod, which on the lead
# runs the command (lead.sh). Its exit code is the broker's, and on the lead that of the
# command.

fe_here=${FLUX_OPERATOR_DIR:-/flux_operator}
# shellcheck source=/dev/null
. "$fe_here/settings.sh"
if [[ $FE_STRICT == true ]]; then
  set -eEu -o pipefail
fi

# shellcheck source=common.sh
. "$fe_here/common.sh"

# The rank of this pod in its MiniCluster: the lead has a Job of its own.
fe_job=$(<"$fe_here/job") fe_rank=0
if [[ $fe_job != 0 ]]; then
  fe_rank=$(<"$fe_here/index")
  [[ $fe_job == w && $fe_rank =~ ^[0-9]+$ ]] || { echo "This pod does not know its rank" >&2 && exit 1; }
  ((fe_rank += 1))
fi

# fe_affinity lets tasks use all cores of the pod, unless a job has the option cpu-affinity. R counts the cores of a pod,
# and its ids are not those of the node: Flux would bind the tasks of all pods of a node to the same cores. A broker without
# cores in R takes all of its node. Each task sees GPUs of its own if there are as many for each, unless a job has the option
# gpu-affinity: Flux would show each task all GPUs that the job has there.
fe_affinity() {
  local dir=$fe_config/etc/flux/shell lua='
    local function default(option, value)
      if shell.options[option] == nil then shell.options[option] = value end
    end
    local here, gpus = shell.rankinfo, 0
    for from, to in string.gmatch(here.resources.gpus or "", "(%d+)%-?(%d*)") do
      gpus = gpus + (tonumber(to) or from) - from + 1
    end
    if gpus > 0 and gpus % here.ntasks == 0 then default("gpu-affinity", "per-task") end'
  ((FE_CORES == 0)) || lua+=$'\n    default("cpu-affinity", "off")'
  if ! { mkdir -p "$dir" && echo "$lua" >"$dir/affinity.lua"; }; then
    echo "Cannot write to $dir; without that, tasks would share cores and GPUs" >&2
    exit 1
  fi
  export FLUX_SHELL_RC_PATH=$dir${FLUX_SHELL_RC_PATH:+:$FLUX_SHELL_RC_PATH}
}

# fe_describe writes the files with which users and other containers connect to the broker.
fe_describe() {
  {
    printf 'export PATH=%q\n' "$PATH"
    printf 'export PYTHONPATH=%q\n' "${PYTHONPATH:-}"
    printf 'export LD_LIBRARY_PATH=%q\n' "${LD_LIBRARY_PATH:-}"
    printf 'export FLUX_SHELL_RC_PATH=%q\n' "${FLUX_SHELL_RC_PATH:-}"
    printf 'export fluxsocket=%q\n' "local://$fe_config/run/flux/local"
    cat "$fe_here/view-environment.sh"
  } >"$FE_VIEW_BASE/flux-view.sh.new"
  mv "$FE_VIEW_BASE/flux-view.sh.new" "$FE_VIEW_BASE/flux-view.sh" # other containers wait for this file
  # shellcheck disable=SC2016 # the variable is expanded where the file is used
  printf '. %q\nflux proxy "$fluxsocket" bash\n' "$FE_VIEW_BASE/flux-view.sh" >"$FE_VIEW_BASE/flux-connect.sh"
  printf 'flux module remove sched-simple\nflux module load sched-fluxion-resource\nflux module load sched-fluxion-qmanager\n' \
    >"$FE_VIEW_BASE/load-fluxion.sh"
}

# fe_scheduler lets Flux find the modules of Fluxion, and the files that load them (rc1.d, and
# modprobe since Flux 0.78). In a Spack view, Fluxion has another prefix than Flux. Without
# Fluxion, Flux loads sched-simple.
fe_scheduler() {
  if [[ $FE_SCHEDULER_SIMPLE == true ]]; then
    # For a Flux that shares its prefix with Fluxion, and that is older than modprobe.
    export FLUXION_RESOURCE_RC_NOOP=1 FLUXION_QMANAGER_RC_NOOP=1
    return
  fi
  [[ $FE_VIEW_DISABLED != true ]] || return 0
  local dir
  for dir in "$fe_view/lib/flux/modules" "$fe_view/lib64/flux/modules"; do
    [[ -e $dir/sched-fluxion-qmanager.so ]] || continue
    export FLUX_MODULE_PATH=${FLUX_MODULE_PATH:+$FLUX_MODULE_PATH:}$dir
    export FLUX_RC_EXTRA=${FLUX_RC_EXTRA:+$FLUX_RC_EXTRA:}$fe_view/etc/flux
    export FLUX_MODPROBE_PATH_APPEND=${FLUX_MODPROBE_PATH_APPEND:+$FLUX_MODPROBE_PATH_APPEND:}$fe_view/etc/flux/modprobe
    return
  done
}

# fe_prepare makes the files that the broker reads. It removes the state of an earlier container
# of this pod, whose jobs must not run a second time.
fe_prepare() {
  export STATE_DIR=$fe_config/var/lib/flux
  rm -rf "$STATE_DIR"
  mkdir -p "$STATE_DIR" "$fe_config/run/flux" "$fe_config/curve" "$fe_config/etc/flux/system/cron.d"
  mkdir -p "$FLUX_OUTPUT_DIR" || true # only batches need this directory
  # The broker requires a certificate that other users cannot read.
  (umask 077 && cat "$fe_here/curve.cert" >"$fe_config/curve/curve.cert")
  export FLUX_RC_EXTRA=${FLUX_RC_EXTRA:+$FLUX_RC_EXTRA:}$fe_config/etc/flux # runs joined.sh
  if [[ ! -s $fe_config/etc/flux/system/R ]]; then
    flux R encode --hosts="$(<"$fe_here/hostlist")" --local >"$fe_config/etc/flux/system/R"
  fi
}

fe_broker_options() {
  fe_options=(
    --config-path="$fe_config/etc/flux/config"
    -Scron.directory="$fe_config/etc/flux/system/cron.d"
    -Stbon.topo="$FE_TOPOLOGY"
    -Srundir="$fe_config/run/flux"
    -Sstatedir="$STATE_DIR"
    -Sbroker.quorum="$FE_MIN_SIZE"
    -Slog-stderr-mode=local
    -Slog-stderr-level="$FE_LOG_LEVEL"
  )
  [[ $FE_DISABLE_SOCKET == true ]] || fe_options+=(-Slocal-uri="local://$fe_config/run/flux/local")
  [[ -z $FE_CONNECT_TIMEOUT ]] || fe_options+=(-Stbon.connect_timeout="$FE_CONNECT_TIMEOUT")
  [[ $FE_ZEROMQ != true ]] || fe_options+=(-Stbon.zmqdebug=1)
  if [[ -n $FE_ARCHIVE && -e $FE_ARCHIVE ]]; then
    fe_options+=(-Scontent.restore="$FE_ARCHIVE")
  fi
}

# fe_name_host lets Flux call this host as the host list does, and not as the pod or node is called. Flux before 0.82 reads a
# variable and ignores the attribute. lead.sh removes the variable: brokers inside jobs have hosts of their own.
fe_name_host() {
  export FLUX_FAKE_HOSTNAME=$FE_NAME-$fe_rank
  if [[ $FE_NAMES_PODS == true ]]; then
    FLUX_FAKE_HOSTNAME=$FE_NAME-0-0-0
    ((fe_rank == 0)) || FLUX_FAKE_HOSTNAME=$FE_NAME-w-0-$((fe_rank - 1))
  fi
  fe_options+=(-Shostname="$FLUX_FAKE_HOSTNAME")
}

fe_lead() {
  local code=0
  if [[ $FE_MODE == interactive ]]; then
    fe_say "Flux is up until this pod is deleted"
    /bin/bash "$fe_here/lead.sh" &
    local beside=$!
    fe_run flux broker "${fe_options[@]}" -Sbroker.rc2_none || code=$?
    kill "$beside"
    fe_ended_itself "$code" || code=143
    return "$code"
  fi
  fe_timed fluxstart fe_run flux start ${FE_WRAP:+--wrap="$FE_WRAP"} "${fe_options[@]}" /bin/bash "$fe_here/lead.sh" || code=$?
  if [[ $code == 0 && ! -e $fe_began ]]; then
    echo "The broker ended before the command was started" >&2 # Flux calls that a success
    return 143
  fi
  [[ ! -s $fe_over ]] || code=$(<"$fe_over") # Flux has a code of its own if it was asked to end meanwhile, or has trouble at its end
  return "$code"
}

# fe_ended_itself CODE is false if a broker ended with 0 after it was asked to end. This is no
# success: after a success, the Job would never make the pod again.
fe_ended_itself() { [[ $fe_ending != true || $1 != 0 ]]; }

# fe_obey waits for the annotation of the lead's pod that asks it to end. If the command runs,
# lead.sh gives it its time, and ends it. If that does not help, or no command runs, this function
# ends this container by the signals of the kubelet, and kills what ignores SIGTERM. Flux ends the
# instance, and the pod stays with its log.
fe_obey() {
  local seconds groups
  until [[ -s $fe_here/stop ]]; do fe_pause 1; done
  fe_say_why
  read -r _ seconds <"$fe_here/stop" || true
  [[ ! -e $fe_began ]] || fe_pause "$((${seconds:-0} + 5))"
  kill -TERM "$$"
  fe_pause 15
  if read -ra groups 2>/dev/null <"$fe_began"; then
    kill -KILL -- "${groups[@]/#/-}" 2>/dev/null # of lead.sh and of the command
  else
    kill -KILL 0 # the lead hangs in a hook, or its broker does not start
  fi
}

# fe_say_why says once why this container was asked to end, if it was.
fe_say_why() {
  local why
  [[ -s $fe_here/stop && ! -e $fe_said ]] || return 0
  read -r why _ <"$fe_here/stop" || true
  echo "Asked to end: $why" >&2
  touch "$fe_said"
}

# fe_follow runs the broker of a follower. It starts a broker that failed again, since the lead may not be up yet. It
# returns when the pod is deleted, when the lead has shut the instance down, or when the loss of a broker has to be known.
fe_follow() {
  local code joined pause=1
  while true; do
    code=0
    rm -f "$fe_leaving"
    fe_run flux start "${fe_options[@]}" || code=$?
    joined=false
    [[ ! -e $FE_READY || $FE_LEAD_JOB == none ]] || joined=true
    [[ $code == 0 ]] || rm -f "$FE_READY" # a broker that the lead has shut down is not lost
    fe_ended_itself "$code" || return 143
    if [[ $FE_COMPLETE_WORKERS == true || $fe_ending == true || $code == 0 ]]; then
      return "$code"
    fi
    if [[ $joined == true && $FE_ON_LOSS == Recreate ]]; then
      # Flux ends a job that loses a broker. Nobody would hear of the loss if the broker came back within seconds, nor of
      # the end of the lead if this pod ended first while Flux is shut down.
      fe_say "The broker ended with exit code $code"
      fe_run sleep 30 || true
      return "$code"
    fi
    fe_say "The broker ended with exit code $code; starting it again in $pause s"
    fe_run sleep "$pause" || true
    [[ $fe_ending != true ]] || return 143
    rm -f "$FE_READY"
    pause=$((pause < 8 ? pause * 2 : 15))
  done
}

# fe_tell_end tells of a lead that was ended by a signal of which the pod says nothing, as by a node that reboots. Its exit
# code is not the command's, unless the command had ended before. It is told when the signal comes, since the container may be
# killed, and again at the end: lead.sh may have told something else meanwhile.
# shellcheck disable=SC2317 # traps run it
fe_tell_end() {
  [[ $fe_job == "$FE_LEAD_JOB" && $fe_ending == true && ! -e $fe_over && ! -s $fe_here/stop ]] || return 0
  local told='' end='the container was ended'
  [[ ! -r $fe_log ]] || told=$(<"$fe_log")
  [[ $told != "$end"* ]] || return 0
  fe_tell "$end${told:+ while the command ran}" # lead.sh tells when it begins
}

# fe_exit replaces the exit code 0 of this shell by 1 if the broker has not run: 0 is a success.
# shellcheck disable=SC2317 # the trap runs it
fe_exit() {
  local code=$?
  fe_tell_end
  if [[ -n $fe_obeying ]]; then
    kill "$fe_obeying" 2>/dev/null || true
    while kill -0 "$fe_obeying" 2>/dev/null; do sleep 0.1; done # no process of this container is left
    fe_say_why                                                  # lead.sh may have been faster
  fi
  [[ $code != 0 || -n $fe_exit_code ]] || exit 1
}

fe_leaving=${FE_READY%/*}/leaving # members.sh makes this file
fe_began=${FE_READY%/*}/began     # and lead.sh this one, when it runs the command
fe_over=${FE_READY%/*}/over       # and this one with the exit code, when the command has ended by itself
fe_said=${FE_READY%/*}/said
rm -f "$FE_READY" "$FE_READY.seen" "$fe_leaving" "$fe_began" "$fe_over" "$fe_said" "${FE_READY%/*}/joined" # files of an earlier container of this pod
fe_exit_code='' fe_obeying=''
trap fe_exit EXIT
if [[ $fe_job == "$FE_LEAD_JOB" ]]; then
  fe_obey &
  fe_obeying=$!
  disown "$fe_obeying" # so that a hook may wait for its own processes, or kill them
fi
fe_hook hook-init
if [[ ${HOME:-/} == / ]]; then
  export HOME=/home/flux-operator USER=flux-operator
fi
fe_paths
fe_affinity
fe_describe
fe_scheduler
fe_prepare
fe_broker_options
fe_name_host
fe_hook hook-pre

if [[ $fe_job == "$FE_LEAD_JOB" ]]; then
  fe_hook hook-broker-pre
  if fe_lead; then fe_exit_code=0; else fe_exit_code=$?; fi
else
  fe_hook hook-worker-pre
  if fe_follow; then fe_exit_code=0; else fe_exit_code=$?; fi
fi
(fe_hook hook-post) || true # the exit code is the broker's, not that of the hook
touch "$FE_VIEW_BASE/flux-operator-complete.txt" || true
exit "$fe_exit_code"
