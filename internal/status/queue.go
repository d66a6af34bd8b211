// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// QueueReport is what the last cycle found out about a queue.
type QueueReport struct {
	Use               queue.Use
	Admitted, Pending int
	// Waiting are the first waiting MiniClusters in the order of the queue, at most
	// v1alpha2.MostWaiting.
	Waiting []Waiting
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
		ObservedGeneration: q.Generation,
	}
	for _, waiting := range report.Waiting {
		s.Waiting = append(s.Waiting, v1alpha2.WaitingMiniCluster{
			Namespace: waiting.Namespace, Name: waiting.Name, Position: int32(waiting.Decision.Position),
			Reason: admittedReasons[waiting.Decision.Verdict], Message: cut(sentence(waiting.Decision.Message), longestReason),
		})
	}
	return s
}

// fraction formats a part of 1 with three digits.
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
