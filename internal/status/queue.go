// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// QueueReport is what the last cycle found out about a queue.
type QueueReport struct {
	Use               queue.Use
	Admitted, Pending int
	// Usage is the usage of users until UsageTime, and Shared is what all queues shared then.
	Usage     map[string]queue.Spent
	UsageTime time.Time
	Shared    queue.Resources
	// Accounting is what the attempts used that have ended; nil if nothing.
	Accounting *v1alpha2.Accounting
	// Waiting are the first waiting MiniClusters in the order of the queue, at most
	// v1alpha2.MostWaiting.
	Waiting []Waiting
	// ScaleUp is what an autoscaler is asked; nil if nothing.
	ScaleUp *v1alpha2.QueueScaleUp
}

// Waiting is a MiniCluster that waits.
type Waiting struct {
	Namespace, Name string
	Decision        queue.Decision
}

// longestReason is the length to which their messages are cut; their own status has the whole
// text.
const longestReason = 256

// Queue returns the status of a queue.
func Queue(q *v1alpha2.MiniClusterQueue, report QueueReport) v1alpha2.MiniClusterQueueStatus {
	s := v1alpha2.MiniClusterQueueStatus{
		Pending: int32(report.Pending), Admitted: int32(report.Admitted),
		Used:  resourceList(report.Use.Used),
		Share: fraction(report.Use.Share), Deserved: fraction(report.Use.Deserved),
		Users: users(&report), Accounting: report.Accounting.DeepCopy(), ScaleUp: report.ScaleUp.DeepCopy(), ObservedGeneration: q.Generation,
	}
	if !report.UsageTime.IsZero() {
		s.UsageTime = ptr.To(metav1.NewMicroTime(report.UsageTime))
	}
	for _, waiting := range report.Waiting {
		s.Waiting = append(s.Waiting, v1alpha2.WaitingMiniCluster{
			Namespace: waiting.Namespace, Name: waiting.Name, Position: int32(waiting.Decision.Position),
			Reason: reasonOf(waiting.Decision.Verdict), Message: cut(sentence(waiting.Decision.Message), longestReason),
		})
	}
	return s
}

// users lists the users with the most usage.
func users(report *QueueReport) []v1alpha2.QueueUser {
	byName := map[string]v1alpha2.QueueUser{}
	for name := range report.Usage {
		byName[name] = v1alpha2.QueueUser{Name: name}
	}
	for _, use := range report.Use.Users {
		byName[use.User] = v1alpha2.QueueUser{Name: use.User, Running: int32(use.Gangs), Nodes: int32(use.Pods), Pending: int32(use.Pending)}
	}
	part := map[string]float64{}
	for name, spent := range report.Usage {
		part[name] = spent.Share(report.Shared)
	}
	list := slices.SortedFunc(maps.Values(byName), func(a, b v1alpha2.QueueUser) int {
		return cmp.Or(cmp.Compare(part[b.Name], part[a.Name]), cmp.Compare(a.Name, b.Name))
	})
	list = list[:min(len(list), v1alpha2.MostUsers)]
	for i := range list {
		u := &list[i]
		u.Usage = fraction(part[u.Name])
		for name, spent := range report.Usage[u.Name] {
			if text := fraction(spent / queue.Unit(name)); text != fraction(0) {
				if u.ResourceSeconds == nil {
					u.ResourceSeconds = map[string]string{}
				}
				u.ResourceSeconds[name] = text
			}
		}
	}
	return list
}

// fraction formats a part, or a sum of parts, with three digits.
func fraction(part float64) string { return strconv.FormatFloat(part, 'f', 3, 64) }

// resourceList converts amounts to Kubernetes quantities; the amounts of cpu are millicores.
func resourceList(amounts queue.Resources) corev1.ResourceList {
	if len(amounts) == 0 {
		return nil
	}
	list := corev1.ResourceList{}
	for name, amount := range amounts {
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU:
			list[corev1.ResourceCPU] = *resource.NewMilliQuantity(amount, resource.DecimalSI)
		case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			list[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.BinarySI)
		default:
			list[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	return list
}
