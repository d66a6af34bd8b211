#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# The entry point of the init container: copies Flux and its configuration to the volume that
# the other containers share. It can run again on the same volume.
set -eu

fe_here=${FLUX_OPERATOR_DIR:-/flux_operator}
# shellcheck source=/dev/null
. "$fe_here/settings.sh"

fe_config=$FE_VIEW_BASE/config

# fe_only_ipv6 is true if the brokers' interface has an IPv6 address that other pods can reach, and no IPv4 address. With
# both, brokers use IPv4. Flux with IPv6 cannot use an interface that has IPv4 alone.
fe_only_ipv6() {
  local net=${FE_PROC_NET:-/proc/net} name scope found=false
  [[ -r $net/if_inet6 ]] || return 1
  while read -r _ _ _ scope _ name; do
    [[ $name != "$FE_INTERFACE" || $scope == 20 ]] || found=true # 20: of this link alone
  done <"$net/if_inet6"
  [[ $found == true ]] || return 1
  [[ -r $net/route ]] || return 0
  while read -r name _; do # an interface with an IPv4 address has a route
    [[ $name != "$FE_INTERFACE" ]] || return 1
  done <"$net/route"
}

# fe_look_up asks the DNS for a name that every cluster has in its domain. Without that, brokers do not find each other. If the
# name does not resolve (getent: 2), or nobody answers (timeout: 124, or 143), the termination message of this container tells the
# controller. Other codes are of images that lack these commands. A question that was lost is asked again after 5 s.
fe_look_up() {
  local code=0 log=${FE_TERMINATION_LOG:-/dev/termination-log}
  [[ -n $FE_LOOK_UP && -w $log ]] || return 0
  timeout 8 getent ahosts "$FE_LOOK_UP." >/dev/null 2>&1 || code=$?
  if [[ $code == 2 || $code == 124 || $code == 143 ]]; then
    echo "$FE_LOOK_UP does not resolve" >"$log" || true
  fi
}

mkdir -p "$FE_VIEW_BASE/view" "$FE_VIEW_BASE/software" "$fe_config/etc/flux/config" "$fe_config/etc/flux/system/cron.d" "$fe_config/etc/flux/rc1.d"
# Flux may run as another user, and makes files and directories here.
chmod 0777 "$fe_config" "$fe_config/etc/flux" "$fe_config/etc/flux/system"

cp "$fe_here/hostlist" "$fe_config/etc/flux/system/hostlist"
cp "$fe_here/broker.toml" "$fe_config/etc/flux/config/broker.toml"
if fe_only_ipv6; then
  sed -i "s/^$FE_IPV6_MARK\$/enable_ipv6 = true/" "$fe_config/etc/flux/config/broker.toml"
fi
# Also with a configuration of the user: a container sees all cores of its node, and R has those of the pod. The names of hosts
# in R are not those of the pods.
printf '[resource]\nnoverify = true\n' >"$fe_config/etc/flux/config/resource.toml"
ln -sf "$fe_here/joined.sh" "$fe_config/etc/flux/rc1.d/"
if [[ -s $fe_here/R ]]; then
  cp "$fe_here/R" "$fe_config/etc/flux/system/R"
fi

if [[ $FE_VIEW_DISABLED != true ]]; then
  # The view is a Spack view: /opt/view is a link into /opt/views, and the view has links into
  # /opt/software.
  cp -R "$(readlink -f /opt/view)/." "$FE_VIEW_BASE/view/"
  cp -R /opt/software/. "$FE_VIEW_BASE/software/"
fi
fe_look_up
touch "$FE_VIEW_BASE/flux-operator-done.txt"
