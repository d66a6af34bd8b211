// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Program reference writes the pages of docs/reference, and the classes of the Python client, from the definitions of the
// API and from the constants and steps of the code. It runs in the root of the checkout.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// files make the texts of files of the checkout.
var files = map[string]func(root string) (string, error){
	"docs/reference/api.md": api, "docs/reference/names.md": names, "sdk/python/fluxelastic/models.py": models,
}

// write writes all files of a checkout.
func write(root string) error {
	for name, file := range files {
		text, err := file(root)
		if err != nil {
			return fmt.Errorf("making %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil { //nolint:gosec // a file for everybody
			return fmt.Errorf("writing a file: %w", err)
		}
	}
	return nil
}
