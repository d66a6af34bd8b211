// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package beside

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

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
			cluster := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(tc.made).
				WithIndex(&appsv1.Deployment{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
				WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
					review := object.(*authorizationv1.SubjectAccessReview)
					asked := review.Spec.ResourceAttributes
					if review.Spec.User != "system:serviceaccount:lab:manager" || asked.Namespace != "" || asked.Verb != "update" || asked.Subresource != "status" {
						t.Errorf("asked for %+v of %s", asked, review.Spec.User)
					}
					review.Status.Allowed = asked.Resource == tc.may
					return tc.err
				}}).Build()
			got, err := tc.of.deployed(t.Context(), cluster)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
