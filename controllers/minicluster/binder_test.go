// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// direct is how the pods of an older manager with --binder=direct are.
func direct(s *corev1.PodSpec) { s.SchedulingGates, s.SchedulerName = nil, v1alpha2.SchedulerName }

// written is what binders wrote.
type written struct {
	patches  int
	bindings []*corev1.Binding
	fails    error
}

// newClient is one of a cluster with these objects. Bindings are only noted.
func (w *written) newClient(objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			w.patches++
			return errors.Join(w.fails, c.Patch(ctx, object, patch, options...))
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, name string, object, sub client.Object, _ ...client.SubResourceCreateOption) error {
			if name != "binding" || object.GetName() != sub.GetName() {
				return errors.New("no Binding of the pod")
			}
			w.bindings = append(w.bindings, sub.(*corev1.Binding))
			return w.fails
		},
	}).Build()
}

func TestPodsAreBoundByWhatTheyWaitFor(t *testing.T) {
	named := func(s *corev1.PodSpec) { s.SchedulerName = v1alpha2.SchedulerName }
	setOf := func(change func(*corev1.PodSpec)) *jobsetapi.JobSet {
		set, err := jobset.JobSet(fixture.MiniCluster("lmp").Size(2).Defaulted(), 1)
		if err != nil {
			t.Fatal(err)
		}
		change(&set.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec)
		return set
	}
	gated, bound, ours := setOf(func(*corev1.PodSpec) {}), setOf(direct), setOf(named)
	for name, tc := range map[string]struct {
		set               *jobsetapi.JobSet
		pod               *corev1.Pod
		patches, bindings int
		refused           bool
	}{
		"the gate":                         {gated, fixture.BrokerPod("lmp", 0).Obj(), 1, 0, false},
		"a Binding":                        {bound, fixture.BrokerPod("lmp", 0).Spec(direct).Obj(), 0, 1, false},
		"the gate, with our name":          {ours, fixture.BrokerPod("lmp", 0).Spec(named).Obj(), 1, 0, false},
		"nothing, with our name":           {ours, fixture.BrokerPod("lmp", 0).Spec(direct).Obj(), 0, 0, true},
		"nothing, with our name by others": {gated, fixture.BrokerPod("lmp", 0).Pinned("a").Spec(direct).Obj(), 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			var w written
			p := &podWriter{client: w.newClient(tc.pod), clock: clock.RealClock{}}
			before := tc.pod.DeepCopy()
			if err := p.bind(t.Context(), tc.set, tc.pod, "a", 0, protocol.Orders{Quorum: 3}); errors.Is(err, errNotDirect) != tc.refused || (err != nil && !tc.refused) {
				t.Fatal(err)
			}
			if w.patches != tc.patches || len(w.bindings) != tc.bindings {
				t.Errorf("%d patches, %d Bindings", w.patches, len(w.bindings))
			}
			if diff := cmp.Diff(before, tc.pod); diff != "" {
				t.Errorf("the cache was changed:\n%s", diff)
			}
		})
	}
}

func TestUngate(t *testing.T) {
	pod := fixture.BrokerPod("lmp", 0).Obj()
	var w written
	c := w.newClient(pod)
	if err := (&podWriter{client: c, clock: clock.RealClock{}}).ungate(t.Context(), pod, "a", 0, protocol.Orders{Quorum: 3}); err != nil {
		t.Fatal(err)
	}
	var got corev1.Pod
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), &got); err != nil {
		t.Fatal(err)
	}
	if protocol.IsGated(&got) || protocol.PinnedNode(&got) != "a" || protocol.Read(&got).Quorum != 3 || got.Labels[v1alpha2.RankLabel] != "0" {
		t.Errorf("it is %+v", got)
	}
}

func TestBindDirectly(t *testing.T) {
	pod := fixture.BrokerPod("lmp", 0).Spec(direct).Obj()
	var w written
	c := w.newClient(pod)
	if err := (&podWriter{client: c, live: live{c}}).bindDirectly(t.Context(), pod, "a", 0, protocol.Orders{Quorum: 3}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*corev1.Binding{protocol.Binding(pod, "a", 0, protocol.Orders{Quorum: 3})}, w.bindings); diff != "" {
		t.Errorf("another Binding (-want +got):\n%s", diff)
	}
}

