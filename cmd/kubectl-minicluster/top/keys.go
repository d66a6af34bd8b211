// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"slices"
	"strings"

	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/dashboard"
)

// page is what a verb prints about a MiniCluster. Without a verb there is none.
type page struct{ verb, id string }

// quit is the verb that ends the program.
const quit = "quit"

// verbOf are the verbs for the chosen MiniCluster, by key.
var verbOf = map[string]string{"enter": "status", "w": "why", "l": "logs"}

// key carries out a key. It returns the verb that is to be run.
func (s *screen) key(name string) page {
	switch {
	case name == "ctrl+c":
		return page{verb: quit}
	case s.typing:
		s.typeFilter(name)
		return page{}
	case s.doomed != "":
		return s.answer(name)
	}
	s.note = ""
	if s.page.verb != "" {
		return s.keyOfPage(name)
	}
	return s.keyOfList(name)
}

func (s *screen) keyOfList(name string) page {
	s.cursor.id = s.cursor.chosen() // it stays at this MiniCluster
	switch name {
	case "q":
		return page{verb: quit}
	case "tab":
		s.turn(1)
	case "shift+tab":
		s.turn(tabs - 1)
	case "s":
		s.order = (s.order + 1) % len(orders)
	case "/":
		s.typing = true
	case "esc":
		s.filter = ""
	case "d":
		s.doomed = s.cursor.id
	default:
		if verb := verbOf[name]; verb != "" && s.cursor.id != "" {
			return s.turnTo(page{verb, s.cursor.id})
		}
		s.scroll(s.step(name))
	}
	return page{}
}

// scroll moves the cursor, or what is seen of a list without one.
func (s *screen) scroll(by int) {
	if len(s.cursor.ids) == 0 {
		s.offset += by
		return
	}
	s.cursor.move(by)
}

// turn shows another list.
func (s *screen) turn(by tab) { s.tab, s.offset, s.cursor = (s.tab+by)%tabs, 0, cursor{} }

// turnTo opens a page, whose text comes later.
func (s *screen) turnTo(p page) page {
	s.page, s.text, s.offset = p, "...", 0
	return p
}

// keyOfPage carries out a key while a page is open.
func (s *screen) keyOfPage(name string) page {
	switch verb := verbOf[name]; {
	case slices.Contains([]string{"esc", "q", "backspace"}, name):
		s.page, s.text, s.offset = page{}, "", 0
	case verb != "":
		return s.turnTo(page{verb, s.page.id})
	default:
		s.offset += s.step(name)
	}
	return page{}
}

// answer takes the answer to the question whether a MiniCluster is to be deleted.
func (s *screen) answer(name string) page {
	doomed := s.doomed
	s.doomed = ""
	if name != "y" {
		return page{}
	}
	s.note = "Deletes " + doomed
	return page{"delete", doomed}
}

// show takes what a verb has printed, if its page is still open. What a deletion says is shown below the list.
func (s *screen) show(of page, text string) {
	text = strings.TrimRight(access.PlainText(text), "\n")
	switch {
	case of.verb == "delete":
		s.note = text
	case of == s.page:
		if s.text = text; of.verb == "logs" {
			s.offset = far
		}
	}
}

// spare drops the question about a MiniCluster that is gone.
func (s *screen) spare(c *scene) {
	if !slices.ContainsFunc(c.view.MiniClusters, func(mc dashboard.MiniCluster) bool { return mc.ID == s.doomed }) {
		s.doomed = ""
	}
}

// cursor is at one of the MiniClusters of a list.
type cursor struct {
	ids []string // of all lines of the list
	at  int      // in ids
	id  string   // the MiniCluster that a key has chosen
}

// chosen is the MiniCluster at the cursor; "" if the list has none.
func (c *cursor) chosen() string {
	if c.at < len(c.ids) {
		return c.ids[c.at]
	}
	return ""
}

// follow keeps the cursor at the chosen MiniCluster, wherever the list has it now.
func (c *cursor) follow(ids []string) {
	c.ids = ids
	if at := slices.Index(ids, c.id); at >= 0 {
		c.at = at
		return
	}
	c.at, c.id = max(0, min(c.at, len(ids)-1)), ""
}

// move moves the cursor by some lines.
func (c *cursor) move(by int) {
	c.at = max(0, min(c.at+by, len(c.ids)-1))
	c.id = c.chosen()
}

// far is more than any list has lines.
const far = 1 << 30

// step is by how many lines a key moves.
func (s *screen) step(name string) int {
	page := max(1, s.height-10)
	switch name {
	case "up", "k":
		return -1
	case "down", "j":
		return 1
	case "pgup":
		return -page
	case "pgdown", "space":
		return page
	case "home", "g":
		return -far
	case "end", "G":
		return far
	}
	return 0
}

func (s *screen) typeFilter(name string) {
	switch name {
	case "enter":
		s.typing = false
	case "esc":
		s.typing, s.filter = false, ""
	case "backspace":
		if runes := []rune(s.filter); len(runes) > 0 {
			s.filter = string(runes[:len(runes)-1])
		}
	case "space":
		s.filter += " "
	default:
		if len([]rune(name)) == 1 {
			s.filter += name
			s.offset, s.cursor = 0, cursor{}
		}
	}
}
