// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// An answer for an AdmissionCheck is given again until the API server has taken the answer, and then no more. Nothing is said
// about checks of others.
func TestAnswersAgain(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := kueueapi.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	own, others := &kueueapi.AdmissionCheck{}, &kueueapi.AdmissionCheck{}
	own.Name, own.Spec.ControllerName = "placement", v1alpha2.PlacementCheck
	others.Name, others.Spec.ControllerName = "budget", "example.com/budget"
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(own, others).WithStatusSubresource(own).Build()
	var answered []string
	k := &Kueue{cache: c, cluster: interceptor.NewClient(c, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if answered = append(answered, object.GetName()); len(answered) == 1 {
				return errors.New("the API server is restarting")
			}
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
	})}
	synctest.Test(t, func(t *testing.T) {
		for range 4 {
			k.answerAll(t.Context())
			synctest.Wait()
		}
	})
	if want := []string{"placement", "placement"}; !slices.Equal(answered, want) {
		t.Errorf("the checks %v were answered, want %v", answered, want)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(own), own); err != nil || !meta.IsStatusConditionTrue(own.Status.Conditions, kueueapi.AdmissionCheckActive) {
		t.Errorf("the check is %+v, %v", own.Status, err)
	}
}
