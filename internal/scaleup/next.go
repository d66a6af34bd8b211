// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scaleup

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// Wish is what is to be asked for a MiniCluster.
type Wish struct {
	queue.Ask
	// Pod is one of its pods after admission by the API server, and Batch selects the nodes that they may use.
	Pod   *corev1.Pod
	Batch labels.Selector
	// Provider, Class, Parameters, Timeout and MaxNodes are those of the queue. Version is that of the provider's objects.
	Provider   v1alpha2.ScaleUpProvider
	Version    string
	Class      string
	Parameters map[string]string
	Timeout    time.Duration
	MaxNodes   int
}

// Step is the next write. At most one of its fields is set, unless it patches.
type Step struct {
	// Create and Delete are the object that is to be created or deleted, and Template the PodTemplate that replaces an
	// existing one.
	CreateTemplate, PatchTemplate, DeleteTemplate *corev1.PodTemplate
	CreateRequest, PatchRequest, DeleteRequest    *Request
	// LookAgain is when time alone makes another write necessary; zero if it does not.
	LookAgain time.Time
}

// Done reports whether there is nothing to write.
func (s *Step) Done() bool { return *s == Step{LookAgain: s.LookAgain} }

// Next is the next write for a MiniCluster for which nothing is to be asked any more (wish is nil), or something. placed
// is true if it has nodes, or is about to get some: then the pods use what a ProvisioningRequest has provided, so it
// stays, and a CapacityBuffer would ask for more nodes.
func Next(mc *v1alpha2.MiniCluster, wish *Wish, placed bool, objects *Objects, now time.Time) Step {
	record := RecordOf(objects.Template)
	switch {
	case placed:
		return end(objects, record, true)
	case wish == nil:
		return nextUnasked(mc, objects, record, now)
	case wish.Pause > 0:
		return nextPaused(wish, objects, record, now)
	}
	if objects.Template == nil {
		return Step{CreateTemplate: wish.template(mc, now)}
	}
	if wish.replaces(mc, record) {
		next, made := objects.Template.DeepCopy(), wish.template(mc, now)
		next.Template, next.Annotations = made.Template, made.Annotations
		return Step{PatchTemplate: next}
	}
	if wish.Attempt < record.Attempt || !record.Until.IsZero() { // what the queue knew is outdated
		return Step{}
	}
	return nextRequest(mc, wish, objects, record, now)
}

// nextUnasked ends what was asked. A failure stays recorded for a while, for a MiniCluster that is without quota.
func nextUnasked(mc *v1alpha2.MiniCluster, objects *Objects, record *Record, now time.Time) Step {
	if forgets(mc) {
		return end(objects, record, false)
	}
	if broken := objects.broken(now); broken != nil {
		return Step{PatchTemplate: withRecord(objects.Template, broken)}
	}
	counts := record.countsUntil()
	if !now.Before(counts) {
		return end(objects, record, false)
	}
	step := endRequests(objects)
	step.LookAgain = counts
	return step
}

// nextRequest asks for what the record says, and ends what was asked before.
func nextRequest(mc *v1alpha2.MiniCluster, wish *Wish, objects *Objects, record *Record, now time.Time) Step {
	wanted := wish.request(mc, record)
	for _, r := range objects.Requests {
		if r.Kind != wanted.Kind || r.Labels[v1alpha2.ScaleUpLabel] != record.ID() {
			return deleteOnce(r)
		}
	}
	current := objects.current(record)
	switch {
	case current == nil && len(objects.Requests) > 0: // it is being deleted
		return Step{}
	case current == nil:
		return Step{CreateRequest: wanted}
	}
	replicas, lookAgain := wish.replicas(current, now)
	if replicas == nil || ptr.Deref(current.Spec.Replicas, 0) >= *replicas {
		return Step{LookAgain: lookAgain}
	}
	more := *current
	more.Spec.Replicas = replicas
	return Step{PatchRequest: &more}
}

