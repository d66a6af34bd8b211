// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	quotas "k8s.io/apiserver/pkg/quota/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/flux-elastic/flux-elastic/internal/state"
)

// countPods is the quota on the number of pods, ended ones included.
const countPods = corev1.ResourceName("count/pods")

// isNative reports whether quotas name a resource also without a prefix.
func isNative(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// Quotas are the ResourceQuotas of namespaces, with what admitted MiniClusters will still use of
// them.
type Quotas struct {
	byNamespace map[string][]*corev1.ResourceQuota // by name
	reserved    map[string]corev1.ResourceList
	limits      map[string]string
}

// NewQuotas returns quotas without reservations.
func NewQuotas(quotas []*corev1.ResourceQuota) *Quotas {
	q := &Quotas{byNamespace: map[string][]*corev1.ResourceQuota{}, reserved: map[string]corev1.ResourceList{}, limits: map[string]string{}}
	sorted := slices.SortedFunc(slices.Values(quotas), func(a, b *corev1.ResourceQuota) int { return cmp.Compare(a.Name, b.Name) })
	for _, quota := range sorted {
		q.byNamespace[quota.Namespace] = append(q.byNamespace[quota.Namespace], quota)
	}
	return q
}

// Limit reports whether a namespace has a quota.
func (q *Quotas) Limit(namespace string) bool { return len(q.byNamespace[namespace]) > 0 }

// Limits are the limits of a namespace's quotas, to compare with later ones: those that are wanted,
// and those that the API server enforces.
func (q *Quotas) Limits(namespace string) string {
	if text, known := q.limits[namespace]; known {
		return text
	}
	var text strings.Builder
	for _, quota := range q.byNamespace[namespace] {
		fmt.Fprintf(&text, "%s %v", quota.UID, quota.Spec.Scopes)
		for _, list := range []corev1.ResourceList{quota.Spec.Hard, quota.Status.Hard} {
			for _, name := range slices.Sorted(maps.Keys(list)) {
				amount := list[name]
				fmt.Fprintf(&text, " %s %s", name, &amount)
			}
		}
	}
	q.limits[namespace] = text.String()
	return q.limits[namespace]
}

// Reserve reserves what a number of such pods will use.
func (q *Quotas) Reserve(namespace string, pod *corev1.Pod, pods int) {
	if q.Limit(namespace) && pods > 0 {
		q.reserved[namespace] = quotas.Add(q.reserved[namespace], quotaUse(pod, pods))
	}
}

// Refusal says which quota of a namespace admits fewer pods like this one than are needed; "" if
// none does. A quota that would refuse them even if nothing else used it is named first.
func (q *Quotas) Refusal(namespace string, pod *corev1.Pod, pods int) string {
	if !q.Limit(namespace) {
		return ""
	}
	var why string
	use := quotaUse(pod, 1)
	for _, quota := range q.byNamespace[namespace] {
		if !inScope(quota, pod) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(quota.Spec.Hard)) {
			text, forGood := refusal(quota, name, pod, use, pods, q.reserved[namespace])
			if forGood {
				return text
			}
			why = cmp.Or(why, text)
		}
	}
	return why
}

// quotaUse is what a number of such pods use, under all names that quotas have for a resource:
// cpu, requests.cpu, limits.cpu, pods and so on.
func quotaUse(pod *corev1.Pod, pods int) corev1.ResourceList {
	use := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1"), countPods: resource.MustParse("1")}
	for name, amount := range state.PodRequests(pod) {
		use["requests."+name] = amount
		if isNative(name) {
			use[name] = amount
		}
	}
	for name, amount := range resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}) {
		if isNative(name) {
			use["limits."+name] = amount
		}
	}
	for name, amount := range use {
		amount.Mul(int64(pods))
		use[name] = amount
	}
	return use
}

// refusal says by which resource a quota admits too few pods. never is true if waiting does not
// help.
func refusal(quota *corev1.ResourceQuota, name corev1.ResourceName, pod *corev1.Pod, use corev1.ResourceList, pods int, reserved corev1.ResourceList) (why string, never bool) {
	if missing := unsaid(name, pod); missing != "" {
		return fmt.Sprintf("quota %s wants every container to say its %s, and container %s does not", quota.Name, name, missing), true
	}
	each, ok := use[name]
	if !ok || each.Sign() <= 0 {
		return "", false
	}
	hard, used := quota.Spec.Hard[name], quota.Status.Used[name].DeepCopy()
	if lets := times(hard, each, pods); lets < pods {
		return fmt.Sprintf("quota %s lets no more than %d %s be made%s, %d are needed; it is %s in all",
			quota.Name, lets, noun(lets), by(name), pods, &hard), true
	}
	kept := reserved[name]
	left := hard.DeepCopy()
	left.Sub(used)
	left.Sub(kept)
	lets := times(left, each, pods)
	if lets >= pods {
		return "", false
	}
	why = fmt.Sprintf("quota %s lets %d more %s be made%s, %d are needed; ", quota.Name, lets, noun(lets), by(name), pods)
	if isPods(name) {
		why += fmt.Sprintf("%s of %s are there", &used, &hard)
	} else {
		why += fmt.Sprintf("%s of %s are used", &used, &hard)
	}
	if kept.Sign() > 0 {
		why += fmt.Sprintf(", and %s are kept for MiniClusters that were admitted", &kept)
	}
	return why, false
}

