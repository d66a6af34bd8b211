// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Fakeflux is a test double of Flux: the command flux and its broker, as far as the
// start scripts of a MiniCluster need them. It behaves as flux-core 0.88 was measured
// to: how brokers find each other, quorum, exit codes, what signals and lost brokers
// do. Brokers are real processes with real connections; what is simulated is that the
// tasks of a job run on the lead's machine, whatever rank they are given to, and that
// a batch job is no instance of its own.
//
//	FAKEFLUX_LEAD  address of the lead, instead of what broker.toml says
//	FAKEFLUX_OLD   if not empty, the names of hosts are those of a Flux before 0.82
//	FAKEFLUX_LOG   file that every invocation is written to, as a line of JSON
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
)

// version is that of flux-core which the double behaves like.
const version = "0.88.0"

func main() {
	args := os.Args[1:]
	record(args)
	if len(args) == 0 {
		os.Exit(fail("Usage: flux [OPTIONS] COMMAND ARGS"))
	}
	switch name := args[0]; {
	case name == "start":
		os.Exit(start(args[1:]))
	case name == "broker":
		os.Exit(runBroker(args[1:]))
	case name == "R":
		os.Exit(encodeR(args[1:]))
	case name == "proxy":
		os.Exit(proxy(args[1:]))
	case name == "version" || name == "-V" || name == "--version":
		fmt.Println("commands:    \t\t" + version + "+fakeflux")
	case commands[name] != nil:
		os.Exit(ask(args))
	default:
		os.Exit(fail("flux: `%s' is not a flux command that fakeflux has", name))
	}
}

// fail says what is wrong, and returns the exit code of that.
func fail(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	return 1
}

// invocation is a line of FAKEFLUX_LOG.
type invocation struct {
	Host string   `json:"host"`
	Args []string `json:"args"`
}

// record appends the invocation to the log with one write, so that those of several
// processes do not mix.
func record(args []string) {
	path := os.Getenv("FAKEFLUX_LOG")
	if path == "" {
		return
	}
	line, err := json.Marshal(invocation{hostname(), args})
	if err == nil {
		err = appendTo(path, append(line, '\n'))
	}
	if err != nil {
		fail("fakeflux: FAKEFLUX_LOG: %v", err)
	}
}

func appendTo(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.Write(data); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// hostname is that of the pod. Pods on one machine differ in the variable only.
func hostname() string {
	if name := os.Getenv("HOSTNAME"); name != "" {
		return name
	}
	name, _ := os.Hostname()
	return name
}

// start becomes a broker, within the wrapper if there is one.
func start(args []string) int {
	options, _, err := parse(args, brokerOptions)
	if err != nil {
		return fail("flux-start: %v", err)
	}
	wrap := options.list("wrap")
	if len(wrap) == 0 {
		return runBroker(args)
	}
	args = slices.DeleteFunc(slices.Clone(args), isWrap)
	self, err := os.Executable()
	if err != nil {
		return fail("flux-start: %v", err)
	}
	path, err := exec.LookPath(wrap[0])
	if err != nil {
		return fail("flux-start: %v", err)
	}
	return fail("flux-start: %s: %v", path, syscall.Exec(path, append(append(wrap, self, "broker"), args...), os.Environ()))
}
