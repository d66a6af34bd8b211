// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/dashboard"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// cluster is a scene with a MiniCluster in each state, two queues and six nodes.
func cluster() *scene {
	at := func(ago time.Duration) int64 { return noon.Add(-ago).Unix() }
	return &scene{
		now: noon, limits: map[string]time.Duration{"a/runs": 20 * time.Minute},
		view: &dashboard.View{
			MiniClusters: []dashboard.MiniCluster{
				{ID: "a/done", Queue: "q", State: "Succeeded", Why: "Succeeded", Created: at(time.Hour), Started: at(time.Hour), Ended: at(time.Minute), Wanted: 9},
				{ID: "a/runs", Queue: "q", State: "Running", Created: at(time.Hour), Admitted: at(11 * time.Minute), Started: at(10 * time.Minute), Up: 3, Has: 4, Wanted: 4},
				{ID: "a/far", Queue: "q", State: "Queued", Why: "WaitingForTurn", Message: "waits for its turn", Created: at(4 * time.Minute), Wanted: 8},
				{ID: "b/second", Queue: "q", State: "Queued", Why: "WaitingForTurn", Message: "leaves room for a/first", Position: 2, Created: at(2 * time.Minute), Wanted: 8},
				{ID: "a/first", Queue: "q", State: "Queued", Why: "NoRoom", Message: "Needs room for 8 brokers", Position: 1, Created: at(3 * time.Minute), Wanted: 8},
				{ID: "b/starts", Queue: "r", State: "Starting", Created: at(time.Minute), Admitted: at(30 * time.Second), Has: 2, Wanted: 2},
			},
			Queues: []dashboard.Queue{
				{Name: "q", Listed: true, Pending: 2, Admitted: 1, Share: "0.5", Deserved: "0.75"},
				{Name: "r", Pending: 0, Admitted: 1, Suspended: true},
			},
			Nodes: []dashboard.Node{
				{Name: "n1", In: []string{"east", "r1"}, Holders: []dashboard.Holder{{Of: "a/runs"}}, Part: 88},
				{Name: "n2", In: []string{"east", "r1"}, Holders: []dashboard.Holder{{Of: "b/starts"}}, Part: 50},
				{Name: "n3", In: []string{"east", "r2"}, Down: "NotReady"},
				{Name: "n4", In: []string{"east", "r2"}, Reserved: true},
				{Name: "n5", In: []string{"", ""}, Taint: "gpu"},
				{Name: "n6", In: []string{"", ""}},
			},
		},
	}
}

