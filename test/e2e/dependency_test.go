// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// The steps of the example run one after the other, whatever is free.
func TestPipeline(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	s.kubectl("apply", "-f", filepath.Join(env.Root, "examples", "pipeline", "miniclusters.yaml"))
	var before *v1alpha2.MiniCluster
	for _, name := range []string{"prepare", "solve", "report"} {
		mc := &v1alpha2.MiniCluster{}
		mc.Name, mc.Namespace = name, s.namespace
		s.awaitSuccess(mc)
		if before != nil && mc.Status.StartTime.Before(before.Status.CompletionTime) {
			t.Errorf("%s started at %s, and %s ended at %s", name, mc.Status.StartTime, before.Name, before.Status.CompletionTime)
		}
		before = mc
	}
}

// Who waits for others holds no place in the queue, says what is missing, and goes on after a change of the spec.
func TestHeldBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	after := func(names ...string) func(*v1alpha2.MiniClusterSpec) {
		return func(spec *v1alpha2.MiniClusterSpec) {
			for _, name := range names {
				spec.After = append(spec.After, v1alpha2.Dependency{Name: name, Condition: v1alpha2.DependencySucceeded})
			}
		}
	}
	reason := func(mc *v1alpha2.MiniCluster, reason, part string) {
		t.Helper()
		s.await(mc, "waiting: "+reason, func(mc *v1alpha2.MiniCluster) bool {
			admitted := condition(mc, v1alpha2.ConditionAdmitted)
			return admitted.Reason == reason && strings.Contains(admitted.Message, part)
		})
	}
	first := s.create(s.miniCluster("first").Spec(after("missing")))
	later := s.create(s.miniCluster("later").Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.NotBefore = &metav1.Time{Time: s.get(first).CreationTimestamp.Add(time.Hour)}
	}))
	circle := s.create(s.miniCluster("circle").Spec(after("circle")))
	reason(first, v1alpha2.ReasonDependency, "which does not exist")
	reason(later, v1alpha2.ReasonLater, "Waits until ")
	reason(circle, v1alpha2.ReasonDependency, "wait for each other (circle for circle)")
	s.awaitSuccess(s.create(s.miniCluster("passes")))

	s.awaitSuccess(s.create(s.miniCluster("missing")))
	s.awaitSuccess(first)
	s.kubectl("patch", "minicluster", "later", "--type=merge", `--patch={"spec":{"notBefore":null}}`)
	s.awaitSuccess(later)
	s.kubectl("patch", "minicluster", "circle", "--type=merge", `--patch={"spec":{"after":null}}`)
	s.awaitSuccess(circle)
}

// Of the MiniClusters with a key, one at a time has nodes.
func TestSingleton(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	var all []*v1alpha2.MiniCluster
	for _, name := range []string{"one", "two", "three"} {
		all = append(all, s.create(s.miniCluster(name).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Singleton = "only" })))
	}
	for _, mc := range all {
		s.awaitSuccess(mc)
	}
	for i, mc := range all {
		for _, other := range all[i+1:] {
			if mc.Status.StartTime.Before(other.Status.CompletionTime) && other.Status.StartTime.Before(mc.Status.CompletionTime) {
				t.Errorf("%s and %s ran at the same time", mc.Name, other.Name)
			}
		}
	}
}
