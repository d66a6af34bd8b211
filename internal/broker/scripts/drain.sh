#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs beside the command of the lead: drains the ranks that the lead's pod is told are
# to leave, so that they take no new work, and undrains those that may stay after all.

fe_here=${FLUX_OPERATOR_DIR:-/flux_operator}

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

# pause SECONDS sleeps, and leaves nothing behind when it is told to end.
pause() {
  sleep "$1" &
  trap 'kill "$!"; exit' TERM
  wait "$!"
  trap - TERM
}

fe_drained=
while pause 1; do
  want=
  read -r want 2>/dev/null <"$fe_here/drain" || true
  [[ $want != "$fe_drained" ]] || continue
  stay=$(minus "$fe_drained" "$want")
  for rank in $(ids "$stay"); do
    flux resource undrain "$rank" || true # somebody else may have done it
  done
  fe_drained=$(minus "$fe_drained" "$stay")
  leave=$(minus "$want" "$fe_drained")
  # A rank that somebody else has drained keeps their reason.
  if [[ -z $leave ]] || flux resource drain --update "$leave" flux-elastic; then
    fe_drained=$want
  else
    pause 10
  fi
done
