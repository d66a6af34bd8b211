// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	quota "k8s.io/apiserver/pkg/quota/v1"
)

// quotaUser is the user of the quota controller.
const quotaUser = "system:serviceaccount:kube-system:resourcequota-controller"

// quotaResync is how long the quota controller takes at most to see what only time changes.
const quotaResync = 5 * time.Minute

// QuotaController copies the limits of quotas into their statuses, and counts what is used:
// k8s.io/kubernetes/pkg/controller/resourcequota. Before that a quota limits nothing.
type QuotaController struct {
	server *Server
	seen   uint64
	again  time.Time
}

// NewQuotaController makes the quota controller of a server.
func NewQuotaController(s *Server) *QuotaController { return &QuotaController{server: s} }

// Name implements models.Model.
func (q *QuotaController) Name() string { return "quota-controller" }

// Next implements models.Model.
func (q *QuotaController) Next() time.Time { return q.again }

// Step implements models.Model: it writes the status of one quota, if one is not right.
func (q *QuotaController) Step(context.Context) bool {
	s := q.server
	s.mutex.Lock()
	defer s.mutex.Unlock()
	t := s.builtinTable("resourcequotas")
	if len(t.sorted) == 0 {
		q.again = time.Time{}
		return false
	}
	isDue := !q.again.IsZero() && !time.Now().Before(q.again)
	if q.seen == s.version && !isDue {
		return false
	}
	for _, k := range t.sorted {
		if q.sync(t.objects[k]) {
			return true
		}
	}
	q.seen, q.again = s.version, time.Now().Add(quotaResync)
	return false
}

// sync writes the status of a quota if it is not right.
func (q *QuotaController) sync(v *version) bool {
	old := v.object.(*corev1.ResourceQuota)
	used := corev1.ResourceList{}
	for name := range old.Spec.Hard {
		used[name] = zero
	}
	for _, t := range q.server.tables {
		if !t.Namespaced {
			continue
		}
		for _, k := range t.sorted {
			if object := t.objects[k].object; k.Namespace == old.Namespace && inScope(old, object) {
				used = quota.Add(used, quota.Mask(usageOf(t, object), quota.ResourceNames(old.Spec.Hard)))
			}
		}
	}
	if quota.Equals(old.Status.Hard, old.Spec.Hard) && quota.Equals(old.Status.Used, used) {
		return false
	}
	object := shallow(old).(*corev1.ResourceQuota)
	object.Status = corev1.ResourceQuotaStatus{Hard: old.Spec.Hard.DeepCopy(), Used: used}
	w := &write{server: q.server, user: quotaUser, verb: "update", subresource: "status", table: v.table, key: v.key}
	w.keep(v, object)
	return true
}
