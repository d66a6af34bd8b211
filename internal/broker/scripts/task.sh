#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# task.sh FILE [SIGNAL] runs the user's command, a file of shell, as a task of a job or as the
# launcher. Signals go to all processes of the task. So the shell that reads the file waits for
# the program that it runs, which may write a checkpoint, and ends after SIGTERM only then.
# SIGNAL asks for a checkpoint, and is nothing to this shell.

fe_traps="trap 'exit 143' TERM"
case ${2-} in
'') ;;
SIGTERM) fe_traps="trap \"$fe_traps\" TERM" ;; # the first one asks for a checkpoint
*) fe_traps+="; trap : $2" ;;
esac
exec /bin/bash -c "$fe_traps; . \"\$0\"" "$1"
