// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// ask has the broker carry out a command.
func ask(args []string) int {
	name := "flux-" + args[0]
	uri := os.Getenv("FLUX_URI")
	path, ok := strings.CutPrefix(uri, localScheme)
	if !ok {
		return fail("%s: ERROR: Unable to connect to Flux: FLUX_URI is %q", name, uri)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return fail("%s: ERROR: Unable to connect to Flux: broker socket %s was not found", name, path)
	}
	defer conn.Close()
	directory, err := os.Getwd()
	if err != nil {
		return fail("%s: ERROR: %v", name, err)
	}
	if err := json.NewEncoder(conn).Encode(message{Args: args, Environment: os.Environ(), Directory: directory}); err != nil {
		return fail("%s: ERROR: %v", name, err)
	}
	decoder := json.NewDecoder(bufio.NewReader(conn))
	for {
		var m message
		if err := decoder.Decode(&m); err != nil {
			return fail("%s: ERROR: lost connection to Flux", name)
		}
		if _, err := os.Stdout.Write(m.Stdout); err != nil {
			return 1
		}
		_, _ = os.Stderr.Write(m.Stderr)
		if m.Exit != nil {
			return *m.Exit
		}
	}
}

// proxy runs a command, or a shell, with the instance of the URI.
func proxy(args []string) int {
	_, args, err := parse(args, syntax{"force,f", "nohup,n", "reconnect"})
	if err != nil || len(args) == 0 {
		return fail("Usage: flux proxy [OPTIONS] URI [COMMAND...]")
	}
	uri, argv := args[0], args[1:]
	if len(argv) == 0 {
		argv = []string{"/bin/bash"}
	}
	conn, err := net.Dial("unix", strings.TrimPrefix(uri, localScheme))
	if err != nil {
		return fail("flux-proxy: %s: %v", uri, err)
	}
	conn.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "FLUX_URI="+uri)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return fail("flux-proxy: %v", err)
	}
	return exitCode(cmd.Wait())
}

// call is a command that the instance carries out for a client.
type call struct {
	*broker
	*instance // nil on a follower
	message
	context context.Context // ends with the connection
	encoder *json.Encoder
}

// print is for the standard output of the client.
func (c *call) print(format string, args ...any) {
	_ = c.encoder.Encode(message{Stdout: fmt.Appendf(nil, format+"\n", args...)})
}

// fail is for its standard error.
func (c *call) fail(format string, args ...any) int {
	_ = c.encoder.Encode(message{Stderr: fmt.Appendf(nil, format+"\n", args...)})
	return 1
}

// batch is the batch job that the client is of; "" if none.
func (c *call) batch() string {
	batch := ""
	for _, variable := range c.Environment {
		if value, ok := strings.CutPrefix(variable, batchVariable); ok {
			batch = value
		}
	}
	return batch
}

// seen are the jobs that the client sees: in a real batch job those of its own instance.
// The caller has the lock.
func (c *call) seen() []*job {
	batch := c.batch()
	return slices.DeleteFunc(slices.Clone(c.jobs), func(j *job) bool { return j.Inside != batch })
}
