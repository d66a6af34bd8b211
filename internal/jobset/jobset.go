// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"maps"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Kind is the kind of a JobSet.
var Kind = metav1.TypeMeta{APIVersion: jobsetapi.GroupVersion.String(), Kind: "JobSet"}

// workersBackoffLimit is how many pods of followers may fail and be replaced before the
// MiniCluster fails. The Flux Operator has the same limit.
const workersBackoffLimit = 100

// JobSet returns the JobSet of an attempt. It has a Job for the lead, a Job for the followers if
// there can be several brokers, and a Job for the services if there are any. There is a gated pod
// for each of Size brokers. The JobSet never changes, and ends
// with the lead's Job.
//
// All fields are set that JobSet's webhooks would set, so that the result is the same without
// webhooks.
func JobSet(mc *v1alpha2.MiniCluster, attempt int32) (*jobsetapi.JobSet, error) {
	template, err := podTemplate(mc)
	if err != nil {
		return nil, err
	}
	set := &jobsetapi.JobSet{
		TypeMeta:   Kind,
		ObjectMeta: objectMeta(mc, Name(mc), attempt),
		Spec: jobsetapi.JobSetSpec{
			// This package makes the Service and the subdomain. Indexed Jobs set the host names.
			Network:       &jobsetapi.Network{EnableDNSHostnames: ptr.To(false), PublishNotReadyAddresses: ptr.To(true)},
			SuccessPolicy: &jobsetapi.SuccessPolicy{Operator: jobsetapi.OperatorAll, TargetReplicatedJobs: []string{v1alpha2.LeadJob}},
			FailurePolicy: &jobsetapi.FailurePolicy{MaxRestarts: 0, RestartStrategy: jobsetapi.Recreate},
			StartupPolicy: &jobsetapi.StartupPolicy{StartupPolicyOrder: jobsetapi.AnyOrder},
			Suspend:       ptr.To(false),
			ReplicatedJobs: []jobsetapi.ReplicatedJob{
				replicatedJob(mc, v1alpha2.LeadJob, template, 1, 0), // a command that failed is run again by the next attempt
			},
		},
	}
	watchLead(mc, &set.Spec.ReplicatedJobs[0].Template.Spec.Template)
	maps.Copy(set.Labels, jobLabels(mc))
	generation := mc.Generation
	if mc.Status.Admission != nil {
		generation = mc.Status.Admission.Generation
	}
	set.Annotations[v1alpha2.GenerationAnnotation] = strconv.FormatInt(generation, 10)
	if workers := Size(mc) - 1; workers > 0 {
		job := replicatedJob(mc, v1alpha2.WorkersJob, template, workers, workersBackoffLimit)
		// Each rank has a count of its own. Evicted pods are no failures, but they count for
		// the pause before a Job makes the next pod (10 s, doubled with each pod). With one
		// count for all ranks, a few leaving brokers would delay the pods of all others by minutes.
		job.Template.Spec.BackoffLimitPerIndex = ptr.To[int32](workersBackoffLimit)
		set.Spec.ReplicatedJobs = append(set.Spec.ReplicatedJobs, job)
	}
	if len(mc.Spec.Services) > 0 {
		job, err := servicesJob(mc)
		if err != nil {
			return nil, err
		}
		set.Spec.ReplicatedJobs = append(set.Spec.ReplicatedJobs, job)
	}
	return set, nil
}

// Size returns for how many brokers pods are made: MostSize, or status.maximumSize if that is less. The
// hosts of the others are down.
func Size(mc *v1alpha2.MiniCluster) int32 {
	most := mc.Spec.MostSize()
	if bound := mc.Status.MaximumSize; bound > 0 {
		most = min(most, bound)
	}
	return most
}

// CountJobs returns how many Jobs a MiniCluster has: the lead's, that of the workers, and that of the services.
func CountJobs(mc *v1alpha2.MiniCluster) int {
	jobs := 1
	if Size(mc) > 1 {
		jobs++
	}
	if len(mc.Spec.Services) > 0 {
		jobs++
	}
	return jobs
}

// Brokers returns for how many brokers a JobSet has pods.
func Brokers(set *jobsetapi.JobSet) int32 {
	brokers := int32(0)
	for i := range set.Spec.ReplicatedJobs {
		if job := &set.Spec.ReplicatedJobs[i]; job.Name == v1alpha2.LeadJob || job.Name == v1alpha2.WorkersJob {
			brokers += ptr.Deref(job.Template.Spec.Parallelism, 1)
		}
	}
	return brokers
}

func replicatedJob(mc *v1alpha2.MiniCluster, name string, template corev1.PodTemplateSpec, pods, backoffLimit int32) jobsetapi.ReplicatedJob {
	job := batchv1.JobSpec{
		Parallelism:    ptr.To(pods),
		Completions:    ptr.To(pods),
		CompletionMode: ptr.To(batchv1.IndexedCompletion),
		BackoffLimit:   ptr.To(backoffLimit),
		// Kubernetes' default for some Jobs is another one: a second pod of a rank beside one that still ends.
		PodReplacementPolicy: ptr.To(batchv1.Failed),
		Template:             *template.DeepCopy(),
	}
	if name == v1alpha2.WorkersJob {
		// An evicted pod, for example of a MiniCluster that shrinks, has not failed. The lead's Job has no such rule: an
		// attempt has one lead, and ends with its pod, however that ends.
		job.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			}},
		}}}
	}
	return jobsetapi.ReplicatedJob{
		Name: name, GroupName: "default", Replicas: 1,
		Template: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: jobLabels(mc)},
			Spec:       job,
		},
	}
}

// jobLabels returns the labels of the JobSet and its Jobs: the user's and ours. Ours win.
func jobLabels(mc *v1alpha2.MiniCluster) map[string]string {
	labels := ofUsers(mc.Spec.JobLabels)
	labels[v1alpha2.MiniClusterLabel] = mc.Name
	return labels
}

// ofUsers copies labels that users may set in templates of Jobs. The API server refuses the others, but a MiniCluster from
// before may have them. By Kueue's, Kueue would suspend the JobSet of a MiniCluster that has nodes. The Job controller
// refuses other values of its own.
func ofUsers(labels map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range labels {
		if !strings.HasPrefix(name, v1alpha2.KueuePrefix) {
			out[name] = value
		}
	}
	for _, name := range []string{batchv1.JobNameLabel, batchv1.ControllerUidLabel, "job-name", "controller-uid"} {
		delete(out, name)
	}
	return out
}
