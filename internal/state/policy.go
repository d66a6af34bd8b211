// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Policy is what the spec of a MiniCluster says about its life, as far as it counts for the current admission.
func Policy(mc *v1alpha2.MiniCluster) life.Policy {
	s, e, traits := &mc.Spec, &mc.Spec.Elastic, traitsOf(mc)
	return life.Policy{
		Sizing:        admittedSizing(mc),
		QuorumTimeout: min(ptr.Deref(traits.QuorumTimeout, *e.QuorumTimeout).Duration, e.QuorumTimeout.Duration),
		StartTimeout:  StartTimeout(mc, AdmittedDeadlines(mc)),
		Deadline:      cmp.Or(Deadline(mc, AdmittedDeadlines(mc)), specDeadline(mc)),
		Max:           mostBrokers(mc),
		Want:          wanted(mc),
		Malleable:     traits.Malleable && traits.Resize != v1alpha2.ResizeRestart,
		Restarts:      traits.Resize == v1alpha2.ResizeRestart,

		CheckpointWait:    ptr.Deref(traits.CheckpointWait, metav1.Duration{}).Duration,
		AsksForCheckpoint: traits.AsksForCheckpoint,
		TellsCheckpoints:  traits.TellsCheckpoints,

		RecreateLimit: int(*e.Recreate.Limit),
		BackoffBase:   e.Recreate.BackoffBase.Duration,
		BackoffMax:    e.Recreate.BackoffMax.Duration,
		Shrink:        e.Recreate.SizePolicy == v1alpha2.SizeShrink,
		OnLoss:        life.LossPolicy(traits.OnLoss),
		Retries:       int(traits.BackoffLimit),
		Requeues:      requeues(mc),
		Suspend:       mc.IsSuspended(),
		Deleted:       mc.DeletionTimestamp != nil,
		TTL:           ttl(s),
	}
}

// requeues is how often a command goes on in another attempt after its deadline.
func requeues(mc *v1alpha2.MiniCluster) int {
	if e := &mc.Spec.Elastic; e.OnDeadline == v1alpha2.DeadlineRequeue && !mc.Spec.ForUsers() {
		return int(*e.RequeueLimit)
	}
	return 0
}

// ttl is how long a finished MiniCluster stays; nil if it stays for ever.
func ttl(s *v1alpha2.MiniClusterSpec) *time.Duration {
	switch {
	case s.Cleanup:
		return new(time.Duration)
	case s.TTLSecondsAfterFinished != nil:
		return ptr.To(time.Duration(*s.TTLSecondsAfterFinished) * time.Second)
	}
	return nil
}

// admittedSizing is the sizing that the pods were told. A later change of the size does not
// change it.
func admittedSizing(mc *v1alpha2.MiniCluster) elastic.Sizing {
	size := mc.Spec.Size
	if a := mc.Status.Admission; a != nil && a.Wanted > 0 {
		size = a.Wanted
	}
	return sizing(traitsOf(mc), size)
}

// wanted is the size that a MiniCluster follows; 0 if the scheduler may grow it above that.
// elastic.grow allows this until somebody sets another size than that of the admission. So the
// scheduler never works against a user or an autoscaler that sets sizes.
func wanted(mc *v1alpha2.MiniCluster) int {
	a := mc.Status.Admission
	resized := a != nil && a.Wanted > 0 && (a.Resized || a.Wanted != mc.Spec.Size)
	if mc.Spec.Elastic.Grow && !resized {
		return 0
	}
	return int(mc.Spec.Size)
}

// mostBrokers is the largest size to which a MiniCluster may grow: its size, or its maxSize if the
// scheduler may grow it above its size.
func mostBrokers(mc *v1alpha2.MiniCluster) int {
	most := int(MaxSize(mc))
	if want := wanted(mc); want > 0 {
		return min(want, most)
	}
	return most
}

// Sizing is what a spec, with its defaults, says about sizes and tasks.
func Sizing(s *v1alpha2.MiniClusterSpec) elastic.Sizing { return sizing(Traits(s), s.Size) }

func sizing(t *v1alpha2.Traits, size int32) elastic.Sizing {
	return elastic.Sizing{
		Min: int(min(t.MinSize, size)), Size: int(size),
		Operator: elastic.Operator(t.Sizes.Operator), Operand: int(t.Sizes.Operand),
		Tasks: elastic.Tasks{
			AtSize:     int(t.Tasks),
			Fixed:      t.TaskPolicy.Scaling == v1alpha2.TasksFixed,
			Constraint: elastic.Constraint(t.TaskPolicy.Constraint),
			MultipleOf: int(ptr.Deref(t.TaskPolicy.MultipleOf, 1)),
		},
		SlotsPerNode: int(t.SlotsPerNode),
	}
}

// Traits are what a spec, with its defaults, says about the command. They are recorded at the
// admission.
func Traits(s *v1alpha2.MiniClusterSpec) *v1alpha2.Traits {
	t := &v1alpha2.Traits{
		Malleable: s.Malleable(), Resize: s.ResizePolicy(),
		MinSize: s.MinSize, Sizes: s.Elastic.Sizes, Tasks: *s.Tasks, TaskPolicy: s.Elastic.Tasks, SlotsPerNode: int32(broker.Slots(s)),
		OnLoss: s.Elastic.OnLoss, BackoffLimit: s.BackoffLimit, QuorumTimeout: s.Elastic.QuorumTimeout,
	}
	if c := s.Elastic.Checkpoint; c != nil {
		t.CheckpointWait, t.AsksForCheckpoint = c.Wait, c.Signal != "" || c.Command != ""
		t.TellsCheckpoints = c.Tells()
	}
	return t
}

// traitsOf are the traits of the admission, or of the spec if none are recorded.
func traitsOf(mc *v1alpha2.MiniCluster) *v1alpha2.Traits {
	if recorded := recordedTraits(mc); recorded != nil {
		return recorded
	}
	return Traits(&mc.Spec)
}

// recordedTraits are the traits of the admission; nil if none are recorded.
func recordedTraits(mc *v1alpha2.MiniCluster) *v1alpha2.Traits {
	if mc.Status.Admission == nil {
		return nil
	}
	return mc.Status.Admission.Traits
}

// nextSizing is the sizing of the next attempt.
func nextSizing(mc *v1alpha2.MiniCluster) elastic.Sizing {
	s := Sizing(&mc.Spec)
	if requeue := mc.Status.RequeueState; requeue != nil {
		s.Most = int(requeue.Size)
	}
	return s
}

// MaxSize is the largest size for which pods are made. It does not change while the MiniCluster
// has nodes.
func MaxSize(mc *v1alpha2.MiniCluster) int32 {
	if mc.Status.Admission != nil && mc.Status.MaximumSize > 0 {
		return mc.Status.MaximumSize
	}
	return jobset.Size(mc)
}

// Ranks is the number of ranks that brokers of a MiniCluster, with its defaults, may have: a pod of a
// higher rank is none of them.
func Ranks(mc *v1alpha2.MiniCluster) int {
	ranks := MaxSize(mc)
	if mc.Status.Admission != nil {
		ranks = max(ranks, mc.Status.Admission.Size)
	}
	return int(ranks)
}
