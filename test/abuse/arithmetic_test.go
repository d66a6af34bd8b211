// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package abuse

import (
	"fmt"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// plenty is a room in which everything fits.
type plenty struct{}

func (plenty) Place(_ string, sizes []int) []string {
	nodes := make([]string, sizes[0])
	for i := range nodes {
		nodes[i] = fmt.Sprint("node-", i)
	}
	return nodes
}
func (plenty) Fits(_ string, limit int) int  { return limit }
func (plenty) FitsApart(_ string, l int) int { return l }
func (plenty) With(string, []int) queue.Room { return plenty{} }
func (plenty) CouldHold(string, []int) bool  { return true }

func (plenty) CouldHoldBeside(string, []int, []string) bool { return false }

func (plenty) Amount(string, string, string) (free, all int64) {
	return queue.MaxAmount, queue.MaxAmount
}
func (plenty) Elsewhere(string, string) []int          { return nil }
func (plenty) Meet(_, _, without string) bool          { return without == "" }
func (plenty) Why(string, []int) string                { return "" }
func (plenty) Grow(string, int) []elastic.Pod          { return nil }
func (plenty) Keep(string)                             {}
func (plenty) Victims(string, int, string) (all []int) { return nil }
func (plenty) Shrink(string, []int)                    {}
func (plenty) Release(string)                          {}
func (plenty) Snapshot() queue.Room                    { return plenty{} }

// FuzzArithmetic schedules gangs with any requests in a queue with any capacity. Requests are never negative, and
// no more is admitted than the capacity, exactly counted.
func FuzzArithmetic(f *testing.F) {
	f.Add("9223372036854775807", "1Gi", "0", uint8(1), uint8(1), uint16(1), "8")
	f.Add("8", "4611686018427387904", "0", uint8(2), uint8(26), uint16(1), "8")
	f.Add("8", "1Gi", "9223372036854775807m", uint8(1), uint8(26), uint16(1000), "64")
	f.Add("1m", "1E", "1", uint8(200), uint8(30), uint16(65535), "9E")
	f.Add("0.0001", "1n", "-1", uint8(3), uint8(3), uint16(2), "1")
	f.Add("99999999999999999999999999", "-5", "1e30", uint8(16), uint8(4), uint16(4), "99999999999999999999999999")
	f.Fuzz(func(t *testing.T, cpu, memory, first string, containers, gangs uint8, size uint16, capacity string) {
		pod := podWith(cpu, memory, first, int(containers%32))
		may, err := parse(capacity)
		if pod == nil || err != nil {
			return
		}
		requests := state.Requests(pod)
		for name, amount := range requests {
			if amount < 0 {
				t.Errorf("%s is %d", name, amount)
			}
		}
		admitted := admit(t, pod, int(gangs%32), max(int(size%2000), 1), may)
		exact := state.PodRequests(pod)[corev1.ResourceCPU]
		if state.TooLarge(pod) != "" || exact.Sign() <= 0 {
			return // such pods are refused
		}
		all := exact.DeepCopy()
		all.Mul(int64(admitted)) // without bounds
		if all.Cmp(may) > 0 {
			t.Errorf("%d pods with %s CPUs are admitted: %s of %s", admitted, &exact, &all, capacity)
		}
	})
}

// schema is the pattern of quantities in the CRDs.
var schema = regexp.MustCompile(`^(\+|-)?(([0-9]{1,30}(\.[0-9]{0,30})?)|(\.[0-9]{1,30}))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$`)

// parse is a quantity that the API server accepts in a MiniCluster. Others need minutes to be parsed.
func parse(text string) (resource.Quantity, error) {
	if !schema.MatchString(text) {
		return resource.Quantity{}, resource.ErrFormatWrong
	}
	return resource.ParseQuantity(text)
}

// podWith is a pod of some containers and an init container; nil if a text is no quantity.
func podWith(cpu, memory, first string, containers int) *corev1.Pod {
	list := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory, "first": first} {
		quantity, err := parse(text)
		if err != nil {
			return nil
		}
		list[name] = quantity
	}
	pod := fixture.Pod("p").Obj()
	pod.Spec.Containers = nil
	for range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: list[corev1.ResourceCPU], corev1.ResourceMemory: list[corev1.ResourceMemory]},
		}})
	}
	pod.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: list["first"]}}}}
	return pod
}

// admit schedules gangs of such pods in a queue with a capacity of CPUs, and returns how many pods start.
func admit(t *testing.T, pod *corev1.Pod, gangs, size int, capacity resource.Quantity) int {
	t.Helper()
	q := fixture.Queue("default").Obj()
	q.Spec.Capacity = corev1.ResourceList{corev1.ResourceCPU: capacity}
	snapshot := queue.Snapshot{Queues: []queue.Queue{state.Queue(q)}, Total: queue.Resources(state.Amounts(q.Spec.Capacity))}
	for i := range gangs {
		mc := fixture.MiniCluster(fmt.Sprint("gang-", i)).MinSize(1).Size(int32(size)).Defaulted()
		snapshot.Waiting = append(snapshot.Waiting, state.Gang(mc, pod, nil))
	}
	result := queue.Schedule(snapshot, plenty{}, fixture.Noon)
	for _, use := range result.Uses {
		for name, amount := range use.Used {
			if amount < 0 {
				t.Errorf("queue %s uses %d %s", use.Queue, amount, name)
			}
		}
	}
	return admittedPods(result)
}
