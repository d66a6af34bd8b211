#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs on the lead beside the command. It drains the ranks that are to leave, which an annotation
# of the lead's pod lists, so that they get no new work. It undrains ranks that may stay after
# all. When a drained rank has no work left, this script makes its pod not ready.

fe_here=${FLUX_OPERATOR_DIR:-/flux_operator}
# shellcheck source=/dev/null
. "$fe_here/settings.sh"
# shellcheck source=common.sh
. "$fe_here/common.sh"

# on RANKS COMMAND runs a shell command in the run directories of the given brokers that are
# online. It leaves out the lead, whose readiness has another meaning.
on() {
  local ranks
  ranks=$(minus "$1" 0)
  [[ -z $ranks ]] || timeout 10 flux exec --noinput --dir=/ -r "$ranks" \
    /bin/bash -c "cd \"\$(flux getattr rundir)\" && $2" 2>/dev/null || true
}

# watch makes the pods of drained ranks not ready when these have no work left. It does so again
# now and then: a new broker on such a rank must not be ready, either.
watch() {
  local before=$fe_busy
  fe_rest=1
  if [[ -n $fe_busy ]] && ! fe_busy=$(flux resource status -i "$fe_busy" -s draining -no '{ranks}'); then
    fe_busy=$before
  fi
  [[ -n $fe_busy ]] || fe_rest=9
  [[ -n $fe_busy && $fe_busy == "$before" ]] ||
    on "$(minus "$fe_drained" "$fe_busy")" "touch leaving && rm -f ${FE_READY##*/}"
}

fe_drained='' # the drained ranks
fe_busy=''    # the drained ranks that may have work left
fe_rest=0     # rounds until Flux is asked again: seldom, since this takes CPU time from the command
while fe_pause 1; do
  want=
  read -r want 2>/dev/null <"$fe_here/drain" || true
  if [[ $want == "$fe_drained" ]]; then
    [[ -z $want ]] || ((fe_rest-- > 0)) || watch
    continue
  fi
  stay=$(minus "$fe_drained" "$want")
  for rank in $(ids "$stay"); do
    flux resource undrain "$rank" || true # somebody else may have undrained the rank
  done
  on "$stay" "rm -f leaving && touch ${FE_READY##*/}"
  fe_drained=$(minus "$fe_drained" "$stay")
  leave=$(minus "$want" "$fe_drained")
  # A rank that somebody else has drained keeps its reason.
  if [[ -z $leave ]] || flux resource drain --update "$leave" flux-elastic; then
    fe_drained=$want fe_busy=$want fe_rest=0
  else
    fe_pause 10
  fi
done
