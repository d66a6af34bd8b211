// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Quota is a quota for how many objects of a kind, such as "jobs.batch", the namespace may have. It has the name of the kind.
func (s *Site) Quota(kind, most string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: kind},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceName("count/" + kind): resource.MustParse(most)}},
	}
}

// AwaitCounted waits until a quota holds: it does once it has been counted.
func (s *Site) AwaitCounted(quota *corev1.ResourceQuota) {
	s.T.Helper()
	Eventually(s.T, func() error {
		if err := s.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return Final(err)
		}
		if len(quota.Status.Hard) == 0 {
			return errors.New("the quota has not been counted")
		}
		return nil
	})
}