// times is how often an amount fits into another, at most a given number of times.
func times(all, each resource.Quantity, most int) int {
	low, high := 0, most // low times fit, more than high do not
	for low < high {
		middle := (low + high + 1) / 2
		sum := each.DeepCopy()
		if sum.Mul(int64(middle)); sum.Cmp(all) <= 0 {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

func isPods(name corev1.ResourceName) bool { return name == corev1.ResourcePods || name == countPods }

// by names a resource, unless it is the number of pods.
func by(name corev1.ResourceName) string {
	if isPods(name) {
		return ""
	}
	return fmt.Sprintf(" by %s", name)
}

func noun(n int) string {
	if n == 1 {
		return "pod"
	}
	return "pods"
}

// unsaid is the first container that does not declare a resource which a quota makes every
// container declare; "" if there is none. A limit counts as a request.
func unsaid(name corev1.ResourceName, pod *corev1.Pod) string {
	limits := strings.HasPrefix(string(name), "limits.")
	plain := corev1.ResourceName(strings.TrimPrefix(strings.TrimPrefix(string(name), "limits."), "requests."))
	if plain != corev1.ResourceCPU && plain != corev1.ResourceMemory {
		return ""
	}
	if saysOf(pod.Spec.Resources, plain, limits) {
		return ""
	}
	for _, container := range containers(pod) {
		if !saysOf(&container.Resources, plain, limits) {
			return container.Name
		}
	}
	return ""
}

func saysOf(r *corev1.ResourceRequirements, name corev1.ResourceName, limits bool) bool {
	if r == nil {
		return false
	}
	_, limited := r.Limits[name]
	_, requested := r.Requests[name]
	return limited || (requested && !limits)
}

// containers are all containers of a pod.
func containers(pod *corev1.Pod) []corev1.Container {
	return slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers)
}

// inScope reports whether a quota counts such pods.
func inScope(quota *corev1.ResourceQuota, pod *corev1.Pod) bool {
	for _, scope := range quota.Spec.Scopes {
		if !matches(corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}, pod) {
			return false
		}
	}
	if quota.Spec.ScopeSelector == nil {
		return true
	}
	for _, requirement := range quota.Spec.ScopeSelector.MatchExpressions {
		if !matches(requirement, pod) {
			return false
		}
	}
	return true
}

// matches reports whether a pod is in a scope of a quota.
func matches(r corev1.ScopedResourceSelectorRequirement, pod *corev1.Pod) bool {
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return pod.Spec.ActiveDeadlineSeconds != nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return pod.Spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return isBestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !isBestEffort(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		return matchesPriorityClass(r, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return looksAcrossNamespaces(pod.Spec.Affinity)
	}
	return false // the scope is not about pods
}

func matchesPriorityClass(r corev1.ScopedResourceSelectorRequirement, class string) bool {
	switch r.Operator {
	case corev1.ScopeSelectorOpExists:
		return class != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return class == ""
	case corev1.ScopeSelectorOpIn:
		return class != "" && slices.Contains(r.Values, class)
	}
	return !slices.Contains(r.Values, class)
}

// isBestEffort reports whether a pod has the QoS class BestEffort, by the kubelet's rules.
func isBestEffort(pod *corev1.Pod) bool {
	all := []*corev1.ResourceRequirements{pod.Spec.Resources}
	for _, container := range containers(pod) {
		all = append(all, &container.Resources)
	}
	for _, r := range all {
		if r == nil {
			continue
		}
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			cpu, memory := list[corev1.ResourceCPU], list[corev1.ResourceMemory]
			if cpu.Sign() > 0 || memory.Sign() > 0 {
				return false
			}
		}
	}
	return true
}

// looksAcrossNamespaces reports whether an affinity or anti-affinity to pods names other
// namespaces.
func looksAcrossNamespaces(affinity *corev1.Affinity) bool {
	if affinity == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, term := range preferred {
			terms = append(terms, term.PodAffinityTerm)
		}
	}
	if a := affinity.PodAffinity; a != nil {
		add(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := affinity.PodAntiAffinity; a != nil {
		add(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(term corev1.PodAffinityTerm) bool {
		return len(term.Namespaces) > 0 || term.NamespaceSelector != nil
	})
}
