// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// mixed is a cluster with nodes of two architectures, of which four run Windows, and two have no labels.
func mixed(labelled ...string) *Ledger {
	l := New(nil, nil)
	for _, kind := range labelled {
		var arch, system string
		var nodes int
		_, _ = fmt.Sscan(strings.ReplaceAll(kind, "/", " "), &system, &arch, &nodes)
		for i := range nodes {
			node := fixture.Node(fmt.Sprintf("%s-%s-%d", system, arch, i))
			if arch != "any" {
				node.Label(corev1.LabelArchStable, arch).Label(corev1.LabelOSStable, system)
			}
			l.SetNode(node.Obj())
		}
	}
	return l
}

// A gang has nodes with Linux, of one architecture.
func TestArchitectures(t *testing.T) {
	arm := func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{corev1.LabelArchStable: "arm64"} }
	both := func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64", "arm64"}},
			}}},
		}}}
	}
	tolerates := func(p *corev1.PodSpec) {
		p.Tolerations = []corev1.Toleration{{Key: corev1.LabelArchStable, Operator: corev1.TolerationOpEqual, Value: "arm64"}}
	}
	for name, tc := range map[string]struct {
		nodes []string
		taken int // amd64 nodes in use
		pod   func(*corev1.PodSpec)
		avoid string
		queue string // the architecture that its queue wants
		size  int32
		least int32
		want  string // what the names of its nodes begin with
		never string // what no name has
		why   string
	}{
		"the most nodes":           {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, size: 2, want: "linux-amd64"},
		"no Windows":               {nodes: []string{"windows/amd64/9", "linux/amd64/2", "linux/arm64/3"}, size: 2, want: "linux-arm64"},
		"with room":                {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, taken: 5, size: 2, want: "linux-arm64"},
		"with room for the least":  {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, taken: 5, size: 2, least: 1, want: "linux-amd64"},
		"large enough":             {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, taken: 1, size: 6, why: "needs room for 6 brokers of 8 cpu each; 5 of 10 nodes have room now for 5: 4 of another architecture than amd64, 1 in use; it fits once 1 job has ended"},
		"too large for any":        {nodes: []string{"linux/arm64/4", "linux/amd64/6", "windows/amd64/1"}, size: 7, why: "needs room for 7 brokers of 8 cpu each; the whole cluster of 11 nodes has room for 6: 4 of another architecture than amd64, 1 without Linux"},
		"as the spec says":         {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, pod: arm, size: 2, want: "linux-arm64"},
		"a toleration says none":   {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, taken: 5, pod: tolerates, size: 2, want: "linux-arm64"},
		"both, as the spec says":   {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, pod: both, size: 10, want: "linux-"},
		"nodes without labels":     {nodes: []string{"linux/any/3", "linux/amd64/3", "linux/arm64/2"}, size: 6, want: "linux-a", never: "arm64"},
		"the image did not start":  {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, avoid: "linux-amd64-[0-1]", size: 2, want: "linux-arm64"},
		"a node did not start":     {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, avoid: "linux-amd64-0", size: 2, want: "linux-amd64"},
		"it waits for the others":  {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, taken: 6, avoid: "linux-arm64-[0-1]", size: 2, why: "needs room for 2 brokers of 8 cpu each; none of 10 nodes has room now: 6 in use, 2 avoided, 2 of another architecture than amd64; it fits once 1 job has ended"},
		"as the queue says":        {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, queue: "arm64", size: 2, want: "linux-arm64"},
		"not as the queue says":    {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, pod: arm, queue: "amd64", size: 2, want: "linux-arm64"},
		"it waits for the queue's": {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, taken: 6, queue: "amd64", size: 2, why: "needs room for 2 brokers of 8 cpu each; none of 10 nodes has room now: 6 in use, 4 of another architecture than amd64; it fits once 1 job has ended"},
		"none that the queue says": {nodes: []string{"linux/amd64/6"}, queue: "arm64", size: 2, why: "needs room for 2 brokers of 8 cpu each; the whole cluster of 6 nodes has room for 0: 6 of another architecture than arm64"},
		"or without labels":        {nodes: []string{"linux/any/1", "linux/amd64/6"}, queue: "arm64", size: 1, want: "linux-any"},
		"avoided, but the queue's": {nodes: []string{"linux/arm64/4", "linux/amd64/6"}, avoid: "linux-amd64-[0-1]", queue: "amd64", size: 2, want: "linux-amd64"},
		"avoided, and no other":    {nodes: []string{"linux/arm64/1", "linux/amd64/6"}, avoid: "linux-amd64-[0-1]", size: 2, want: "linux-amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			l := mixed(tc.nodes...)
			if tc.taken > 0 {
				taken := &state.Promise{Requests: fluxion.Resources{"cpu": 8000, "pods": 1}}
				for i := range tc.taken {
					taken.Nodes = append(taken.Nodes, fmt.Sprintf("linux-amd64-%d", i))
				}
				l.Confirm("other", taken)
			}
			mc := fixture.MiniCluster("lmp").Size(tc.size).MinSize(tc.least).Status(func(s *v1alpha2.MiniClusterStatus) {
				if tc.avoid != "" {
					s.Avoid = &v1alpha2.Avoid{Nodes: tc.avoid, Until: metav1.NewTime(time.Unix(1, 0))}
				}
			}).Defaulted()
			ask := requestOf(l, mc, fixture.Pod("p").Spec(func(s *corev1.PodSpec) {
				if tc.pod != nil {
					tc.pod(s)
				}
			}).Obj())
			ask.Arch = tc.queue
			r, err := l.Room(asks{"uid-lmp": ask}.of)
			if err != nil {
				t.Fatal(err)
			}
			var sizes []int
			for size := int(mc.Spec.LeastSize()); size <= int(tc.size); size++ {
				sizes = append(sizes, size)
			}
			if why := r.Why("uid-lmp", sizes); why != tc.why {
				t.Errorf("it says %q", why)
			}
			nodes := r.Place("uid-lmp", sizes)
			if (len(nodes) > 0) != (tc.want != "") || slices.ContainsFunc(nodes, func(name string) bool {
				return !strings.HasPrefix(name, tc.want) || tc.never != "" && strings.Contains(name, tc.never)
			}) {
				t.Errorf("it got %v", nodes)
			}
		})
	}
}

// A gang grows on nodes of its architecture.
func TestGrowthOfOneArchitecture(t *testing.T) {
	l := mixed("linux/arm64/3", "linux/amd64/6")
	l.Confirm("uid-lmp", &state.Promise{Nodes: []string{"linux-arm64-0"}, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}})
	r := roomOf(t, l, fixture.MiniCluster("lmp").Size(1).MaxSize(9))
	pods := r.Grow("uid-lmp", 8)
	if len(pods) != 2 || !strings.HasPrefix(pods[0].Node, "linux-arm64") || !strings.HasPrefix(pods[1].Node, "linux-arm64") {
		t.Errorf("it got %v", pods)
	}
	if class, other := l.Class(&state.Ask{Gang: fluxion.Gang{Job: "uid-lmp"}}), l.Class(&state.Ask{}); class == other {
		t.Errorf("it is of the class %q, as others", class)
	}
}
