// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/dashboard"
)

// scene is what there is to show.
type scene struct {
	view *dashboard.View
	// limits are how long commands may run, by the key of their MiniCluster.
	limits map[string]time.Duration
	// namespace is that of all MiniClusters; "" if they have different ones.
	namespace string
	// missing are the rights without which a part is not shown.
	missing []string
	now     time.Time
}

// label is how a MiniCluster is named: with its namespace, where there are several.
func (c *scene) label(key string) string {
	if c.namespace == "" {
		return key
	}
	return strings.TrimPrefix(key, c.namespace+"/")
}

// longest is the width of a column with the names of MiniClusters, which is bounded.
func (c *scene) longest(all []*dashboard.MiniCluster, most int) int {
	width := len("NAME") + 2
	for _, mc := range all {
		width = max(width, len(c.label(mc.ID))+2)
	}
	return min(width, most)
}

// tab is one of the lists below the queues.
type tab int

const (
	tabMiniClusters tab = iota
	tabWaiting
	tabNodes
	tabs
)

// orders are the keys by which MiniClusters are sorted.
var orders = []string{"state", "name", "age", "size"}

// screen is how the scene is shown. Its size is that of the terminal, in characters.
type screen struct {
	width, height int
	tab           tab
	order         int // in orders
	offset        int // of the list, or of the page
	cursor        cursor
	filter        string
	typing        bool   // the filter
	colorless     bool   // the terminal has no colors, or the user wants none
	page          page   // in place of the list
	text          string // of that page
	doomed        string // the MiniCluster of which is asked whether it is to be deleted
	note          string // what the last deletion said
}

// Colors of the terminal's palette.
var (
	dim    = lipgloss.NewStyle().Faint(true)
	bold   = lipgloss.NewStyle().Bold(true)
	waits  = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
	bad    = lipgloss.NewStyle().Foreground(lipgloss.Color("1"))
	accent = lipgloss.NewStyle().Foreground(lipgloss.Color("6"))
)

// draw returns the lines of the screen, as many as it is high at most.
func (s *screen) draw(c *scene) string {
	head, body := s.parts(c)
	room := max(1, s.height-len(head)-1)
	if s.page.verb == "" && len(s.cursor.ids) > 0 {
		s.offset = max(s.cursor.at-room+1, min(s.offset, s.cursor.at)) // the cursor is in sight
		body = s.marked(body)
	}
	s.offset = max(0, min(s.offset, len(body)-room))
	shown := body[s.offset:min(len(body), s.offset+room)]
	lines := slices.Concat(head, shown)
	for len(lines) < s.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, min(len(lines), s.height-1))], s.foot(c, len(body), len(shown)))
	for i, line := range lines {
		lines[i] = lipgloss.NewStyle().MaxWidth(s.width).Render(access.PlainLine(line))
	}
	return strings.Join(lines[:min(len(lines), s.height)], "\n")
}

// parts are the lines that stay, and those that scroll.
func (s *screen) parts(c *scene) (head, body []string) {
	if s.page.verb != "" {
		return []string{bold.Render(s.page.verb + " " + c.label(s.page.id)), ""}, strings.Split(ansi.Wrap(s.text, max(1, s.width), ""), "\n")
	}
	heading, body, ids := s.list(c)
	s.cursor.follow(ids)
	head = append([]string{s.title(c), summary(c)}, s.queues(c)...)
	return append(head, "", s.bar(), dim.Render(heading)), body
}

// marked has a mark at the line of the cursor.
func (s *screen) marked(body []string) []string {
	out := make([]string, len(body))
	for i, line := range body {
		if out[i] = "  " + line; i == s.cursor.at {
			out[i] = accent.Render("> ") + line
		}
	}
	return out
}

func (s *screen) title(c *scene) string {
	where := "all namespaces"
	if c.namespace != "" {
		where = "namespace " + c.namespace
	}
	return bold.Render("MiniClusters of "+where) + dim.Render("   "+c.now.Format(time.TimeOnly))
}

// summary counts MiniClusters by state, and nodes.
func summary(c *scene) string {
	counts := map[string]int{}
	for i := range c.view.MiniClusters {
		counts[c.view.MiniClusters[i].State]++
	}
	var parts []string
	for _, state := range []string{
		v1alpha2.StateRunning, v1alpha2.StateStarting, v1alpha2.StateQueued, v1alpha2.StateBackingOff, v1alpha2.StateSuspended, v1alpha2.StateRejected,
		v1alpha2.StateSucceeded, v1alpha2.StateFailed,
	} {
		if counts[state] > 0 {
			parts = append(parts, access.StateStyle(state).Render(fmt.Sprintf("%d %s", counts[state], state)))
		}
	}
	if n := len(c.view.Nodes); n > 0 {
		used := 0
		for i := range c.view.Nodes {
			if len(c.view.Nodes[i].Holders) > 0 {
				used++
			}
		}
		parts = append(parts, fmt.Sprintf("%d of %d nodes in use", used, n))
	}
	return cmp.Or(strings.Join(parts, "   "), "There is no MiniCluster.")
}

