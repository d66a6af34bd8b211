#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# The arithmetic of sizes and tasks, with the same results as elastic.Sizing. It reads the
# settings FE_SIZE, FE_MIN_SIZE, FE_OPERATOR, FE_OPERAND, FE_TASKS_AT_SIZE, FE_SCALING,
# FE_CONSTRAINT, FE_MULTIPLE_OF and FE_SLOTS_PER_NODE.
#
# shellcheck disable=SC2034 # the callers read what the functions set

# set_tasks NODES sets fe_tasks to the number of tasks on that many brokers. It sets 0 if no
# number is allowed, or if Flux chooses the number.
set_tasks() {
  local fe_nodes=$1 n=1 least=0
  fe_tasks=$FE_TASKS_AT_SIZE
  ((fe_nodes != FE_SIZE && fe_tasks != 0)) || return 0
  if [[ $FE_SCALING == Fixed ]]; then
    ((FE_SLOTS_PER_NODE == 0)) || least=$(((fe_tasks - 1) / FE_SLOTS_PER_NODE + 1))
    ((fe_nodes >= least || least > FE_SIZE)) || fe_tasks=0
    return 0
  fi
  fe_tasks=$((fe_tasks * fe_nodes / FE_SIZE))
  ((fe_tasks > 0)) || fe_tasks=1
  case $FE_CONSTRAINT in
  PowerOfTwo)
    while ((n * 2 <= fe_tasks)); do ((n *= 2)); done
    fe_tasks=$n
    ;;
  Cube)
    while (((n + 1) ** 3 <= fe_tasks)); do ((n += 1)); done
    fe_tasks=$((n ** 3))
    ;;
  MultipleOf)
    fe_tasks=$((fe_tasks / FE_MULTIPLE_OF * FE_MULTIPLE_OF))
    ;;
  esac
}

# set_next N sets fe_next to the next allowed size after N, at most the full size.
set_next() {
  local n=$1 i
  case $FE_OPERATOR in
  '*') fe_next=$((n * FE_OPERAND)) ;;
  '^')
    fe_next=1
    for ((i = 0; i < FE_OPERAND && fe_next < FE_SIZE; i++)); do ((fe_next *= n)) || true; done
    ;;
  *) fe_next=$((n + FE_OPERAND)) ;;
  esac
  ((fe_next < FE_SIZE)) || fe_next=$FE_SIZE
}

# set_largest LIMIT sets fe_nodes to the largest allowed size of at most LIMIT brokers, or to 0
# if there is none.
set_largest() {
  local limit=$1 n=$FE_MIN_SIZE fe_tasks fe_next
  fe_nodes=0
  while ((n < FE_SIZE && n <= limit)); do
    set_tasks "$n"
    if ((FE_TASKS_AT_SIZE == 0 || fe_tasks > 0)); then
      fe_nodes=$n
    fi
    set_next "$n"
    ((fe_next > n)) || break
    n=$fe_next
  done
  if ((FE_SIZE <= limit)); then
    fe_nodes=$FE_SIZE
  fi
}

# set_flags NODES TASKS sets fe_flags to the options of the submit command.
set_flags() {
  if (($2 == 0)); then
    fe_flags="-N $1"
  elif (($2 >= $1)); then
    fe_flags="-N $1 -n $2"
  else
    fe_flags="-n $2"
  fi
}
