// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Maker is a Job of a MiniCluster, or the JobSet that makes such Jobs.
type Maker struct {
	UID types.UID
	// Set is the JobSet of a Job; "" for a JobSet.
	Set types.UID
	// MiniCluster is the MiniCluster that the labels of the pods name, in this namespace.
	MiniCluster     types.UID
	Namespace, Name string
	// Pods are the pods that the API server binds to nodes when the Job controller creates them. Requests are what each of
	// these pods takes.
	Pods     []elastic.Pod
	Requests fluxion.Resources
	// Over is true if no more pods are made, and Leaves if a JobSet makes no more Jobs.
	Over, Leaves bool
}

// MakerOfJob reads a Job.
func MakerOfJob(job *batchv1.Job) *Maker {
	m := &Maker{UID: job.UID, Namespace: job.Namespace, Leaves: job.DeletionTimestamp != nil}
	if set := metav1.GetControllerOfNoCopy(job); set != nil {
		m.Set = set.UID
	}
	m.Over = slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	})
	m.add(job.Labels[jobsetapi.ReplicatedJobNameKey], &job.Spec.Template)
	return m
}

// MakerOfJobSet reads a JobSet.
func MakerOfJobSet(set *jobsetapi.JobSet) *Maker {
	m := &Maker{UID: set.UID, Namespace: set.Namespace, Leaves: set.DeletionTimestamp != nil, Over: set.Status.TerminalState != ""}
	for i := range set.Spec.ReplicatedJobs {
		job := &set.Spec.ReplicatedJobs[i]
		m.add(job.Name, &job.Template.Spec.Template)
	}
	return m
}

// add reads the pods of one Job from their template.
func (m *Maker) add(job string, template *corev1.PodTemplateSpec) {
	first := 0
	switch job {
	case v1alpha2.LeadJob:
	case v1alpha2.WorkersJob:
		first = 1
	default:
		return
	}
	m.MiniCluster, m.Name = types.UID(template.Labels[v1alpha2.UIDLabel]), template.Labels[v1alpha2.MiniClusterLabel]
	for index, node := range jobset.ListedNodes(template.Annotations[v1alpha2.NodesAnnotation]) {
		if node != "" {
			m.Pods = append(m.Pods, elastic.Pod{Rank: first + index, Node: node})
		}
	}
	if m.Requests == nil && len(m.Pods) > 0 {
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: *template.Spec.DeepCopy()}
		requestLimits(pod.Spec.InitContainers)
		requestLimits(pod.Spec.Containers)
		m.Requests = Requests(pod)
	}
}

// requestLimits lets containers request what they are limited to, as the API server does for pods, and not for templates.
func requestLimits(containers []corev1.Container) {
	for i := range containers {
		requests := corev1.ResourceList{}
		maps.Copy(requests, containers[i].Resources.Limits)
		maps.Copy(requests, containers[i].Resources.Requests)
		containers[i].Resources.Requests = requests
	}
}
