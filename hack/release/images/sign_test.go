// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Who has the public key can tell whether the checksums of a release are those that were signed.
func TestSignature(t *testing.T) {
	dir := t.TempDir()
	secret, public, sums := filepath.Join(dir, "key"), filepath.Join(dir, "key.pub"), filepath.Join(dir, Sums)
	minisign := func(args ...string) error {
		out, err := exec.Command("go", append([]string{"tool", "minisign"}, args...)...).CombinedOutput()
		t.Logf("minisign %v: %v\n%s", args, err, out)
		return err
	}
	write := func(text string) {
		if err := os.WriteFile(sums, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a file\n")
	for _, args := range [][]string{
		{"-G", "-W", "-s", secret, "-p", public},
		{"-S", "-W", "-s", secret, "-m", sums},
		{"-V", "-p", public, "-m", sums},
	} {
		if err := minisign(args...); err != nil {
			t.Fatal(err)
		}
	}
	write("another file\n")
	if minisign("-V", "-p", public, "-m", sums) == nil {
		t.Error("changed checksums pass")
	}
}
