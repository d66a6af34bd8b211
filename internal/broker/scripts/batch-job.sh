#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# The batch job, a Flux instance of its own. This script submits the lines of the command,
# waits for all jobs, and ends with the highest exit code.

fe_here=${FLUX_OPERATOR_DIR:-/flux_operator}
# shellcheck source=/dev/null
. "$fe_here/settings.sh"

fe_worst=0
count() {
  (($1 <= fe_worst)) || fe_worst=$1
}

# submit_lines submits each line: the line has the arguments of `flux submit`, as a shell reads
# them. A line that is not valid shell, or that exits the shell, counts as a failure of its own.
submit_lines() {
  local line lines fe_options fe_flags='' i=0
  [[ $FE_QUIET != true ]] || fe_flags=--quiet
  [[ $FE_DEBUG != true ]] || fe_flags+=' -vvv'
  [[ $FE_LABEL != true ]] || fe_flags+=' --label-io'
  mapfile -t lines <"$fe_here/command.sh"
  for line in "${lines[@]}"; do
    [[ ! $line =~ ^[[:space:]]*(#.*)?$ ]] || continue
    printf -v fe_options '%q ' --error="$FLUX_OUTPUT_DIR/job-$i.err" --output="$FLUX_OUTPUT_DIR/job-$i.out"
    (eval "flux submit $fe_flags --flags waitable $fe_options $line") || count "$?"
    ((i += 1))
  done
}

if [[ $FE_BATCH_RAW == true ]]; then
  /bin/bash "$fe_here/command.sh" || count "$?"
else
  submit_lines
fi
flux queue idle --quiet
[[ $FE_QUIET == true ]] || flux jobs -a -c 0
while read -r code; do
  if [[ $code =~ ^-[0-9]+$ ]]; then
    count 128 # the job was killed or cancelled
  elif [[ $code =~ ^[0-9]+$ ]]; then
    count "$code"
  fi
done < <(flux jobs -a -c 0 -no '{returncode}')
exit "$fe_worst"
