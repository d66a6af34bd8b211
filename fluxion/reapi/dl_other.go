// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux || (!amd64 && !arm64)

package reapi

import "fmt"

func dlopen(string) (uintptr, error) {
	return 0, fmt.Errorf("%w on this system: it takes linux on amd64 or arm64", ErrUnsupported)
}

func dlsym(uintptr, string) uintptr { return 0 }

func register(any, uintptr) {}
