// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scaleup

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// Record is what was asked for a MiniCluster, in an annotation of its PodTemplate.
type Record struct {
	// Attempt, Pauses, Size, Apart and Asked are those of queue.Asked.
	Attempt int       `json:"attempt"`
	Pauses  int       `json:"pauses,omitempty"`
	Size    int       `json:"size"`
	Apart   bool      `json:"apart,omitempty"`
	Asked   time.Time `json:"asked"`
	// Provider is who was asked, and Template a hash of the template of the pods.
	Provider v1alpha2.ScaleUpProvider `json:"provider,omitempty"`
	Template string                   `json:"template"`
	// Until is when the MiniCluster may ask again after a failure, for the Reason and with the Message of the
	// autoscaler; zero while it asks.
	Until   time.Time       `json:"until,omitzero"`
	Reason  elastic.Verdict `json:"reason,omitempty"`
	Message string          `json:"message,omitempty"`
	// Used is true once the MiniCluster has got nodes, or nothing is to be asked for it any more. Then the record is
	// history.
	Used bool `json:"used,omitempty"`
}

// ID is the same for what is asked with one record, and for no other record of the MiniCluster.
func (r *Record) ID() string { return fmt.Sprintf("%d-%d", r.Asked.UnixMilli(), r.Attempt) }

// failureCounts is how long after its pause a failure still counts: a MiniCluster that asks again pauses for longer after a
// further failure.
const failureCounts = time.Hour

// countsUntil is until when a failure counts of a MiniCluster for which nothing is to be asked: one without quota comes back. It is
// zero without a failure.
func (r *Record) countsUntil() time.Time {
	if r == nil || r.Used || r.Until.IsZero() {
		return time.Time{}
	}
	return r.Until.Add(failureCounts)
}

// forgets reports whether no failure of a MiniCluster counts for which nothing is to be asked: it begins anew, or never asks again.
func forgets(mc *v1alpha2.MiniCluster) bool {
	return mc.IsSuspended() || !mc.Spec.IsOurs() || meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished)
}

// broken is the record of an attempt that goes on no longer, because nothing is to be asked: with its failure, or else with the one
// before it, of which the pause was over when the attempt began. It is nil without a failure that is still to be recorded.
func (o *Objects) broken(now time.Time) *Record {
	record, asked := RecordOf(o.Template), o.Asked()
	if asked == nil || !asked.Until.IsZero() {
		return nil
	}
	switch {
	case asked.Verdict.LostNodes():
		record.Until, record.Reason, record.Message = now.UTC().Truncate(time.Millisecond), asked.Verdict, asked.Message
	case record.Attempt > 1:
		record.Until, record.Reason = record.Asked, elastic.NodesTimedOut
		record.Pauses-- // the next attempt counts one more
	default:
		return nil
	}
	return record
}

// RecordOf reads the record of a PodTemplate; nil if it has none that can be read.
func RecordOf(template *corev1.PodTemplate) *Record {
	if template == nil {
		return nil
	}
	r := &Record{}
	if json.Unmarshal([]byte(template.Annotations[v1alpha2.ScaleUpAnnotation]), r) != nil || r.Attempt < 1 {
		return nil
	}
	return r
}

// text is the record as an annotation.
func (r *Record) text() string {
	text, err := json.Marshal(r)
	if err != nil { // it never is
		return ""
	}
	return string(text)
}

// Asked is what was asked for a MiniCluster by its objects, and what the autoscaler says; nil if nothing.
func (o *Objects) Asked() *queue.Asked {
	r := RecordOf(o.Template)
	if r == nil || r.Used {
		return nil
	}
	asked := &queue.Asked{
		Attempt: r.Attempt, Pauses: r.Pauses, Size: r.Size, Apart: r.Apart, At: r.Asked, Until: r.Until, Verdict: r.Reason, Message: r.Message,
	}
	if asked.Until.IsZero() {
		asked.Verdict, asked.Message = elastic.NodesRequested, ""
		if request := o.current(r); request != nil {
			asked.Verdict, asked.Message = request.verdict()
		}
	}
	return asked
}
