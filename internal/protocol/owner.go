// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// MiniClusterOf is the name of the MiniCluster of a pod's namespace to which the pod belongs; "" if the
// pod belongs to none.
//
// Anybody who may create pods may write their labels. So the controller of the pod counts, too: it is the
// Job that JobSet makes of the pod's replicated job, by its name. The garbage collector deletes a pod whose controller
// does not exist in its namespace, and the Job controller a pod that its Job has not made.
func MiniClusterOf(pod *corev1.Pod) string {
	name, owner := pod.Labels[v1alpha2.MiniClusterLabel], metav1.GetControllerOfNoCopy(pod)
	if name == "" || owner == nil || owner.Kind != "Job" || owner.APIVersion != batchv1.SchemeGroupVersion.String() {
		return ""
	}
	if owner.Name != name+"-"+pod.Labels[jobsetapi.ReplicatedJobNameKey]+"-0" {
		return ""
	}
	return name
}
