// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// validateJob checks what a Job needs: ValidateJob in k8s.io/kubernetes/pkg/apis/batch/validation.
func validateJob(job *batchv1.Job) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	isIndexed := ptr.Deref(job.Spec.CompletionMode, "") == batchv1.IndexedCompletion
	if isIndexed && job.Spec.Completions == nil {
		errs = append(errs, field.Required(spec.Child("completions"), "when completion mode is Indexed"))
	}
	if job.Spec.BackoffLimitPerIndex != nil && !isIndexed {
		errs = append(errs, field.Invalid(spec.Child("backoffLimitPerIndex"), *job.Spec.BackoffLimitPerIndex, "requires indexed completion mode"))
	}
	for _, number := range []struct {
		name  string
		value *int32
	}{{"parallelism", job.Spec.Parallelism}, {"completions", job.Spec.Completions}, {"backoffLimit", job.Spec.BackoffLimit}} {
		if number.value != nil && *number.value < 0 {
			errs = append(errs, field.Invalid(spec.Child(number.name), int64(*number.value), "must be greater than or equal to 0"))
		}
	}
	template := spec.Child("template", "spec")
	switch job.Spec.Template.Spec.RestartPolicy {
	case corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure:
	default:
		errs = append(errs, field.Required(template.Child("restartPolicy"), `valid values: "OnFailure", "Never"`))
	}
	if len(job.Spec.Template.Spec.Containers) == 0 {
		errs = append(errs, field.Required(template.Child("containers"), ""))
	}
	return append(errs, validateContainers(job.Spec.Template.Spec.Containers, template.Child("containers"))...)
}

// validateJobUpdate refuses changes of what a Job keeps. The template of a Job that is suspended and has not begun may
// get other directives for scheduling.
func validateJobUpdate(job, old *batchv1.Job) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateJob(job)
	template := old.Spec.Template.DeepCopy()
	if ptr.Deref(old.Spec.Suspend, false) && old.Status.StartTime == nil {
		next := &job.Spec.Template
		template.Annotations, template.Labels = next.Annotations, next.Labels
		template.Spec.NodeSelector, template.Spec.Affinity = next.Spec.NodeSelector, next.Spec.Affinity
		template.Spec.Tolerations, template.Spec.SchedulingGates = next.Spec.Tolerations, next.Spec.SchedulingGates
	}
	for _, kept := range []struct {
		name     string
		now, was any
	}{
		{"selector", job.Spec.Selector, old.Spec.Selector},
		{"template", job.Spec.Template, *template},
		{"completionMode", job.Spec.CompletionMode, old.Spec.CompletionMode},
		{"podFailurePolicy", job.Spec.PodFailurePolicy, old.Spec.PodFailurePolicy},
		{"backoffLimitPerIndex", job.Spec.BackoffLimitPerIndex, old.Spec.BackoffLimitPerIndex},
		{"managedBy", job.Spec.ManagedBy, old.Spec.ManagedBy},
		{"successPolicy", job.Spec.SuccessPolicy, old.Spec.SuccessPolicy},
	} {
		errs = append(errs, validation.ValidateImmutableField(kept.now, kept.was, spec.Child(kept.name))...)
	}
	// The completions of an indexed Job may change together with its parallelism.
	isElastic := ptr.Deref(job.Spec.CompletionMode, "") == batchv1.IndexedCompletion && ptr.Equal(job.Spec.Completions, job.Spec.Parallelism)
	if !isElastic {
		errs = append(errs, validation.ValidateImmutableField(job.Spec.Completions, old.Spec.Completions, spec.Child("completions"))...)
	}
	return errs
}
