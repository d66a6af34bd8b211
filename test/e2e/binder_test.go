// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

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
