// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// lines says in a line each what nodes show.
func lines(nodes []Node) string {
	var out strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&out, "%s", n.Name)
		for _, text := range []string{strings.Join(n.In, "."), n.Down, n.Taint, n.Reservation} {
			if text != "" {
				fmt.Fprintf(&out, " %s", text)
			}
		}
		if n.Reserved && n.Reservation == "" {
			out.WriteString(" reserved")
		}
		for _, holder := range n.Holders {
			fmt.Fprintf(&out, " %q:%d", holder.Of, holder.Pods)
		}
		if n.Part > 0 {
			fmt.Fprintf(&out, " %d%%", n.Part)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// cluster has a node in each state. Of two MiniClusters one has nodes, and one gives them back.
func cluster() *Objects {
	node := func(name string) *fixture.NodeWrapper { return fixture.Node(name).Has(corev1.ResourceCPU, "16") }
	running := fixture.MiniCluster("running").Size(3).Admitted(1, 3, "n[1,1-2]").Obj()
	other := fixture.MiniCluster("other").Size(1).Obj()
	other.Namespace = "secret"
	objects := &Objects{
		Levels: []state.TopologyLevel{{Name: "rack", Label: "rack"}},
		Nodes: []corev1.Node{
			*node("n1").Label("rack", "r1").Obj(), *node("n2").Obj(), *node("n3").NotReady().Obj(), *node("n4").Cordoned().Obj(),
			*node("n5").Taint("gpu", corev1.TaintEffectNoSchedule).Obj(), *node("n6").Obj(), *node("n7").Obj(),
		},
		MiniClusters: []v1alpha2.MiniCluster{*running, *other},
		Pods: []corev1.Pod{
			*fixture.BrokerPod("running", 0).On("n1").Obj(),          // has its promise
			*fixture.BrokerPod("running", 2).On("n6").Obj(),          // is not where it was promised
			*fixture.BrokerPod("running", 1).On("n7").Ended(0).Obj(), // holds nothing
			*fixture.BrokerPod("running", 2).Pinned("n7").Obj(),      // the same
			*fixture.BrokerPod("other", 0).In("secret").On("n2").Obj(),
			*fixture.BrokerPod("other", 0).Label(v1alpha2.UIDLabel, "uid-forged").In("secret").On("n7").Obj(),
			*fixture.BrokerPod("nobody", 0).On("n7").Obj(),
		},
		Reservations: []v1alpha2.MiniClusterReservation{
			{ObjectMeta: metav1.ObjectMeta{Name: "night"}, Status: v1alpha2.MiniClusterReservationStatus{Phase: v1alpha2.ReservationActive, Nodes: "n7"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Status: v1alpha2.MiniClusterReservationStatus{Phase: v1alpha2.ReservationPending, Nodes: "n6"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "over"}, Status: v1alpha2.MiniClusterReservationStatus{Phase: v1alpha2.ReservationOver, Nodes: "n6"}},
		},
	}
	return objects
}

func TestNodes(t *testing.T) {
	view := New(cluster())
	want := `n1 r1 "default/running":2 100%
n2 "default/running":1 "secret/other":1 100%
n3 not ready
n4 cordoned
n5 gpu
n6 "default/running":1 50%
n7 night
`
	if got := lines(view.Nodes); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if len(view.Reservations) != 2 {
		t.Errorf("%d reservations, want those that are not over", len(view.Reservations))
	}
}

// Nodes that brokers may not use are shown only while a MiniCluster is there.
func TestNodesOfOthers(t *testing.T) {
	objects := cluster()
	objects.Batch = labels.SelectorFromSet(labels.Set{"rack": "r2"})
	if got, want := lines(New(objects).Nodes), "n1 r1 \"default/running\":2 100%\nn2 \"default/running\":1 \"secret/other\":1 100%\nn6 \"default/running\":1 50%\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A viewer sees what the rights say, and of the rest no name.
func TestRights(t *testing.T) {
	objects := cluster()
	objects.Queues = []v1alpha2.MiniClusterQueue{*fixture.Queue("default").Obj(), *fixture.Queue("hidden").Obj()}
	objects.MiniClusters[0].Spec.Queue, objects.MiniClusters[1].Spec.Queue = "mine", "no-queue-of-secret"
	view := New(objects)
	view.Samples = []Sample{SampleOf(view, fixture.Noon)}
	for name, tc := range map[string]struct {
		rights                 Rights
		miniClusters, samples  int
		queues, nodes, namedAs string
	}{
		"all":       {Rights{All: true, Nodes: true, Queues: true, Reservations: true}, 2, 1, "default hidden mine no-queue-of-secret", `n2 "default/running":1 "secret/other":1 100%`, "night"},
		"one":       {Rights{Nodes: true, Queues: true, Namespaces: map[string]bool{"default": true}}, 1, 1, "default hidden mine", `n2 "":1 "default/running":1 100%`, "reserved"},
		"no queues": {Rights{Namespaces: map[string]bool{"default": true}}, 1, 0, "mine", "", ""},
		"nothing":   {Rights{}, 0, 0, "", "", ""},
	} {
		got := view.For(&tc.rights)
		var queues []string
		for _, queue := range got.Queues {
			queues = append(queues, queue.Name)
		}
		if len(got.MiniClusters) != tc.miniClusters || len(got.Samples) != tc.samples || strings.Join(queues, " ") != tc.queues {
			t.Errorf("%s: %d MiniClusters, %d samples, queues %v", name, len(got.MiniClusters), len(got.Samples), queues)
		}
		nodes := lines(got.Nodes)
		if !strings.Contains(nodes, tc.nodes) || !strings.Contains(nodes, tc.namedAs) || (tc.nodes == "") != (nodes == "") {
			t.Errorf("%s: nodes\n%s", name, nodes)
		}
		if text := fmt.Sprintf("%+v", got); !tc.rights.All && strings.Contains(text, "secret") {
			t.Errorf("%s: the view names a namespace that the viewer may not see: %s", name, text)
		}
	}
	if got := lines(view.Nodes); !strings.Contains(got, "secret/other") {
		t.Errorf("a viewer has changed the view of all:\n%s", got)
	}
}

// A delta has what is new, different or gone, and nothing else. Applied to the old view it gives the new one.
func TestSince(t *testing.T) {
	before := New(cluster())
	if d := before.Since(nil); len(d.Set["nodes"]) != len(before.Nodes) || len(d.Set["miniClusters"]) != 2 || len(d.Gone) != 0 {
		t.Errorf("the first delta is %+v", d)
	}
	if d := New(cluster()).Since(before); !d.Empty() {
		t.Errorf("nothing has changed, but the delta is %+v", d)
	}
	objects := cluster()
	objects.Nodes = slices.Delete(objects.Nodes, 0, 1)
	objects.Nodes[0].Spec.Unschedulable = true
	d := New(objects).Since(before)
	if len(d.Set) != 1 || len(d.Set["nodes"]) != 1 || d.Set["nodes"][0].(Node).Down != "cordoned" || len(d.Gone) != 1 || !slices.Equal(d.Gone["nodes"], []string{"n1"}) {
		t.Errorf("the delta is %+v", d)
	}
}

// A line has the beginning of the command, and how long the command may run.
func TestCommands(t *testing.T) {
	spaced, long := " lmp  -in\n\tin.lj\n", strings.Repeat("Wörter ", 20)
	for command, want := range map[string]string{
		"": "", spaced: "lmp -in in.lj", strings.Repeat("x", 80): strings.Repeat("x", 80), long: string([]rune(long)[:79]) + "…", strings.Repeat("x", 81): strings.Repeat("x", 79) + "…",
	} {
		mc := fixture.MiniCluster("mc").Command(command).Admitted(1, 1, "n1").Status(func(s *v1alpha2.MiniClusterStatus) { s.Admission.DeadlineSeconds = new(int64(600)) }).Obj()
		line := New(&Objects{MiniClusters: []v1alpha2.MiniCluster{*mc}}).MiniClusters[0]
		if line.Command != want || line.Deadline != 600 {
			t.Errorf("%q: %q, %d s, want %q", command, line.Command, line.Deadline, want)
		}
	}
	bare := New(&Objects{MiniClusters: []v1alpha2.MiniCluster{{}}}).MiniClusters[0]
	if bare.Command != "" || bare.Deadline != 0 {
		t.Errorf("without containers and nodes: %+v", bare)
	}
}

// Finished MiniClusters are bounded: the last stay. Positions are those of the queue.
func TestMiniClusters(t *testing.T) {
	objects := &Objects{}
	for i := range MostFinished + 10 {
		mc := fixture.MiniCluster(fmt.Sprint("done-", i)).Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, v1alpha2.ReasonSucceeded).Obj()
		mc.Status.CompletionTime = &metav1.Time{Time: fixture.Noon.Add(time.Duration(i) * time.Second)}
		objects.MiniClusters = append(objects.MiniClusters, *mc)
	}
	waits := fixture.MiniCluster("waits").Queue("night").Condition(v1alpha2.ConditionAdmitted, metav1.ConditionFalse, v1alpha2.ReasonNoRoom).Obj()
	objects.MiniClusters = append(objects.MiniClusters, *waits)
	queue := fixture.Queue("night").Obj()
	queue.Status.Waiting = []v1alpha2.WaitingMiniCluster{{Namespace: fixture.Namespace, Name: "waits", Position: 7}}
	objects.Queues = []v1alpha2.MiniClusterQueue{*queue}
	view := New(objects)
	if first := view.MiniClusters[0]; len(view.MiniClusters) != MostFinished+1 || first.Name != "waits" || first.Position != 7 || first.Why != v1alpha2.ReasonNoRoom {
		t.Errorf("%d MiniClusters, the first is %+v", len(view.MiniClusters), first)
	}
	if slices.ContainsFunc(view.MiniClusters, func(mc MiniCluster) bool { return mc.Name == "done-9" }) {
		t.Error("the oldest are there")
	}
	if names := fmt.Sprint(view.Queues[0].Name, view.Queues[1].Name); names != "defaultnight" || view.Queues[0].Listed || !view.Queues[1].Listed {
		t.Errorf("queues %+v", view.Queues)
	}
}

func TestSamples(t *testing.T) {
	view := New(cluster())
	sample := SampleOf(view, fixture.Noon)
	if sample.Up != 5 || sample.Used["default"] != 3 || sample.Key() != fmt.Sprint(fixture.Noon.Unix()) {
		t.Errorf("got %+v", sample)
	}
	var kept []Sample
	for i := range MostSamples + 3 {
		before := kept
		kept = Keep(kept, Sample{At: int64(i)})
		if len(before) > 0 && &before[0] == &kept[0] {
			t.Fatal("a slice that others read was changed")
		}
	}
	if len(kept) != MostSamples || kept[0].At != 3 {
		t.Errorf("%d samples from %d", len(kept), kept[0].At)
	}
}

// BenchmarkNew makes the view of 5,000 nodes, with 1,000 MiniClusters of five brokers, and compares it with the one before.
func BenchmarkNew(b *testing.B) {
	objects := &Objects{Levels: state.TopologyLevels}
	for i := range 5000 {
		objects.Nodes = append(objects.Nodes, *fixture.Node(fmt.Sprintf("n%d", i+1)).Has(corev1.ResourceCPU, "8").Obj())
	}
	for i := range 1000 {
		name := fmt.Sprintf("mc-%d", i)
		objects.MiniClusters = append(objects.MiniClusters, *fixture.MiniCluster(name).Size(5).Admitted(1, 5, fmt.Sprintf("n[%d-%d]", 5*i+1, 5*i+5)).Obj())
		for rank := range 5 {
			objects.Pods = append(objects.Pods, *fixture.BrokerPod(name, rank).On(fmt.Sprintf("n%d", 5*i+1+rank)).Up().Obj())
		}
	}
	rights := &Rights{All: true, Nodes: true, Queues: true, Reservations: true}
	b.Run("New", func(b *testing.B) {
		for b.Loop() {
			New(objects)
		}
	})
	last, now := New(objects), New(objects)
	b.Run("For and Since", func(b *testing.B) {
		for b.Loop() {
			now.For(rights).Since(last)
		}
	})
}
