// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// anyPods is the number of pods up to which maxSize alone counts: nodes may still come.
const anyPods = 256

// boundPods sets the number of pods of a MiniCluster without nodes: no more than the nodes could hold. Pods without a
// node hold nothing, but all parts of the cluster keep them in memory. The pods of a trial define the number, and
// so does an admission.
func (r *Reconciler) boundPods(seen *observed) {
	mc := seen.view.MiniCluster
	if mc.Status.Admission != nil && mc.Status.MaximumSize > 0 {
		return
	}
	most := mc.Spec.MostSize()
	switch {
	case seen.observation.Workload == life.Ahead:
		most = min(most, jobset.Brokers(seen.view.JobSet))
	case most > max(mc.Spec.Size, anyPods) && seen.check != nil && seen.check.pod != nil:
		most = max(mc.Spec.Size, anyPods, int32(min(r.Scheduler.MostPods(seen.check.pod), int(most))))
	}
	mc.Status.MaximumSize = most
}
