// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Program suites says which of the larger suites have to run on this machine, as go test knows of a package. A suite
// that passed leaves a record in the user's cache: hashes of all that the suite depends on, which are the sources of its
// tests and of the programs that it runs, versions of modules, manifests, the commands of its target, and programs of
// the machine. While these are the same, the suite need not run again.
//
//	suites due             prints the targets of the suites that have to run, and says what is left out and why
//	suites begin TARGET    remembers what a suite depends on, before the suite runs
//	suites passed TARGET   writes the record of a suite that passed, if nothing has changed since it began
package main
