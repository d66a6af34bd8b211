// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	localScheme = "local://"
	// retryPeriod is how often a follower looks for the lead.
	retryPeriod = 100 * time.Millisecond
	// patience is how long the lead waits for followers to leave, and for tasks to
	// end before they are killed.
	patience = 5 * time.Second
)

// A message is what brokers and clients send each other, one JSON value each. What
// a connection begins with says what it is for: a broker that joins, or a command.
type message struct {
	Join        string   `json:"join,omitempty"` // the host that joins
	Rank        int      `json:"rank,omitempty"`
	Certificate []byte   `json:"certificate,omitempty"`
	Args        []string `json:"args,omitempty"` // a command
	Environment []string `json:"environment,omitempty"`
	Directory   string   `json:"directory,omitempty"`

	Welcome  bool   `json:"welcome,omitempty"`  // to who joined
	Shutdown bool   `json:"shutdown,omitempty"` // to all brokers
	Goodbye  bool   `json:"goodbye,omitempty"`  // to the lead
	Stdout   []byte `json:"stdout,omitempty"`   // to the client
	Stderr   []byte `json:"stderr,omitempty"`
	Exit     *int   `json:"exit,omitempty"`
}

// broker is this process.
type broker struct {
	settings
	certificate []byte
	local       net.Listener
	signals     chan os.Signal
}

func runBroker(args []string) int {
	s, err := readSettings(args)
	if err != nil {
		return fail("%v", err)
	}
	b := &broker{settings: s, signals: make(chan os.Signal, 8)}
	signal.Notify(b.signals, syscall.SIGTERM, syscall.SIGINT)
	if path := s.config.Bootstrap.CurveCert; path != "" && len(s.hosts) > 1 {
		if b.certificate, err = os.ReadFile(path); err != nil {
			return fail("flux-broker: %v", err)
		}
	}
	socket := strings.TrimPrefix(s.attributes["local-uri"], localScheme)
	os.Remove(socket) // what an earlier broker left
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return fail("flux-broker: %v", err)
	}
	if b.local, err = net.Listen("unix", socket); err != nil {
		return fail("flux-broker: %v", err)
	}
	defer b.local.Close()
	if s.rank == 0 {
		return b.lead()
	}
	return b.follow()
}

// log writes as Flux does with log-stderr-mode=local.
func (b *broker) log(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "<6>broker.info[%d]: %s\n", b.rank, fmt.Sprintf(format, args...))
}

// lead runs the instance. Its exit code is that of the initial program, and 0 where it
// was ended before it had that.
func (b *broker) lead() int {
	i, err := newInstance(b)
	if err != nil {
		return fail("flux-broker: %v", err)
	}
	if len(b.hosts) > 1 {
		listener, err := net.Listen("tcp", b.bindAddress())
		if err != nil {
			return fail("broker.err[0]: bind %s: %v", b.bindAddress(), err)
		}
		defer listener.Close()
		go serve(listener, i.answer)
	}
	go serve(b.local, i.answer)

	code := 0
	if !b.awaitQuorum(i) {
		b.log("quorum-fail: quorum->shutdown")
	} else {
		b.log("quorum-full: quorum->run")
		if _, none := b.attributes["broker.rc2_none"]; none {
			b.log("signal %d", <-b.signals)
		} else {
			code = b.initialProgram()
		}
		b.log("cleanup: run->cleanup")
		i.cleanUp()
	}
	i.shutDown()
	return code
}

// awaitQuorum returns false if it was ended before there were enough brokers.
func (b *broker) awaitQuorum(i *instance) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	enough := make(chan struct{})
	go func() {
		if i.await(ctx, func() bool { return len(i.online()) >= b.quorum }) {
			close(enough)
		}
	}()
	select {
	case <-enough:
		return true
	case s := <-b.signals:
		b.log("signal %d", s)
		return false
	}
}

// initialProgram runs it in a process group of its own, which is hung up when the broker
// has to end. Like Flux it goes on as long as the program does.
func (b *broker) initialProgram() int {
	argv := b.program
	switch len(argv) {
	case 0:
		argv = []string{"/bin/sh"}
	case 1:
		argv = []string{"/bin/sh", "-c", argv[0]}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "FLUX_URI="+b.attributes["local-uri"])
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fail("broker.err[0]: rc2.0: %v", err)
	}
	ended := make(chan int)
	go func() { ended <- exitCode(cmd.Wait()) }()
	for {
		select {
		case code := <-ended:
			b.log("rc2.0: %s Exited (rc=%d)", strings.Join(argv, " "), code)
			return code
		case s := <-b.signals:
			b.log("signal %d", s)
			signalGroup(cmd, syscall.SIGHUP)
		}
	}
}

// signalGroup is for a process that leads its group.
func signalGroup(cmd *exec.Cmd, s syscall.Signal) {
	_ = syscall.Kill(-cmd.Process.Pid, s) // it may be gone
}

// exitCode is that of a shell: 128 and the signal where one ended it.
func exitCode(err error) int {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if err != nil {
			return 127
		}
		return 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

// follow joins the lead, and ends with it: well if the lead has shut the instance down,
// or this broker was told to end.
func (b *broker) follow() int {
	go serve(b.local, b.forward)
	conn := b.join()
	if conn == nil {
		return 1
	}
	defer conn.Close()
	b.log("parent-ready: join->run")
	ended := make(chan bool)
	go func() {
		var m message
		err := conn.Decode(&m)
		ended <- err == nil && m.Shutdown
	}()
	select {
	case well := <-ended:
		if !well {
			return fail("broker.err[%d]: state-machine.monitor: No route to host", b.rank)
		}
		b.log("shutdown: run->exit")
	case s := <-b.signals:
		b.log("signal %d", s)
		_ = conn.Encode(message{Goodbye: true}) // closing says it too
	}
	return 0
}

// join keeps trying until there is a lead that takes this broker. It returns nil if it
// was ended before.
func (b *broker) join() *link {
	ticker := time.NewTicker(retryPeriod)
	defer ticker.Stop()
	joined := make(chan *link, 1)
	for {
		go func() { joined <- b.hello() }()
		select {
		case conn := <-joined:
			if conn != nil {
				return conn
			}
		case s := <-b.signals:
			b.log("signal %d", s)
			return nil
		}
		<-ticker.C
	}
}

// link is the connection to the lead. It has one decoder: one that is left may have
// read more than it gave.
type link struct {
	net.Conn
	*json.Decoder
	*json.Encoder
}

// hello asks the lead once.
func (b *broker) hello() *link {
	conn, err := net.DialTimeout("tcp", b.connectAddress(), patience)
	if err != nil {
		return nil
	}
	lead := &link{conn, json.NewDecoder(conn), json.NewEncoder(conn)}
	var reply message
	hello := message{Join: b.hosts[b.rank], Rank: b.rank, Certificate: b.certificate}
	if lead.Encode(hello) != nil || lead.Decode(&reply) != nil || !reply.Welcome {
		lead.Close()
		return nil
	}
	return lead
}

// forward hands a client of this broker to the lead.
func (b *broker) forward(client net.Conn) {
	defer client.Close()
	lead, err := net.DialTimeout("tcp", b.connectAddress(), patience)
	if err != nil {
		return
	}
	defer lead.Close()
	go func() {
		_, _ = io.Copy(lead, client)
		lead.Close() // the client has gone
	}()
	_, _ = io.Copy(client, lead)
}

// serve answers every connection on its own, until the listener is closed.
func serve(listener net.Listener, answer func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go answer(conn)
	}
}
