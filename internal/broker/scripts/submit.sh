#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# submit.sh SUBMISSION... submits one job with the command SUBMISSION, which prints the id of the
# job, and prints the output of the job line by line. Its exit code is that of the job.
# `flux submit --watch` would hold the output back until the job has ended.

fe_here=${FLUX_OPERATOR_DIR:-/flux_operator}
# shellcheck source=/dev/null
. "$fe_here/settings.sh"

fe_attach=(flux job attach --read-only) # leaves signals and the standard input to others
[[ $FE_LABEL != true || $FE_MODE != submit ]] || fe_attach+=(--label-io)
[[ $FE_DEBUG != true ]] || fe_attach+=(--verbose --show-events --show-exec)

id=$("$@") || exit
if [[ $FE_QUIET != true ]]; then
  exec "${fe_attach[@]}" "$id"
fi
# Flux has no option against its own line about a job that failed.
set -o pipefail
{ "${fe_attach[@]}" --quiet "$id" 2>&1 >&3 | sed -u '/^flux-job: task(s) /d' >&2; } 3>&1
