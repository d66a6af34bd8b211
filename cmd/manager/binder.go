// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flux-elastic/flux-elastic/controllers/minicluster"
)

// binderOf returns the value of --binder.
func binderOf(name string) (minicluster.Binder, error) {
	if binder := minicluster.Binder(name); slices.Contains(minicluster.Binders, binder) {
		return binder, nil
	}
	names := make([]string, len(minicluster.Binders))
	for i, binder := range minicluster.Binders {
		names[i] = string(binder)
	}
	return "", fmt.Errorf("--binder is %q: it can be %s", name, strings.Join(names, " or "))
}
