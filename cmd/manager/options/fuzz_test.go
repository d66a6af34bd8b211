// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"os"
	"path/filepath"
	"testing"
)

// A configuration file is refused or read, whatever is in it, and what was read is within its bounds.
func FuzzFile(f *testing.F) {
	const head = "apiVersion: " + APIVersion + "\nkind: " + FileKind + "\n"
	f.Add(head)
	f.Add(head + "workers: 16\nkubeAPIQPS: .inf\nmaxBrokers: 1e3\n")
	f.Add(head + "workers: &a [*a]\n? {}\n: 1\n<<: {workers: 1}\n")
	f.Add("a: &a [x,x]\nb: [*a,*a]\n---\n")
	f.Add("!!binary x\n")
	path := filepath.Join(f.TempDir(), "file")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if o, err := Parse([]string{"--config=" + path}); err == nil && (o.Workers < 1 || o.MaxBrokers < 0) {
			t.Errorf("%+v", o)
		}
	})
}
