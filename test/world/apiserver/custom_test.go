// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	jobsetcrd "github.com/flux-elastic/flux-elastic/internal/jobset/crd"
)

func newMiniCluster() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster", "metadata": map[string]any{"name": "a", "namespace": "default"},
		"spec": map[string]any{"size": int64(2), "containers": []any{map[string]any{"image": "a"}}},
	}}
	return u
}

// Definitions bring their kinds, and take the objects of these with them.
func TestDefinitionsComeAndGo(t *testing.T) {
	s, c := newServer(t)
	ctx := t.Context()
	mc := newMiniCluster()
	if err := c.Create(ctx, mc); !meta.IsNoMatchError(err) {
		t.Errorf("without its definition: %v", err)
	}
	for range 2 {
		must(t, s.InstallConfig(Definitions))
		must(t, c.Create(ctx, newMiniCluster()))
		var list apiextensionsv1.CustomResourceDefinitionList
		must(t, c.List(ctx, &list))
		for i := range list.Items {
			must(t, c.Delete(ctx, &list.Items[i]))
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(mc), mc); !meta.IsNoMatchError(err) {
			t.Errorf("after its definition: %v", err)
		}
	}
}

func TestModuleDefinitions(t *testing.T) {
	s, c := newServer(t)
	must(t, s.InstallModule("sigs.k8s.io/kueue", "config/components/crd/bases"))
	flavor := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": map[string]any{"name": "f"},
	}}
	must(t, c.Create(t.Context(), flavor))
	if flavor.GetGeneration() != 1 {
		t.Errorf("%v", flavor.Object)
	}
}

// The quick look at the parts that have changed finds what a look at everything finds. (The name never changes.)
func TestValidationOfParts(t *testing.T) {
	s, c := newServer(t, Definitions)
	must(t, s.Install(jobsetcrd.JobSet))
	must(t, c.Create(t.Context(), newMiniCluster()))
	v := s.table("flux-framework.org", "", "miniclusters").objects[types.NamespacedName{Namespace: "default", Name: "a"}]
	d, old := v.table.definition, v.object.(*unstructured.Unstructured)
	found := map[bool]int{}
	for _, patch := range []string{
		`{"metadata":{"labels":{"a":"b"}}}`, `{"spec":{"size":3}}`, `{"spec":{"size":-3}}`, `{"spec":{"size":"3"}}`, `{"spec":{"minSize":1}}`, `{"spec":{"minSize":9}}`,
		`{"spec":{"containers":[]}}`, `{"spec":null}`, `{"status":{"size":1}}`, `{"status":{"size":"1"}}`, `{"status":{"size":-1}}`, `{"status":{"conditions":[{"type":"A"}]}}`,
		`{"status":{"conditions":[{"type":"A","status":"True","reason":"A","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
		`{"spec":{"containers":[{"image":"a","name":"x"},{"image":"a","name":"x"}]}}`, `{"other":1}`, `{"spec":{"priority":"x"}}`,
		`{"spec":{"maxSize":100000000000}}`, `{"spec":{"services":[]},"status":{"size":2}}`, `{"spec":{"flux":{"logLevel":-1}}}`, `{"spec":{"suspend":true,"maxSize":5}}`,
	} {
		for _, subresource := range []string{"", "status"} {
			if subresource == "status" && !strings.HasPrefix(patch, `{"status"`) {
				continue // such a write changes nothing else
			}
			var change map[string]any
			must(t, unmarshal(patch, &change))
			u := &unstructured.Unstructured{Object: ownJSON(mergeJSON(old.Object, change)).(map[string]any)}
			must(t, d.complete(u))
			quick, all := d.isFine(u, old), d.validateAll(u, old, subresource)
			found[len(all) == 0]++
			if quick && len(all) > 0 {
				t.Errorf("%s of %q: the quick look is fine with it, but %v", patch, subresource, all)
			}
			if !quick && len(all) == 0 && !strings.Contains(patch, `"other"`) && patch != `{"spec":null}` {
				t.Errorf("%s of %q: the quick look refuses it", patch, subresource)
			}
		}
	}
	if found[true] < 5 || found[false] < 5 {
		t.Errorf("%d are valid, %d are not", found[true], found[false])
	}
}

// A write of the status changes nothing else, and a write without a change is none.
func TestStatus(t *testing.T) {
	s, c := newServer(t, Definitions)
	ctx, mc := t.Context(), newMiniCluster()
	must(t, c.Create(ctx, mc))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"size":9},"status":{"size":1,"unknown":2}}`))
	must(t, c.Status().Patch(ctx, mc, patch))
	size, _, _ := unstructured.NestedInt64(mc.Object, "spec", "size")
	status, _, _ := unstructured.NestedMap(mc.Object, "status")
	if size != 2 || mc.GetLabels() != nil || mc.GetGeneration() != 1 || status["size"] != int64(1) || status["unknown"] != nil {
		t.Errorf("got %v", mc.Object)
	}
	version, writes := mc.GetResourceVersion(), len(s.Log(0))
	must(t, c.Status().Patch(ctx, mc, patch))
	if mc.GetResourceVersion() != version || len(s.Log(0)) != writes {
		t.Errorf("the same patch is a write")
	}
	stale := mc.DeepCopy()
	stale.SetResourceVersion("1")
	if err := c.Status().Update(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("an old version: %v", err)
	}
}

// A policy binds the pods of the Job controller by their template, and another keeps the manager from creating pods.
func TestPolicies(t *testing.T) {
	s, c := newServer(t, Definitions, Admission, Limits)
	ctx := t.Context()
	job := newJob("job")
	must(t, c.Create(ctx, job))
	pod := newPod("pod", ownedBy(job, true))
	pod.OwnerReferences[0].Controller = new(true)
	pod.Labels = map[string]string{"flux-framework.org/minicluster": "m", "batch.kubernetes.io/job-completion-index": "1", "jobset.sigs.k8s.io/replicatedjob-name": "1"}
	pod.Annotations = map[string]string{"flux-framework.org/nodes": "node-/.end/7,8", "batch.kubernetes.io/job-index-failure-count": "0"}
	pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, gate("flux-framework.org/placement"))
	unplaced := pod.DeepCopy()
	unplaced.Name = "unplaced"
	must(t, s.Client("system:serviceaccount:kube-system:job-controller").Create(ctx, pod))
	if pod.Spec.NodeName != "node-8.end" || len(pod.Spec.SchedulingGates) != 0 || pod.Labels["job-index"] != "2" {
		t.Errorf("the pod is not placed: %v %v", pod.Spec, pod.Labels)
	}
	manager := s.Client("system:serviceaccount:flux-elastic-system:flux-elastic")
	err := manager.Create(ctx, unplaced.DeepCopy())
	if !apierrors.IsForbidden(err) || !strings.HasSuffix(err.Error(), "denied request: flux-elastic creates pods only in dry runs") {
		t.Errorf("a pod of the manager: %v", err)
	}
	// Without the binding of its policy, no pod is placed.
	binding := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "flux-elastic-placement"}}
	binding.SetGroupVersionKind(s.builtinTable("mutatingadmissionpolicybindings").kind())
	must(t, c.Delete(ctx, binding))
	must(t, s.Client("system:serviceaccount:kube-system:job-controller").Create(ctx, unplaced))
	if unplaced.Spec.NodeName != "" {
		t.Errorf("without the policy the pod is on %s", unplaced.Spec.NodeName)
	}
}
