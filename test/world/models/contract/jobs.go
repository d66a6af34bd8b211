// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// spec is the spec of a Job whose pods no scheduler binds.
func spec(change func(*batchv1.JobSpec)) batchv1.JobSpec {
	s := batchv1.JobSpec{
		Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), CompletionMode: ptr.To(batchv1.IndexedCompletion),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, SchedulerName: "nobody",
			Containers: []corev1.Container{{Name: "main", Image: "app"}},
		}},
	}
	change(&s)
	return s
}

func policy(rules ...batchv1.PodFailurePolicyRule) *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: rules}
}

func onCode(action batchv1.PodFailurePolicyAction, code int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
		Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{code},
	}}
}

func onDisruption(action batchv1.PodFailurePolicyAction) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
	}}}
}

// do makes a step.
func do(want string, acts ...Act) Step { return Step{Do: acts, Want: []string{want}} }

// either makes a step with two outcomes.
func either(want, or string, acts ...Act) Step { return Step{Do: acts, Want: []string{want, or}} }

const complete = "; SuccessCriteriaMet=True CompletionsReached; Complete=True CompletionsReached"

func failedFor(reason string) string {
	return "; FailureTarget=True " + reason + "; Failed=True " + reason
}

// Jobs are the scenarios of the Job controller.
var Jobs = slices.Concat([]Scenario{
	{Name: "an Indexed Job completes", Job: spec(func(s *batchv1.JobSpec) { s.Completions = ptr.To[int32](3) }), Steps: []Step{
		do("0 Pending, 1 Pending; active 2, ready 0, terminating 0, succeeded 0, failed 0"),
		do("0 Running, 1 Pending; active 2, ready 1, terminating 0, succeeded 0, failed 0", Run("0")),
		do(`0 Succeeded released, 1 Pending, 2 Pending; active 2, ready 0, terminating 0, succeeded 1, failed 0; done "0", broken ""`, End("0", 0)),
		do(`0 Succeeded released, 1 Succeeded released, 2 Succeeded released; active 0, ready 0, terminating 0, succeeded 3, failed 0; done "0-2", broken ""`+complete, End("2", 0), End("1", 0)),
		do(`0 Succeeded released alone, 1 Succeeded released alone, 2 Succeeded released alone; no Job`, seenByCollector, DeleteJob(metav1.DeletePropagationOrphan)),
	}},
	{Name: "a Job without indexes replaces a pod that failed, and fails after its limit", Job: spec(func(s *batchv1.JobSpec) {
		s.CompletionMode, s.BackoffLimit = nil, ptr.To[int32](1)
	}), Steps: []Step{
		do("pod Pending, pod Pending; active 2, ready 0, terminating 0, succeeded 0, failed 0"),
		do("pod Failed released, pod Pending, pod Pending; active 2, ready 0, terminating 0, succeeded 0, failed 1", End("", 1)),
		do("pod Failed released, pod Failed released; active 0, ready 0, terminating 0, succeeded 0, failed 3"+failedFor("BackoffLimitExceeded"), End("", 1)),
	}},
	{Name: "a work queue completes with its last pod", Job: spec(func(s *batchv1.JobSpec) { s.CompletionMode, s.Completions = nil, nil }), Steps: []Step{
		do("pod Pending, pod Pending; active 2, ready 0, terminating 0, succeeded 0, failed 0"),
		do("pod Pending, pod Succeeded released; active 1, ready 0, terminating 0, succeeded 1, failed 0", End("", 0)),
		do("pod Succeeded released, pod Succeeded released; active 0, ready 0, terminating 0, succeeded 2, failed 0"+complete, End("", 0)),
	}},
	{Name: "an Indexed Job changes its size", Job: spec(func(s *batchv1.JobSpec) {
		s.Parallelism, s.Completions = ptr.To[int32](3), ptr.To[int32](3)
	}), Steps: []Step{
		do("0 Running, 1 Pending, 2 Running; active 3, ready 2, terminating 0, succeeded 0, failed 0", waitFor(3), Run("0"), Run("2")),
		do("0 Running; active 1, ready 1, terminating 0, succeeded 0, failed 0", resize(1)),
		do("0 Running, 1 Pending; active 2, ready 1, terminating 0, succeeded 0, failed 0", resize(2)),
	}},
	{Name: "a Job is suspended and resumed", Job: spec(func(s *batchv1.JobSpec) { s.Suspend = ptr.To(true) }), Steps: []Step{
		do("; active 0, ready 0, terminating 0, succeeded 0, failed 0; Suspended=True JobSuspended"),
		do("0 Pending, 1 Pending; active 2, ready 0, terminating 0, succeeded 0, failed 0; Suspended=False JobResumed", suspend(false)),
		do("; active 0, ready 0, terminating 0, succeeded 0, failed 0; Suspended=True JobSuspended", suspend(true)),
	}},
	{Name: "a Job is over its time", Job: spec(func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](5) }), Steps: []Step{
		do("; active 0, ready 0, terminating 0, succeeded 0, failed 2"+failedFor("DeadlineExceeded"), waitFor(2)),
	}},
	{Name: "kubelets restart containers too often", Job: spec(func(s *batchv1.JobSpec) {
		s.Template.Spec.RestartPolicy, s.BackoffLimit = corev1.RestartPolicyOnFailure, ptr.To[int32](2)
	}), Steps: []Step{
		do("0 Running, 1 Pending; active 2, ready 1, terminating 0, succeeded 0, failed 0", waitFor(2), Run("0")),
		do("0 Running, 1 Running; active 2, ready 2, terminating 0, succeeded 0, failed 0", Restarted("0", 1), Run("1")),
		do("; active 0, ready 0, terminating 0, succeeded 0, failed 2"+failedFor("BackoffLimitExceeded"), Restarted("0", 2)),
	}},
}, byIndex, policies, deletions)

