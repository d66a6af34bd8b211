// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/quota"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// store is a toy whose cache has claims and volumes, on nodes n0 and n1 of zone a, and n2, n3 and n4 of
// zone b.
type store struct {
	*toy
	client client.Client
}

func newStore(t *testing.T, objects ...client.Object) *store {
	t.Helper()
	s := &store{newQueue(t), fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()}
	s.Cache = s.client
	for name, zone := range map[string]string{"n0": "a", "n1": "a", "n2": "b", "n3": "b", "n4": "b"} {
		s.ledger.SetNode(fixture.Node(name).Label(corev1.LabelTopologyZone, zone).Obj())
	}
	return s
}

// put makes or changes an object, of which the scheduler hears, and reports whether that asks for a cycle.
func (s *store) put(object client.Object) (asked bool) {
	s.t.Helper()
	s.due.changed = false
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	there := object.DeepCopyObject().(client.Object)
	before := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(object), there)
	if before == nil { // another object takes the place of this one
		if err := s.client.Delete(s.t.Context(), there); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.client.Create(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
	if before == nil {
		s.run(s.storage.follow).Update(s.t.Context(), event.UpdateEvent{ObjectOld: there, ObjectNew: object}, q)
	} else {
		s.run(s.storage.follow).Create(s.t.Context(), event.CreateEvent{Object: object}, q)
	}
	if s.due.changed != (q.Len() > 0) {
		s.t.Errorf("a cycle is due: %v, asked for: %d", s.due.changed, q.Len())
	}
	return s.due.changed
}

// mounts is a pod that takes a whole node and mounts claims.
func mounts(claims ...string) *corev1.Pod {
	pod := wholeNode.DeepCopy()
	for _, name := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	return pod
}

// offerWith offers a MiniCluster with such pods, which the cache shows too.
func (s *store) offerWith(w *fixture.MiniClusterWrapper, pod *corev1.Pod) elastic.Offer {
	mc := w.Defaulted()
	if s.line.entries[client.ObjectKeyFromObject(mc)] == nil {
		s.seen.miniClusters = append(s.seen.miniClusters, w.Obj())
	}
	return s.Offer(mc, pod, nil, nil)
}

// tells expects the decision about a MiniCluster: its verdict, and its nodes or a part of its message.
func (s *store) tells(w *fixture.MiniClusterWrapper, pod *corev1.Pod, verdict elastic.Verdict, text string) {
	s.t.Helper()
	got := s.offerWith(w, pod)
	nodes := strings.Join(got.Nodes, " ")
	if got.Verdict != verdict || (nodes != text && (nodes != "" || text == "" || !strings.Contains(got.Message, text))) {
		s.t.Errorf("%s: %s %v (%s), want %s: %s", w.Obj().Name, got.Verdict, got.Nodes, got.Message, verdict, text)
	}
}

func claimOf(name, class, volume string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: fixture.Namespace, Name: name}}
	claim.Spec.StorageClassName, claim.Spec.VolumeName = &class, volume
	if claim.Status.Phase = corev1.ClaimPending; volume != "" {
		claim.Status.Phase = corev1.ClaimBound
	}
	return claim
}

func volumeIn(name, zone string) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
	}}}}
	return volume
}

func classIn(name, zone string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
		AllowedTopologies: []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: []string{zone}}},
		}},
	}
}

// A gang waits for its claim, is woken by each change of what its nodes depend on, and by nothing else.
func TestSchedulerAwaitsVolumes(t *testing.T) {
	s := newStore(t)
	pod := mounts("data")
	s.offerWith(first, pod)
	cycle := func() {
		t.Helper()
		if told := s.cycle(); told != "first" {
			t.Errorf("new decisions about %q", told)
		}
	}
	cycle()
	s.tells(first, pod, elastic.WaitingForVolume, "there is no PersistentVolumeClaim data")
	if s.put(claimOf("other", "x", "")) || s.put(volumeIn("pv", "a")) {
		t.Error("a cycle is due for an object that nobody waits for")
	}
	if !s.put(claimOf("data", "nowhere", "")) {
		t.Fatal("no cycle is due after the claim has come")
	}
	cycle()
	s.tells(first, pod, elastic.WaitingForVolume, "PersistentVolumeClaim data is not bound to a volume yet, and there is no StorageClass nowhere")
	if !s.put(claimOf("data", "nowhere", "later")) {
		t.Fatal("no cycle is due after the claim was bound")
	}
	cycle()
	s.tells(first, pod, elastic.WaitingForVolume, "there is no PersistentVolume later")
	if !s.put(volumeIn("later", "b")) {
		t.Fatal("no cycle is due after the volume has come")
	}
	cycle()
	s.tells(first, pod, elastic.Admitted, "n2 n3")
}

// A gang is told that its volume keeps it from ever fitting. Another one like it whose volume is elsewhere
// gets its nodes.
func TestSchedulerKeepsToVolumes(t *testing.T) {
	s := newStore(t, claimOf("small", "", "pv-a"), claimOf("large", "", "pv-b"), volumeIn("pv-a", "a"), volumeIn("pv-b", "b"))
	never, fits := fixture.MiniCluster("never").Size(3), fixture.MiniCluster("fits").Size(3)
	s.offerWith(never, mounts("small"))
	s.offerWith(fits, mounts("large"))
	s.cycle()
	s.tells(never, mounts("small"), elastic.NeverFits,
		"needs room for 3 brokers of 8 cpu each; the whole cluster of 5 nodes has room for 2: 3 cannot reach volume pv-a of claim small")
	s.tells(fits, mounts("large"), elastic.Admitted, "n2 n3 n4")
}

