// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package quota knows what the ResourceQuotas of namespaces have room for. The package has no client.
package quota

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

// The quotas on the numbers of pods and Jobs, ended ones included.
const (
	countPods = corev1.ResourceName("count/pods")
	countJobs = corev1.ResourceName("count/jobs.batch")
)

// Demand is what a MiniCluster still makes in its namespace: so many pods like one, the services pod (nil for none), and so
// many Jobs.
type Demand struct {
	Pod, Services *corev1.Pod
	Pods, Jobs    int
}

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

// New returns quotas without reservations.
func New(quotas []*corev1.ResourceQuota) *Quotas {
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

// Reserve reserves what will be made.
func (q *Quotas) Reserve(namespace string, d Demand) {
	if !q.Limit(namespace) || d.Pods == 0 && d.Services == nil {
		return
	}
	use := quotaUse(d.Pod, d.Pods)
	use[countJobs] = *resource.NewQuantity(int64(d.Jobs), resource.DecimalSI)
	q.reserved[namespace] = quotas.Add(q.reserved[namespace], quotas.Add(use, servicesUse(d)))
}

// servicesUse is what the services pod will use.
func servicesUse(d Demand) corev1.ResourceList {
	if d.Services == nil {
		return nil
	}
	return quotaUse(d.Services, 1)
}

// Refusal says which quota of a namespace admits fewer pods or Jobs than will be made; "" if none does. The brokers' pods come
// first, and of their quotas one that would refuse them even if nothing else used the quota. The services pod may lack the
// defaults of the namespace.
func (q *Quotas) Refusal(namespace string, d Demand) string {
	if !q.Limit(namespace) {
		return ""
	}
	if why := q.refusal(namespace, d, true); why != "" || d.Services == nil {
		return why
	}
	if why := q.refusal(namespace, Demand{Pod: d.Services, Pods: 1}, false); why != "" { // by what brokers do not use
		return "services pod: " + why
	}
	return ""
}

// refusal says which quota refuses pods and Jobs. Those that are whole have the defaults of the namespace.
func (q *Quotas) refusal(namespace string, d Demand, whole bool) string {
	var why string
	use, services := quotaUse(d.Pod, 1), servicesUse(d)
	for _, quota := range q.byNamespace[namespace] {
		if !inScope(quota, d.Pod) {
			continue
		}
		counted := services
		if d.Services != nil && !inScope(quota, d.Services) {
			counted = nil
		}
		for _, name := range slices.Sorted(maps.Keys(quota.Spec.Hard)) {
			if missing := unsaid(name, d.Pod); missing != "" && whole {
				return fmt.Sprintf("quota %s wants every container to say its %s, and container %s does not", quota.Name, name, missing)
			}
			text, forGood := refusal(quota, name, d, use, counted, q.reserved[namespace])
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
	one := *resource.NewQuantity(1, resource.DecimalSI)
	use := corev1.ResourceList{corev1.ResourcePods: one, countPods: one}
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

// refusal says by which resource a quota admits too few pods or Jobs. use is what a pod uses, and services what the services
// pod does. never is true if waiting does not help.
func refusal(quota *corev1.ResourceQuota, name corev1.ResourceName, d Demand, use, services, reserved corev1.ResourceList) (why string, never bool) {
	each, needed, what := use[name], d.Pods, "pod"
	if name == countJobs {
		each, needed, what = *resource.NewQuantity(1, resource.DecimalSI), d.Jobs, "Job"
	}
	if each.Sign() <= 0 {
		return "", false
	}
	hard, used := quota.Spec.Hard[name], quota.Status.Used[name].DeepCopy()
	left, beside := hard.DeepCopy(), ""
	if takes := services[name]; takes.Sign() > 0 {
		left.Sub(takes)
		beside = fmt.Sprintf(" beside %s of the services pod", &takes)
	}
	if lets := times(left, each, needed); lets < needed {
		return fmt.Sprintf("quota %s lets no more than %s be made%s%s, %d are needed; it is %s in all",
			quota.Name, many(lets, what), by(name), beside, needed, &hard), true
	}
	kept := reserved[name]
	left.Sub(used)
	left.Sub(kept)
	lets := times(left, each, needed)
	if lets >= needed {
		return "", false
	}
	why = fmt.Sprintf("quota %s lets %s be made%s%s, %d are needed; ", quota.Name, many(lets, "more "+what), by(name), beside, needed)
	if isCount(name) {
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

func isCount(name corev1.ResourceName) bool {
	return name == corev1.ResourcePods || name == countPods || name == countJobs
}

// by names a resource, unless it is a number of objects.
func by(name corev1.ResourceName) string {
	if isCount(name) {
		return ""
	}
	return fmt.Sprintf(" by %s", name)
}

// many is a number of things: 2 pods.
func many(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
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
