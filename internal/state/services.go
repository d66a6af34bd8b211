// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// WaitingServices is the services pod of the current JobSet if it waits behind its gate;
// nil if there is none that does.
func WaitingServices(v View) *corev1.Pod {
	for _, pod := range v.Pods {
		if jobset.IsServices(pod) && v.current(pod) && jobset.HasGate(pod) && pod.DeletionTimestamp == nil {
			return pod
		}
	}
	return nil
}

// MayServe reports whether the services pod may have room: the brokers run, or have their
// nodes, as far as there are nodes for them. Before, it could take the room that was
// meant for one of them.
func MayServe(v View, o *elastic.Observation) bool {
	if o.Admission == nil || o.Workload != elastic.Active || o.Outcome != "" {
		return false
	}
	if !o.Started.IsZero() {
		return true
	}
	pods := BrokerPods(v)
	for rank := range o.Admission.Size {
		if pod := pods[rank]; pod == nil || (pod.Spec.NodeName == "" && !Unschedulable(pod)) {
			return false
		}
	}
	return true
}