// shown draws a screen, and returns its lines with single blanks.
func shown(s *screen, c *scene) []string {
	var lines []string
	for line := range strings.SplitSeq(ansi.Strip(s.draw(c)), "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestDraw(t *testing.T) {
	for name, tc := range map[string]struct {
		screen screen
		want   []string
	}{
		"MiniClusters": {screen{}, []string{
			"MiniClusters of all namespaces 12:00:00", "1 Running 1 Starting 3 Queued 1 Succeeded 2 of 6 nodes in use",
			"> a/runs Running 3/4 q ██████······ 10m of 20m", "b/starts Starting 0/2 r has nodes for 30s", "a/first Queued 0/8 q place 1, waits for 3m: NoRoom",
			"b/second Queued 0/8 q place 2, waits for 2m: WaitingForTurn", "a/far Queued 0/8 q made 4m ago: WaitingForTurn", "a/done Succeeded 0/9 q Succeeded, 60s ago",
		}},
		"by name":      {screen{order: 1}, []string{"> a/done Succeeded 0/9 q Succeeded, 60s ago", "a/first Queued 0/8 q place 1, waits for 3m: NoRoom"}},
		"the filter":   {screen{filter: "NoRoom"}, []string{"> a/first Queued 0/8 q place 1, waits for 3m: NoRoom", "filter: NoRoom q quit enter status w why l log d delete tab list / filter s sort: state"}},
		"who waits":    {screen{tab: tabWaiting}, []string{"> q 1 a/first Needs room for 8 brokers", "q 2 b/second leaves room for a/first", "q - a/far waits for its turn"}},
		"the nodes":    {screen{tab: tabNodes}, []string{"MiniClusters Waiting [Nodes]", "A in use a half or less · free r reserved t taint x down", "east/r1 Ab", "east/r2 xr", "nodes t·", "A a/runs 1 node", "B b/starts 1 node"}},
		"a typed text": {screen{typing: true, filter: "ab"}, []string{"/ab▏"}},
		"the queues":   {screen{}, []string{"q ████████████████████··········|········· 50.0% 1 have nodes, 2 wait", "r 1 have nodes, 0 wait suspended"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.screen.width, tc.screen.height, tc.screen.colorless = 120, 30, true
			lines, at := shown(&tc.screen, cluster()), 0
			for _, want := range tc.want {
				found := slices.Index(lines[at:], want)
				if found < 0 {
					t.Fatalf("%q is not in its place:\n%s", want, strings.Join(lines, "\n"))
				}
				at += found
			}
		})
	}
	c := cluster()
	c.namespace = "a"
	s := screen{width: 120, height: 30, filter: "runs"}
	if lines := shown(&s, c); lines[0] != "MiniClusters of namespace a 12:00:00" || !slices.Contains(lines, "> runs Running 3/4 q ██████······ 10m of 20m") {
		t.Errorf("in one namespace:\n%s", strings.Join(lines, "\n"))
	}
	s = screen{width: 120, height: 30, filter: "NoRoom"}
	if text := s.draw(cluster()); strings.Contains(text, "b/second") {
		t.Errorf("the filter lets others through:\n%s", text)
	}
}

// With colors, blocks stand for the nodes in use. A text of users has none, and is one line.
func TestColors(t *testing.T) {
	s := screen{width: 120, height: 30, tab: tabNodes}
	text := s.draw(cluster())
	if strings.Contains(text, "\ufffd") {
		t.Errorf("its own colors are not shown: %q", text)
	}
	c := cluster()
	c.view.MiniClusters[4].Message = "\x1b[2Jno room\nq 2 b/fake"
	if lines := shown(&screen{width: 120, height: 30, tab: tabWaiting}, c); !slices.Contains(lines, "> q 1 a/first \ufffd[2Jno room q 2 b/fake") {
		t.Errorf("a message makes a line of its own:\n%s", strings.Join(lines, "\n"))
	}
	for _, want := range []string{"\x1b[34m█\x1b[m\x1b[32m▒\x1b[m", "\x1b[32m█\x1b[m b/starts"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	if plain := ansi.Strip(text); !strings.Contains(plain, "█ in use") || strings.Contains(plain, "[Nodes]") {
		t.Errorf("with colors:\n%s", plain)
	}
}

// Whatever the size of the terminal, no line is too long, there are not too many, and the list can be scrolled to its end.
func TestSizes(t *testing.T) {
	c := cluster()
	for i := range 200 {
		c.view.MiniClusters = append(c.view.MiniClusters, dashboard.MiniCluster{ID: fmt.Sprintf("long-namespace/%s-%d", strings.Repeat("x", i%60), i), State: "Queued", Message: strings.Repeat("why ", 60)})
	}
	c.missing = []string{"queues", "nodes"}
	for _, size := range [][2]int{{80, 24}, {40, 12}, {200, 60}, {20, 5}, {1, 1}} {
		for list := range tabs {
			s := &screen{width: size[0], height: size[1], tab: list}
			for range 2 {
				lines := strings.Split(s.draw(c), "\n")
				if len(lines) > size[1] {
					t.Errorf("%v: %d lines", size, len(lines))
				}
				for _, line := range lines {
					if lipgloss.Width(line) > size[0] {
						t.Errorf("%v: %q is too long", size, line)
					}
				}
				s.key("end")
			}
		}
	}
	s := &screen{width: 80, height: 24, order: 1}
	s.draw(c)
	s.key("end")
	if text := s.draw(c); !strings.Contains(text, " of 206") {
		t.Errorf("the end is not there:\n%s", text)
	}
	s.key("home")
	if text := s.draw(c); !strings.Contains(text, "a/done") || !strings.Contains(text, "Without the right to list queues, nodes, a part is not shown.") {
		t.Errorf("the beginning is not there:\n%s", text)
	}
}

func TestKeys(t *testing.T) {
	s := &screen{width: 80, height: 24}
	for _, name := range []string{"tab", "tab", "tab", "shift+tab", "s", "/", "a", "q", "x", "backspace", "enter", "down"} {
		if do := s.key(name); do != (page{}) {
			t.Fatalf("%s runs %+v", name, do)
		}
	}
	if s.tab != tabNodes || s.order != 1 || s.filter != "aq" || s.offset != 1 {
		t.Errorf("got %+v", *s)
	}
	for _, name := range []string{"/", "esc"} {
		s.key(name)
	}
	if s.filter != "" || s.typing || s.key("q").verb != quit || s.key("ctrl+c").verb != quit {
		t.Errorf("%+v", s)
	}
}

// The cursor stays at the MiniCluster that was chosen, and the list scrolls with the cursor.
func TestCursor(t *testing.T) {
	s, c := &screen{width: 120, height: 30, colorless: true}, cluster()
	at := func(want string) {
		t.Helper()
		if !slices.ContainsFunc(shown(s, c), func(line string) bool { return strings.HasPrefix(line, "> "+want+" ") }) || s.cursor.chosen() != want {
			t.Errorf("the cursor is at %s, want %s:\n%s", s.cursor.chosen(), want, s.draw(c))
		}
	}
	at("a/runs")
	for _, name := range []string{"up", "down", "j"} {
		s.key(name)
	}
	at("a/first")
	s.key("s") // by name
	at("a/first")
	c.view.MiniClusters[4].ID = "a/other" // the MiniCluster is gone
	at("a/other")
	s.key("end")
	at("b/starts")
	s.height = 12
	at("b/starts")
	s.key("home")
	at("a/done")
	s.key("tab")
	s.draw(c)
	s.key("tab")
	s.draw(c)
	if do := s.key("enter"); do != (page{}) || s.cursor.chosen() != "" {
		t.Errorf("on the map enter runs %+v", do)
	}
}

// Pages are opened for the MiniCluster at the cursor, and closed again. A page that was closed meanwhile is not shown.
func TestPages(t *testing.T) {
	s, c := &screen{width: 60, height: 30, colorless: true}, cluster()
	s.draw(c)
	s.key("down")
	if do := s.key("enter"); do != (page{"status", "b/starts"}) || s.page != do {
		t.Fatalf("enter runs %+v", do)
	}
	s.show(page{"why", "b/starts"}, "late")
	if lines := shown(s, c); lines[0] != "status b/starts" || lines[2] != "..." {
		t.Errorf("before the answer:\n%s", strings.Join(lines, "\n"))
	}
	s.show(s.page, "state Starting\x1b[2J\n"+strings.Repeat("word ", 20)+"\n")
	if lines := shown(s, c); lines[2] != "state Starting\ufffd[2J" || !strings.HasPrefix(lines[3], "word") || !strings.HasPrefix(lines[4], "word") ||
		lines[29] != "esc back enter status w why l log" {
		t.Errorf("the answer:\n%s", strings.Join(lines, "\n"))
	}
	for name, verb := range map[string]string{"w": "why", "enter": "status", "l": "logs"} {
		if do := s.key(name); do != (page{verb, "b/starts"}) {
			t.Errorf("%s runs %+v", name, do)
		}
	}
	s.key("l")
	s.show(s.page, strings.Repeat("line\n", 100))
	if text := ansi.Strip(s.draw(c)); !strings.Contains(text, "74 to 100 of 100") {
		t.Errorf("the end:\n%s", text)
	}
	s.key("esc")
	if lines := shown(s, c); !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "> b/starts") }) {
		t.Errorf("back:\n%s", strings.Join(lines, "\n"))
	}
}

