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

// dlsym looks up a name in the library and in the libraries that it needs, such as libc. It
// returns 0 if there is no such name.
func dlsym(handle uintptr, name string) uintptr {
	address, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return address
}

// register makes the function variable that a pointer points to call an address. Each string
// argument becomes a copy that ends in NUL and lives as long as the call.
func register(function any, address uintptr) {
	purego.RegisterFunc(function, address)
}