func resize(size int32) Act {
	return Change(func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = ptr.To(size), ptr.To(size) })
}

func suspend(suspended bool) Act {
	return Change(func(s *batchv1.JobSpec) { s.Suspend = ptr.To(suspended) })
}

// byIndex are scenarios with a limit for each index.
var byIndex = []Scenario{
	{Name: "an index fails after its limit, and the Job once the others have ended", Job: spec(func(s *batchv1.JobSpec) { s.BackoffLimitPerIndex = ptr.To[int32](1) }), Steps: []Step{
		do("0/0 Pending, 1/0 Pending; active 2, ready 0, terminating 0, succeeded 0, failed 0"),
		do("0/0 Failed released, 0/1 Pending, 1/0 Pending; active 2, ready 0, terminating 0, succeeded 0, failed 1", End("0", 1)),
		do(`0/0 Failed released, 0/1 Failed released, 1/0 Pending; active 1, ready 0, terminating 0, succeeded 0, failed 2; done "", broken "0"`, End("0", 1)),
		do(`0/0 Failed released, 0/1 Failed released, 1/0 Succeeded released; active 0, ready 0, terminating 0, succeeded 1, failed 2; done "1", broken "0"`+failedFor("FailedIndexes"), End("1", 0)),
	}},
	{Name: "too many indexes fail", Job: spec(func(s *batchv1.JobSpec) {
		s.BackoffLimitPerIndex, s.MaxFailedIndexes = ptr.To[int32](0), ptr.To[int32](0)
	}), Steps: []Step{
		either(`0/0 Failed released; active 0, ready 0, terminating 0, succeeded 0, failed 2; done "", broken "0"`+failedFor("MaxFailedIndexesExceeded"),
			// if the Job controller has deleted the pod of index 1, and has to count once more
			`0/0 Failed released; active 0, ready 0, terminating 0, succeeded 0, failed 2; done "", broken "0,1"`+failedFor("MaxFailedIndexesExceeded"),
			waitFor(2), End("0", 1)),
	}},
	{Name: "an index has a disruption that does not count", Job: spec(func(s *batchv1.JobSpec) {
		s.BackoffLimitPerIndex, s.PodFailurePolicy = ptr.To[int32](0), policy(onDisruption(batchv1.PodFailurePolicyActionIgnore))
	}), Steps: []Step{
		do("0/0 Failed released, 0/0/1 Pending, 1/0 Pending; active 2, ready 0, terminating 0, succeeded 0, failed 0", waitFor(2), Disrupt("0")),
		do(`0/0 Failed released, 0/0/1 Failed released, 1/0 Pending; active 1, ready 0, terminating 0, succeeded 0, failed 1; done "", broken "0"`, End("0", 1)),
	}},
}