// A pass that has not seen the Binding of the one before makes it again.
func TestBindDirectlyConflict(t *testing.T) {
	pod := fixture.BrokerPod("lmp", 0).Spec(direct).Obj()
	on := func(node string, uid types.UID) *corev1.Pod {
		there := pod.DeepCopy()
		there.Spec.NodeName, there.UID = node, uid
		return there
	}
	for name, tc := range map[string]struct {
		there *corev1.Pod
		ok    bool
	}{
		"it is on its node":           {on("a", pod.UID), true},
		"it is on another":            {on("b", pod.UID), false},
		"it has a gate, or is ending": {on("", pod.UID), false},
		"it was replaced":             {on("a", "other"), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := written{fails: apierrors.NewConflict(corev1.Resource("pods/binding"), pod.Name, errors.New("no"))}
			c := w.newClient(tc.there)
			err := (&podWriter{client: c, live: live{c}}).bindDirectly(t.Context(), pod, "a", 0, protocol.Orders{Quorum: 3})
			if (err == nil) != tc.ok || (err != nil && !apierrors.IsConflict(err)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestBindersSayWhatFailed(t *testing.T) {
	pod := fixture.BrokerPod("lmp", 0).Obj()
	w := written{fails: errors.New("no more")}
	c := w.newClient(pod)
	p := &podWriter{client: c, live: live{c}, clock: clock.RealClock{}}
	type bind = func(ctx context.Context, pod *corev1.Pod, node string, rank int, orders protocol.Orders) error
	for want, bind := range map[string]bind{`placing pod "lmp-0": no more`: p.ungate, `binding pod "lmp-0": no more`: p.bindDirectly} {
		if err := bind(t.Context(), pod, "a", 0, protocol.Orders{Quorum: 3}); err == nil || err.Error() != want || !errors.Is(err, w.fails) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestChooseBinder(t *testing.T) {
	volumes := func(volumes ...v1alpha2.ContainerVolume) func(*v1alpha2.MiniClusterSpec) {
		return func(s *v1alpha2.MiniClusterSpec) {
			s.Containers[0].Volumes = map[string]v1alpha2.ContainerVolume{}
			for i, volume := range volumes {
				s.Containers[0].Volumes["v"+string(rune('0'+i))] = volume
			}
		}
	}
	scheduler := func(name string) func(*v1alpha2.MiniClusterSpec) {
		return func(s *v1alpha2.MiniClusterSpec) { s.Pod.SchedulerName = name }
	}
	plain := func(*v1alpha2.MiniClusterSpec) {}
	for name, tc := range map[string]struct {
		gate    bool // --binder=gate
		change  func(*v1alpha2.MiniClusterSpec)
		webhook func(*corev1.PodSpec) // what the API server's pod has besides
		bound   bool
		// overlooks is true if pods of others may keep nodes free, and the scheduler does not know which.
		overlooks bool
	}{
		"nodes that others may keep free":  {change: plain, overlooks: true},
		"--binder=gate":                    {gate: true, change: plain},
		"--binder=auto":                    {change: plain, bound: true},
		"volumes that are always there":    {change: volumes(v1alpha2.ContainerVolume{EmptyDir: true}, v1alpha2.ContainerVolume{HostPath: "/x"}, v1alpha2.ContainerVolume{ConfigMapName: "c"}), bound: true},
		"a claim":                          {change: volumes(v1alpha2.ContainerVolume{ClaimName: "data"})},
		"an inline CSI volume":             {change: volumes(v1alpha2.ContainerVolume{CSIDriver: "d"})},
		"a scheduler of its own":           {change: scheduler("mine")},
		"the default one, but by its name": {change: scheduler(corev1.DefaultSchedulerName)},
		"our name":                         {change: scheduler(v1alpha2.SchedulerName)},
		"as the API server makes it":       {change: plain, webhook: func(s *corev1.PodSpec) { s.SchedulerName = corev1.DefaultSchedulerName }, bound: true},
		"a resource claim by a webhook":    {change: plain, webhook: func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }},
		"an ephemeral volume by a webhook": {change: plain, webhook: func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
		}},
		"a gate of its own by a webhook": {change: plain, webhook: func(s *corev1.PodSpec) {
			s.SchedulingGates = append(s.SchedulingGates, corev1.PodSchedulingGate{Name: "quota"})
		}},
		"pods beside it by a webhook": {change: plain, webhook: func(s *corev1.PodSpec) { s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}} }},
		"no pods beside it by a webhook": {change: plain, webhook: func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
		}},
		"spread by a webhook": {change: plain, webhook: func(s *corev1.PodSpec) { s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{}} }},
		"a port of the node by a webhook": {change: plain, webhook: func(s *corev1.PodSpec) {
			s.Containers[0].Ports = append(s.Containers[0].Ports, corev1.ContainerPort{HostPort: 9100})
		}},
		"another scheduler by a webhook": {change: plain, webhook: func(s *corev1.PodSpec) { s.SchedulerName = "batch" }},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Size(2).Spec(tc.change).Admitted(1, 2, "node-[1-2]").Defaulted()
			seen := seenOf(t, mc)
			if tc.webhook != nil {
				pod, err := jobset.Pod(mc)
				if err != nil {
					t.Fatal(err)
				}
				tc.webhook(&pod.Spec)
				seen.check = &check{pod: pod, binding: &atomic.Pointer[binding]{}}
			}
			set, err := jobset.JobSet(mc, 1)
			if err != nil {
				t.Fatal(err)
			}
			binds := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
					spec := &object.(*corev1.Pod).Spec
					spec.NodeName, spec.SchedulingGates = "node-1", nil
					return nil
				},
			}).Build()
			b := &binder{client: binds, scheduler: &waitingRoom{overlooks: tc.overlooks}, keepGates: tc.gate}
			if err := b.chooseBinder(t.Context(), seen, set); err != nil {
				t.Fatal(err)
			}
			if got := jobset.Admitted(set) != ""; got != tc.bound {
				t.Errorf("its pods are bound as they are made: %v", got)
			}
		})
	}
}

