// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Values of the manager's --jobset.
const (
	JobSetEmbedded = "embedded"
	JobSetExternal = "external"
)

// Manager is a manager process.
type Manager struct {
	// Metrics is the address of the metrics.
	Metrics string
	// Done is closed when the process has ended, which was At.
	Done chan struct{}
	At   time.Time

	cmd    *exec.Cmd
	health string // address
}

// StartManager starts a manager and waits until the manager is ready.
func (s *Suite) StartManager(kubeconfig, jobSet string, args ...string) (*Manager, error) {
	return s.StartProgram(filepath.Join(s.Bin, "manager"), kubeconfig, jobSet, args...)
}

// StartProgram is StartManager for the program of a path. A connection of another program may take a port that was
// free a moment ago; then other ports are tried.
func (s *Suite) StartProgram(path, kubeconfig, jobSet string, args ...string) (m *Manager, err error) {
	for range 5 {
		if m, err = s.startManager(path, kubeconfig, jobSet, args...); err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return m, err
}

func (s *Suite) startManager(path, kubeconfig, jobSet string, args ...string) (*Manager, error) {
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	logFile, err := os.CreateTemp(s.Dir, "manager-*.log")
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	cmd := exec.Command(path, append([]string{
		"--kubeconfig=" + kubeconfig, "--jobset=" + jobSet, "--zap-log-level=1",
		"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + health,
	}, args...)...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	m := &Manager{cmd: cmd, Metrics: metrics, health: health, Done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		m.At = WallClock.Now()
		close(m.Done)
	}()
	if err := m.awaitReady(logFile.Name()); err != nil {
		m.Kill()
		return nil, err
	}
	return m, nil
}

func (m *Manager) awaitReady(logPath string) error {
	return Poll(func() error {
		select {
		case <-m.Done:
			log, _ := os.ReadFile(logPath)
			return Final(fmt.Errorf("the manager ended:\n%s", log))
		default:
		}
		response, err := http.Get("http://" + m.health + "/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("the manager is not ready: %s", response.Status)
		}
		return nil
	})
}

// Kill ends the manager as a crash would.
func (m *Manager) Kill() {
	_ = m.cmd.Process.Kill()
	<-m.Done
}

// Halt halts the process, and Resume lets it go on as if no time had passed.
func (m *Manager) Halt() { _ = m.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a process go on that was halted.
func (m *Manager) Resume() { _ = m.cmd.Process.Signal(syscall.SIGCONT) }

// Stop ends the manager as it is ended in a cluster.
func (m *Manager) Stop() {
	_ = m.cmd.Process.Signal(os.Interrupt)
	<-m.Done
}

// given are the addresses that freeAddress has returned. Managers that start at the same time get different ones: one that
// ends for lack of its port must not seem ready by the answers of another.
var given sync.Map

// freeAddress is one at which nobody listens, and that was not returned before.
func freeAddress() (string, error) {
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		address := listener.Addr().String()
		if err := listener.Close(); err != nil {
			return "", err
		}
		if _, before := given.LoadOrStore(address, true); !before {
			return address, nil
		}
	}
}
