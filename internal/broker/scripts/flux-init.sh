#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs in the init container: lays out Flux and its configuration on the volume
# that the other containers share. It can run again on the same volume.
set -eu

here=${FLUX_OPERATOR_DIR:-/flux_operator}
# shellcheck source=/dev/null
. "$here/settings.sh"

config=$VIEW_BASE/config
mkdir -p "$VIEW_BASE/view" "$VIEW_BASE/software" \
	"$config/curve" "$config/etc/flux/config" "$config/etc/flux/system/cron.d" \
	"$config/run/flux" "$config/var/lib/flux"

cp "$here/hostlist" "$config/etc/flux/system/hostlist"
cp "$here/broker.toml" "$config/etc/flux/config/broker.toml"
if [[ -s $here/R ]]; then
	cp "$here/R" "$config/etc/flux/system/R"
fi

if [[ $VIEW_DISABLED != true ]]; then
	# The view is a Spack one: /opt/view is a link into /opt/views, and what it
	# holds are links into /opt/software.
	cp -R "$(readlink -f /opt/view)/." "$VIEW_BASE/view/"
	cp -R /opt/software/. "$VIEW_BASE/software/"
fi
touch "$VIEW_BASE/flux-operator-done.txt"
