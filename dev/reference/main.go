// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Program reference writes the pages of docs/reference from the definitions of the API and from the
// constants and steps of the code. It runs in the root of the checkout.
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

// pages make the texts of the files in docs/reference.
var pages = map[string]func(root string) (string, error){"api.md": api, "names.md": names}

// write writes all pages of a checkout.
func write(root string) error {
	for name, page := range pages {
		text, err := page(root)
		if err != nil {
			return fmt.Errorf("making %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(root, "docs", "reference", name), []byte(text), 0o644); err != nil { //nolint:gosec // a page for everybody
			return fmt.Errorf("writing a page: %w", err)
		}
	}
	return nil
}
