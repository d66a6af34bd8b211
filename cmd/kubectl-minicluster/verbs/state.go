// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// States that no controller writes.
const (
	stateNew      = "New" // no controller has looked at the MiniCluster yet
	stateDeleting = "Deleting"
)

// stateOf is the state that users see.
func stateOf(mc *v1alpha2.MiniCluster) string {
	switch {
	case isGone(mc):
		return "Deleted"
	case mc.DeletionTimestamp != nil:
		return stateDeleting
	}
	return cmp.Or(condition(mc, v1alpha2.ConditionReady).Reason, stateNew)
}

// condition returns a condition; an empty one if it is not set.
func condition(mc *v1alpha2.MiniCluster, name string) metav1.Condition {
	if found := meta.FindStatusCondition(mc.Status.Conditions, name); found != nil {
		return *found
	}
	return metav1.Condition{}
}

func is(mc *v1alpha2.MiniCluster, name string) bool {
	return condition(mc, name).Status == metav1.ConditionTrue
}

// whyOf is the reason for which a MiniCluster waits, or its outcome; "" while it runs.
func whyOf(mc *v1alpha2.MiniCluster) string {
	switch {
	case is(mc, v1alpha2.ConditionFinished):
		return condition(mc, v1alpha2.ConditionFinished).Reason
	case condition(mc, v1alpha2.ConditionAccepted).Status == metav1.ConditionFalse:
		return condition(mc, v1alpha2.ConditionAccepted).Reason
	case stateOf(mc) == v1alpha2.StateQueued:
		return condition(mc, v1alpha2.ConditionAdmitted).Reason
	}
	return ""
}

// brokersOf is how many brokers are up, and how many the attempt has or the spec asks for.
func brokersOf(mc *v1alpha2.MiniCluster) string {
	size := mc.Spec.Size
	if a := mc.Status.Admission; a != nil {
		size = a.Size
	}
	return fmt.Sprintf("%d/%d", mc.Status.Size, size)
}

// ranOf is for how long the command has run, or ran, with its limit: "3m12s/20m".
func ranOf(mc *v1alpha2.MiniCluster, now time.Time) string {
	start := mc.Status.StartTime
	if start == nil {
		return ""
	}
	end := now
	if mc.Status.CompletionTime != nil {
		end = mc.Status.CompletionTime.Time
	}
	text := duration.HumanDuration(end.Sub(start.Time))
	if limit := access.Limit(mc); limit > 0 {
		text += "/" + duration.HumanDuration(limit)
	}
	return text
}

// since is how long ago something was.
func since(at *metav1.Time, now time.Time) string {
	if at == nil || at.IsZero() {
		return "?"
	}
	return duration.HumanDuration(now.Sub(at.Time)) + " ago"
}
