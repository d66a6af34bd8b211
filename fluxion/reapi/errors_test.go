// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"
)

func TestErrno(t *testing.T) {
	for errno, want := range map[syscall.Errno]error{
		syscall.EBUSY:     ErrBusy,
		syscall.ENODEV:    ErrUnsatisfiable,
		syscall.EINVAL:    ErrInvalid,
		syscall.EPROTO:    ErrInvalid,
		syscall.EOVERFLOW: ErrInvalid,
		syscall.ERANGE:    ErrInvalid,
		syscall.ENOENT:    ErrNotFound,
		syscall.EEXIST:    ErrExists,
		syscall.ENOSYS:    ErrUnsupported,
		syscall.ENOTSUP:   ErrUnsupported,
		syscall.ENOMEM:    ErrNoMemory,
		syscall.EIO:       ErrFailed,
		0:                 ErrFailed,
	} {
		err := refined(failure("match", errno, ""))
		if !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", errno, err, want)
		}
		if errno != 0 && !errors.Is(err, errno) {
			t.Errorf("%v is lost", errno)
		}
	}
}

func TestErrorText(t *testing.T) {
	err := failure("match", syscall.EINVAL, "match_allocate: ERROR: bad\n\n  more \nmatch_allocate: ERROR: bad\n")
	if got, want := err.Error(), "fluxion: match: invalid: match_allocate: ERROR: bad; more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := refuse("cancel", ErrBusy, "").Error(), "fluxion: cancel: no room now"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBecause(t *testing.T) {
	err := because(failure("get_status", syscall.EINVAL, ""), ErrInvalid, ErrNotFound)
	if !errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	err = because(failure("get_status", syscall.ENOMEM, ""), ErrInvalid, ErrNotFound)
	if !errors.Is(err, ErrNoMemory) {
		t.Error(err)
	}
	if err := because(nil, ErrInvalid, ErrNotFound); err != nil {
		t.Error(err)
	}
}

func TestExplain(t *testing.T) {
	const text = ": cannot open shared object file: No such file or directory"
	if err := explain("libreapi_cli.so", errors.New("libreapi_cli.so"+text)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	err := explain("/a/libreapi_cli.so", errors.New("libflux-core.so.2"+text))
	checkError(t, err, "/a/libreapi_cli.so needs libflux-core.so.2")
	if errors.Is(err, fs.ErrNotExist) {
		t.Error("the library itself is there")
	}
	checkError(t, explain("a", errors.New("a: invalid ELF header")), "invalid ELF header")
}

func TestBind(t *testing.T) {
	for missing, want := range map[string]string{
		"":                           "",
		"reapi_cli_new":              "it is no libreapi_cli",
		"reapi_cli_match_with_jobid": "older than flux-sched 0.52",
		"strlen":                     "has no strlen",
	} {
		var library Library
		err := bind(library.symbols(), func(name string) uintptr {
			if name == missing {
				return 0
			}
			return 1 // nothing is called
		})
		checkError(t, err, want)
		if err == nil && (library.create == nil || library.match == nil || library.strlen == nil) {
			t.Error("a function was not bound")
		}
	}
}

func TestOpen(t *testing.T) {
	for path, want := range map[string]string{
		"":                    "empty",
		"a\x00":               "NUL",
		"/no/such/library.so": "no such file",
		"libnosuchlibrary.so": "does not exist",
		"library.go":          "library.go",
		"./library.go":        "invalid ELF header",
		"libc.so.6":           "no libreapi_cli",
	} {
		library, err := Open(path)
		if library != nil {
			t.Errorf("%q was opened", path)
		}
		checkError(t, err, want)
	}
}
