// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDefault(t *testing.T) {
	mc := &MiniCluster{ObjectMeta: metav1.ObjectMeta{Name: "lmp"}}
	mc.Spec = MiniClusterSpec{Size: 4, Containers: []MiniClusterContainer{{Name: "mine"}}, Services: []MiniClusterContainer{{Name: "db"}}}
	mc.Default()
	s := &mc.Spec
	if s.MinSize != 4 || s.MaxSize != 4 || *s.Tasks != 1 || s.Queue != "" || *s.DeadlineSeconds != 31500000 || s.BackoffLimit != 0 {
		t.Errorf("sizes %d to %d, %d tasks, queue %q, deadline %d, backoff limit %d", s.MinSize, s.MaxSize, *s.Tasks, s.Queue, *s.DeadlineSeconds, s.BackoffLimit)
	}
	e := &s.Elastic
	for name, d := range map[string][2]time.Duration{
		"waitForSize": {e.WaitForSize.Duration, 0}, "quorumTimeout": {e.QuorumTimeout.Duration, 2 * time.Minute},
		"startTimeout": {e.StartTimeout.Duration, 10 * time.Minute}, "backoffBase": {e.Recreate.BackoffBase.Duration, 30 * time.Second},
		"backoffMax": {e.Recreate.BackoffMax.Duration, 30 * time.Minute},
	} {
		if d[0] != d[1] {
			t.Errorf("%s is %s, want %s", name, d[0], d[1])
		}
	}
	if *e.Sizes != (Sizes{Operator: "+", Operand: 1}) || e.Tasks != (TaskPolicy{Scaling: TasksPerNode, Constraint: TasksAny}) || *e.Recreate.Limit != 5 {
		t.Errorf("elastic is %+v", e)
	}
	if c := s.FluxContainer(); c.Name != "lmp" || !c.RunFlux || c.Image != DefaultImage || c.Logs != "/tmp/fluxout" {
		t.Errorf("the Flux container is %+v", c)
	}
	if s.Network.HeadlessName != "lmp" || *s.Flux.LogLevel != 6 || s.Flux.Container.MountPath != "/mnt/flux" || s.Services[0].Image != DefaultImage {
		t.Errorf("network %+v, flux %+v, services %+v", s.Network, s.Flux, s.Services)
	}
}

// Default keeps every field that is set, even to a zero that has a meaning. A second call
// changes nothing.
func TestDefaultKeeps(t *testing.T) {
	mc := &MiniCluster{ObjectMeta: metav1.ObjectMeta{Name: "lmp"}}
	mc.Spec = MiniClusterSpec{
		Size: 4, MinSize: 2, MaxSize: 8, Tasks: new(int32(0)), QueueingSpec: QueueingSpec{Queue: "night"}, DeadlineSeconds: new(int64(0)),
		Containers: []MiniClusterContainer{{Name: "side", Image: "a"}, {Image: "b", RunFlux: true}},
		Elastic:    ElasticSpec{Recreate: Recreate{Limit: new(int32(0))}, Sizes: &Sizes{Operator: "*", Operand: 2}},
		Flux:       FluxSpec{LogLevel: new(int32(0))},
		Network:    Network{HeadlessName: "svc"},
	}
	mc.Default()
	s := &mc.Spec
	if s.MinSize != 2 || s.MaxSize != 8 || *s.Tasks != 0 || s.Queue != "night" || *s.DeadlineSeconds != 0 || *s.Elastic.Recreate.Limit != 0 ||
		s.Elastic.Sizes.Operator != "*" || *s.Flux.LogLevel != 0 || s.Network.HeadlessName != "svc" {
		t.Errorf("spec %+v", s)
	}
	if s.Containers[0].RunFlux || s.Containers[0].Name != "side" || s.FluxContainer().Image != "b" || s.FluxContainer().Name != "lmp" {
		t.Errorf("containers %+v", s.Containers)
	}
	again := mc.DeepCopy()
	again.Default()
	if diff := cmp.Diff(mc, again); diff != "" {
		t.Errorf("a second time changes it: %s", diff)
	}
}

