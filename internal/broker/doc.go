// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package broker makes the configuration of a Flux instance from a MiniCluster:
// its host list, the resources of each rank (R), the broker's TOML, the
// certificate, and the scripts that start brokers and the command in the pods.
//
// The scripts are files of their own (scripts/*.sh) that are the same for every
// MiniCluster. What differs is in settings.sh, where every value is quoted, and in
// the user's own pieces of shell, which are files too: no text of a user is ever
// put into a script.
//
// The package makes texts. Which objects they travel in is up to package jobset.
package broker
