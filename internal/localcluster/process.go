// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// pollInterval is how often a condition is looked at while it is waited for.
	pollInterval = 50 * time.Millisecond
	// stopTimeout is how long a process may take to end when it is asked to.
	stopTimeout = 15 * time.Second
)

// process is the record of one process of a cluster, a file in its run directory.
type process struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// Born tells a process from a later one with the same PID.
	Born string `json:"born"`
	// Order is the place in the order of starting; processes end in the opposite
	// order.
	Order int      `json:"order"`
	Args  []string `json:"args"`
	Log   string   `json:"log"`
}

// start runs a program in the background, with a log of its own, out of reach of
// the terminal's ctrl-C, and records it. The record is written before start
// returns: whatever is started can be found and ended.
func start(dir, name, path string, args ...string) (*process, error) {
	running, err := processes(dir)
	if err != nil {
		return nil, err
	}
	for _, p := range running {
		if p.Name == name && p.alive() {
			return nil, fmt.Errorf("starting %s: it runs already (process %d)", name, p.PID)
		}
	}
	logPath := filepath.Join(dir, "logs", name+".log")
	logFile, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer logFile.Close()

	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.Env = append(os.Environ(), environments[name]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	// Reaps it, so that it does not look alive as a zombie; while this process
	// lives, which is long enough.
	go func() { _ = cmd.Wait() }()

	p := &process{
		Name: name, PID: cmd.Process.Pid, Born: born(cmd.Process.Pid),
		Order: nextOrder(running), Args: append([]string{path}, args...), Log: logPath,
	}
	if err := p.write(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", name, err), p.stop(context.Background()))
	}
	return p, nil
}

func nextOrder(running []*process) int {
	order := 0
	for _, p := range running {
		order = max(order, p.Order+1)
	}
	return order
}

func (p *process) file(dir string) string {
	return filepath.Join(dir, "run", p.Name+".json")
}

func (p *process) write(dir string) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(p.file(dir), data, 0o644)
}

// alive reports whether the recorded process still runs.
func (p *process) alive() bool {
	return p.Born != "" && born(p.PID) == p.Born
}

// stop ends the process: asks, waits, and then kills it.
func (p *process) stop(ctx context.Context) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending %s (process %d): %w", p.Name, p.PID, err)
	}
	if err := waitFor(ctx, stopTimeout, p.gone); err == nil {
		return nil
	}
	return p.kill(context.WithoutCancel(ctx))
}

// kill ends the process without asking.
func (p *process) kill(ctx context.Context) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing %s (process %d): %w", p.Name, p.PID, err)
	}
	return waitFor(ctx, stopTimeout, p.gone)
}

func (p *process) gone() (bool, error) { return !p.alive(), nil }

// lastWords is the end of the process's log, for an error message.
func (p *process) lastWords() string {
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// processes reads the records of a cluster, in the order of starting.
func processes(dir string) ([]*process, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "run"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []*process
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, "run", entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p := &process{}
		if err := json.Unmarshal(data, p); err != nil {
			return nil, fmt.Errorf("reading %s: %w", entry.Name(), err)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *process) int { return a.Order - b.Order })
	return out, nil
}

// born identifies the process that has a PID now by the time it was started, as
// the system writes it; "" if there is none.
func born(pid int) string {
	if runtime.GOOS == "linux" {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			return ""
		}
		// proc(5): the name, in parentheses, may hold anything; state is the field
		// after it, starttime the twentieth after it.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 20 || fields[0] == "Z" {
			return ""
		}
		return fields[19]
	}
	out, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// waitFor looks at a condition until it holds, fails, or time is up.
func waitFor(ctx context.Context, timeout time.Duration, condition func() (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(context.Context) (bool, error) { return condition() })
}
