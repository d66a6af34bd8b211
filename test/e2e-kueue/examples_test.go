// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// exampleNodes are as many nodes as the quota of the examples is for.
const exampleNodes = 40

// The examples do what their comments say. Their commands run until the test ends them.
func TestExamples(t *testing.T) {
	t.Parallel()
	s := newCluster(t, exampleNodes, "").newSite(t, 0)
	s.apply("queues")

	s.apply("minicluster")
	s.AwaitSuccess(s.named("kueue"))

	s.apply("partial")
	partial := s.named("partial")
	s.Await(partial, "running at 32 of 64, with half the tasks", func(mc *v1alpha2.MiniCluster) bool {
		return mc.Status.Size == 32 && mc.Status.Tasks == 256 && mc.Status.Admission.Quota.Size == exampleNodes
	})
	workload := s.workloadOf(partial)
	s.awaitWorkload(workload, "giving back the quota of 32 workers", func(wl *kueueapi.Workload) bool {
		return len(wl.Status.ReclaimablePods) == 1 && wl.Status.ReclaimablePods[0].Count == 32
	})
	s.succeed(partial)

	sweep, urgent := s.named("sweep"), s.named("urgent")
	s.apply("priority", "-l", "step=1")
	s.AwaitState(sweep, v1alpha2.StateRunning)
	s.apply("priority", "-l", "step=2")
	s.AwaitState(urgent, v1alpha2.StateRunning)
	evicted := s.awaitCondition(s.workloadOf(sweep), kueueapi.WorkloadEvicted, metav1.ConditionTrue)
	if evicted.Reason != kueueapi.WorkloadEvictedByPreemption {
		t.Errorf("sweep lost its quota because of %s: %s", evicted.Reason, evicted.Message)
	}
	s.AwaitState(sweep, v1alpha2.StateQueued)
	s.succeed(urgent)
	s.AwaitState(sweep, v1alpha2.StateRunning)
	s.endCommand(sweep)
	s.AwaitSuccess(sweep)

	for i := range 8 {
		node := fmt.Sprintf("node-%03d", i)
		s.Kubectl("label", "node", node, rackLabel+"="+[]string{"a", "b"}[i/4])
	}
	s.apply("topology")
	oneRack := s.named("one-rack")
	s.runsWhereAssigned(oneRack, corev1.LabelHostname)
	if got := s.domains(oneRack, rackLabel); got != "a:4" && got != "b:4" {
		t.Errorf("it runs in %s", got)
	}
	s.endCommand(oneRack)
	s.AwaitSuccess(oneRack)
}

// The API server accepts every object of Kueue that a page or an example shows.
func TestDocumentedObjects(t *testing.T) {
	t.Parallel()
	newSite(t, 0).TryDocumented(env.Root, true)
}

var runtimes = regexp.MustCompile(`runtime: \d+s`)

// apply applies an example. Its commands that say how long they run, run until the test ends them.
func (s *site) apply(example string, args ...string) {
	s.T.Helper()
	text, err := os.ReadFile(filepath.Join(env.Root, "examples", "kueue", example+".yaml"))
	if err != nil {
		s.T.Fatal(err)
	}
	path := filepath.Join(s.T.TempDir(), example+".yaml")
	if err := os.WriteFile(path, runtimes.ReplaceAll(text, []byte("runtime: "+untilTold)), 0o600); err != nil {
		s.T.Fatal(err)
	}
	s.Kubectl(append([]string{"apply", "-f", path}, args...)...)
}

// named is a MiniCluster of an example.
func (s *site) named(name string) *v1alpha2.MiniCluster {
	return &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
}
