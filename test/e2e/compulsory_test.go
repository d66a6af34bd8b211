// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// The policy of the examples refuses MiniClusters without the label of a queue in Kueue, and lets those from before go on.
func TestCompulsoryQuota(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	labelled := func(name string, labels map[string]string) *v1alpha2.MiniCluster {
		mc := s.miniCluster(name).New()
		mc.Namespace, mc.Labels, mc.Spec.Suspend = s.namespace, labels, true
		return mc
	}
	old := labelled("old", nil)
	if err := env.client.Create(s.ctx, old); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "kueue", "compulsory.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	if err := errors.Join(decoder.Decode(policy), decoder.Decode(binding)); err != nil {
		t.Fatal(err)
	}
	policy.Name, binding.Name, binding.Spec.PolicyName = s.namespace, s.namespace, s.namespace // for this namespace alone
	binding.Spec.MatchResources.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.namespace}}
	for _, object := range []client.Object{policy, binding} {
		if err := env.client.Create(s.ctx, object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = env.client.Delete(s.ctx, object) })
	}
	eventually(t, func() error {
		if err := env.client.Create(s.ctx, labelled("probe", nil), client.DryRunAll); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("a MiniCluster without the label is made"), err)
		}
		return nil
	})
	queue := map[string]string{v1alpha2.KueueQueueLabel: "team"}
	mc := labelled("new", queue)
	if err := env.client.Create(s.ctx, mc); err != nil {
		t.Errorf("with the label: %v", err)
	}
	if err := env.client.Create(s.ctx, labelled("empty", map[string]string{v1alpha2.KueueQueueLabel: ""}), client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("with an empty label: %v", err)
	}
	labels := func(mc *v1alpha2.MiniCluster, labels string) error {
		return env.client.Patch(s.ctx, mc.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":`+labels+`}}`)), client.DryRunAll)
	}
	if err := labels(mc, `null`); !apierrors.IsForbidden(err) {
		t.Errorf("the label is removed: %v", err)
	}
	if err := errors.Join(labels(mc, `{"kueue.x-k8s.io/queue-name":"other"}`), labels(old, `{"a":"b"}`)); err != nil {
		t.Errorf("a change that keeps the quota, or of one from before: %v", err)
	}
}
