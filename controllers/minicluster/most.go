// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// anyPods is the number of pods up to which maxSize alone counts: nodes may still come.
const anyPods = 256

// boundPods lowers maxSize of a malleable MiniCluster that is to have its pods made to what the nodes could hold. Pods
// without a node cost nothing but memory, in all parts of the cluster. Pods that were made before define the bound. The
// MiniClusters of one Flux instance know the hosts up to maxSize, so these stay as they are.
func (r *Reconciler) boundPods(seen *observed) {
	mc := seen.view.MiniCluster
	if !mc.Spec.Malleable() || mc.Spec.Flux.Bursting.Used() {
		return
	}
	most := mc.Spec.MaxSize
	switch {
	case mc.Status.Admission != nil && mc.Status.MaximumSize > 0:
		most = mc.Status.MaximumSize
	case seen.observation.Workload == life.Ahead:
		most = jobset.Brokers(seen.view.JobSet)
	case most > max(mc.Spec.Size, anyPods) && seen.check != nil && seen.check.pod != nil:
		most = max(mc.Spec.Size, anyPods, int32(min(r.Scheduler.MostPods(seen.check.pod), int(most))))
	}
	mc.Spec.MaxSize = min(mc.Spec.MaxSize, most)
}
