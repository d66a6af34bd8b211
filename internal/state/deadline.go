// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// unset is the default of deadlineSeconds. It sets no deadline, and a deadline of at least so much
// is no time limit for the scheduler.
const unset = v1alpha2.DefaultDeadlineSeconds * time.Second

// Deadlines are what a queue says about deadlines; it may be nil.
func Deadlines(q *v1alpha2.MiniClusterQueue) elastic.Deadlines {
	if q == nil {
		return elastic.Deadlines{Grace: v1alpha2.DefaultMaxGrace}
	}
	out := deadlines(q.Spec.DefaultDeadline, q.Spec.MaxDeadline, q.Spec.ExtendDeadlines)
	out.Grace = ptr.Deref(q.Spec.MaxGrace, metav1.Duration{Duration: v1alpha2.DefaultMaxGrace}).Duration
	return out
}

// AdmittedDeadlines are what the queue of a MiniCluster said at its admission about deadlines. They are empty if it has
// none.
func AdmittedDeadlines(mc *v1alpha2.MiniCluster) elastic.Deadlines {
	if a := mc.Status.Admission; a != nil && a.QueueDeadlines != nil {
		return deadlines(a.QueueDeadlines.Default, a.QueueDeadlines.Max, a.QueueDeadlines.Extend)
	}
	return elastic.Deadlines{}
}

func deadlines(byDefault, most *metav1.Duration, extend bool) elastic.Deadlines {
	none := metav1.Duration{}
	return elastic.Deadlines{Default: ptr.Deref(byDefault, none).Duration, Max: ptr.Deref(most, none).Duration, Extend: extend}
}

// Deadline is how long the command of a MiniCluster may run in a queue with some deadlines; 0 if neither
// sets a deadline. While the MiniCluster has nodes, its deadline becomes longer only if the queue lets it.
func Deadline(mc *v1alpha2.MiniCluster, of elastic.Deadlines) time.Duration {
	deadline, a := of.Of(setDeadline(mc)), mc.Status.Admission
	if a == nil || a.DeadlineSeconds == nil || of.Extend {
		return deadline
	}
	recorded := time.Duration(*a.DeadlineSeconds) * time.Second
	return min(cmp.Or(deadline, recorded), recorded)
}

// setDeadline is the deadline that a spec sets; 0 if it sets none.
func setDeadline(mc *v1alpha2.MiniCluster) time.Duration {
	if set := specDeadline(mc); set != unset {
		return set
	}
	return 0
}

// specDeadline is deadlineSeconds of a spec.
func specDeadline(mc *v1alpha2.MiniCluster) time.Duration {
	seconds := ptr.Deref(mc.Spec.DeadlineSeconds, v1alpha2.DefaultDeadlineSeconds)
	return time.Duration(min(seconds, math.MaxInt64/int64(time.Second))) * time.Second
}

// Limit is the time limit of a MiniCluster in a queue with some deadlines; 0 if it has none, or one
// of at least a year.
func Limit(mc *v1alpha2.MiniCluster, of elastic.Deadlines) time.Duration {
	if limit := Deadline(mc, of); limit < unset {
		return limit
	}
	return 0
}

// StartTimeout is how long the start of a MiniCluster may take in a queue with some deadlines. With a deadline, the start takes no
// longer than the command: others wait for its end. Short commands have the time for a start that is the default.
func StartTimeout(mc *v1alpha2.MiniCluster, of elastic.Deadlines) time.Duration {
	set := mc.Spec.Elastic.StartTimeout.Duration
	if limit := Limit(mc, of); limit > 0 {
		return min(set, max(limit, v1alpha2.DefaultStartTimeout))
	}
	return set
}

// TooLong says that a MiniCluster sets a longer deadline than its queue allows, or a longer time for checkpoints; "" if
// not.
func TooLong(mc *v1alpha2.MiniCluster, queue string, of elastic.Deadlines) string {
	if set := setDeadline(mc); of.Max > 0 && set > of.Max {
		return fmt.Sprintf("deadlineSeconds %d is more than queue %s allows (%s)", int64(set.Seconds()), queue, Short(of.Max))
	}
	if c := mc.Spec.Elastic.Checkpoint; c != nil && of.Grace > 0 && c.Wait.Duration > of.Grace {
		return fmt.Sprintf("elastic.checkpoint.wait %s is more than queue %s allows (maxGrace: %s)", Short(c.Wait.Duration), queue, Short(of.Grace))
	}
	return ""
}

// Short formats a duration without the zeros at its end: 1h.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
