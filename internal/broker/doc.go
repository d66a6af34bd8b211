// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package broker makes the configuration of a Flux instance from a MiniCluster. It makes the
// hostlist, the resources of each rank (R), the broker's TOML and the certificate. It also has
// the scripts that start brokers and the command in the pods.
//
// The scripts (scripts/*.sh) are the same for every MiniCluster. Settings that differ are in
// settings.sh, where every value is quoted. The user's pieces of shell are files of their own:
// no text of a user is ever put into a script.
//
// The package only makes texts. Package jobset puts them into objects.
package broker
