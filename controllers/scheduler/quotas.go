// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/quota"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// quotaInterval is how often the quotas of a namespace are looked at in which pods are being made. The API server counts a
// pod before a cache shows the pod, so the pod counts twice for a moment.
const quotaInterval = time.Second

// reserveQuotas reserves what the unmade pods of admitted MiniClusters will use of quotas. It returns the namespaces in
// which such pods are being made.
func (c *cycle) reserveQuotas() map[string]bool {
	filling := map[string]bool{}
	for _, k := range c.catalog.promised() {
		if namespace := k.miniCluster.Namespace; c.seen.quotas.Limit(namespace) {
			demand := c.demand(k.miniCluster, k.pod)
			c.seen.quotas.Reserve(namespace, demand)
			began := k.miniCluster.Status.StartTime
			if (demand.Pods > 0 || demand.Services != nil) && (began == nil || c.now.Sub(began.Time) < startsWithin) {
				filling[namespace] = true
			}
		}
	}
	return filling
}

// demand is what a MiniCluster has not made yet: pods like one, the services pod, and Jobs, if there is no pod.
func (c *cycle) demand(mc *v1alpha2.MiniCluster, pod *corev1.Pod) quota.Demand {
	made := c.seen.made[mc.UID]
	d := quota.Demand{Pod: pod, Pods: max(int(state.MaxSize(mc))-made, 0)}
	if made == 0 {
		d.Jobs = jobset.CountJobs(mc)
	}
	if !c.seen.served[mc.UID] {
		d.Services = c.catalog.services[mc.UID]
		if a := mc.Status.Admission; d.Services == nil && a != nil && a.Generation == mc.Generation { // after a restart
			d.Services, _ = jobset.ServicesPod(mc)
		}
	}
	return d
}

// quotaView is how a cycle sees the quotas of a MiniCluster that they refused.
type quotaView struct {
	refuses bool
	limits  string
}

// askQuotas notes why the quotas of a namespace allow no pods of a MiniCluster. If the API server refused the
// MiniCluster, and the quotas may have got room since, the MiniCluster has to be checked again.
func (c *cycle) askQuotas(e *entry) {
	why, namespace := "", e.Namespace
	if c.seen.quotas.Limit(namespace) {
		why = c.seen.quotas.Refusal(namespace, c.demand(e.miniCluster, e.pod))
	}
	if e.notAllowed = cmp.Or(why, e.refused); e.refused == "" {
		return
	}
	now := &quotaView{refuses: why != "", limits: c.seen.quotas.Limits(namespace)}
	if e.before != nil && !now.refuses && (e.before.refuses || e.before.limits != now.limits) {
		e.freed, c.freed = c.Clock.Now(), append(c.freed, e.NamespacedName)
	}
	e.before = now
}