// seenOf is what a pass has seen of a MiniCluster without pods.
func seenOf(t *testing.T, mc *v1alpha2.MiniCluster) *observed {
	t.Helper()
	seen := &observed{now: fixture.Noon, quota: &kueue.Quota{}}
	seen.view.MiniCluster = mc
	seen.view.Node = func(string) *corev1.Node { return nil }
	var err error
	if seen.observation, err = state.Observe(seen.view); err != nil {
		t.Fatal(err)
	}
	return seen
}

// The API server is asked whether it would bind a pod, and pods that only a scheduler can bind are
// left to one.
func TestChooseBinderAtAdmission(t *testing.T) {
	plain := func(*v1alpha2.MiniCluster) {}
	binds := func(pod *corev1.Pod) error {
		pod.Spec.NodeName, pod.Spec.SchedulingGates = "node-1", nil
		return nil
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha2.MiniCluster)
		answer func(*corev1.Pod) error // nil if it is not asked
		bound  bool
	}{
		"the policy is there":              {plain, binds, true},
		"no policy":                        {plain, func(*corev1.Pod) error { return nil }, false},
		"a policy that leaves the gate":    {plain, func(pod *corev1.Pod) error { pod.Spec.NodeName = "node-1"; return nil }, false},
		"a policy that means another node": {plain, func(pod *corev1.Pod) error { pod.Spec.NodeName, pod.Spec.SchedulingGates = "x", nil; return nil }, false},
		"a policy, and a webhook that adds a rule about pods": {plain, func(pod *corev1.Pod) error {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{}}
			return binds(pod)
		}, false},
		"a policy against pods with nodes": {plain, func(*corev1.Pod) error { return apierrors.NewForbidden(corev1.Resource("pods"), "x", nil) }, false},
		"a webhook that looks for its Job": {plain, func(*corev1.Pod) error {
			return apierrors.NewNotFound(schema.GroupResource{Group: batchv1.GroupName, Resource: "jobs"}, "lmp")
		}, false},
		"a webhook that does not answer": {plain, func(*corev1.Pod) error { return apierrors.NewInternalError(errors.New("no endpoints")) }, false},
		"thousands of nodes whose names have little in common": {func(mc *v1alpha2.MiniCluster) {
			names := make([]string, 9000)
			for i := range names {
				names[i] = fmt.Sprintf("%08d.node-of-the-cluster-%08d", i*7919, i)
			}
			mc.Spec.Size, mc.Status.Admission.Size, mc.Status.Admission.Nodes = 9000, 9000, strings.Join(names, ",")
		}, nil, false},
		"quota of Kueue":         {func(mc *v1alpha2.MiniCluster) { mc.Status.Admission.Quota = &v1alpha2.Quota{} }, nil, false},
		"a scheduler of its own": {func(mc *v1alpha2.MiniCluster) { mc.Spec.Pod.SchedulerName = "mine" }, nil, false},
		"a volume that may not reach all nodes": {func(mc *v1alpha2.MiniCluster) {
			mc.Spec.Containers[0].Volumes = map[string]v1alpha2.ContainerVolume{"v": {ClaimName: "c"}}
		}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Size(3).Admitted(1, 3, "node-[1-3]").Vacated("2").Defaulted()
			tc.change(mc)
			set, err := jobset.JobSet(mc, 1)
			if err != nil {
				t.Fatal(err)
			}
			seen, asked := seenOf(t, mc), false
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, object client.Object, options ...client.CreateOption) error {
					if !slices.Contains(options, client.CreateOption(client.DryRunAll)) || tc.answer == nil {
						return errors.New("it must not ask")
					}
					asked = true
					return tc.answer(object.(*corev1.Pod))
				},
			}).Build()
			before := set.DeepCopy()
			if err := (&binder{client: c, scheduler: &waitingRoom{}}).chooseBinder(t.Context(), seen, set); err != nil {
				t.Fatal(err)
			}
			want := before
			if tc.bound {
				jobset.BindAtAdmission(want, []string{"node-1", "node-2", ""}, 3, fixture.Noon)
			}
			if diff := cmp.Diff(want, set); diff != "" || asked != (tc.answer != nil) {
				t.Errorf("asked: %v (-want +got):\n%s", asked, diff)
			}
		})
	}
}

