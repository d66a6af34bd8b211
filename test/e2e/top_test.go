// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// output is what a program has written to its terminal.
type output struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.Write(p)
}

// await waits until the text has something, without what moves the cursor and sets colors.
func (o *output) await(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, func() error {
		o.mutex.Lock()
		defer o.mutex.Unlock()
		text := ansi.Strip(o.text.String())
		for _, want := range want {
			if !strings.Contains(text, want) {
				return fmt.Errorf("%q is not on the terminal: %s", want, text)
			}
		}
		return nil
	})
}

// A user of one namespace watches in a terminal what runs, and what waits.
func TestTop(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	p := s.userProgram()
	watched := s.create(s.miniCluster("watched").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(watched, v1alpha2.StateRunning)
	p.expect(1, []string{"top"}, "top needs a terminal")

	cmd := p.command("top", "--interval=1s")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	out := &output{}
	go func() { _, _ = io.Copy(out, terminal) }()
	out.await(t, "MiniClusters of namespace "+s.namespace, "watched", "Running", "2/2", "Without the right to list queues, reservations, nodes")
	waits := s.create(s.miniCluster("waits").Size(2))
	s.awaitState(waits, v1alpha2.StateQueued)
	out.await(t, "1 Queued")
	press := func(key string) {
		if _, err := terminal.WriteString(key); err != nil {
			t.Fatal(err)
		}
	}
	press("\t")
	out.await(t, "Needs room for 2 brokers")
	press("/")
	out.await(t, "▏")
	press("\x03")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
