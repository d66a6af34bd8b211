#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# Flux runs this script at the end of rc1: this pod's broker has joined the others and has loaded
# its modules. The script makes the pod of a follower ready, unless members.sh has said meanwhile
# that the broker is to leave. On an interactive lead, lead.sh waits for the file `joined`.
#
# No command of Flux is asked for the state of the broker: `flux uptime` crashes for a user
# without an entry in /etc/passwd.

fe_here=${FLUX_OPERATOR_DIR:-/flux_operator}
# shellcheck source=/dev/null
. "$fe_here/settings.sh"

fe_run=${FE_READY%/*}
[[ $FLUX_URI == "local://$fe_run/"* ]] || exit 0 # the broker of a Flux instance inside a job
if [[ $(<"$fe_here/job") == "$FE_LEAD_JOB" ]]; then
  : >"$fe_run/joined"
else
  : >"$FE_READY"
  [[ ! -e $fe_run/leaving ]] || rm -f "$FE_READY"
fi
