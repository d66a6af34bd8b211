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
	"slices"
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

// Who is silent for 20 s is lost, as to Flux (its tbon.tcp_user_timeout). The kernel sends no keepalives while sent data
// is not acknowledged: then the user timeout ends the connection.
var (
	keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}
	dialer    = net.Dialer{Timeout: patience, KeepAliveConfig: keepAlive, Control: userTimeout}
	listener  = net.ListenConfig{KeepAliveConfig: keepAlive, Control: userTimeout} // accepted connections inherit it
)

// userTimeout bounds how long sent data stays unacknowledged (tcp(7), TCP_USER_TIMEOUT).
func userTimeout(_, _ string, c syscall.RawConn) (err error) {
	const tcpUserTimeout, milliseconds = 18, 20_000
	failed := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, milliseconds)
	})
	return errors.Join(failed, err)
}

// A message is what brokers and clients send each other, one JSON value each. What
// a connection begins with says what it is for: a broker that joins, or a command.
type message struct {
	Join        string   `json:"join,omitempty"` // the host that joins
	Rank        int      `json:"rank,omitempty"`
	Certificate []byte   `json:"certificate,omitempty"`
	Args        []string `json:"args,omitempty"` // a command of a client's, or what a follower is to run
	ID          int      `json:"id,omitempty"`   // of what it is to run, in its answer, too
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

// runExtraScripts runs what Flux runs at the end of rc1, or of rc3: the scripts rc1.d/* or rc3.d/* in the directories of
// FLUX_RC_EXTRA.
func (b *broker) runExtraScripts(rc string) error {
	for _, dir := range filepath.SplitList(os.Getenv("FLUX_RC_EXTRA")) {
		paths, err := filepath.Glob(filepath.Join(dir, rc+".d", "*"))
		if err != nil {
			return err
		}
		for _, path := range paths {
			cmd := exec.Command(path)
			cmd.Env = append(os.Environ(), "FLUX_URI="+b.attributes["local-uri"])
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s.0: %s: %w: %s", rc, path, err, out)
			}
		}
	}
	return nil
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
		brokers, err := listener.Listen(context.Background(), b.network(), b.bindAddress())
		if err != nil {
			return fail("broker.err[0]: bind %s: %v", b.bindAddress(), err)
		}
		defer brokers.Close()
		go serve(brokers, i.answer)
	}
	go serve(b.local, i.answer)

	code := 0
	if err := b.runExtraScripts("rc1"); err != nil {
		return fail("broker.err[0]: %v", err)
	}
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
	if err := b.runExtraScripts("rc3"); err != nil {
		return fail("broker.err[0]: %v", err)
	}
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
// has to end. Like Flux it goes on as long as the program does, and then calls none a
// success.
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
	least := 0
	for {
		select {
		case code := <-ended:
			code = max(code, least)
			b.log("rc2.0: %s Exited (rc=%d)", strings.Join(argv, " "), code)
			return code
		case s := <-b.signals:
			b.log("signal %d", s)
			least = 1
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
	b.log("parent-ready: join->init")
	if err := b.runExtraScripts("rc1"); err != nil {
		return fail("broker.err[%d]: %v", b.rank, err)
	}
	b.log("rc1-success: init->run")
	ended := make(chan bool)
	go func() { ended <- b.attend(conn) }()
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

// attend runs what the lead asks for, until the lead shuts the instance down, or is gone.
func (b *broker) attend(lead *link) (well bool) {
	for {
		var m message
		if err := lead.Decode(&m); err != nil || m.Shutdown {
			return err == nil
		}
		go func() {
			out, code := b.runHere(context.Background(), m.Args, m.Directory, m.Environment)
			_ = json.NewEncoder(lead.Conn).Encode(message{ID: m.ID, Stdout: out, Exit: &code})
		}()
	}
}

// runHere runs a command as flux exec does on each broker.
func (b *broker) runHere(ctx context.Context, argv []string, dir string, environment []string) (out []byte, code int) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(slices.Clone(environment), "FLUX_URI="+b.attributes["local-uri"])
	out, err := cmd.Output()
	return out, exitCode(err)
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
	conn, err := dialer.Dial(b.network(), b.connectAddress())
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

// forward hands a client of this broker to the lead. What is about the broker it answers
// itself.
func (b *broker) forward(client net.Conn) {
	defer client.Close()
	decoder := json.NewDecoder(client)
	var first message
	if decoder.Decode(&first) != nil {
		return
	}
	if own := b.own(first.Args); own != nil {
		c := &call{broker: b, message: first, encoder: json.NewEncoder(client)}
		code := own(c, first.Args[1:])
		_ = c.encoder.Encode(message{Exit: &code})
		return
	}
	lead, err := dialer.Dial(b.network(), b.connectAddress())
	if err != nil {
		return
	}
	defer lead.Close()
	if json.NewEncoder(lead).Encode(first) != nil {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, client)
		lead.Close() // the client has gone
	}()
	_, _ = io.Copy(client, lead)
}

// own is a command that a follower carries out itself; nil if the lead does.
func (b *broker) own(args []string) func(*call, []string) int {
	switch {
	case len(args) == 0:
	case args[0] == "getattr":
		return (*call).getattr
	}
	return nil
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
