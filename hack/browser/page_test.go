// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var (
	wide  = look{width: 1440, height: 1000}
	night = look{width: 1440, height: 1000, dark: true}
)

// All can be done by keyboard, and the focus returns.
func TestKeyboard(t *testing.T) {
	p := open(t, serve(t, "--open"), wide)
	p.live()
	p.do(chromedp.Focus(chromedp.CSS("#map")), chromedp.KeyEvent(kb.End))
	p.await(`document.getElementById("map-said").textContent.includes("node-0148")`)
	p.do(chromedp.KeyEvent(kb.Home))
	for range 100 { // until there is a node with a MiniCluster
		if strings.Contains(p.text("#map-said"), "/") {
			break
		}
		p.do(chromedp.KeyEvent(kb.ArrowRight))
	}
	p.do(chromedp.KeyEvent(kb.Enter))
	p.await(`!document.getElementById("life").hidden && document.activeElement.id === "life-title"`)
	p.do(chromedp.KeyEvent(kb.Escape))
	p.await(`document.getElementById("life").hidden && document.activeElement.id === "map"`)
	// By Tab alone: every stop has a name that a screen reader says.
	for range 40 {
		p.do(chromedp.KeyEvent(kb.Tab))
	}
	p.checkNames()
}

// checkNames checks that whatever takes the focus has a name.
func (p *page) checkNames() {
	p.Helper()
	named := 0
	for _, node := range ask(p, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		focusable := false
		for _, property := range node.Properties {
			focusable = focusable || property.Name == accessibility.PropertyNameFocusable && string(property.Value.Value) == "true"
		}
		if node.Ignored || !focusable || node.Role == nil || strings.Contains(string(node.Role.Value), "RootWebArea") {
			continue
		}
		if node.Name == nil || strings.Trim(string(node.Name.Value), `"`) == "" {
			p.Errorf("a %s has no name", node.Role.Value)
		}
		named++
	}
	if named < 10 {
		p.Errorf("only %d elements take the focus", named)
	}
}

// Without a token the page shows nothing, and with one what it may read.
func TestTokens(t *testing.T) {
	url := serve(t)
	p := open(t, url, wide)
	p.await(`document.getElementById("token").open`)
	enter := func(token string) {
		p.do(chromedp.SendKeys(chromedp.CSS("#token-text"), token+kb.Enter))
	}
	enter("wrong")
	p.await(`document.getElementById("token-error").textContent.includes("does not accept")`)
	p.shoot("token")
	enter("one")
	p.live()
	contains(t, p.text("#viewer"), "viewer-one")
	contains(t, p.text("#limits"), "1 namespace")
	contains(t, p.text("#map-legend"), "in use by others")
	p.shoot("one-namespace")
	names := eval[string](p, `[...document.querySelectorAll("#table td.c-namespace")].map((cell) => cell.textContent).join()`)
	if strings.Trim(strings.ReplaceAll(names, "team-a", ""), ",") != "" {
		t.Errorf("a viewer of team-a sees %s", names)
	}
	if body := eval[string](p, `document.body.textContent`); strings.Contains(body, "team-b") {
		t.Error("a viewer of team-a reads the name of another namespace")
	}
	// The token lives as long as the tab.
	p.do(chromedp.Reload())
	p.live()
	p.act(`document.getElementById("token-button").click()`)
	p.do(chromedp.Click(chromedp.CSS("#token-forget")))
	p.await(`document.getElementById("token").open && sessionStorage.length === 0`)

	little := open(t, url, wide)
	little.await(`document.getElementById("token").open`)
	little.do(chromedp.SendKeys(chromedp.CSS("#token-text"), "little"+kb.Enter))
	little.live()
	contains(t, little.text("#map-empty"), "You may not list nodes")
	little.act(`document.querySelector("#table a").click()`)
	little.shoot("little")
	little.await(`document.querySelector("#life .note")?.textContent !== undefined && document.getElementById("life").textContent.includes("forbidden")`)

	// A link brings the token, and the address forgets it.
	linked := open(t, url+"#token=one", wide)
	linked.live()
	contains(t, linked.text("#viewer"), "viewer-one")
	if address := eval[string](linked, `location.href`); strings.Contains(address, "token") {
		t.Errorf("the address is %s", address)
	}
}

// Names and messages that look like markup stay text.
func TestEvil(t *testing.T) {
	evil := `"'><img src=x onerror="window.evil=1"><svg onload="window.evil=1"><a href="javascript:window.evil=1">x<script>window.evil=1 2026-99-99T99:99:99Z`
	p := open(t, serve(t, "--open", "--evil="+evil), wide)
	p.live()
	p.act(`document.querySelector('#states [data-group="running"]').click()`)
	p.await(`document.querySelector('#table .state[data-state="Running"]')`)
	contains(t, p.text("#table tbody"), "<img src=x")
	contains(t, p.text("#queues"), "<img src=x")
	p.act(`document.querySelector("#map-table-button").click()`)
	p.await(`document.querySelector("#map-table table")`)
	contains(t, p.text("#map-table tbody"), "<img src=x")
	p.act(`document.querySelector("#table tbody a").click()`)
	p.await(`document.querySelector("#life pre").textContent.includes("<img src=x") && document.getElementById("life").textContent.includes("BrokersLate\"'><img")`)
	p.shoot("evil")
	p.act(`document.querySelectorAll("#life details").forEach((more) => { more.open = true; })`)
	check := `JSON.stringify({evil: window.evil ?? 0, images: document.images.length, scripts: document.scripts.length, links: [...document.querySelectorAll("a")].filter((a) => !a.getAttribute("href").startsWith("#")).length})`
	if got, want := eval[string](p, check), `{"evil":0,"images":1,"scripts":1,"links":0}`; got != want {
		t.Errorf("the page has %s, want %s", got, want)
	}
	// The browser itself refuses markup from scripts.
	refused := eval[string](p, `(() => { try { document.body.innerHTML = "<b>x</b>"; return "ran"; } catch (error) { return error.name; } })()`)
	if refused != "TypeError" {
		t.Errorf("markup from a script: %s", refused)
	}
	p.mutex.Lock()
	p.troubles = nil // the browser has reported what it refused
	p.mutex.Unlock()
}