// mostQueues is how many queues have a line.
const mostQueues = 6

// queues has a line for each queue: its share of the cluster as a bar, and a mark where the deserved share ends.
func (s *screen) queues(c *scene) []string {
	if len(c.view.Queues) == 0 {
		return nil
	}
	lines := []string{""}
	length := max(10, min(40, s.width-50))
	for i := range c.view.Queues {
		q := &c.view.Queues[i]
		if i == mostQueues {
			lines = append(lines, dim.Render(fmt.Sprintf("and %d more queues", len(c.view.Queues)-mostQueues)))
			break
		}
		line := pad(q.Name, 18)
		if q.Listed {
			line += gauge(access.Part(q.Share), access.Part(q.Deserved), length) + fmt.Sprintf(" %5.1f%% ", 100*access.Part(q.Share))
		}
		line += fmt.Sprintf(" %d have nodes, %d wait", q.Admitted, q.Pending)
		if q.Suspended {
			line += bad.Render("  suspended")
		}
		lines = append(lines, line)
	}
	return lines
}

// gauge is a bar of some length for a part of 1, with a mark at another part.
func gauge(value, mark float64, length int) string {
	full, at := int(value*float64(length)+.5), int(mark*float64(length)+.5)
	var b strings.Builder
	for i := range length {
		switch {
		case mark > 0 && i == min(at, length-1):
			b.WriteString(bold.Render("|"))
		case i < full:
			b.WriteString(accent.Render("█"))
		default:
			b.WriteString(dim.Render("·"))
		}
	}
	return b.String()
}

// bar names the lists.
func (s *screen) bar() string {
	var names []string
	for i, name := range []string{"MiniClusters", "Waiting", "Nodes"} {
		switch {
		case tab(i) == s.tab && s.colorless:
			names = append(names, "["+name+"]")
		case tab(i) == s.tab:
			names = append(names, bold.Underline(true).Render(name))
		default:
			names = append(names, dim.Render(name))
		}
	}
	return strings.Join(names, "   ")
}

// says is what the last line says of a key: what is typed, asked or done; "" if there is nothing.
func (s *screen) says() string {
	switch {
	case s.typing:
		return "/" + s.filter + "▏"
	case s.doomed != "":
		return bad.Render("y deletes " + s.doomed + " with its pods and its log, any other key keeps it")
	}
	return s.note
}

func (s *screen) foot(c *scene, all, shown int) string {
	switch {
	case s.says() != "":
		return s.says()
	case s.page.verb == "" && len(c.missing) > 0 && s.offset == 0 && s.filter == "":
		return waits.Render("Without the right to list " + strings.Join(c.missing, ", ") + ", a part is not shown.")
	}
	text := "" // what is cut off at its end, matters least
	if all > shown {
		text = fmt.Sprintf("%d to %d of %d  ", s.offset+1, s.offset+shown, all)
	}
	if s.page.verb != "" {
		return dim.Render(text + "esc back  enter status  w why  l log")
	}
	if s.filter != "" {
		text += "filter: " + s.filter + "  "
	}
	return dim.Render(text + fmt.Sprintf("q quit  enter status  w why  l log  d delete  tab list  / filter  s sort: %s", orders[s.order]))
}

// list are the heading and the lines of the list, and the MiniCluster of each line, if the lines are MiniClusters.
func (s *screen) list(c *scene) (heading string, lines, ids []string) {
	switch s.tab {
	case tabWaiting:
		return s.waiting(c)
	case tabNodes:
		heading, lines = s.nodes(c)
		return heading, lines, nil
	}
	return s.miniClusters(c)
}

// filtered are the MiniClusters that the filter lets through.
func (s *screen) filtered(c *scene) []*dashboard.MiniCluster {
	var out []*dashboard.MiniCluster
	for i := range c.view.MiniClusters {
		mc := &c.view.MiniClusters[i]
		if strings.Contains(strings.Join([]string{mc.ID, mc.Queue, mc.State, mc.Why}, " "), s.filter) {
			out = append(out, mc)
		}
	}
	return out
}