// policies are scenarios with a failure policy.
var policies = []Scenario{
	{Name: "an exit code fails the Job", Job: spec(func(s *batchv1.JobSpec) {
		s.PodFailurePolicy = policy(onCode(batchv1.PodFailurePolicyActionFailJob, 42))
	}), Steps: []Step{
		do("0 Failed released; active 0, ready 0, terminating 0, succeeded 0, failed 2"+failedFor("PodFailurePolicy"), waitFor(2), End("0", 42)),
	}},
	{Name: "an exit code fails its index", Job: spec(func(s *batchv1.JobSpec) {
		s.BackoffLimitPerIndex, s.PodFailurePolicy = ptr.To[int32](3), policy(onCode(batchv1.PodFailurePolicyActionFailIndex, 42))
	}), Steps: []Step{
		do(`0/0 Failed released, 1/0 Pending; active 1, ready 0, terminating 0, succeeded 0, failed 1; done "", broken "0"`, waitFor(2), End("0", 42)),
	}},
	{Name: "an exit code counts, and another one does not", Job: spec(func(s *batchv1.JobSpec) {
		s.BackoffLimit, s.PodFailurePolicy = ptr.To[int32](0), policy(onCode(batchv1.PodFailurePolicyActionIgnore, 7), onCode(batchv1.PodFailurePolicyActionCount, 8))
	}), Steps: []Step{
		do("0 Failed released, 0 Pending, 1 Pending; active 2, ready 0, terminating 0, succeeded 0, failed 0", waitFor(2), End("0", 7)),
		do("0 Failed released, 0 Failed released; active 0, ready 0, terminating 0, succeeded 0, failed 2"+failedFor("BackoffLimitExceeded"), End("0", 8)),
	}},
}

// deletions are scenarios with pods that are deleted and still run.
var deletions = []Scenario{
	{Name: "a pod is replaced when it is deleted", Bound: true, Job: spec(func(*batchv1.JobSpec) {}), Steps: []Step{
		do("0 Running, 1 Running; active 2, ready 2, terminating 0, succeeded 0, failed 0", waitFor(2), Run("0"), Run("1")),
		do("0 Pending, 0 Running deleted released, 1 Running; active 2, ready 1, terminating 1, succeeded 0, failed 1", Delete("0")),
		do("0 Pending, 1 Running; active 2, ready 1, terminating 0, succeeded 0, failed 1", Gone("0", 143)),
	}},
	{Name: "a pod is replaced when it has failed", Bound: true, Job: spec(func(s *batchv1.JobSpec) {
		s.PodReplacementPolicy = ptr.To(batchv1.Failed)
	}), Steps: []Step{
		do("0 Running, 1 Running; active 2, ready 2, terminating 0, succeeded 0, failed 0", waitFor(2), Run("0"), Run("1")),
		do("0 Running deleted, 1 Running; active 1, ready 1, terminating 1, succeeded 0, failed 0", Delete("0")),
		do("0 Pending, 1 Running; active 2, ready 1, terminating 0, succeeded 0, failed 1", Gone("0", 143)),
	}},
	{Name: "with a failure policy a pod is replaced when it has failed", Bound: true, Job: spec(func(s *batchv1.JobSpec) {
		s.BackoffLimitPerIndex, s.PodFailurePolicy = ptr.To[int32](5), policy(onDisruption(batchv1.PodFailurePolicyActionIgnore))
	}), Steps: []Step{
		do("0/0 Running deleted, 1/0 Pending; active 1, ready 0, terminating 1, succeeded 0, failed 0", waitFor(2), Run("0"), Delete("0")),
		do("0/1 Pending, 1/0 Pending; active 2, ready 0, terminating 0, succeeded 0, failed 1", Gone("0", 143)),
	}},
	{Name: "a Job ends once its deleted pods have ended", Bound: true, Job: spec(func(s *batchv1.JobSpec) {
		s.BackoffLimit = ptr.To[int32](0)
	}), Steps: []Step{
		do("0 Failed released, 1 Running deleted released; active 0, ready 0, terminating 1, succeeded 0, failed 2; FailureTarget=True BackoffLimitExceeded", waitFor(2), Run("1"), End("0", 1)),
		do("0 Failed released; active 0, ready 0, terminating 0, succeeded 0, failed 2"+failedFor("BackoffLimitExceeded"), Gone("1", 143)),
	}},
	{Name: "a Job is deleted with its pods", Job: spec(func(*batchv1.JobSpec) {}), Steps: []Step{
		do("; no Job", waitFor(2), Run("0"), DeleteJob(metav1.DeletePropagationBackground)),
	}},
	{Name: "a Job is deleted after its pods", Bound: true, Job: spec(func(*batchv1.JobSpec) {}), Steps: []Step{
		// Its pods count as failed if they are deleted before the Job controller sees the deletion of the Job.
		do("; no Job", waitFor(2), Run("0"), DeleteJob(metav1.DeletePropagationForeground), Gone("0", 143), Gone("1", 143)),
	}},
	{Name: "a Job is deleted without its pods", Job: spec(func(*batchv1.JobSpec) {}), Steps: []Step{
		do("0 Running released alone, 1 Pending released alone; no Job", waitFor(2), Run("0"), seenByCollector, DeleteJob(metav1.DeletePropagationOrphan)),
	}},
}
