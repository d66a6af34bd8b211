// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	quota "k8s.io/apiserver/pkg/quota/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var zero = *resource.NewQuantity(0, resource.DecimalSI)

// charge asks the quotas of a namespace for a new object, and notes in their statuses what it uses: CheckRequest in
// k8s.io/apiserver/pkg/admission/plugin/resourcequota. Only what a status limits counts: the quota controller copies that
// from the spec. An object that is refused later stays counted until the quota controller counts again.
func (w *write) charge(object client.Object) error {
	quotas := w.server.quotasOf(w.key.Namespace)
	if len(quotas) == 0 {
		return nil
	}
	type next struct {
		key  key
		used corev1.ResourceList
	}
	var changed []next
	usage := quota.RemoveZeros(usageOf(w.table, object))
	for _, q := range quotas {
		if !inScope(q, object) || len(quota.Mask(usageOf(w.table, object), quota.ResourceNames(q.Status.Hard))) == 0 {
			continue
		}
		if missing := missingRequests(q, object); missing != "" {
			return w.overQuota(object, fmt.Sprintf("failed quota: %s: must specify %s", q.Name, missing))
		}
		asked := quota.Mask(usage, quota.ResourceNames(q.Status.Hard))
		used := quota.Add(q.Status.Used, asked)
		if allowed, exceeded := quota.LessThanOrEqual(quota.Mask(used, quota.ResourceNames(asked)), q.Status.Hard); !allowed {
			return w.overQuota(object, fmt.Sprintf("exceeded quota: %s, requested: %s, used: %s, limited: %s", q.Name,
				printed(quota.Mask(asked, exceeded)), printed(quota.Mask(q.Status.Used, exceeded)), printed(quota.Mask(q.Status.Hard, exceeded))))
		}
		changed = append(changed, next{client.ObjectKeyFromObject(q), used})
	}
	if w.dryRun {
		return nil
	}
	t := w.server.builtinTable("resourcequotas")
	for _, n := range changed {
		q := shallow(t.objects[n.key].object).(*corev1.ResourceQuota)
		if q.Status.Used = n.used; !equality.Semantic.DeepEqual(q, t.objects[n.key].object) {
			w.server.store(t, n.key, q)
		}
	}
	return nil
}

func (s *Server) quotasOf(namespace string) (quotas []*corev1.ResourceQuota) {
	if namespace == "" {
		return nil
	}
	t := s.builtinTable("resourcequotas")
	for _, k := range t.sorted {
		if k.Namespace == namespace {
			quotas = append(quotas, t.objects[k].object.(*corev1.ResourceQuota))
		}
	}
	return quotas
}

func (w *write) overQuota(object client.Object, message string) error {
	return apierrors.NewForbidden(w.table.GroupResource(), object.GetName(), fmt.Errorf("%s", message))
}

func printed(list corev1.ResourceList) string {
	var parts []string
	for _, name := range quota.ResourceNames(list) {
		value := list[name]
		parts = append(parts, string(name)+"="+value.String())
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// usageOf is what an object uses of quotas: k8s.io/kubernetes/pkg/quota/v1/evaluator/core.
func usageOf(t *table, object client.Object) corev1.ResourceList {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	count := corev1.ResourceName("count/" + t.GroupResource().String())
	usage := corev1.ResourceList{count: one}
	switch o := object.(type) {
	case *corev1.Pod:
		if countsInQuota(o) {
			usage[corev1.ResourcePods] = one
			usage = quota.Add(usage, podUsage(resourcehelper.PodRequests(o, resourcehelper.PodResourcesOptions{}), resourcehelper.PodLimits(o, resourcehelper.PodResourcesOptions{})))
		}
	case *corev1.PersistentVolumeClaim:
		usage[corev1.ResourcePersistentVolumeClaims] = one
		usage[corev1.ResourceRequestsStorage] = o.Spec.Resources.Requests[corev1.ResourceStorage]
		if class := ptr.Deref(o.Spec.StorageClassName, ""); class != "" {
			usage[corev1.ResourceName(class+".storageclass.storage.k8s.io/persistentvolumeclaims")] = one
			usage[corev1.ResourceName(class+".storageclass.storage.k8s.io/requests.storage")] = usage[corev1.ResourceRequestsStorage]
		}
	case *corev1.Service, *corev1.Secret, *corev1.ConfigMap, *corev1.ReplicationController, *corev1.ResourceQuota:
		usage[corev1.ResourceName(t.GroupVersionResource.Resource)] = one
	}
	return usage
}

func podUsage(requests, limits corev1.ResourceList) corev1.ResourceList {
	usage := corev1.ResourceList{}
	for name, request := range requests {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			usage[name] = request
		default:
			if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
				usage[name] = request
			}
		}
		usage[corev1.DefaultResourceRequestsPrefix+name] = request
	}
	for name, limit := range limits {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			usage["limits."+name] = limit
		}
	}
	return usage
}

// countsInQuota is false for pods that have ended, and for those that should have long ended.
func countsInQuota(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	if pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil {
		return !time.Now().After(pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second))
	}
	return true
}

// missingRequests names the requests and limits that a quota of CPU or memory demands of every container.
func missingRequests(q *corev1.ResourceQuota, object client.Object) string {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.Resources != nil {
		return ""
	}
	demanded := []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
	}
	var parts []string
	slices.Sort(demanded)
	for _, name := range demanded {
		if _, limited := q.Status.Hard[name]; !limited {
			continue
		}
		var containers []string
		for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			if _, has := podUsage(c.Resources.Requests, c.Resources.Limits)[name]; !has {
				containers = append(containers, c.Name)
			}
		}
		if slices.Sort(containers); len(containers) > 0 {
			parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(containers, ",")))
		}
	}
	return strings.Join(parts, "; ")
}

// inScope reports whether a quota is about an object: its scopes are about pods.
func inScope(q *corev1.ResourceQuota, object client.Object) bool {
	var scopes []corev1.ScopedResourceSelectorRequirement
	if q.Spec.ScopeSelector != nil {
		scopes = slices.Clone(q.Spec.ScopeSelector.MatchExpressions)
	}
	for _, name := range q.Spec.Scopes {
		scopes = append(scopes, corev1.ScopedResourceSelectorRequirement{ScopeName: name, Operator: corev1.ScopeSelectorOpExists})
	}
	if len(scopes) == 0 {
		return true
	}
	pod, ok := object.(*corev1.Pod)
	return ok && !slices.ContainsFunc(scopes, func(s corev1.ScopedResourceSelectorRequirement) bool { return !podInScope(pod, &s) })
}

func podInScope(pod *corev1.Pod, s *corev1.ScopedResourceSelectorRequirement) bool {
	terminating := pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
	bestEffort := quality(pod) == corev1.PodQOSBestEffort
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return terminating
	case corev1.ResourceQuotaScopeNotTerminating:
		return !terminating
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort
	case corev1.ResourceQuotaScopePriorityClass:
		operators := map[corev1.ScopeSelectorOperator]selection.Operator{
			corev1.ScopeSelectorOpIn: selection.In, corev1.ScopeSelectorOpNotIn: selection.NotIn,
			corev1.ScopeSelectorOpExists: selection.Exists, corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
		}
		r, err := labels.NewRequirement(string(s.ScopeName), operators[s.Operator], s.Values)
		set := labels.Set{}
		if pod.Spec.PriorityClassName != "" {
			set[string(s.ScopeName)] = pod.Spec.PriorityClassName
		}
		return err == nil && r.Matches(set)
	default: // CrossNamespacePodAffinity: no pod of a world has that
		return false
	}
}
