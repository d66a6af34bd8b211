// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"maps"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// workersBackoffLimit is how many pods of followers may fail, and be made again,
// before the MiniCluster fails: the Flux Operator's limit.
const workersBackoffLimit = 100

// JobSet is the one of an attempt: a Job for the lead and, if there can be any,
// one for the followers, with a gated pod for each of maxSize brokers (BindDirectly
// makes them wait otherwise), and one for the services. It never changes. The lead's end
// is its end.
//
// It is written out in full, so that it is the same with JobSet's webhooks and
// without.
func JobSet(mc *v1alpha2.MiniCluster, attempt int32) (*jobsetapi.JobSet, error) {
	template, err := podTemplate(mc)
	if err != nil {
		return nil, err
	}
	set := &jobsetapi.JobSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: jobsetapi.GroupVersion.String(), Kind: "JobSet"},
		ObjectMeta: objectMeta(mc, Name(mc), attempt),
		Spec: jobsetapi.JobSetSpec{
			// The Service and the subdomain are ours; Indexed Jobs give the host names.
			Network:       &jobsetapi.Network{EnableDNSHostnames: ptr.To(false), PublishNotReadyAddresses: ptr.To(true)},
			SuccessPolicy: &jobsetapi.SuccessPolicy{Operator: jobsetapi.OperatorAll, TargetReplicatedJobs: []string{v1alpha2.LeadJob}},
			FailurePolicy: &jobsetapi.FailurePolicy{MaxRestarts: 0, RestartStrategy: jobsetapi.Recreate},
			StartupPolicy: &jobsetapi.StartupPolicy{StartupPolicyOrder: jobsetapi.AnyOrder},
			Suspend:       ptr.To(false),
			ReplicatedJobs: []jobsetapi.ReplicatedJob{
				replicatedJob(mc, v1alpha2.LeadJob, template, 1, leadBackoffLimit(mc)),
			},
		},
	}
	maps.Copy(set.Labels, jobLabels(mc))
	generation := mc.Generation
	if mc.Status.Admission != nil {
		generation = mc.Status.Admission.Generation
	}
	set.Annotations[v1alpha2.GenerationAnnotation] = strconv.FormatInt(generation, 10)
	if workers := mc.Spec.MaxSize - 1; workers > 0 {
		job := replicatedJob(mc, v1alpha2.WorkersJob, template, workers, workersBackoffLimit)
		if template.Spec.RestartPolicy == corev1.RestartPolicyNever {
			// Each rank has a count of its own. Pods that were evicted count for the pause before
			// a Job makes the next one (10 s, doubled with each), though not as failures: of one
			// count for all, a few brokers that leave would keep all others away for minutes.
			job.Template.Spec.BackoffLimitPerIndex = ptr.To[int32](workersBackoffLimit)
		}
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

// leadBackoffLimit is that of a Job which tries the lead so often again. Where containers
// are started again in their pod, a Job fails as soon as that was done as often as its
// limit says, unless it is 0.
func leadBackoffLimit(mc *v1alpha2.MiniCluster) int32 {
	limit := mc.Spec.BackoffLimit
	if limit > 0 && mc.Spec.Pod.RestartPolicy == corev1.RestartPolicyOnFailure {
		limit++
	}
	return limit
}

func replicatedJob(mc *v1alpha2.MiniCluster, name string, template corev1.PodTemplateSpec, pods, backoffLimit int32) jobsetapi.ReplicatedJob {
	job := batchv1.JobSpec{
		Parallelism:    ptr.To(pods),
		Completions:    ptr.To(pods),
		CompletionMode: ptr.To(batchv1.IndexedCompletion),
		BackoffLimit:   ptr.To(backoffLimit),
		Template:       *template.DeepCopy(),
	}
	if template.Spec.RestartPolicy == corev1.RestartPolicyNever {
		// A pod that is evicted, to shrink say, has not failed. (Jobs take the rule
		// with this restart policy only.)
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

// jobLabels are the labels of JobSet and Jobs: the user's, but never in place of
// ours.
func jobLabels(mc *v1alpha2.MiniCluster) map[string]string {
	labels := maps.Clone(mc.Spec.JobLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha2.MiniClusterLabel] = mc.Name
	return labels
}