// A claim that is bound with its first pod keeps to the topologies of its class, also after these change.
func TestSchedulerKeepsToClasses(t *testing.T) {
	s := newStore(t, claimOf("data", "zonal", ""), classIn("zonal", "a"))
	third := fixture.MiniCluster("third").Size(3)
	s.offerWith(third, mounts("data"))
	s.cycle()
	s.tells(third, mounts("data"), elastic.NeverFits, "3 outside of the topologies of StorageClass zonal")
	if !s.put(classIn("zonal", "b")) {
		t.Fatal("no cycle is due after the class has changed")
	}
	s.cycle()
	s.tells(third, mounts("data"), elastic.Admitted, "n2 n3 n4")
}

// An ephemeral volume without a class has the default class.
func TestSchedulerKeepsToTheDefaultClass(t *testing.T) {
	standard := classIn("standard", "b")
	standard.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	s := newStore(t, standard, classIn("zonal", "a"))
	pod := wholeNode.DeepCopy()
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}},
	}}}
	s.offerWith(first, pod)
	s.cycle()
	s.tells(first, pod, elastic.Admitted, "n2 n3")
}

// After a restart, a running MiniCluster grows and is repaired where its volume is, by a pod as the cache
// has it.
func TestSchedulerKeepsRunningGangsToVolumes(t *testing.T) {
	running := func(s *v1alpha2.MiniClusterStatus) {
		now := metav1.NewTime(fixture.Noon)
		s.StartTime, s.MaximumSize, s.Admission.Requests = &now, 5, wholeNode.Spec.Containers[0].Resources.Requests
	}
	stripped := protocol.Strip(mounts("data"))
	for name, tc := range map[string]struct {
		nodes     string
		displaced []int
		want      elastic.Order
	}{
		"grows": {nodes: "n2", want: elastic.Grow{Pods: []elastic.Pod{{Rank: 1, Node: "n3"}, {Rank: 2, Node: "n4"}}}},
		"moves": {nodes: "n2,n0", displaced: []int{1}, want: elastic.Move{Pods: []elastic.Pod{{Rank: 1, Node: "n3"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, claimOf("data", "", "pv-b"), volumeIn("pv-b", "b"))
			size := int32(strings.Count(tc.nodes, ",") + 1)
			mc := fixture.MiniCluster("lmp").Size(size).MaxSize(5).Launcher().Grow().Admitted(1, size, tc.nodes).Status(running)
			s.seen.miniClusters = append(s.seen.miniClusters, mc.Obj())
			s.Order(mc.Obj(), stripped, tc.displaced)
			s.cycle()
			if diff := cmp.Diff(tc.want, s.Order(mc.Obj(), stripped, tc.displaced)); diff != "" {
				t.Errorf("its order (-want +got):\n%s", diff)
			}
		})
	}
}

// A cycle that cannot read volumes decides nothing, and is repeated.
func TestSchedulerCannotReadVolumes(t *testing.T) {
	s := newStore(t, claimOf("data", "", "pv-b"), volumeIn("pv-b", "b"))
	broken := errors.New("no cache")
	s.Cache = interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, isVolume := object.(*corev1.PersistentVolume); isVolume && broken != nil {
				return broken
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	s.offerWith(first, mounts("data"))
	if _, err := s.Scheduler.cycle(t.Context(), &s.seen, s.now); !errors.Is(err, broken) || !strings.Contains(err.Error(), `"pv-b"`) || !s.due.changed {
		t.Errorf("got %v; another cycle is due: %v", err, s.due.changed)
	}
	broken = nil
	s.cycle()
	s.tells(first, mounts("data"), elastic.Admitted, "n2 n3")
}

// Exclusive gangs of one kind that reach different nodes count as these.
func TestWholeNodesWithinReach(t *testing.T) {
	for _, ids := range [][2]string{{"a-far", "b-near"}, {"b-far", "a-near"}} {
		s := newStore(t, claimOf("data", "", "vol"), volumeIn("vol", "a"))
		for _, name := range []string{"n2", "n3", "n4"} {
			node := fixture.Node(name).Label(corev1.LabelTopologyZone, "b").Obj()
			node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("64")
			s.ledger.SetNode(node)
		}
		near := alone.DeepCopy()
		near.Spec.Volumes = mounts("data").Spec.Volumes
		s.offerWith(fixture.MiniCluster(ids[0]), alone.DeepCopy())
		s.offerWith(fixture.MiniCluster(ids[1]), near)
		s.seen.quotas = quota.New(nil)
		seen := newCycle(s.parts, &s.seen, s.now)
		if _, err := seen.observe(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := seen.look(); err != nil {
			t.Fatal(err)
		}
		for _, g := range seen.Waiting {
			want := int64(8000)
			if strings.HasSuffix(g.Name, ids[0]) {
				want = (2*8000 + 3*64000) / 5
			}
			if got := g.Requests["cpu"]; got != want {
				t.Errorf("%s counts %d, want %d", g.Name, got, want)
			}
		}
	}
}