// rank sorts states: who runs, who starts, who waits, who has ended.
func rank(mc *dashboard.MiniCluster) int {
	return slices.Index([]string{
		v1alpha2.StateFailed, v1alpha2.StateSucceeded, v1alpha2.StateRejected, v1alpha2.StateSuspended, v1alpha2.StateQueued, v1alpha2.StateBackingOff,
		v1alpha2.StateReleasing, v1alpha2.StateStarting, v1alpha2.StateRunning,
	}, mc.State)
}

func (s *screen) miniClusters(c *scene) (heading string, lines, ids []string) {
	all := s.filtered(c)
	slices.SortStableFunc(all, func(a, b *dashboard.MiniCluster) int {
		name := cmp.Compare(a.ID, b.ID)
		switch orders[s.order] {
		case "name":
			return name
		case "age":
			return cmp.Or(cmp.Compare(a.Created, b.Created), name)
		case "size":
			return cmp.Or(cmp.Compare(b.Wanted, a.Wanted), name)
		}
		return cmp.Or(cmp.Compare(rank(b), rank(a)), comparePlaces(a, b), cmp.Compare(a.Created, b.Created), name)
	})
	name := c.longest(all, max(12, min(40, s.width-62)))
	for _, mc := range all {
		ids = append(ids, mc.ID)
		brokers := fmt.Sprintf("%d/%d", mc.Up, cmp.Or(mc.Has, mc.Wanted))
		lines = append(lines, pad(c.label(mc.ID), name)+access.StateStyle(mc.State).Render(pad(cmp.Or(mc.State, "New"), 12))+pad(brokers, 10)+pad(mc.Queue, 14)+progress(mc, c))
	}
	return "  " + pad("NAME", name) + pad("STATE", 12) + pad("BROKERS", 10) + pad("QUEUE", 14) + "PROGRESS", lines, ids
}

// comparePlaces compares places in a queue. A queue lists the first ones, and the others are after them.
func comparePlaces(a, b *dashboard.MiniCluster) int {
	const last = math.MaxInt32
	return cmp.Compare(cmp.Or(a.Position, last), cmp.Or(b.Position, last))
}

// progress says how far a MiniCluster is: against the limit of its command, or for how long it has waited.
func progress(mc *dashboard.MiniCluster, c *scene) string {
	now := c.now.Unix()
	ago := func(at int64) string { return duration.HumanDuration(time.Duration(max(0, now-at)) * time.Second) }
	switch {
	case mc.Ended != 0:
		return mc.Why + ", " + ago(mc.Ended) + " ago"
	case mc.Started != 0 && mc.State == v1alpha2.StateRunning:
		ran := time.Duration(max(0, now-mc.Started)) * time.Second
		if limit := c.limits[mc.ID]; limit > 0 {
			return gauge(min(1, ran.Seconds()/limit.Seconds()), 0, 12) + " " + duration.HumanDuration(ran) + " of " + duration.HumanDuration(limit)
		}
		return "runs for " + duration.HumanDuration(ran)
	case mc.Position > 0:
		return fmt.Sprintf("place %d, waits for %s: %s", mc.Position, ago(mc.Created), mc.Why)
	case mc.Admitted != 0:
		return "has nodes for " + ago(mc.Admitted)
	}
	return "made " + ago(mc.Created) + " ago: " + mc.Why
}

// waiting are the MiniClusters that wait, by queue and place, with the reasons.
func (s *screen) waiting(c *scene) (heading string, lines, ids []string) {
	all := slices.DeleteFunc(s.filtered(c), func(mc *dashboard.MiniCluster) bool {
		return mc.State != v1alpha2.StateQueued && mc.State != v1alpha2.StateBackingOff
	})
	if len(all) == 0 {
		return "", []string{"Nobody waits."}, nil
	}
	slices.SortStableFunc(all, func(a, b *dashboard.MiniCluster) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), comparePlaces(a, b), cmp.Compare(a.ID, b.ID))
	})
	name := c.longest(all, max(12, min(36, s.width-52)))
	for _, mc := range all {
		ids = append(ids, mc.ID)
		place := "-"
		if mc.Position > 0 {
			place = strconv.Itoa(int(mc.Position))
		}
		lines = append(lines, pad(mc.Queue, 14)+pad(place, 7)+pad(c.label(mc.ID), name)+mc.Message)
	}
	return "  " + pad("QUEUE", 14) + pad("PLACE", 7) + pad("NAME", name) + "WHY", lines, ids
}

// pad cuts or fills a text to a width, and leaves a blank at its end.
func pad(text string, width int) string {
	runes := []rune(text)
	if len(runes) >= width {
		return string(runes[:max(0, width-2)]) + "… "
	}
	return text + strings.Repeat(" ", width-len(runes))
}
