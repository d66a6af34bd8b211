#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs beside the command of the lead: drains the ranks that the lead's pod is told are
# to leave, so that they take no new work, and undrains those that may stay after all.
# Their pods are no longer ready once they have no work left.

fe_here=${FLUX_OPERATOR_DIR:-/flux_operator}
# shellcheck source=/dev/null
. "$fe_here/settings.sh"
# shellcheck source=common.sh
. "$fe_here/common.sh"

# ids IDSET prints its ids, one a line.
ids() {
  local part
  for part in ${1//[],[]/ }; do
    seq "${part%-*}" "${part#*-}"
  done
}

# minus A B prints the ids of A that are not in B, as an idset.
minus() {
  comm -23 <(ids "$1" | sort) <(ids "$2" | sort) | paste -sd,
}

# on RANKS COMMAND runs shell in the run directories of those of these brokers that are
# online. The lead is none of them: that it is ready says something else.
on() {
  local ranks
  ranks=$(minus "$1" 0)
  [[ -z $ranks ]] || timeout 10 flux exec --noinput --dir=/ -r "$ranks" \
    /bin/bash -c "cd \"\$(flux getattr rundir)\" && $2" 2>/dev/null || true
}

# watch tells the brokers of drained ranks once no work is left there, and then now and
# again: one that comes on such a rank is no more ready than the one before.
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

fe_drained='' # ranks
fe_busy=''    # those of them that may have work left
fe_rest=0     # rounds until Flux is asked again: seldom, since that takes time from the command
while fe_pause 1; do
  want=
  read -r want 2>/dev/null <"$fe_here/drain" || true
  if [[ $want == "$fe_drained" ]]; then
    [[ -z $want ]] || ((fe_rest-- > 0)) || watch
    continue
  fi
  stay=$(minus "$fe_drained" "$want")
  for rank in $(ids "$stay"); do
    flux resource undrain "$rank" || true # somebody else may have done it
  done
  on "$stay" "rm -f leaving && touch ${FE_READY##*/}"
  fe_drained=$(minus "$fe_drained" "$stay")
  leave=$(minus "$want" "$fe_drained")
  # A rank that somebody else has drained keeps their reason.
  if [[ -z $leave ]] || flux resource drain --update "$leave" flux-elastic; then
    fe_drained=$want fe_busy=$want fe_rest=0
  else
    fe_pause 10
  fi
done
