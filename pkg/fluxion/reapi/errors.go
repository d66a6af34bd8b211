// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"errors"
	"strings"
	"syscall"
)

// Why a call failed, for errors.Is.
var (
	// ErrBusy is a request there is no room for now. MatchAllocate answers so too
	// where there never will be: only the other operations look ahead.
	ErrBusy = errors.New("no room now")
	// ErrUnsatisfiable is a request that could not be met if all were up and free.
	ErrUnsatisfiable = errors.New("can never be met")
	// ErrInvalid is an input that this package or the library does not accept.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound is a job, path or rank that is not there.
	ErrNotFound = errors.New("not found")
	// ErrExists is a job id that is in use.
	ErrExists = errors.New("exists")
	// ErrUnsupported is a call that this library, or this system, does not have.
	ErrUnsupported = errors.New("not supported")
	// ErrNoMemory is a library out of memory.
	ErrNoMemory = errors.New("out of memory")
	// ErrState is a client without a graph, with one already, or destroyed; or one that
	// has looked ahead, after which the library may not survive some calls.
	ErrState = errors.New("wrong state")
	// ErrFailed is a failure for which the library gave no reason.
	ErrFailed = errors.New("failed")
)

// Error is a call that failed.
type Error struct {
	// Call is the function of the library, without "reapi_cli_".
	Call string
	// Reason is one of the Err values above.
	Reason error
	// Errno is what the library left, 0 if nothing or if it was not called.
	Errno syscall.Errno
	// Message is the library's text, or why it was not called; may be empty.
	Message string
}

// Error implements error.
func (e *Error) Error() string {
	text := "fluxion: " + e.Call + ": " + e.Reason.Error()
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Unwrap lets errors.Is find the reason and the errno.
func (e *Error) Unwrap() []error {
	if e.Errno == 0 {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Errno}
}

// refuse is the error of a call that was not made.
func refuse(call string, reason error, message string) error {
	return &Error{Call: call, Reason: reason, Message: message}
}

// failure is the error of a call that returned -1.
func failure(call string, errno syscall.Errno, message string) error {
	return &Error{Call: call, Reason: reason(errno), Errno: errno, Message: oneLine(message)}
}

func reason(errno syscall.Errno) error {
	switch errno {
	case syscall.EBUSY:
		return ErrBusy
	case syscall.ENODEV:
		return ErrUnsatisfiable
	case syscall.EINVAL, syscall.EPROTO, syscall.ERANGE, syscall.EOVERFLOW:
		return ErrInvalid
	case syscall.ENOENT:
		return ErrNotFound
	case syscall.EEXIST:
		return ErrExists
	case syscall.ENOSYS, syscall.ENOTSUP:
		return ErrUnsupported
	case syscall.ENOMEM:
		return ErrNoMemory
	default:
		return ErrFailed
	}
}

// because gives an error of the library a more fitting reason, where errno alone
// is ambiguous.
func because(err, old, better error) error {
	var failed *Error
	if errors.As(err, &failed) && errors.Is(failed.Reason, old) {
		failed.Reason = better
	}
	return err
}

// oneLine joins the lines of a text of the library, which repeats itself.
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
