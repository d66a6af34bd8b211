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
	// pollInterval is the time between two checks of a condition.
	pollInterval = 50 * time.Millisecond
	// stopTimeout is how long a process may take to end after it was asked to.
	stopTimeout = 15 * time.Second
)

// process is the record of one process of a cluster, a file in its run directory.
type process struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// Born distinguishes the process from a later one with the same PID.
	Born string `json:"born"`
	// Order is the place in the order of starts. Processes end in the opposite order.
	Order int      `json:"order"`
	Args  []string `json:"args"`
	Log   string   `json:"log"`
	// Node is the real node in whose namespaces the process runs; "" if it runs in none.
	Node string `json:"node,omitempty"`
}

// launch is a program that is to be started.
type launch struct {
	name string
	path string
	args []string
	// node is the first process of the real node in whose namespaces the program is to run.
	node *process
	// wrapper is a command that starts the program as its only child, and waits for it.
	wrapper []string
	stdin   *os.File
	files   []*os.File // from descriptor 3 on
	again   bool       // appends to the log of the earlier process
}

// start runs a program in the background, with a log of its own. Ctrl-C in the terminal does not
// reach the program. start writes the record before it returns, so that every started process can be
// found and ended.
func start(dir, name, path string, args ...string) (*process, error) {
	return launch{name: name, path: path, args: args}.start(dir)
}

func (l launch) start(dir string) (*process, error) {
	running, err := processes(dir)
	if err != nil {
		return nil, err
	}
	order := nextOrder(running)
	for _, p := range running {
		if p.Name == l.name && p.alive() {
			return nil, fmt.Errorf("starting %s: already running (process %d)", l.name, p.PID)
		}
		if p.Name == l.name { // started again: processes that need this one have later places
			order = p.Order
		}
	}
	p := &process{
		Name: l.name, Order: order,
		Args: append([]string{l.path}, l.args...), Log: filepath.Join(dir, "logs", l.name+".log"),
	}
	if l.node != nil {
		p.Node = l.node.Name
		l.wrapper = enter(l.node)
	}
	if err := l.run(p); err != nil {
		return nil, fmt.Errorf("starting %s: %w", l.name, err)
	}
	if err := p.write(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", l.name, err), p.stop(context.Background()))
	}
	return p, nil
}

// run starts the program, and sets the PID and the birth of the record.
func (l launch) run(p *process) error {
	mode := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if !l.again {
		mode |= os.O_TRUNC
	}
	logFile, err := os.OpenFile(p.Log, mode, 0o644)
	if err != nil {
		return err
	}
	defer logFile.Close()
	argv := append(slices.Clone(l.wrapper), p.Args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	if l.stdin != nil { // a nil *os.File in the interface would not be nil
		cmd.Stdin = l.stdin
	}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = logFile, logFile, l.files
	cmd.Env = append(os.Environ(), environments[l.name]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	// This process reaps the child as long as it runs itself. A zombie would look alive.
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	p.PID = cmd.Process.Pid
	if l.wrapper != nil {
		if p.PID, err = childOf(p.PID, ended); err != nil {
			return fmt.Errorf("%w: %s", err, p.lastWords())
		}
	}
	p.Born = born(p.PID)
	return nil
}

// childOf waits for the only child of a process, and returns its PID. It reads Linux' /proc.
func childOf(parent int, ended <-chan struct{}) (child int, err error) {
	path := fmt.Sprintf("/proc/%d/task/%d/children", parent, parent)
	err = waitFor(context.Background(), stopTimeout, func() (bool, error) {
		select {
		case <-ended:
			return false, errors.New("the process ended immediately")
		default:
		}
		data, err := os.ReadFile(path)
		if err != nil || len(data) == 0 {
			return false, nil //nolint:nilerr // the process may be ending
		}
		child, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return true, err
	})
	return child, err
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
	// The file appears in one step: another process may be reading the records.
	tmp := filepath.Join(dir, "."+p.Name+".json")
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, p.file(dir))
}

// alive reports whether the recorded process still runs.
func (p *process) alive() bool {
	return p.Born != "" && born(p.PID) == p.Born
}

// stop asks the process to end, waits, and kills it if it has not ended by then.
func (p *process) stop(ctx context.Context) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending %s (process %d): %w", p.Name, p.PID, err)
	}
	if err := p.resume(); err != nil {
		return err
	}
	if err := waitFor(ctx, stopTimeout, p.gone); err == nil {
		return nil
	}
	return p.kill(context.WithoutCancel(ctx))
}

// kill kills the process, and waits until it has ended.
func (p *process) kill(ctx context.Context) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing %s (process %d): %w", p.Name, p.PID, err)
	}
	if err := p.resume(); err != nil {
		return err
	}
	return waitFor(ctx, stopTimeout, p.gone)
}

// resume resumes the process if it was suspended.
func (p *process) resume() error {
	pids := []int{p.PID}
	if p.Node != "" && p.alive() {
		pids = append(pids, parent(p.PID)) // the nsenter that started it is halted, too, and has to see it end
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("resuming %s (process %d): %w", p.Name, pid, err)
		}
	}
	return nil
}

func (p *process) gone() (bool, error) { return !p.alive(), nil }

// lastWords returns the end of the process's log, for an error message.
func (p *process) lastWords() string {
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// processes returns the records of a cluster, in the order of starts.
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

// born returns the start time of the process that now has a PID, as the system writes it. It returns
// "" if there is no such process.
func born(pid int) string {
	if runtime.GOOS == "linux" {
		fields := stat(pid)
		// A killed process is a zombie once its first thread has ended. Its other threads may still hold its ports.
		if len(fields) < 20 || fields[0] == "Z" && (fields[17] == "0" || fields[17] == "1") {
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

// stat returns the fields of a process in /proc/PID/stat (proc(5)), from the state on. The name
// before the state, in parentheses, may have any characters. If there is no such process, stat
// returns nil.
func stat(pid int) []string {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
}

// parent returns the PID of a process's parent. It needs Linux, as real nodes do.
func parent(pid int) int {
	fields := stat(pid)
	if len(fields) < 2 {
		return pid
	}
	number, err := strconv.Atoi(fields[1])
	if err != nil {
		return pid
	}
	return number
}

// waitFor checks a condition until it holds or fails, or until the timeout is over.
func waitFor(ctx context.Context, timeout time.Duration, condition func() (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(context.Context) (bool, error) { return condition() })
}
