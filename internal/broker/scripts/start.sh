#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# The entry point of a container beside Flux (start-<i>.sh), and that of a service (service-<i>.sh),
# read this script. The names of the files with the user's shell begin with the name of the entry
# point. The exit code is that of the command.

fe_here=${FLUX_OPERATOR_DIR:-/flux_operator}
fe_name=${0##*/}
fe_name=${fe_name%.sh}
# shellcheck source=/dev/null
. "$fe_here/settings.sh"
if [[ $FE_STRICT == true ]]; then
  set -eEu -o pipefail
fi
# shellcheck source=common.sh
. "$fe_here/common.sh"

# fe_until_there TEST FILE waits for a file that the Flux container makes.
fe_until_there() {
  [[ $FE_NO_WAIT_SOCKET == true ]] || until test "$1" "$2"; do sleep 1; done
}

fe_hook "$fe_name-init"
if [[ $fe_name == start-* ]]; then
  fe_paths
  fe_until_there -s "$FE_VIEW_BASE/flux-view.sh"
fi
fe_hook "$fe_name-pre"
if [[ $fe_name == start-* ]]; then
  export fluxsocket=local://$fe_config/run/flux/local
  [[ $FE_DISABLE_SOCKET == true ]] || fe_until_there -S "$fe_config/run/flux/local"
fi
fe_exit_code=0
if [[ -s $fe_here/$fe_name-command.sh ]]; then
  fe_run_all /bin/bash "$fe_here/$fe_name-command.sh" || fe_exit_code=$?
fi
(fe_hook "$fe_name-post") || true # the exit code is the command's, not that of the hook
if [[ $fe_name == start-* && $fe_exit_code == 0 && $fe_ending == false ]]; then
  # The kubelet would start a container beside Flux again, and its command would run twice.
  fe_run sleep infinity || true
fi
exit "$fe_exit_code"