// One answer holds for all MiniClusters that share a check, for a while.
func TestBindsAtAdmissionOnceAsked(t *testing.T) {
	asked := 0
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			asked++
			object.(*corev1.Pod).Spec.NodeName = "node-1"
			return nil
		},
	}).Build()
	b, shared, other := &binder{client: c}, &check{binding: &atomic.Pointer[binding]{}}, &check{binding: &atomic.Pointer[binding]{}}
	for _, step := range []struct {
		after   time.Duration
		node    string
		check   *check
		binds   bool
		asked   int
		mayBind bool
	}{
		{0, "node-2", shared, false, 1, false},
		{gatedFor - 1, "node-1", shared, false, 1, false},
		{gatedFor, "node-1", shared, true, 2, true},
		{gatedFor + boundFor - 1, "node-1", shared, true, 2, true},
		{gatedFor + boundFor, "node-1", shared, true, 3, true},
		{gatedFor + boundFor, "node-2", other, false, 4, true}, // the others may still be bound
		{gatedFor + boundFor, "node-1", nil, true, 5, true},
	} {
		seen := &observed{now: fixture.Noon.Add(step.after), check: step.check}
		binds, err := b.bindsAtAdmission(t.Context(), seen, &corev1.Pod{}, step.node)
		if err != nil || binds != step.binds || asked != step.asked || b.mayBind() != step.mayBind {
			t.Errorf("%+v: binds: %v, asked %d times, may bind: %v, error %v", step, binds, asked, b.mayBind(), err)
		}
	}
}

// Before the API server was asked, it may bind pods, unless a flag says who does. The first MiniCluster whose check passes asks,
// also while it waits: where nobody gets nodes, nobody else would.
func TestLearn(t *testing.T) {
	for name, tc := range map[string]struct {
		keep, admitted bool
		node           string // of the pod that the API server would create
		before, is     bool
		asked          int
	}{
		"it binds":                {node: anyNode, before: true, is: true, asked: 1},
		"it does not":             {before: true, asked: 1},
		"the flag says who binds": {keep: true},
		"there are nodes already": {admitted: true, before: true, is: true},
	} {
		asked, passed := 0, &check{pod: fixture.BrokerPod("lmp", 0).Obj(), binding: &atomic.Pointer[binding]{}}
		c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
				asked++
				pod := object.(*corev1.Pod)
				if pod.Spec.NodeName = tc.node; tc.node != "" {
					pod.Spec.SchedulingGates = nil
				}
				return nil
			},
		}).Build()
		mc := fixture.MiniCluster("lmp").Size(3)
		if tc.admitted {
			mc = mc.Admitted(1, 3, "node-[1-3]")
		}
		b := &binder{client: c, scheduler: &waitingRoom{}, keepGates: tc.keep}
		before := b.mayBind()
		for range 2 {
			b.learn(t.Context(), &observed{now: fixture.Noon, view: state.View{MiniCluster: mc.Defaulted()}, check: passed})
		}
		if is := b.mayBind(); before != tc.before || is != tc.is || asked != tc.asked {
			t.Errorf("%s: it may bind before: %v, then: %v; asked %d times", name, before, is, asked)
		}
	}
}
