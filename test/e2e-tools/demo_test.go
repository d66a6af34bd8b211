// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2etools

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// startDemo starts what `make demo` runs.
func startDemo(t *testing.T, out *bytes.Buffer) (cmd *exec.Cmd, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "demo")
	cmd = exec.Command(filepath.Join(env.Bin, "localcluster"), "demo",
		"--dir="+dir, "--port=0", "--nodes=24", "--manager="+filepath.Join(env.Bin, "manager"))
	cmd.Dir = env.Root
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, dir
}

// checkNothingRuns checks that the demo has ended all that it started.
func checkNothingRuns(t *testing.T, dir string) {
	t.Helper()
	records, err := os.ReadDir(filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	if len(records) > 0 {
		t.Errorf("records of processes are left: %v", records)
	}
	for _, command := range commandLines(t) {
		if strings.Contains(command, dir) {
			t.Errorf("this is left: %s", command)
		}
	}
}

// commandLines are those of all processes.
func commandLines(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 { // not Linux
		out, err := exec.Command("ps", "-axo", "command").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(out), "\n")
	}
	var lines []string
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil { // else it has just ended
			lines = append(lines, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return lines
}

func TestDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cmd, dir := startDemo(t, &out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	for _, part := range []string{"16 MiniClusters, 16 succeeded", filepath.Join(dir, "timeline.svg")} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("it did not say %q", part)
		}
	}
	if svg, err := os.ReadFile(filepath.Join(dir, "timeline.svg")); err != nil || !strings.Contains(string(svg), "lammps, ranks ") {
		t.Errorf("the timeline does not show lammps: %v", err)
	}
	checkNothingRuns(t, dir)
	if t.Failed() {
		t.Log(out.String())
	}
}

// Interrupted, it leaves no process and does not say that all is well.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cmd, dir := startDemo(t, &out)
	if err := harness.Poll(func() error { _, err := localcluster.Open(dir); return err }); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
	checkNothingRuns(t, dir)
	if t.Failed() {
		t.Log(out.String())
	}
}
