// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/test/harness/operator"
)

// bindDirectly is the flag.
const bindDirectly = "--binder=direct"

// mayBind gives the manager the rights of config/direct for as long as the test runs.
func mayBind(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	role := filepath.Join(env.Root, "config", "direct", "role.yaml")
	if out, err := kubectl(ctx, "apply", "--server-side", "-f", role); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := kubectl(ctx, "delete", "-f", role); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// What components have is added to each way to install.
func TestComponents(t *testing.T) {
	dir := t.TempDir()
	config, err := filepath.Rel(dir, filepath.Join(env.Root, "config"))
	if err != nil {
		t.Fatal(err)
	}
	for kustomization, objects := range map[string][]string{
		"resources: [%[1]s/%[2]s]\ncomponents: [%[1]s/direct]\n": {"- --binder=direct", "name: flux-elastic-direct", "- pods/binding"},
		"resources: [%[1]s/%[2]s, %[1]s/admission]\n":            {"kind: MutatingAdmissionPolicyBinding", "kind: ValidatingAdmissionPolicyBinding"},
		"resources: [%[1]s/%[2]s]\ncomponents: [%[1]s/availability, %[1]s/network]\n": {
			"replicas: 2", "priorityClassName: system-cluster-critical", "whenUnsatisfiable: ScheduleAnyway",
			"kind: PodDisruptionBudget", "kind: ResourceQuota", "kind: NetworkPolicy",
		},
	} {
		for _, base := range []string{"default", "embedded"} {
			text := fmt.Sprintf(kustomization, config, base)
			if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-o=yaml", "-k", dir)
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, want := range append(objects, "- --leader-elect") {
				if !strings.Contains(string(out), want) {
					t.Errorf("%s has no %q", text, want)
				}
			}
		}
	}
}

// followed is what was seen of a site's pods: the first state with a node of each.
type followed struct {
	mutex sync.Mutex
	gated map[types.UID]bool
	bound map[types.UID]*corev1.Pod
}

// follow sees every state of every pod of the site.
func (s *site) follow() *followed {
	s.t.Helper()
	config, err := env.cluster.RESTConfig()
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		s.t.Fatal(err)
	}
	watch, err := c.Watch(s.ctx, &corev1.PodList{}, client.InNamespace(s.namespace))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(watch.Stop)
	f := &followed{gated: map[types.UID]bool{}, bound: map[types.UID]*corev1.Pod{}}
	go func() {
		for event := range watch.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				f.see(pod)
			}
		}
	}()
	return f
}

func (f *followed) see(pod *corev1.Pod) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if protocol.HasGate(pod) {
		f.gated[pod.UID] = true
	}
	if pod.Spec.NodeName != "" && f.bound[pod.UID] == nil {
		f.bound[pod.UID] = pod
	}
}

// expect waits until all of some pods were bound, and checks how many had the gate.
func (f *followed) expect(t *testing.T, bound, gated int) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	eventually(t, func() error {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		if len(f.bound) != bound || len(f.gated) != gated {
			return fmt.Errorf("%d pods were bound and %d had the gate, and not %d and %d", len(f.bound), len(f.gated), bound, gated)
		}
		pods = nil
		for _, pod := range f.bound {
			pods = append(pods, pod)
		}
		return nil
	})
	return pods
}

