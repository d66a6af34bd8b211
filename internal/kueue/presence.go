// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

// Presence is what is known of Kueue's objects while they are not read.
type Presence int

// What is known of Kueue's objects.
const (
	// Unknown: the API server was not asked yet, or they are about to be read.
	Unknown Presence = iota
	// Away: the API server does not have them.
	Away
	// Unread: the API server has them, and they cannot be read.
	Unread
)
