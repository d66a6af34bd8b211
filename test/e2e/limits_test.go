// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// Who has the manager's rights creates pods only in dry runs, and Secrets only for certificates. Others are not
// affected.
func TestLimitsOfTheManager(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	s.removeJobs() // and pods
	manager := s.impersonate(harness.SystemIdentity)
	elsewhere := s.as("system:serviceaccount:elsewhere:flux-elastic") // an overlay chooses the namespace
	namesake := s.as("system:serviceaccount:elsewhere:not-flux-elastic")
	pod := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "x-"},
			Spec: corev1.PodSpec{
				SchedulingGates: []corev1.PodSchedulingGate{{Name: "never"}},
				Containers:      []corev1.Container{{Name: "x", Image: "x"}},
			},
		}
	}
	secret := func(name, key string, kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Type: kind, Data: map[string][]byte{key: []byte("x")}}
	}
	const certificate, onlyDryRuns, onlyCertificates = "curve.cert", "creates pods only in dry runs", "creates only Secrets with the certificates"
	token := secret("x-curve-1-abcde", certificate, corev1.SecretTypeServiceAccountToken)
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	ownerless := sliceOf(s.namespace, "ownerless")
	ownerless.OwnerReferences = nil
	for name, tc := range map[string]struct {
		as      client.Client
		object  client.Object
		options []client.CreateOption
		refused string
	}{
		"a pod":                       {manager, pod(), nil, onlyDryRuns},
		"a pod in a dry run":          {manager, pod(), []client.CreateOption{client.DryRunAll}, ""},
		"a pod, in another namespace": {elsewhere, pod(), nil, onlyDryRuns},
		"a pod of a similar name":     {namesake, pod(), nil, ""},
		"a pod of others":             {env.client, pod(), nil, ""},
		"a certificate":               {manager, secret("x-curve-12-abcde", certificate, ""), nil, ""},
		"a certificate in a dry run":  {manager, secret("y-curve-1-abcde", certificate, ""), []client.CreateOption{client.DryRunAll}, ""},
		"a Secret of another name":    {manager, secret("x-curve", certificate, ""), nil, onlyCertificates},
		"a name that goes on":         {manager, secret("x-curve-1-abcde.token", certificate, ""), nil, onlyCertificates},
		"a Secret of other content":   {manager, secret("x-curve-1-bcdef", "token", ""), nil, onlyCertificates},
		"the token of an account":     {manager, token, nil, onlyCertificates},
		"such a Secret in a dry run":  {manager, secret("z", "token", ""), []client.CreateOption{client.DryRunAll}, ""},
		"such a Secret of others":     {env.client, secret("y", "token", ""), nil, ""},
		"a slice of a MiniCluster":    {manager, sliceOf(s.namespace, "ours"), nil, ""},
		"a slice of a Service":        {manager, sliceOf(s.namespace, "service", corev1.IsHeadlessService), nil, onlySlices},
		"a slice of no MiniCluster":   {manager, ownerless, nil, onlySlices},
		"a slice of others":           {env.client, sliceOf(s.namespace, "others", corev1.IsHeadlessService), nil, ""},
	} {
		err := tc.as.Create(s.ctx, tc.object, tc.options...)
		switch {
		case tc.refused == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.refused != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.refused)):
			t.Errorf("%s: got %v, want %q", name, err, tc.refused)
		}
	}
}

const onlySlices = "writes only EndpointSlices of MiniClusters"

// sliceOf is an EndpointSlice of a MiniCluster that does not exist, without some labels.
func sliceOf(namespace, name string, without ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{discoveryv1.LabelManagedBy: jobset.SliceManager, corev1.IsHeadlessService: "", discoveryv1.LabelServiceName: "db"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha2.GroupVersion.String(), Kind: v1alpha2.MiniClusterKind, Name: "lmp", UID: "u1", Controller: new(true),
			}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, label := range without {
		delete(slice.Labels, label)
	}
	return slice
}

// A thief of the manager's token cannot send the traffic of a Service elsewhere, or nowhere.
func TestLimitsOfSlices(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	manager, slice := s.impersonate(harness.SystemIdentity), sliceOf(s.namespace, "service", corev1.IsHeadlessService)
	slice.OwnerReferences = nil
	if err := env.client.Create(s.ctx, slice); err != nil {
		t.Fatal(err)
	}
	ours := slice.DeepCopy()
	ours.Labels, ours.OwnerReferences = sliceOf("", "").Labels, sliceOf("", "").OwnerReferences
	for name, err := range map[string]error{
		"takes a slice over": manager.Update(s.ctx, ours),
		"deletes a slice":    manager.Delete(s.ctx, slice),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), onlySlices) {
			t.Errorf("%s: got %v, want %q", name, err, onlySlices)
		}
	}
}