// Without a command Flux waits for users, as in an interactive MiniCluster.
func TestDefaultForUsers(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(*MiniClusterSpec)
		forUsers bool
	}{
		"a command":    {func(s *MiniClusterSpec) { s.Containers[0].Command = "lmp" }, false},
		"a script":     {func(s *MiniClusterSpec) { s.Containers[0].Commands.Script = "lmp" }, false},
		"interactive":  {func(s *MiniClusterSpec) { s.Interactive, s.Containers[0].Command = true, "lmp" }, true},
		"nothing":      {func(*MiniClusterSpec) {}, true},
		"space":        {func(s *MiniClusterSpec) { s.Containers[0].Command = " \n" }, true},
		"empty script": {func(s *MiniClusterSpec) { s.Containers[0].Commands.Script, s.Containers[0].Command = "\n", "lmp" }, true},
	} {
		mc := &MiniCluster{ObjectMeta: metav1.ObjectMeta{Name: "lmp"}, Spec: MiniClusterSpec{Size: 4, MaxSize: 8, Containers: []MiniClusterContainer{{}}}}
		tc.change(&mc.Spec)
		mc.Default()
		s := &mc.Spec
		if s.ForUsers() != tc.forUsers || s.Malleable() != tc.forUsers || (s.MostSize() == 8) != tc.forUsers || (s.Elastic.OnLoss == LossContinue) != tc.forUsers {
			t.Errorf("%s: for users %t, malleable %t, at most %d, on loss %s", name, s.ForUsers(), s.Malleable(), s.MostSize(), s.Elastic.OnLoss)
		}
	}
}

// Paths of Flux are made of the mount path, and compared.
func TestDefaultMountPath(t *testing.T) {
	for given, want := range map[string]string{"": DefaultViewMountPath, "/opt/flux/": "/opt/flux", "/opt//flux": "/opt/flux", "/": "/"} {
		mc := &MiniCluster{Spec: MiniClusterSpec{Containers: []MiniClusterContainer{{}}, Flux: FluxSpec{Container: FluxContainer{MountPath: given}}}}
		if mc.Default(); mc.Spec.Flux.Container.MountPath != want {
			t.Errorf("%q becomes %q, want %q", given, mc.Spec.Flux.Container.MountPath, want)
		}
	}
}

func TestDefaultQueue(t *testing.T) {
	queue := &MiniClusterQueue{}
	queue.Default()
	s := &queue.Spec
	if s.Weight != 1 || s.Priority != 0 || !*s.Reclaimable || s.Ordering != OrderPriority || s.Backfill != BackfillEASY ||
		s.Patience.Duration != 5*time.Minute || s.Grace.Duration != 30*time.Second || s.MaxGrace.Duration != 10*time.Minute || s.Requeue != RequeueOriginal || s.Suspended || s.Capacity != nil || s.Guarantee != nil {
		t.Errorf("spec %+v", s)
	}
	queue.Spec.Users = &QueueUsers{}
	if queue.Default(); s.Users.HalfLife.Duration != 7*24*time.Hour || s.Users.MaxRunning != 0 || s.Users.MaxNodes != 0 {
		t.Errorf("users %+v", s.Users)
	}
	queue.Spec = MiniClusterQueueSpec{
		Users:  &QueueUsers{HalfLife: &metav1.Duration{Duration: time.Hour}},
		Weight: 3, Reclaimable: new(false), Ordering: OrderFIFO, Backfill: BackfillNone, Patience: &metav1.Duration{}, Grace: &metav1.Duration{}, MaxGrace: &metav1.Duration{}, Requeue: RequeueLast,
	}
	again := queue.DeepCopy()
	again.Default()
	if diff := cmp.Diff(queue, again); diff != "" {
		t.Errorf("what is set does not stay: %s", diff)
	}
}