// doubt is how long an autoscaler may say that all is there while nodes are missing.
const doubt = 20 * time.Second

// replicas is how many pods a CapacityBuffer has to have; nil for another provider. An autoscaler counts free nodes that
// the pods cannot use, such as those of a reservation. So if it says for some time that all pods fit, and nodes are
// missing that are not coming, it is asked for as many more, and after some time for as many again.
func (w *Wish) replicas(r *Request, now time.Time) (replicas *int32, lookAgain time.Time) {
	if r.Spec.Replicas == nil {
		return nil, time.Time{}
	}
	fits := meta.FindStatusCondition(r.Status.Conditions, conditionProvisioning)
	if w.Nodes <= w.Coming || fits == nil || fits.Status != metav1.ConditionTrue || fits.ObservedGeneration < r.Generation {
		return r.Spec.Replicas, time.Time{}
	}
	times := max(int(now.Sub(fits.LastTransitionTime.Time)/doubt), 0)
	most := w.Size + w.MaxNodes
	more := min(w.Size+times*w.Nodes, most)
	if more < most {
		lookAgain = fits.LastTransitionTime.Add(time.Duration(times+1) * doubt)
	}
	return ptr.To(int32(more)), lookAgain
}

// replaces reports whether a record, which may be nil, is of something else than what is wished.
func (w *Wish) replaces(mc *v1alpha2.MiniCluster, record *Record) bool {
	return record == nil || record.Used || w.Attempt > record.Attempt || w.Attempt == record.Attempt && !w.isOf(mc, record)
}

// isOf reports whether a record is of what is wished: the spec of the MiniCluster may have changed. After a failure, the
// record stays.
func (w *Wish) isOf(mc *v1alpha2.MiniCluster, record *Record) bool {
	return !record.Until.IsZero() || record.Size == w.Size && cmp.Or(record.Provider, w.Provider) == w.Provider && record.Template == hashOf(w.podTemplate(mc))
}

// nextPaused records that an attempt has failed, and ends it.
func nextPaused(wish *Wish, objects *Objects, record *Record, now time.Time) Step {
	if record == nil || record.Used || record.Attempt != wish.Attempt {
		return Step{}
	}
	if record.Until.IsZero() {
		paused := *record
		paused.Until, paused.Reason, paused.Message = now.Add(wish.Pause).UTC().Truncate(time.Millisecond), wish.Verdict, wish.Message
		return Step{PatchTemplate: withRecord(objects.Template, &paused)}
	}
	return endRequests(objects)
}

// end ends what was asked: all of it, or what a MiniCluster that has its nodes does not use. The record is closed first, so
// that nothing is asked again with it, and deleted last.
func end(objects *Objects, record *Record, placed bool) Step {
	if record != nil && !record.Used {
		closed := *record
		closed.Used = true
		return Step{PatchTemplate: withRecord(objects.Template, &closed)}
	}
	keeps := false
	for _, r := range objects.Requests {
		if !placed || r.Kind == string(v1alpha2.ProvideByBuffer) || record == nil || r.Labels[v1alpha2.ScaleUpLabel] != record.ID() {
			return deleteOnce(r)
		}
		keeps = true
	}
	if keeps || objects.Template == nil || objects.Template.DeletionTimestamp != nil {
		return Step{}
	}
	return Step{DeleteTemplate: objects.Template}
}

// endRequests ends what was asked, and keeps the record.
func endRequests(objects *Objects) Step {
	for _, r := range objects.Requests {
		return deleteOnce(r)
	}
	return Step{}
}

// deleteOnce deletes an object, unless it is being deleted.
func deleteOnce(r *Request) Step {
	if r.DeletionTimestamp != nil {
		return Step{}
	}
	return Step{DeleteRequest: r}
}

// withRecord is a PodTemplate with another record.
func withRecord(template *corev1.PodTemplate, record *Record) *corev1.PodTemplate {
	next := template.DeepCopy()
	next.Annotations[v1alpha2.ScaleUpAnnotation] = record.text()
	return next
}
