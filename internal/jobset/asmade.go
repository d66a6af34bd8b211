// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/util/placement"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// A dry run of an object that a controller of Kubernetes makes is of an object that looks alike: policies and webhooks of a
// cluster look at owners and labels. The owner does not exist yet, and some webhooks look for it (Kueue's). So the controller
// of these objects is the MiniCluster.

// Jobs returns the Jobs of a JobSet as JobSet's controller makes them, for dry runs.
func Jobs(set *jobsetapi.JobSet) []*batchv1.Job {
	jobs := make([]*batchv1.Job, len(set.Spec.ReplicatedJobs))
	for i := range set.Spec.ReplicatedJobs {
		from := set.Spec.ReplicatedJobs[i].DeepCopy()
		job := &batchv1.Job{
			TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
			ObjectMeta: from.Template.ObjectMeta, Spec: from.Template.Spec,
		}
		job.Namespace, job.Name = set.Namespace, placement.GenJobName(set.Name, from.Name, 0)
		job.OwnerReferences = set.OwnerReferences
		for _, meta := range []*metav1.ObjectMeta{&job.ObjectMeta, &job.Spec.Template.ObjectMeta} {
			addTo(&meta.Labels, replicated(set.Name, from.Name))
			addTo(&meta.Annotations, replicated(set.Name, from.Name))
		}
		jobs[i] = job
	}
	return jobs
}

// SliceAsMade returns an EndpointSlice like those that publish the names of such pods. Its address is nobody's (RFC 5737).
func SliceAsMade(mc *v1alpha2.MiniCluster, pod *corev1.Pod) *discoveryv1.EndpointSlice {
	return Slices(mc, []Host{{Pod: pod.GenerateName + "x", Service: pod.Spec.Subdomain, IPs: []string{"192.0.2.1"}}})[0]
}

// podOf returns the first pod that the Job controller makes of the template of a replicated Job.
func podOf(mc *v1alpha2.MiniCluster, template corev1.PodTemplateSpec, replicatedJob string) *corev1.Pod {
	pod, job := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}, placement.GenJobName(Name(mc), replicatedJob, 0)
	pod.Namespace, pod.GenerateName = mc.Namespace, job+"-"
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(mc, v1alpha2.GroupVersion.WithKind(v1alpha2.MiniClusterKind))}
	pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
	addTo(&pod.Labels, replicated(Name(mc), replicatedJob))
	addTo(&pod.Annotations, replicated(Name(mc), replicatedJob))
	addTo(&pod.Labels, map[string]string{batchv1.JobNameLabel: job, batchv1.ControllerUidLabel: string(mc.UID)})
	if replicatedJob != v1alpha2.ServicesJob { // the Jobs of brokers are Indexed
		addTo(&pod.Labels, map[string]string{batchv1.JobCompletionIndexAnnotation: "0"})
		addTo(&pod.Annotations, map[string]string{batchv1.JobCompletionIndexAnnotation: "0", batchv1.JobIndexFailureCountAnnotation: "0"})
	}
	return pod
}

// replicated are the labels, and annotations, that JobSet's controller gives to a Job and the pods of the Job.
func replicated(set, replicatedJob string) map[string]string {
	return map[string]string{
		jobsetapi.JobSetNameKey: set, jobsetapi.ReplicatedJobNameKey: replicatedJob, jobsetapi.ReplicatedJobReplicas: "1", jobsetapi.JobIndexKey: "0",
	}
}

// addTo adds entries to a map, which may be nil.
func addTo(to *map[string]string, entries map[string]string) {
	if *to == nil {
		*to = map[string]string{}
	}
	maps.Copy(*to, entries)
}
