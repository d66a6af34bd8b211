// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package reapi

import (
	"runtime"

	"github.com/ebitengine/purego"
)

// dlopen stays on its thread, to which the text of an error belongs.
func dlopen(path string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// dlsym looks in the library and in what it needs, libc among it. It returns 0 for
// what is not there.
func dlsym(handle uintptr, name string) uintptr {
	address, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return address
}

// register makes the function that a pointer points to call an address. Strings
// are handed over as copies that end in NUL and live as long as the call.
func register(function any, address uintptr) {
	purego.RegisterFunc(function, address)
}
