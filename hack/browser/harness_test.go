// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long a condition may take on a busy machine.
const patience = 2 * time.Minute

// program is dev/stage/serve, which serves the page of a played cluster.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "serve")
	build := exec.Command("go", "build", "-o", program, "./dev/stage/serve")
	build.Dir, build.Stdout, build.Stderr = "../..", os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// serve serves the page, and returns its address.
func serve(t testing.TB, args ...string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--address=" + address}, args...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // its context is done by then
	url := "http://" + address + "/"
	await(t, "the page", func() (bool, error) {
		response, err := http.Get(url)
		if err != nil {
			return false, nil
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	return url
}

// await waits for a condition.
func await(t testing.TB, what string, condition func() (bool, error)) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	late := time.After(patience)
	for {
		ok, err := condition()
		if err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		if ok {
			return
		}
		select {
		case <-late:
			t.Fatalf("%s did not come", what)
		case <-ticker.C:
		}
	}
}

// page is a tab of the browser.
type page struct {
	testing.TB
	ctx   context.Context
	mutex sync.Mutex
	// troubles are errors of scripts, and what the browser refused to load or to run.
	troubles []string
}

// look describes a tab.
type look struct {
	width, height int64
	dark          bool
}

// open opens a tab. At the end of the test the page must have had no errors.
func open(t testing.TB, url string, l look) *page {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("force-color-profile", "srgb"))
	if path := os.Getenv("CHROMIUM"); path != "" {
		options = append(options, chromedp.ExecPath(path))
	}
	browser, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, leave := chromedp.NewContext(browser, chromedp.WithErrorf(func(string, ...any) {})) // of events that the library does not know
	t.Cleanup(leave)
	p := &page{TB: t, ctx: ctx}
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		t.Fatal(err)
	}
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	ask(p, log.Enable, cdp.Empty{})
	ask(p, emulation.SetEmulatedMedia, media)
	p.do(chromedp.EmulateViewport(l.width, l.height), chromedp.Navigate(url))
	t.Cleanup(func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		for _, trouble := range p.troubles {
			t.Error(trouble)
		}
	})
	return p
}

func (p *page) listen(event any) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		p.troubles = append(p.troubles, "a script failed: "+(&chromedp.ExceptionError{ExceptionDetails: event.ExceptionDetails}).Error())
	case *log.EventEntryAdded:
		// Answers such as 401 are expected, and shown on the page.
		if event.Entry.Level == log.EntryLevelError && event.Entry.Source != log.EntrySourceNetwork {
			p.troubles = append(p.troubles, fmt.Sprintf("the browser reports: %s", event.Entry.Text))
		}
	}
}

func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// run returns what an action gives.
func run[T any](p *page, action chromedp.Action[T]) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, action)
	if err != nil {
		p.Fatal(err)
	}
	return value
}

// ask returns the answer of the browser to a command of its protocol.
func ask[P, R any](p *page, command cdp.Command[P, R], params P) R {
	p.Helper()
	answer, err := chromedp.Call(p.ctx, command, params)
	if err != nil {
		p.Fatal(err)
	}
	return answer
}

// eval returns the value of an expression of JavaScript.
func eval[T any](p *page, expression string) T {
	p.Helper()
	return run(p, chromedp.Evaluate[T](expression))
}

// act runs JavaScript.
func (p *page) act(script string) {
	p.Helper()
	eval[chromedp.Void](p, script)
}

// await waits until an expression is true.
func (p *page) await(expression string) {
	p.Helper()
	await(p, expression, func() (bool, error) {
		// An element may not be there yet: then the expression fails.
		ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("(() => { try { return Boolean("+expression+"); } catch { return false; } })()"))
		if p.ctx.Err() == nil && isBetweenPages(err) {
			err = nil
		}
		return ok, err
	})
}

// isBetweenPages reports whether there was no page to ask, because another one is being loaded.
func isBetweenPages(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "context") || strings.Contains(err.Error(), "navigated"))
}

// live waits until the page shows the cluster.
func (p *page) live() {
	p.Helper()
	p.await(`document.getElementById("connection").textContent === "Live" && document.querySelector("#table tbody th a")`)
}

// text is the text of the first element of a selector.
func (p *page) text(selector string) string {
	p.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%q)?.textContent ?? ''", selector))
}

// shoot writes a picture of the page, if SCREENSHOTS names a directory.
func (p *page) shoot(name string) {
	p.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), run(p, chromedp.CaptureScreenshot()), 0o644); err != nil {
		p.Fatal(err)
	}
}

func contains(t testing.TB, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%q does not contain %q", text, part)
	}
}
