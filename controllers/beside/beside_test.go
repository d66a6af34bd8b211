// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package beside

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// clusterOf has objects, and answers SubjectAccessReviews about the pods of a Deployment or Lease: they may write the statuses of
// one resource.
func clusterOf(t *testing.T, may string, err error, objects ...client.Object) client.Client {
	t.Helper()
	name := func(o client.Object) []string { return []string{o.GetName()} }
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).
		WithIndex(&appsv1.Deployment{}, "metadata.name", name).WithIndex(&coordinationv1.Lease{}, "metadata.name", name).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			review := object.(*authorizationv1.SubjectAccessReview)
			asked := review.Spec.ResourceAttributes
			if review.Spec.User != "system:serviceaccount:lab:manager" || asked.Namespace != "" || asked.Verb != "update" || asked.Subresource != "status" {
				t.Errorf("asked for %+v of %s", asked, review.Spec.User)
			}
			review.Status.Allowed = asked.Resource == may
			return err
		}}).Build()
}

// A tenant may make a Lease of any name. It stands for the controller only if a pod with the rights of the controller holds it.
func TestLeases(t *testing.T) {
	now := fixture.Noon
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "manager-5f6d"}, Spec: corev1.PodSpec{ServiceAccountName: "manager"}}
	for name, tc := range map[string]struct {
		holder  string
		renewed time.Time
		may     string
		want    string
	}{
		"the Flux Operator":               {"manager-5f6d_4b1c", now.Add(-2 * time.Second), "miniclusters", "Lease lab/14dde902.flux-framework.org"},
		"its clock is ahead":              {"manager-5f6d_4b1c", now.Add(2 * time.Second), "miniclusters", "Lease lab/14dde902.flux-framework.org"},
		"it has ended":                    {"manager-5f6d_4b1c", now.Add(-time.Hour), "miniclusters", ""},
		"it has no holder":                {"", now, "miniclusters", ""},
		"of a tenant's pod":               {"manager-5f6d_4b1c", now, "", ""},
		"of a tenant, without a pod":      {"other_4b1c", now, "miniclusters", ""},
		"of a tenant, of which no pod is": {"../nodes/n_4b1c", now, "miniclusters", ""},
	} {
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: FluxOperator.lease},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &tc.holder, RenewTime: new(metav1.NewMicroTime(tc.renewed))},
		}
		if got, err := FluxOperator.Running(t.Context(), clusterOf(t, tc.may, nil, pod, lease), now); err != nil || got != tc.want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

// A tenant may make a Deployment of any name. It stands for the controller only if its pods have the rights of the controller.
func TestDeployments(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "subjectaccessreviews"}, "", nil)
	deployment := func(name string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: name}}
		d.Spec.Template.Spec.ServiceAccountName = "manager"
		return d
	}
	none := deployment("operator-controller-manager")
	none.Spec.Replicas = new(int32(0))
	for name, tc := range map[string]struct {
		of      Controller
		made    *appsv1.Deployment
		may     string // whose statuses its pods may write
		err     error
		want    string
		wantErr bool
	}{
		"the Flux Operator":                  {of: FluxOperator, made: deployment("operator-controller-manager"), may: "miniclusters", want: "Deployment lab/operator-controller-manager"},
		"JobSet":                             {of: JobSet, made: deployment("jobset-controller"), may: "jobsets", want: "Deployment lab/jobset-controller"},
		"of a tenant":                        {of: FluxOperator, made: deployment("operator-controller-manager")},
		"of a tenant, for the embedded":      {of: JobSet, made: deployment("jobset-controller-manager")},
		"without replicas":                   {of: FluxOperator, made: none, may: "miniclusters"},
		"nobody may ask for the rights":      {of: FluxOperator, made: deployment("operator-controller-manager"), err: forbidden, want: "Deployment lab/operator-controller-manager"},
		"the API server does not answer":     {of: FluxOperator, made: deployment("operator-controller-manager"), err: errors.New("away"), wantErr: true},
		"another one with the same rights":   {of: FluxOperator, made: deployment("other"), may: "miniclusters"},
		"with the rights of another program": {of: FluxOperator, made: deployment("operator-controller-manager"), may: "jobsets"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.of.deployed(t.Context(), clusterOf(t, tc.may, tc.err, tc.made))
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
