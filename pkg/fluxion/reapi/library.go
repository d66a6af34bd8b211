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

// mu is held around every call of the library: its error text, its statistics and
// its tables of type names are global to the process.
var mu sync.Mutex

// Library is a loaded libreapi_cli. It is safe for use by several goroutines.
type Library struct {
	symbols
}

// symbols are the functions of the library, as declared in its reapi_cli.h, and a few of
// libc. The caller frees the C strings that are returned.
type symbols struct {
	create       func() uintptr
	clone        func(ctx uintptr) uintptr
	destroy      func(ctx uintptr)
	initialize   func(ctx uintptr, graph, options string) int32
	match        func(ctx uintptr, op int32, jobspec string, jobid uint64, reserved *bool, r **byte, at *int64, ov *float64) int32
	update       func(ctx uintptr, jobid uint64, r string, at *int64, ov *float64, out **byte) int32
	add          func(ctx uintptr, graph string) int32
	remove       func(ctx uintptr, path string) int32
	cancel       func(ctx uintptr, jobid uint64, noentOK bool) int32
	partial      func(ctx uintptr, jobid uint64, r string, noentOK bool, full *bool) int32
	find         func(ctx uintptr, criteria string, format *byte, r **byte) int32
	message      func(ctx uintptr) *byte
	clearMessage func(ctx uintptr)
	setStatus    func(ctx uintptr, path string, status int32) int32

	errno  func() *int32
	free   func(*byte)
	strlen func(*byte) uintptr
}

// symbol is a name to look up, and the function pointer that takes it.
type symbol struct {
	name     string
	function any
	// since is the release of flux-sched that brought a required function, if the function
	// is newer than the others.
	since string
	// optional is true for a function that a client can do without.
	optional bool
}

func (s *symbols) table() []symbol {
	return []symbol{
		{name: "reapi_cli_new", function: &s.create},
		{name: "reapi_cli_destroy", function: &s.destroy},
		{name: "reapi_cli_initialize", function: &s.initialize},
		{name: "reapi_cli_update_allocate", function: &s.update},
		{name: "reapi_cli_cancel", function: &s.cancel},
		{name: "reapi_cli_get_err_msg", function: &s.message},
		{name: "reapi_cli_clear_err_msg", function: &s.clearMessage},
		{name: "reapi_cli_partial_cancel", function: &s.partial, since: "0.40"},
		{name: "reapi_cli_clone", function: &s.clone, since: "0.52"},
		{name: "reapi_cli_match_with_jobid", function: &s.match, since: "0.52"},
		{name: "reapi_cli_add_subgraph", function: &s.add, optional: true},
		{name: "reapi_cli_remove_subgraph", function: &s.remove, optional: true},
		{name: "reapi_cli_find", function: &s.find, optional: true},
		{name: "reapi_cli_set_status", function: &s.setStatus, optional: true},
		{name: "__errno_location", function: &s.errno},
		{name: "free", function: &s.free},
		{name: "strlen", function: &s.strlen},
	}
}

// Open loads libreapi_cli.so: a path, or a bare name to look up as the dynamic
// loader does (LD_LIBRARY_PATH, ld.so.cache). The error says what is missing: the
// file (fs.ErrNotExist), a library it needs, or a function, because it is older
// than flux-sched 0.52 or another library altogether (ErrUnsupported).
func Open(path string) (*Library, error) {
	if err := checkText("path", path); err != nil {
		return nil, fmt.Errorf("opening Fluxion: %w: %w", ErrInvalid, err)
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
	if err := library.bind(func(name string) uintptr { return dlsym(handle, name) }); err != nil {
		return nil, fmt.Errorf("opening Fluxion: %w: %s %w", ErrUnsupported, path, err)
	}
	return library, nil
}

// bind looks up the functions. The address 0 means that there is no such function.
func (s *symbols) bind(lookup func(name string) uintptr) error {
	for _, sym := range s.table() {
		switch address := lookup(sym.name); {
		case address != 0:
			register(sym.function, address)
		case sym.since != "":
			return fmt.Errorf("has no %s: it is older than flux-sched %s", sym.name, sym.since)
		case !sym.optional:
			return fmt.Errorf("has no %s: it is no libreapi_cli", sym.name)
		}
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

// NewClient makes a client without a graph; call InitContext next, and Destroy in
// the end.
func (l *Library) NewClient() (*Client, error) {
	mu.Lock()
	defer mu.Unlock()
	context := l.create()
	if context == 0 {
		return nil, refuse("new", ErrNoMemory, "")
	}
	return &Client{library: l, context: context}, nil
}

// call calls the library and returns the errno it left. errno belongs to the
// thread, so the goroutine stays on it meanwhile; purego does not capture it on
// Linux.
func (l *Library) call(function func() int32) (int32, syscall.Errno) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	errno := l.errno()
	*errno = 0
	result := function()
	return result, syscall.Errno(*errno)
}

// take copies and frees a C string.
func (l *Library) take(text *byte) string {
	if text == nil {
		return ""
	}
	defer l.free(text)
	return string(unsafe.Slice(text, l.strlen(text)))
}
