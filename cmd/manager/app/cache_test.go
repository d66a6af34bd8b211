// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Of each kind of which tenants make objects, and the manager has a cache, the cache keeps little of the largest.
func TestCachesOfTenants(t *testing.T) {
	const most = 16 << 10
	byKind := map[string]cache.ByObject{}
	for object, by := range cacheOptions().ByObject {
		byKind[fmt.Sprintf("%T", object)] = by
	}
	daemons := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}} // as the scheduler reads them
	for kind, object := range map[client.Object]client.Object{
		&v1alpha2.MiniCluster{}:         &v1alpha2.MiniCluster{Spec: v1alpha2.MiniClusterSpec{Containers: []v1alpha2.MiniClusterContainer{{}}}},
		&corev1.Pod{}:                   &corev1.Pod{},
		&jobsetapi.JobSet{}:             &jobsetapi.JobSet{},
		&batchv1.Job{}:                  &batchv1.Job{},
		&corev1.PersistentVolumeClaim{}: &corev1.PersistentVolumeClaim{},
		&discoveryv1.EndpointSlice{}:    &discoveryv1.EndpointSlice{},
		&appsv1.DaemonSet{}:             daemons,
	} {
		object.SetAnnotations(map[string]string{"note": strings.Repeat("x", 1<<20)})
		by := byKind[fmt.Sprintf("%T", kind)]
		if by.Transform == nil {
			t.Errorf("the cache keeps all of each %T", kind)
			continue
		}
		kept, err := by.Transform(object)
		if err != nil {
			t.Fatal(err)
		}
		if size := len(fmt.Sprintf("%+v", kept)); size > most {
			t.Errorf("the cache keeps %d bytes of a %T", size, kind)
		}
	}
}
