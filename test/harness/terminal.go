// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
)

// Terminal is where a program runs that needs one.
type Terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	file *os.File

	mutex sync.Mutex
	shown bytes.Buffer
	read  int // of what is shown, by Shows
}

// NewTerminal starts a program in a terminal, which ends with the test.
func NewTerminal(t *testing.T, cmd *exec.Cmd, rows, columns uint16) *Terminal {
	t.Helper()
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	terminal := &Terminal{t: t, cmd: cmd, file: file}
	t.Cleanup(func() { _ = file.Close() })
	go func() { _, _ = io.Copy(terminal, file) }()
	return terminal
}

// Write takes what the program shows.
func (t *Terminal) Write(p []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.shown.Write(p)
}

// Await waits until the terminal shows all texts (Shows).
func (t *Terminal) Await(texts ...string) {
	t.t.Helper()
	Eventually(t.t, func() error { return t.Shows(texts...) })
}

// Shows returns an error unless all texts are shown after what an earlier call has found, without what moves the cursor
// and sets colors.
func (t *Terminal) Shows(texts ...string) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	shown := ansi.Strip(string(t.shown.Bytes()[t.read:]))
	for _, text := range texts {
		if !strings.Contains(shown, text) {
			return fmt.Errorf("%q is not on the terminal: %s", text, shown)
		}
	}
	t.read = t.shown.Len()
	return nil
}

// Raw is all that the program has written.
func (t *Terminal) Raw() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.shown.String()
}

// Type types a text.
func (t *Terminal) Type(text string) {
	t.t.Helper()
	if _, err := t.file.WriteString(text); err != nil {
		t.t.Fatal(err)
	}
}

// Resize changes the size of the terminal.
func (t *Terminal) Resize(rows, columns uint16) {
	t.t.Helper()
	if err := pty.Setsize(t.file, &pty.Winsize{Rows: rows, Cols: columns}); err != nil {
		t.t.Fatal(err)
	}
}

// ExitCode waits for the end of the program.
func (t *Terminal) ExitCode() int {
	t.t.Helper()
	_ = t.cmd.Wait()
	return t.cmd.ProcessState.ExitCode()
}
