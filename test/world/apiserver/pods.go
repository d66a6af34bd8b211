// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func labelsOf(object client.Object) labels.Set { return object.GetLabels() }

// preparePod begins the status of a pod: podStrategy in k8s.io/kubernetes/pkg/registry/core/pod.
func preparePod(pod *corev1.Pod) {
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: quality(pod)}
	if len(pod.Spec.SchedulingGates) > 0 {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates", LastTransitionTime: now(),
		}}
	}
}

// quality is the class of a pod by its requests and limits of CPU and memory.
func quality(pod *corev1.Pod) corev1.PodQOSClass {
	guaranteed, asks := true, false
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				request, limit := r.Requests[name], r.Limits[name]
				asks = asks || !request.IsZero() || !limit.IsZero()
				guaranteed = guaranteed && !limit.IsZero() && request.Cmp(limit) == 0
			}
		}
	}
	switch {
	case !asks:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

func validatePod(pod *corev1.Pod) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if len(pod.Spec.Containers) == 0 {
		errs = append(errs, field.Required(spec.Child("containers"), ""))
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(spec.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	errs = append(errs, validateVolumes(&pod.Spec, spec)...)
	errs = append(errs, validateContainers(pod.Spec.InitContainers, spec.Child("initContainers"))...)
	return append(errs, validateContainers(pod.Spec.Containers, spec.Child("containers"))...)
}

func validateVolumes(pod *corev1.PodSpec, spec *field.Path) (errs field.ErrorList) {
	known := map[string]bool{}
	for i := range pod.Volumes {
		if path := spec.Child("volumes").Index(i).Child("name"); known[pod.Volumes[i].Name] {
			errs = append(errs, field.Duplicate(path, pod.Volumes[i].Name))
		}
		known[pod.Volumes[i].Name] = true
	}
	mounted := func(containers []corev1.Container, path *field.Path) {
		for i := range containers {
			for j, mount := range containers[i].VolumeMounts {
				if !known[mount.Name] {
					errs = append(errs, field.NotFound(path.Index(i).Child("volumeMounts").Index(j).Child("name"), mount.Name))
				}
			}
		}
	}
	mounted(pod.InitContainers, spec.Child("initContainers"))
	mounted(pod.Containers, spec.Child("containers"))
	return errs
}

func validateContainers(containers []corev1.Container, path *field.Path) (errs field.ErrorList) {
	names := map[string]bool{}
	for i := range containers {
		c, at := &containers[i], path.Index(i)
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case names[c.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		default:
			for _, message := range validation.NameIsDNSLabel(c.Name, false) {
				errs = append(errs, field.Invalid(at.Child("name"), c.Name, message))
			}
		}
		names[c.Name] = true
		if c.Image == "" {
			errs = append(errs, field.Required(at.Child("image"), ""))
		}
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Requests)) {
			request := c.Resources.Requests[name]
			limit, limited := c.Resources.Limits[name]
			if limited && request.Cmp(limit) > 0 {
				errs = append(errs, field.Invalid(at.Child("resources", "requests"), request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
			}
		}
	}
	return errs
}

// validatePodUpdate refuses changes of a pod's spec, with the exceptions of ValidatePodUpdate in
// k8s.io/kubernetes/pkg/apis/core/validation.
func validatePodUpdate(pod, old *corev1.Pod) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	for i, gate := range pod.Spec.SchedulingGates {
		if !slices.Contains(old.Spec.SchedulingGates, gate) {
			errs = append(errs, field.Forbidden(spec.Child("schedulingGates").Index(i).Child("name"), fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", gate.Name)))
		}
	}
	changed := pod.Spec.DeepCopy()
	changed.SchedulingGates = old.Spec.SchedulingGates
	changed.Tolerations, changed.ActiveDeadlineSeconds = old.Spec.Tolerations, old.Spec.ActiveDeadlineSeconds
	for _, pair := range [][2][]corev1.Container{{changed.Containers, old.Spec.Containers}, {changed.InitContainers, old.Spec.InitContainers}} {
		for i := range min(len(pair[0]), len(pair[1])) {
			pair[0][i].Image = pair[1][i].Image
		}
	}
	if grace := old.Spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 && ptr.Deref(changed.TerminationGracePeriodSeconds, 0) == 1 {
		changed.TerminationGracePeriodSeconds = grace
	}
	if len(old.Spec.SchedulingGates) > 0 { // such a pod may be told where it may go
		changed.NodeSelector = old.Spec.NodeSelector
		if changed.Affinity != nil || old.Spec.Affinity != nil {
			errs = append(errs, validateNarrowed(&pod.Spec, &old.Spec)...)
			changed.Affinity = old.Spec.Affinity
		}
	}
	if !equality.Semantic.DeepEqual(*changed, old.Spec) {
		errs = append(errs, field.Forbidden(spec, "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"))
	}
	return errs
}

// validateNarrowed lets a gated pod get a narrower affinity to nodes only.
func validateNarrowed(pod, old *corev1.PodSpec) field.ErrorList {
	required := func(spec *corev1.PodSpec) *corev1.NodeSelector {
		if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
			return nil
		}
		return spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	path := field.NewPath("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	before, after := required(old), required(pod)
	if before == nil {
		return nil
	}
	if after == nil || len(after.NodeSelectorTerms) != len(before.NodeSelectorTerms) {
		return field.ErrorList{field.Invalid(path.Child("nodeSelectorTerms"), "", "no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	for i := range before.NodeSelectorTerms {
		a, b := before.NodeSelectorTerms[i], after.NodeSelectorTerms[i]
		if len(b.MatchExpressions) < len(a.MatchExpressions) || !equality.Semantic.DeepEqual(a.MatchExpressions, b.MatchExpressions[:len(a.MatchExpressions)]) ||
			len(b.MatchFields) < len(a.MatchFields) || !equality.Semantic.DeepEqual(a.MatchFields, b.MatchFields[:len(a.MatchFields)]) {
			return field.ErrorList{field.Invalid(path.Child("nodeSelectorTerms").Index(i), "", "only additions are allowed (no mutations or deletions)")}
		}
	}
	return nil
}

// prepareJob gives a Job its selector, and its pods the labels for it: jobStrategy in
// k8s.io/kubernetes/pkg/registry/batch/job.
func prepareJob(job *batchv1.Job) {
	defer func() {
		if len(job.Labels) == 0 { // a default that a Job gets when it is read
			job.Labels = job.Spec.Template.Labels
		}
	}()
	if ptr.Deref(job.Spec.ManualSelector, false) {
		return
	}
	added := map[string]string{
		"job-name": job.Name, batchv1.JobNameLabel: job.Name, "controller-uid": string(job.UID), batchv1.ControllerUidLabel: string(job.UID),
	}
	job.Spec.Template.Labels = merged(added, job.Spec.Template.Labels)
	if job.Spec.Selector == nil {
		job.Spec.Selector = &metav1.LabelSelector{}
	}
	if _, found := job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !found {
		job.Spec.Selector.MatchLabels = merged(job.Spec.Selector.MatchLabels, map[string]string{batchv1.ControllerUidLabel: string(job.UID)})
	}
}