// scheduled is how many pods of the site a scheduler says that it has bound.
func (s *site) scheduled() int {
	s.t.Helper()
	var list corev1.EventList
	if err := env.client.List(s.ctx, &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for i := range list.Items {
		if list.Items[i].Reason == "Scheduled" {
			n++
		}
	}
	return n
}

// A manager that binds pods itself needs a right that no other manager has.
func TestBinderDirect(t *testing.T) {
	t.Parallel()
	mayBind(t)
	t.Run("Binds", bindsDirectly)
	t.Run("KilledAtEveryBinding", killedAtEveryBinding)
	t.Run("Volume", bindsWithAVolume)
}

// One write for each pod, no gate, no scheduler, and what a pod is told as it is placed is in that write.
func bindsDirectly(t *testing.T) {
	t.Parallel()
	s := newOwnSite(t, 3)
	direct := operator.Operate(s.shared, bindDirectly)
	pods := s.follow()
	mc := s.create(s.miniCluster("direct").Size(3).MaxSize(4).Launcher().PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(mc, v1alpha2.StateRunning)
	for _, pod := range s.pods(mc) {
		if rank, _ := protocol.Rank(&pod); rank == 3 && (!protocol.IsGated(&pod) || pod.Spec.NodeName != "") {
			t.Errorf("pod %s, which is not needed, is on %q", pod.Name, pod.Spec.NodeName)
		}
	}
	s.endCommand(mc)
	s.awaitSuccess(mc)
	for _, pod := range pods.expect(t, 3, 0) {
		rank, _ := protocol.Rank(pod)
		if pod.Spec.SchedulerName != v1alpha2.SchedulerName || pod.Labels[v1alpha2.RankLabel] != strconv.Itoa(rank) || pod.Labels[v1alpha2.SelectorLabel] != mc.Name {
			t.Errorf("pod %s: scheduler %s, labels %v", pod.Name, pod.Spec.SchedulerName, pod.Labels)
		}
		if rank == 0 && protocol.Read(pod).Quorum != 3 {
			t.Errorf("the lead was bound with a quorum of %d", protocol.Read(pod).Quorum)
		}
	}
	seen := direct.Seen()
	// A pass may repeat, in vain, what the cache does not show yet.
	if seen["POST pods/binding"] < 3 || seen["PATCH pods"] != 0 {
		t.Errorf("the manager's writes: %v", seen)
	}
	if n := s.scheduled(); n != 0 {
		t.Errorf("a scheduler bound %d pods", n)
	}
	if mc.Status.Admission.Attempt != 1 || s.leadsOf(mc) != 1 {
		t.Errorf("attempt %d, the command ran %d times", mc.Status.Admission.Attempt, s.leadsOf(mc))
	}
}

// The manager that binds is killed at every Binding, and one that would not goes on:
// what a pod waits for counts.
func killedAtEveryBinding(t *testing.T) {
	t.Parallel()
	killedAt(t, []operator.Write{{Kind: "POST pods/binding", N: 1}, {Kind: "POST pods/binding", N: 2}}, false, bindDirectly)
}

// Pods with the volume of a claim have the gate, and a scheduler binds them, also if the volume is bound already.
func bindsWithAVolume(t *testing.T) {
	t.Parallel()
	s := newOwnSite(t, 2)
	operator.Operate(s.shared, bindDirectly)
	s.createVolume("data")
	pods := s.follow()
	withVolume := func(s *v1alpha2.MiniClusterSpec) {
		s.Containers[0].Volumes = map[string]v1alpha2.ContainerVolume{"data": {ClaimName: "data", Path: "/data"}}
	}
	for i, name := range []string{"unbound", "bound"} {
		s.awaitSuccess(s.create(s.miniCluster(name).Size(2).Spec(withVolume)))
		pods.expect(t, 2*i+2, 2*i+2)
		eventually(t, func() error {
			if n := s.scheduled(); n != 2*i+2 {
				return fmt.Errorf("the scheduler says that it has bound %d pods", n)
			}
			return nil
		})
	}
}

// createVolume makes a claim for a volume that is bound when a pod with it is.
func (s *site) createVolume(name string) {
	s.t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: s.namespace},
		Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	s.createVolumeOf(name, nil, class)
}

// createVolumeOf makes a claim and a volume that some nodes can reach, and before them other objects. The
// class of both has the name of the site.
func (s *site) createVolumeOf(name string, nodes *corev1.VolumeNodeAffinity, before ...client.Object) {
	s.t.Helper()
	capacity := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: capacity, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: s.namespace,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, NodeAffinity: nodes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		},
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: &s.namespace,
			Resources: corev1.VolumeResourceRequirements{Requests: capacity},
		},
	}
	objects := slices.Concat(before, []client.Object{volume, claim})
	for _, object := range objects {
		if err := env.client.Create(s.ctx, object); err != nil {
			s.t.Fatal(err)
		}
	}
	s.t.Cleanup(func() {
		for _, object := range slices.Backward(objects) {
			if err := client.IgnoreNotFound(env.client.Delete(s.ctx, object)); err != nil {
				s.t.Error(err)
			}
		}
	})
}
