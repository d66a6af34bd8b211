#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# The entry point of the Flux container: starts the broker of this pod, and on
# the lead the command with it (lead.sh). Its exit code is the broker's, which on
# the lead is that of the command.

here=${FLUX_OPERATOR_DIR:-/flux_operator}
# shellcheck source=/dev/null
. "$here/settings.sh"
if [[ $STRICT == true ]]; then
	set -eEu -o pipefail
fi

view=$VIEW_BASE/view
config=$VIEW_BASE/config

say() {
	[[ $QUIET == true ]] || printf '%s\n' "$*"
}

# hook NAME runs a piece of the user's shell in this one, so that what it exports
# is seen by the broker.
hook() {
	local file=$here/hook-$1.sh
	[[ -s $file ]] || return 0
	if [[ $QUIET == true ]]; then
		# shellcheck source=/dev/null
		. "$file" >/dev/null 2>&1
	else
		# shellcheck source=/dev/null
		. "$file"
	fi
}

# paths puts Flux on the path, after what the image has, and writes the files that
# people and other containers connect with.
paths() {
	if [[ ${HOME:-/} == / ]]; then
		export HOME=/home/flux-operator USER=flux-operator
	fi
	if [[ $VIEW_DISABLED != true ]]; then
		local python
		python=$(find "$view/lib" -maxdepth 1 -name 'python3*' 2>/dev/null | sort | head -n 1)
		export PATH=$PATH:$view/bin
		export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}${PYTHON_PATH:-$python/site-packages}
		export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$view/lib
	fi
	{
		printf 'export PATH=%q\n' "$PATH"
		printf 'export PYTHONPATH=%q\n' "${PYTHONPATH:-}"
		printf 'export LD_LIBRARY_PATH=%q\n' "${LD_LIBRARY_PATH:-}"
		printf 'export fluxsocket=%q\n' "local://$config/run/flux/local"
		cat "$here/view-environment.sh"
	} >"$VIEW_BASE/flux-view.sh"
	# shellcheck disable=SC2016 # the variable is expanded where the file is used
	printf '. %q\nflux proxy "$fluxsocket" bash\n' "$VIEW_BASE/flux-view.sh" >"$VIEW_BASE/flux-connect.sh"
	printf 'flux module remove sched-simple\nflux module load sched-fluxion-resource\nflux module load sched-fluxion-qmanager\n' \
		>"$VIEW_BASE/load-fluxion.sh"
}

# prepare makes what the broker reads. State of an earlier container of this pod
# goes: its jobs must not run a second time.
prepare() {
	export STATE_DIR=$config/var/lib/flux
	rm -rf "$STATE_DIR"
	mkdir -p "$STATE_DIR" "$FLUX_OUTPUT_DIR" "$config/run/flux" "$config/curve" "$config/etc/flux/system/cron.d"
	# The broker wants a certificate that nobody else can read.
	(umask 077 && cat "$here/curve.cert" >"$config/curve/curve.cert")
	if [[ ! -s $config/etc/flux/system/R ]]; then
		flux R encode --hosts="$(<"$here/hostlist")" --local >"$config/etc/flux/system/R"
	fi
}

broker_options() {
	options=(
		--config-path="$config/etc/flux/config"
		-Scron.directory="$config/etc/flux/system/cron.d"
		-Stbon.topo="${TOPOLOGY:-kary:256}"
		-Srundir="$config/run/flux"
		-Sstatedir="$STATE_DIR"
		-Sbroker.quorum="$MIN_SIZE"
		-Slog-stderr-mode=local
		-Slog-stderr-level="$LOG_LEVEL"
	)
	[[ $DISABLE_SOCKET == true ]] || options+=(-Slocal-uri="local://$config/run/flux/local")
	[[ -z $CONNECT_TIMEOUT ]] || options+=(-Stbon.connect_timeout="$CONNECT_TIMEOUT")
	[[ $ZEROMQ != true ]] || options+=(-Stbon.zmqdebug=1)
	if [[ -n $ARCHIVE && -e $ARCHIVE ]]; then
		options+=(-Scontent.restore="$ARCHIVE")
	fi
}

# run COMMAND... runs it and passes on the request to end, so that a broker shuts
# down cleanly when its pod is deleted. Returns its exit code.
ending=false
run() {
	local code=0
	"$@" &
	local child=$!
	trap 'ending=true; kill -TERM "$child" 2>/dev/null' TERM INT
	wait "$child" || code=$?
	# A trap ends wait early; the broker still has to end.
	while kill -0 "$child" 2>/dev/null; do
		code=0
		wait "$child" || code=$?
	done
	trap - TERM INT
	return "$code"
}

timed() {
	if [[ $TIMED == true ]]; then
		run /usr/bin/time -f 'FLUXTIME fluxstart wall time %E' "$@"
	else
		run "$@"
	fi
}

lead() {
	if [[ $MODE == interactive ]]; then
		say "Flux is up until this pod is deleted"
		run flux broker "${options[@]}" -Sbroker.rc2_none
		return
	fi
	timed flux start ${WRAP:+--wrap="$WRAP"} "${options[@]}" /bin/bash "$here/lead.sh"
}

# follow comes back after a broker that failed: the lead may not be there yet. It
# ends when the lead has shut the instance down, unless a lead that failed is started
# again, and when the pod is deleted.
follow() {
	local code pause=1
	while true; do
		code=0
		run flux start "${options[@]}" || code=$?
		if [[ $COMPLETE_WORKERS == true || $ending == true ]] || ((code == 0 && BACKOFF_LIMIT == 0)); then
			return "$code"
		fi
		say "The broker ended with exit code $code; again in $pause s"
		run sleep "$pause" || true
		[[ $ending != true ]] || return "$code"
		pause=$((pause < 8 ? pause * 2 : 15))
	done
}

if [[ $TIMED == true && ! -x /usr/bin/time ]]; then
	echo "logging.timed needs /usr/bin/time in the image" >&2
	exit 1
fi
hook init
paths
export FLUX_OUTPUT_DIR
prepare
broker_options
hook pre

code=0
if [[ $HOSTNAME == "$LEAD_HOST" ]]; then
	hook broker-pre
	lead || code=$?
else
	hook worker-pre
	follow || code=$?
fi
(hook post) || true # whatever it does, the exit code is the broker's
touch "$VIEW_BASE/flux-operator-complete.txt"
exit "$code"
