// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// quota is one of which something is used.
func quota(hard, used corev1.ResourceList, change func(*corev1.ResourceQuotaSpec)) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}
	q.Spec.Hard, q.Status.Used = hard, used
	if change != nil {
		change(&q.Spec)
	}
	return q
}

func scopes(of ...corev1.ResourceQuotaScope) func(*corev1.ResourceQuotaSpec) {
	return func(s *corev1.ResourceQuotaSpec) { s.Scopes = of }
}

func priority(operator corev1.ScopeSelectorOperator, values ...string) func(*corev1.ResourceQuotaSpec) {
	return func(s *corev1.ResourceQuotaSpec) {
		s.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: operator, Values: values},
		}}
	}
}

func TestQuotaRefusal(t *testing.T) {
	pod := fixture.Pod("p").Spec(func(s *corev1.PodSpec) {
		s.PriorityClassName = "high"
		s.Containers[0].Resources.Requests = list("cpu", "500m", "memory", "1Gi", "nvidia.com/gpu", "1")
		s.Containers[0].Resources.Limits = list("cpu", "1", "nvidia.com/gpu", "1")
	}).Obj()
	nothing := fixture.Pod("p").Spec(func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = nil }).Obj()
	across := fixture.Pod("p").Spec(func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{Namespaces: []string{"other"}}},
		}}
	}).Obj()
	full := list("pods", "1")
	for name, tc := range map[string]struct {
		quota    *corev1.ResourceQuota
		pod      *corev1.Pod
		reserved int // pods
		want     string
	}{
		"enough":  {quota: quota(list("pods", "100"), list("pods", "36"), nil)},
		"pods":    {quota: quota(list("pods", "100"), list("pods", "90"), nil), want: "quota team-a lets 10 more pods be made, 64 are needed; 90 of 100 are there"},
		"one pod": {quota: quota(list("count/pods", "100"), list("count/pods", "99"), nil), want: "quota team-a lets 1 more pod be made, 64 are needed; 99 of 100 are there"},
		"no pods": {quota: quota(list("pods", "100"), list("pods", "120"), nil), want: "quota team-a lets 0 more pods be made, 64 are needed; 120 of 100 are there"},
		"never":   {quota: quota(list("pods", "10"), nil, nil), want: "quota team-a lets no more than 10 pods be made, 64 are needed; it is 10 in all"},
		"reserved": {
			quota: quota(list("pods", "100"), list("pods", "10"), nil), reserved: 50,
			want: "quota team-a lets 40 more pods be made, 64 are needed; 10 of 100 are there, and 50 are kept for MiniClusters that were admitted",
		},
		"cpu": {
			quota: quota(list("cpu", "40"), list("cpu", "20500m"), nil),
			want:  "quota team-a lets 39 more pods be made by cpu, 64 are needed; 20500m of 40 are used",
		},
		"requests": {quota: quota(list("requests.cpu", "32"), nil, nil)},
		"limits": {
			quota: quota(list("limits.cpu", "32"), nil, nil), want: "quota team-a lets no more than 32 pods be made by limits.cpu, 64 are needed; it is 32 in all",
		},
		"memory":       {quota: quota(list("requests.memory", "64Gi"), nil, nil)},
		"extended":     {quota: quota(list("requests.nvidia.com/gpu", "64"), list("requests.nvidia.com/gpu", "1"), nil), want: "quota team-a lets 63 more pods be made by requests.nvidia.com/gpu, 64 are needed; 1 of 64 are used"},
		"other things": {quota: quota(list("services", "0", "requests.example.com/x", "0", "count/configmaps", "0"), nil, nil)},
		"Jobs":         {quota: quota(list("count/jobs.batch", "5"), list("count/jobs.batch", "4"), nil), want: "quota team-a lets 1 more Job be made, 2 are needed; 4 of 5 are there"},
		"never as many Jobs": {
			quota: quota(list("count/jobs.batch", "1"), nil, nil), want: "quota team-a lets no more than 1 Job be made, 2 are needed; it is 1 in all",
		},
		"Jobs that are to come": {
			quota: quota(list("count/jobs.batch", "5"), list("count/jobs.batch", "2"), nil), reserved: 1,
			want: "quota team-a lets 1 more Job be made, 2 are needed; 2 of 5 are there, and 2 are kept for MiniClusters that were admitted",
		},
		"limits that are not said": {
			quota: quota(list("limits.memory", "1Ti"), nil, nil), want: "quota team-a wants every container to say its limits.memory, and container app does not",
		},
		"BestEffort, is not":        {quota: quota(full, full, scopes(corev1.ResourceQuotaScopeBestEffort))},
		"NotBestEffort, is not":     {quota: quota(full, full, scopes(corev1.ResourceQuotaScopeNotBestEffort)), pod: nothing},
		"BestEffort":                {quota: quota(full, nil, scopes(corev1.ResourceQuotaScopeBestEffort)), pod: nothing, want: never1},
		"NotBestEffort":             {quota: quota(full, nil, scopes(corev1.ResourceQuotaScopeNotBestEffort)), want: never1},
		"Terminating, is not":       {quota: quota(full, nil, scopes(corev1.ResourceQuotaScopeTerminating))},
		"NotTerminating":            {quota: quota(full, nil, scopes(corev1.ResourceQuotaScopeNotTerminating)), want: never1},
		"PriorityClass":             {quota: quota(full, nil, scopes(corev1.ResourceQuotaScopePriorityClass)), want: never1},
		"PriorityClass, has none":   {quota: quota(full, nil, scopes(corev1.ResourceQuotaScopePriorityClass)), pod: nothing},
		"in classes":                {quota: quota(full, nil, priority(corev1.ScopeSelectorOpIn, "low", "high")), want: never1},
		"in classes, is not":        {quota: quota(full, nil, priority(corev1.ScopeSelectorOpIn, "low"))},
		"not in classes":            {quota: quota(full, nil, priority(corev1.ScopeSelectorOpNotIn, "low")), want: never1},
		"not in classes, is":        {quota: quota(full, nil, priority(corev1.ScopeSelectorOpNotIn, "high"))},
		"without a class, has one":  {quota: quota(full, nil, priority(corev1.ScopeSelectorOpDoesNotExist))},
		"across namespaces, is not": {quota: quota(full, nil, scopes(corev1.ResourceQuotaScopeCrossNamespacePodAffinity))},
		"across namespaces":         {quota: quota(full, nil, scopes(corev1.ResourceQuotaScopeCrossNamespacePodAffinity)), pod: across, want: never1},
		"not about pods":            {quota: quota(full, nil, scopes(corev1.ResourceQuotaScopeVolumeAttributesClass))},
		"both scopes":               {quota: quota(full, nil, scopes(corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating))},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.pod == nil {
				tc.pod = pod
			}
			q := New([]*corev1.ResourceQuota{tc.quota})
			q.Reserve("", Demand{Pod: tc.pod, Pods: tc.reserved, Jobs: 2})
			if got := q.Refusal("", Demand{Pod: tc.pod, Pods: 64, Jobs: 2}); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

const never1 = "quota team-a lets no more than 1 pod be made, 64 are needed; it is 1 in all"

// The services pod counts beside the brokers' pods, in the quotas in whose scope it is.
func TestQuotaOfServices(t *testing.T) {
	one := func(class string) *corev1.Pod {
		return fixture.Pod("p").Spec(func(s *corev1.PodSpec) {
			s.PriorityClassName = class
			s.Containers[0].Resources.Requests = list("cpu", "1")
		}).Obj()
	}
	brokers, gpu := Demand{Pod: one(""), Pods: 3}, one("")
	gpu.Spec.Containers[0].Resources.Requests = list("cpu", "1", "nvidia.com/gpu", "1")
	for name, tc := range map[string]struct {
		quota    *corev1.ResourceQuota
		services *corev1.Pod
		reserved Demand
		want     string
	}{
		"room for all":       {quota: quota(list("pods", "4", "requests.cpu", "4"), nil, nil), services: one("")},
		"room for brokers":   {quota: quota(list("pods", "4"), list("pods", "1"), nil), services: one(""), want: "quota team-a lets 2 more pods be made beside 1 of the services pod, 3 are needed; 1 of 4 are there"},
		"never room for all": {quota: quota(list("requests.cpu", "3"), nil, nil), services: one(""), want: "quota team-a lets no more than 2 pods be made by requests.cpu beside 1 of the services pod, 3 are needed; it is 3 in all"},
		"another scope":      {quota: quota(list("pods", "3"), nil, priority(corev1.ScopeSelectorOpDoesNotExist)), services: one("high")},
		"what services alone use": {
			quota: quota(list("requests.nvidia.com/gpu", "1"), list("requests.nvidia.com/gpu", "1"), nil), services: gpu,
			want: "services pod: quota team-a lets 0 more pods be made by requests.nvidia.com/gpu, 1 are needed; 1 of 1 are used",
		},
		"a scope of services alone": {
			quota: quota(list("pods", "0"), nil, priority(corev1.ScopeSelectorOpIn, "high")), services: one("high"),
			want: "services pod: quota team-a lets no more than 0 pods be made, 1 are needed; it is 0 in all",
		},
		"services alone are to come": {
			quota: quota(list("pods", "4"), nil, nil), services: one(""), reserved: Demand{Pod: one(""), Services: one("")},
			want: "quota team-a lets 2 more pods be made beside 1 of the services pod, 3 are needed; 0 of 4 are there, and 1 are kept for MiniClusters that were admitted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := New([]*corev1.ResourceQuota{tc.quota})
			q.Reserve("", tc.reserved)
			demand := brokers
			demand.Services = tc.services
			if got := q.Refusal("", demand); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// What is never let comes before what is not let now, whichever is first by name.
func TestNeverComesFirst(t *testing.T) {
	now, never := quota(list("pods", "100"), list("pods", "90"), nil), quota(list("pods", "10"), nil, nil)
	now.Name, never.Name = "a", "b"
	if text := New([]*corev1.ResourceQuota{never, now}).Refusal("", Demand{Pod: fixture.Pod("p").Obj(), Pods: 64}); !strings.Contains(text, "quota b lets no more than") {
		t.Errorf("got %q", text)
	}
}