// Only a y deletes.
func TestDelete(t *testing.T) {
	s, c := &screen{width: 120, height: 30, colorless: true}, cluster()
	s.draw(c)
	last := func() string { return shown(s, c)[29] }
	s.key("d")
	if got := last(); got != "y deletes a/runs with its pods and its log, any other key keeps it" {
		t.Errorf("it asks %q", got)
	}
	if do := s.key("enter"); do != (page{}) || s.doomed != "" {
		t.Errorf("enter runs %+v", do)
	}
	s.key("d")
	do := s.key("y")
	if do != (page{"delete", "a/runs"}) || last() != "Deletes a/runs" {
		t.Errorf("y runs %+v, and %q is shown", do, last())
	}
	s.show(do, "minicluster runs deleted\n")
	if got := last(); got != "minicluster runs deleted" {
		t.Errorf("it says %q", got)
	}
	if s.key("down"); strings.Contains(last(), "deleted") {
		t.Errorf("it still says %q", last())
	}
	s.key("d")
	s.spare(c)
	if s.doomed != "b/starts" {
		t.Errorf("it asks about %q", s.doomed)
	}
	c.view.MiniClusters = c.view.MiniClusters[:5]
	if s.spare(c); s.doomed != "" {
		t.Errorf("it asks about %q, which is gone", s.doomed)
	}
}

// Verbs get the flags of the program, and the namespace and name of the MiniCluster.
func TestTell(t *testing.T) {
	p := &program{flags: []string{"--context=big"}, run: func(_ context.Context, args []string, s *access.Session) error {
		fmt.Fprintln(s.Out, strings.Join(args, " "))
		return errors.New("no such thing")
	}}
	want := told{page{"logs", "a/runs"}, "logs runs --tail=500 --context=big --namespace=a\nkubectl-minicluster: no such thing\n"}
	if got := p.tell(want.of)(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Who presses a key without the right for its verb is told which right is missing.
func TestTellWithoutRight(t *testing.T) {
	p := &program{run: func(context.Context, []string, *access.Session) error {
		return apierrors.NewForbidden(v1alpha2.GroupVersion.WithResource("miniclusters").GroupResource(), "runs", errors.New(`User "ada" cannot delete resource "miniclusters"`))
	}}
	message, _ := p.Update(p.tell(page{"delete", "a/runs"})())
	if got, want := message.(*program).note, `kubectl-minicluster: a right is missing: User "ada" cannot delete resource "miniclusters"`; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// Verbs get the cluster and the user that the user of the program has chosen.
func TestGiven(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&access.Flags{}).AddFlags(flags)
	args := []string{"--as-group=a", "--as-group=b,c", "--context=big", "--insecure-skip-tls-verify=true", "--kubeconfig=/k"}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	inherited := pflag.NewFlagSet("", pflag.ContinueOnError)
	inherited.AddFlagSet(flags)
	if got := given(inherited); !slices.Equal(got, args) {
		t.Errorf("got %q, want %q", got, args)
	}
}
