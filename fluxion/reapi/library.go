// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// mu is held around every call of the library. The library's error text and its table of
// types are global to the process.
var mu sync.Mutex

// Library is a loaded libreapi_cli. Several goroutines may use a Library.
//
// The fields are functions of the library, as its reapi_cli.h declares them, and of libc. The
// caller frees the C strings that these functions return.
type Library struct {
	create     func() (ctx uintptr)
	destroy    func(ctx uintptr)
	initialize func(ctx uintptr, graph, options string) int32
	match      func(
		ctx uintptr, op int32, jobspec string, jobid uint64, reserved *bool, r **byte, at *int64, overhead *float64,
	) int32
	message      func(ctx uintptr) *byte
	clearMessage func(ctx uintptr)

	errno  func() *int32
	free   func(*byte)
	strlen func(*byte) uintptr
}

// symbol is the name of a C function, and a pointer to the field that calls the function.
type symbol struct {
	name     string
	function any
}

func (l *Library) symbols() []symbol {
	return []symbol{
		{"reapi_cli_new", &l.create},
		{"reapi_cli_destroy", &l.destroy},
		{"reapi_cli_initialize", &l.initialize},
		{"reapi_cli_match_with_jobid", &l.match},
		{"reapi_cli_get_err_msg", &l.message},
		{"reapi_cli_clear_err_msg", &l.clearMessage},
		{"__errno_location", &l.errno},
		{"free", &l.free},
		{"strlen", &l.strlen},
	}
}

// Open loads libreapi_cli.so from a path. The dynamic loader looks up a bare name (in
// LD_LIBRARY_PATH and ld.so.cache). The error says what is missing: the file
// (fs.ErrNotExist), a library that the file needs, or a function (ErrUnsupported).
func Open(path string) (*Library, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("opening Fluxion: the path %q is empty or has a NUL byte", path)
	}
	if strings.Contains(path, "/") {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("opening Fluxion: %w", err)
		}
	}
	handle, err := dlopen(path)
	if err != nil {
		return nil, fmt.Errorf("opening Fluxion: %w", explain(path, err))
	}
	library := &Library{}
	if err := bind(library.symbols(), func(name string) uintptr { return dlsym(handle, name) }); err != nil {
		return nil, fmt.Errorf("opening Fluxion: %w: %s %w", ErrUnsupported, path, err)
	}
	return library, nil
}

// bind looks up functions. The address 0 means that there is no such function.
func bind(symbols []symbol, lookup func(name string) uintptr) error {
	for _, s := range symbols {
		address := lookup(s.name)
		if address == 0 {
			return fmt.Errorf("has no %s: it is no libreapi_cli, or older than flux-sched 0.52", s.name)
		}
		register(s.function, address)
	}
	return nil
}

// explain tells a missing library from a library whose own dependencies are missing.
func explain(path string, err error) error {
	missing, _, found := strings.Cut(err.Error(), ": cannot open shared object file")
	switch {
	case !found:
		return err
	case missing == path:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	default:
		return fmt.Errorf("%s needs %s, which the loader does not find: %w", path, missing, err)
	}
}

// call calls a function of the library that returns 0 or -1, and clears the error text, which
// also grows in calls that succeed. mu is held.
//
// The errno belongs to the thread, so the goroutine stays on its thread meanwhile. On Linux,
// purego does not capture the errno.
func (l *Library) call(ctx uintptr, name string, function func() int32) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	errno := l.errno()
	*errno = 0
	result := function()
	left := syscall.Errno(*errno)
	defer l.clearMessage(ctx)
	if result == 0 {
		return nil
	}
	return failure(name, left, l.take(l.message(ctx)))
}

// take copies and frees a C string.
func (l *Library) take(text *byte) string {
	if text == nil {
		return ""
	}
	defer l.free(text)
	return string(unsafe.Slice(text, l.strlen(text)))
}
