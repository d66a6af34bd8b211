// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package reapi

import "github.com/ebitengine/purego"

func dlopen(path string) (uintptr, error) {
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
