#!/bin/sh
# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# What the test scripts of flux-sched need of sharness, and no more. Each case
# leaves files under CONFORMANCE_RESULTS, named by its number: .name, .body, .log
# (what it wrote) and, in the end, .outcome: "pass", "fail" or "skip: why".

export LC_ALL=C
# The resource-query of flux-sched runs forever at the end of its input.
# shellcheck disable=SC3045
ulimit -t 120
cases=0

# A tool that is not there is missed by whom it is called, not by all.
stand_in() {
	command -v "$1" >/dev/null || eval "$1() { cat >/dev/null; echo 'needs $1' >>'$CONFORMANCE_RESULTS/missing'; return 127; }"
}
stand_in flux
stand_in jq

test_expect_success() {
	test $# -lt 3 || shift # what the case requires: LONGTEST; none is too long
	cases=$((cases + 1))
	result=$CONFORMANCE_RESULTS/$(printf %03d "$cases")
	printf '%s\n' "$1" >"$result.name"
	printf '%s\n' "$2" >"$result.body"
	if eval "$2" </dev/null >"$result.log" 2>&1; then
		echo pass
	elif test -e "$CONFORMANCE_RESULTS/missing"; then # by this case, or by one that it builds on
		echo "skip: $(head -n 1 "$CONFORMANCE_RESULTS/missing")"
	else
		echo fail
	fi >"$result.outcome"
}

test_expect_success_hd() {
	test_expect_success "$1" "$(cat)"
}

test_cmp() {
	diff -u "$@"
}

# A command that must fail is to do so of its own accord, not by a signal.
test_must_fail() {
	"$@"
	code=$?
	test "$code" -ne 0 && test "$code" -le 125
}

test_under_flux() {
	cases=$((cases + 1))
	result=$CONFORMANCE_RESULTS/$(printf %03d "$cases")
	echo "all cases" >"$result.name"
	echo "skip: needs a Flux instance, not resource-query" >"$result.outcome"
	exit
}

test_done() {
	exit
}
