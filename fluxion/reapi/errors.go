// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"errors"
	"strings"
	"syscall"
)

// These are the reasons of errors, for errors.Is.
var (
	// ErrBusy means that the graph has no room for the request.
	ErrBusy = errors.New("no room now")
	// ErrInvalid means that the library does not accept an input.
	ErrInvalid = errors.New("invalid")
	// ErrNoMemory means that the library found no memory.
	ErrNoMemory = errors.New("out of memory")
	// ErrUnsupported means that this library, or this system, lacks a function.
	ErrUnsupported = errors.New("not supported")
	// ErrFailed means that the library gave none of these reasons.
	ErrFailed = errors.New("failed")
)

// callError is the error of a call of the library.
type callError struct {
	// call is the name of the function, without "reapi_cli_".
	call   string
	reason error
	// errno is 0 if the library left none, or was not called.
	errno   syscall.Errno
	message string
}

func (e *callError) Error() string {
	text := "fluxion: " + e.call + ": " + e.reason.Error()
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

func (e *callError) Unwrap() []error {
	if e.errno == 0 {
		return []error{e.reason}
	}
	return []error{e.reason, e.errno}
}

// refuse is the error of a call that was not made.
func refuse(call string, reason error, message string) error {
	return &callError{call: call, reason: reason, message: message}
}

// failure is the error of a call that returned -1, with the errno and the text of the library.
func failure(call string, errno syscall.Errno, message string) error {
	return &callError{call: call, reason: reason(errno), errno: errno, message: oneLine(message)}
}

func reason(errno syscall.Errno) error {
	switch errno {
	case syscall.EBUSY:
		return ErrBusy
	case syscall.EINVAL, syscall.EPROTO, syscall.ERANGE, syscall.EOVERFLOW:
		return ErrInvalid
	case syscall.ENOMEM:
		return ErrNoMemory
	default:
		return ErrFailed
	}
}

// oneLine joins the lines of a text. The library says the same line more than once.
func oneLine(text string) string {
	var lines []string
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !seen[line] {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
