// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Sums is the file with the checksums of all others, as sha256sum reads it.
const Sums = "SHA256SUMS"

// WriteSums writes the checksums of all files of a directory, in the order of their names.
func WriteSums(dir string) error {
	files, err := filesOf(dir)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, file := range files {
		if file.name == Sums {
			continue
		}
		sum, err := sumOf(file.path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, file.name)
	}
	return create(filepath.Join(dir, Sums), func(w io.Writer) error {
		_, err := io.WriteString(w, lines.String())
		return err
	})
}
