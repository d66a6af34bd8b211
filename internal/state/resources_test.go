// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Quantities may be larger than an int64, and sums of requests, too.
func TestAbsurdRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		resource   corev1.ResourceName
		containers []string
		want       int64
		tooLarge   string // how the sentence begins; "" if there is none
	}{
		"as usual":                              {resource: "cpu", containers: []string{"1500m", "1"}, want: 2500},
		"a part of a thousandth":                {resource: "cpu", containers: []string{"1u"}, want: 1},
		"CPUs whose thousandths are no int64":   {resource: "cpu", containers: []string{"9223372036854775807"}, want: fluxion.MaxAmount, tooLarge: "a pod requests 9223372036854775807 cpu in all, more than "},
		"containers whose sum is no int64":      {resource: "memory", containers: []string{"4611686018427387904", "4611686018427387904"}, want: fluxion.MaxAmount, tooLarge: "a pod requests 9223372036854775808 memory"},
		"more than any int64":                   {resource: "memory", containers: []string{"1e40"}, want: fluxion.MaxAmount, tooLarge: "a pod requests 10e39 memory"},
		"the most that counts":                  {resource: "memory", containers: []string{"256Ti"}, want: 1 << 48},
		"less than nothing, which is refused":   {resource: "nvidia.com/gpu", containers: []string{"-5"}, want: 0},
		"far less than nothing, also for sums ": {resource: "cpu", containers: []string{"-9223372036854775807", "-9223372036854775807"}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.Pod("p").Obj()
			pod.Spec.Containers = nil
			for _, text := range tc.containers {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{tc.resource: resource.MustParse(text)}},
				})
			}
			if got := Requests(pod)[string(tc.resource)]; got != tc.want {
				t.Errorf("it requests %d, want %d", got, tc.want)
			}
			if got := TooLarge(pod); !strings.HasPrefix(got, tc.tooLarge) || (got == "") != (tc.tooLarge == "") {
				t.Errorf("the sentence is %q, want %q", got, tc.tooLarge)
			}
		})
	}
}

// Of very many resources those count that every node has, and those of which the pod requests something. A MiniCluster whose pods
// request as many is refused.
func TestManyRequests(t *testing.T) {
	pod := fixture.Pod("p").Obj()
	requests := corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("0")}
	for i := range mostResources {
		requests[corev1.ResourceName(fmt.Sprint("a/", i))] = resource.MustParse("1")
		requests[corev1.ResourceName(fmt.Sprint("b/", i))] = resource.MustParse("0")
	}
	pod.Spec.Containers[0].Resources.Requests = requests
	got := Requests(pod)
	if len(got) != mostResources+1 || got["cpu"] != 2000 || got["a/0"] != 1 || got[fluxion.Pods] != 1 {
		t.Errorf("%d resources count: %v", len(got), map[string]int64(got))
	}
	if same := admitted(&v1alpha2.Admission{Requests: requests}); !maps.Equal(got, same) {
		t.Errorf("by the status, %v count", map[string]int64(same))
	}
	if got, want := TooLarge(pod), "a pod requests 130 resources, more than 64"; got != want {
		t.Errorf("the sentence is %q, want %q", got, want)
	}
}

// The capacity of a queue may be larger than any node.
func TestAmounts(t *testing.T) {
	list := corev1.ResourceList{"cpu": resource.MustParse("9E"), "memory": resource.MustParse("1Ei"), "pods": resource.MustParse("99999999999999999999")}
	got := Amounts(list)
	if got[fluxion.CPU] != queue.MaxAmount || got[fluxion.Memory] != 1<<60 || got[fluxion.Pods] != queue.MaxAmount {
		t.Errorf("the amounts are %v", map[string]int64(got))
	}
}
