// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// Only the JobSet of an older manager has pods without our gate and with our scheduler name: a user may choose the name.
func TestBoundDirectly(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.PodSpec)
		want   bool
	}{
		"the gate":                    {func(*corev1.PodSpec) {}, false},
		"the gate, with our name":     {func(s *corev1.PodSpec) { s.SchedulerName = v1alpha2.SchedulerName }, false},
		"no gate, with another name":  {func(s *corev1.PodSpec) { s.SchedulingGates = nil }, false},
		"as an older manager made it": {func(s *corev1.PodSpec) { s.SchedulingGates, s.SchedulerName = nil, v1alpha2.SchedulerName }, true},
	} {
		set := jobSetOf(t, fixture.MiniCluster("lmp").Size(3).Defaulted())
		tc.change(&set.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec)
		if got := BoundDirectly(set); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The pods of the brokers get their nodes and annotations, the lead its quorum, and the services pod nothing.
func TestBindAtAdmission(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(4).Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Services = []v1alpha2.MiniClusterContainer{{Name: "db", Image: "db"}}
	}).Defaulted()
	set := jobSetOf(t, mc)
	BindAtAdmission(set, []string{"node-1", "node-2", "", "node-4"}, 2, fixture.Noon)
	if at := Admitted(set); at != AdmittedAt(fixture.Noon) {
		t.Errorf("the JobSet is of the admission at %s", at)
	}
	Annotate(set, map[string]string{"mine": "1"})
	want := map[string]map[string]string{
		"0":        {v1alpha2.NodesAnnotation: "node-1//", v1alpha2.QuorumAnnotation: "2", "mine": "1"},
		"w":        {v1alpha2.NodesAnnotation: "node-//2,*,4", "mine": "1"},
		"services": {},
	}
	for i := range set.Spec.ReplicatedJobs {
		job := &set.Spec.ReplicatedJobs[i]
		annotations := maps.Clone(job.Template.Spec.Template.Annotations)
		delete(annotations, stayKarpenter)
		delete(annotations, safeToEvict)
		if diff := cmp.Diff(want[job.Name], annotations, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("job %s (-want +got):\n%s", job.Name, diff)
		}
		if limit := job.Template.Spec.BackoffLimitPerIndex; job.Name != "services" && limit == nil {
			t.Errorf("job %s does not count the failures of an index", job.Name)
		}
	}
}

// The list is short, and nothing is lost.
func TestNodeList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	name := func() string {
		text := make([]byte, 1+random.IntN(4))
		for i := range text {
			text[i] = "ab.-"[random.IntN(4)]
		}
		return string(text)
	}
	for list, nodes := range map[string][]string{
		"a//":               {"a"},
		"a//,":              {"a", "a"},
		"a//,a":             {"a", "aa"},
		"//*,*":             {"", ""},
		"//*":               {},
		"n/.x/1,*,22":       {"n1.x", "", "n22.x"},
		"//a,b":             {"a", "b"},
		"/.x/a,b":           {"a.x", "b.x"},
		"rack-1-node-//1,2": {"rack-1-node-1", "rack-1-node-2"},
	} {
		if got := nodeList(nodes); got != list {
			t.Errorf("%q: got %q, want %q", nodes, got, list)
		}
	}
	for range 2000 {
		nodes := make([]string, 1+random.IntN(5))
		for i := range nodes {
			if random.IntN(4) > 0 {
				nodes[i] = name()
			}
		}
		parts := strings.Split(nodeList(nodes), "/") // as the policy does
		var got []string
		for _, middle := range strings.Split(parts[2], ",") {
			if middle == "*" {
				got = append(got, "")
			} else {
				got = append(got, parts[0]+middle+parts[1])
			}
		}
		if !slices.Equal(got, nodes) {
			t.Fatalf("%q became %q", nodes, got)
		}
	}
}

func TestNeedsScheduler(t *testing.T) {
	volumes := func(sources ...corev1.VolumeSource) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			for _, source := range sources {
				s.Volumes = append(s.Volumes, corev1.Volume{VolumeSource: source})
			}
		}
	}
	claim := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.PodSpec)
		needs  bool
	}{
		"nothing":               {func(*corev1.PodSpec) {}, false},
		"the default scheduler": {func(s *corev1.PodSpec) { s.SchedulerName = corev1.DefaultSchedulerName }, false},
		"another scheduler":     {func(s *corev1.PodSpec) { s.SchedulerName = "mine" }, true},
		"another's gate": {func(s *corev1.PodSpec) {
			s.SchedulingGates = append(s.SchedulingGates, corev1.PodSchedulingGate{Name: "other"})
		}, true},
		"pods beside it":       {func(s *corev1.PodSpec) { s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}} }, true},
		"no pods beside it":    {func(s *corev1.PodSpec) { s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}} }, true},
		"some nodes":           {func(s *corev1.PodSpec) { s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}} }, false},
		"spread":               {func(s *corev1.PodSpec) { s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{}} }, true},
		"a resource claim":     {func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }, true},
		"volumes of its own":   {volumes(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), false},
		"a claim":              {volumes(claim("a")), true},
		"an ephemeral volume":  {volumes(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), true},
		"an inline CSI volume": {volumes(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}), true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.BrokerPod("lmp", 0).Spec(tc.change).Obj()
			if NeedsScheduler(pod) != tc.needs {
				t.Errorf("needs one: %v", !tc.needs)
			}
		})
	}
}

// The names of thousands of nodes fit into an annotation if they have much in common, and else they do not.
func TestAnnotationsFit(t *testing.T) {
	for name, tc := range map[string]struct {
		brokers int
		node    func(rank int) string
		fits    bool
	}{
		"names that are alike":        {9000, func(rank int) string { return fmt.Sprintf("gke-cluster-pool-%05d.internal", rank) }, true},
		"more than are read":          {mostListed + 2, func(rank int) string { return fmt.Sprintf("n%d", rank) }, false},
		"few that are not":            {5000, func(rank int) string { return fmt.Sprintf("%08d.node-of-the-cluster-%08d", rank*7919, rank) }, true},
		"thousands that are not":      {9000, func(rank int) string { return fmt.Sprintf("%08d.node-of-the-cluster-%08d", rank*7919, rank) }, false},
		"thousands that have no node": {9000, func(int) string { return "" }, true},
	} {
		set, err := JobSet(fixture.MiniCluster("lmp").Size(int32(tc.brokers)).Defaulted(), 1)
		if err != nil {
			t.Fatal(err)
		}
		var nodes []string
		for rank := range tc.brokers {
			nodes = append(nodes, tc.node(rank))
		}
		BindAtAdmission(set, nodes, 1, fixture.Noon)
		if AnnotationsFit(set) != tc.fits {
			t.Errorf("%s: they have %d bytes", name, len(set.Spec.ReplicatedJobs[1].Template.Spec.Template.Annotations[v1alpha2.NodesAnnotation]))
		}
	}
}
