// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// Values of --binder.
const (
	binderGate   = "gate"
	binderDirect = "direct"
)

// bindsDirectly reports whether the manager binds pods itself, by the value of --binder.
func bindsDirectly(binder string) (bool, error) {
	switch binder {
	case binderGate:
		return false, nil
	case binderDirect:
		return true, nil
	default:
		return false, fmt.Errorf("--binder is %q: it can be %s or %s", binder, binderGate, binderDirect)
	}
}
