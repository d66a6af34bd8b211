#!/bin/bash
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# The arithmetic of sizes and tasks, as elastic.Sizing has it. Reads the settings
# SIZE, MIN_SIZE, OPERATOR, OPERAND, TASKS_AT_SIZE, SCALING, CONSTRAINT and
# MULTIPLE_OF.
#
# shellcheck disable=SC2034 # what the functions set is for the caller

# set_tasks NODES sets tasks to the number of tasks with that many brokers; 0 where
# none would do, or where it is left to Flux.
set_tasks() {
	local nodes=$1 n=1
	tasks=$TASKS_AT_SIZE
	if ((nodes == SIZE || tasks == 0)) || [[ $SCALING == Fixed ]]; then
		return
	fi
	tasks=$((tasks * nodes / SIZE))
	((tasks > 0)) || tasks=1
	case $CONSTRAINT in
	PowerOfTwo)
		while ((n * 2 <= tasks)); do ((n *= 2)); done
		tasks=$n
		;;
	Cube)
		while (((n + 1) ** 3 <= tasks)); do ((n += 1)); done
		tasks=$((n ** 3))
		;;
	MultipleOf)
		tasks=$((tasks / MULTIPLE_OF * MULTIPLE_OF))
		;;
	esac
}

# set_next SIZE sets next to the allowed size after it; what is beyond SIZE is SIZE.
set_next() {
	local n=$1 i
	case $OPERATOR in
	'*') next=$((n * OPERAND)) ;;
	'^')
		next=1
		for ((i = 0; i < OPERAND && next < SIZE; i++)); do ((next *= n)) || true; done
		;;
	*) next=$((n + OPERAND)) ;;
	esac
	((next < SIZE)) || next=$SIZE
}

# set_largest LIMIT sets nodes to the largest allowed size of at most that many
# brokers; 0 if there is none.
set_largest() {
	local limit=$1 n=$MIN_SIZE tasks next
	nodes=0
	while ((n < SIZE && n <= limit)); do
		set_tasks "$n"
		if ((TASKS_AT_SIZE == 0 || tasks > 0)); then
			nodes=$n
		fi
		set_next "$n"
		((next > n)) || break
		n=$next
	done
	if ((SIZE <= limit)); then
		nodes=$SIZE
	fi
}

# set_flags NODES TASKS sets flags to the options of the submission.
set_flags() {
	if (($2 == 0)); then
		flags="-N $1"
	elif (($2 >= $1)); then
		flags="-N $1 -n $2"
	else
		flags="-n $2"
	fi
}
