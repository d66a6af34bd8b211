// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// act does what a subresource of a pod asks for: to bind it, or to evict it.
func (w *write) act(c *call) (*metav1.Status, error) {
	switch w.subresource {
	case "binding":
		binding := &corev1.Binding{}
		if err := decodeInto(c.body, c.Header.Get("Content-Type"), binding); err != nil {
			return nil, err
		}
		return w.bind(binding)
	case "eviction":
		eviction := &policyv1.Eviction{}
		if err := decodeInto(c.body, c.Header.Get("Content-Type"), eviction); err != nil {
			return nil, err
		}
		return w.evict(eviction)
	}
	return nil, apierrors.NewMethodNotSupported(w.table.GroupResource(), "create")
}

func success() *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusCreated}
}

// bind gives a pod its node: BindingREST in k8s.io/kubernetes/pkg/registry/core/pod/storage.
func (w *write) bind(b *corev1.Binding) (*metav1.Status, error) {
	w.verb = "bind"
	if b.Name != "" && b.Name != w.key.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	old, err := w.server.find(w.table, w.key)
	if err != nil {
		return nil, err
	}
	resource := w.table.GroupResource()
	before := old.object.(*corev1.Pod)
	if b.UID != "" && b.UID != before.UID {
		return nil, w.precondition("UID", b.UID, before.UID)
	}
	if b.ResourceVersion != "" && b.ResourceVersion != before.ResourceVersion {
		return nil, w.precondition("ResourceVersion", b.ResourceVersion, before.ResourceVersion)
	}
	refusal := ""
	switch {
	case before.DeletionTimestamp != nil:
		refusal = fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", before.Name)
	case before.Spec.NodeName != "":
		refusal = fmt.Sprintf("pod %v is already assigned to node %q", before.Name, before.Spec.NodeName)
	case len(before.Spec.SchedulingGates) > 0:
		refusal = fmt.Sprintf("pod %v has non-empty .spec.schedulingGates", before.Name)
	}
	if refusal != "" {
		resource.Resource = "pods/binding"
		return nil, apierrors.NewConflict(resource, w.key.Name, fmt.Errorf("%s", refusal))
	}
	pod := shallow(before).(*corev1.Pod)
	pod.Spec.NodeName, pod.Status.NominatedNodeName = b.Target.Name, ""
	pod.Annotations, pod.Labels = merged(pod.Annotations, b.Annotations), merged(pod.Labels, b.Labels)
	pod.Status.Conditions = withCondition(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now()})
	if !w.dryRun {
		w.server.record(w, old, w.server.store(w.table, w.key, pod))
	}
	return success(), nil
}

func merged(to, from map[string]string) map[string]string {
	if len(from) == 0 {
		return to
	}
	out := maps.Clone(to)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, from)
	return out
}

// withCondition returns conditions with one of them replaced. A condition whose status stays keeps its time.
func withCondition(conditions []corev1.PodCondition, c corev1.PodCondition) []corev1.PodCondition {
	out := make([]corev1.PodCondition, 0, len(conditions)+1)
	found := false
	for _, old := range conditions {
		if old.Type == c.Type {
			found = true
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			old = c
		}
		out = append(out, old)
	}
	if !found {
		out = append(out, c)
	}
	return out
}

// evict deletes a pod if the budgets for disruptions allow it: EvictionREST in k8s.io/kubernetes/pkg/registry/core/pod/storage.
func (w *write) evict(e *policyv1.Eviction) (*metav1.Status, error) {
	w.verb = "evict"
	if e.Name != w.key.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	options := &metav1.DeleteOptions{}
	if e.DeleteOptions != nil {
		options = e.DeleteOptions.DeepCopy()
	}
	w.dryRun = w.dryRun || len(options.DryRun) > 0
	old, err := w.server.find(w.table, w.key)
	if err != nil {
		return nil, err
	}
	pod := old.object.(*corev1.Pod)
	if isDisturbed(pod) && pod.Status.Phase != corev1.PodPending {
		if refusal, err := w.server.askBudgets(pod, w.dryRun); refusal != nil || err != nil {
			return refusal, err
		}
	}
	if err := w.checkPreconditions(options.Preconditions, pod); err != nil {
		return nil, err
	}
	if isDisturbed(pod) && !w.dryRun {
		w.markEvicted(old, options.Preconditions)
	}
	if _, _, err := w.delete(options); err != nil {
		return nil, err
	}
	return success(), nil
}

// isDisturbed reports whether an eviction disturbs a pod: it has not ended, and is not deleted already.
func isDisturbed(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// markEvicted says in the status of a pod why it is deleted. Preconditions are then about that version.
func (w *write) markEvicted(old *version, p *metav1.Preconditions) {
	marked := shallow(old.object).(*corev1.Pod)
	marked.Status.Conditions = withCondition(marked.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
		Message: "Eviction API: evicting", LastTransitionTime: now(),
	})
	v := w.server.store(w.table, w.key, marked)
	w.server.record(w, old, v)
	if p != nil && p.ResourceVersion != nil {
		p.ResourceVersion = new(strconv.FormatUint(v.number, 10))
	}
}

// askBudgets takes one disruption from the budget of a pod, if it has one.
func (s *Server) askBudgets(pod *corev1.Pod, dryRun bool) (*metav1.Status, error) {
	t := s.builtinTable("poddisruptionbudgets")
	var budgets []*version
	for _, k := range t.sorted {
		selector, err := metav1.LabelSelectorAsSelector(t.objects[k].object.(*policyv1.PodDisruptionBudget).Spec.Selector)
		if err == nil && k.Namespace == pod.Namespace && (selector.Matches(labelsOf(pod))) {
			budgets = append(budgets, t.objects[k])
		}
	}
	switch len(budgets) {
	case 0:
		return nil, nil
	case 1:
	default:
		return &metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}, nil
	}
	budget := shallow(budgets[0].object).(*policyv1.PodDisruptionBudget)
	if budget.Status.DisruptionsAllowed <= 0 || budget.Status.ObservedGeneration < budget.Generation {
		err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type:    policyv1.DisruptionBudgetCause,
			Message: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", budget.Name, budget.Status.DesiredHealthy, budget.Status.CurrentHealthy),
		})
		return nil, err
	}
	if !dryRun {
		budget.Status.DisruptionsAllowed--
		s.store(t, client.ObjectKeyFromObject(budget), budget)
	}
	return nil, nil
}
