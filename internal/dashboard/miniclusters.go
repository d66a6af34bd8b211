// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// MostFinished is how many finished MiniClusters a View has: those that finished last.
const MostFinished = 500

// miniClustersOf are the MiniClusters that have not finished, and the last that have.
func miniClustersOf(o *Objects) []MiniCluster {
	queues, positions := map[string]*v1alpha2.MiniClusterQueue{}, map[types.NamespacedName]int32{}
	for i := range o.Queues {
		queue := &o.Queues[i]
		queues[queue.Name] = queue
		for _, waiting := range queue.Status.Waiting {
			positions[types.NamespacedName{Namespace: waiting.Namespace, Name: waiting.Name}] = waiting.Position
		}
	}
	var out, finished []MiniCluster
	for i := range o.MiniClusters {
		mc := &o.MiniClusters[i]
		line := summaryOf(mc, queues)
		if isFinished(mc) {
			finished = append(finished, line)
			continue
		}
		if mc.Status.Admission == nil {
			line.Position = positions[types.NamespacedName{Namespace: mc.Namespace, Name: mc.Name}]
		}
		out = append(out, line)
	}
	slices.SortFunc(finished, func(a, b MiniCluster) int { return cmp.Or(-cmp.Compare(a.Ended, b.Ended), cmp.Compare(a.ID, b.ID)) })
	return append(out, finished[:min(len(finished), MostFinished)]...)
}

func isFinished(mc *v1alpha2.MiniCluster) bool {
	return meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished)
}

// summaryOf is the line of a MiniCluster, without its position.
func summaryOf(mc *v1alpha2.MiniCluster, queues map[string]*v1alpha2.MiniClusterQueue) MiniCluster {
	s := &mc.Status
	queue := state.QueueOf(mc)
	line := MiniCluster{
		ID: keyOf(mc.Namespace, mc.Name), Namespace: mc.Namespace, Name: mc.Name, Queue: queue, User: state.User(mc, queues[queue]),
		Up: s.Size, Wanted: mc.Spec.Size, Least: cmp.Or(mc.Spec.MinSize, mc.Spec.Size), Most: max(mc.Spec.Size, mc.Spec.MaxSize),
		Command: lineOf(mc), Tasks: s.Tasks, Nodes: s.Nodes, Created: mc.CreationTimestamp.Unix(), Started: seconds(s.StartTime), Ended: seconds(s.CompletionTime),
	}
	if ready := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionReady); ready != nil {
		line.State, line.Message = ready.Reason, ready.Message
	}
	why := v1alpha2.ConditionAdmitted
	if isFinished(mc) {
		why = v1alpha2.ConditionFinished
	}
	if condition := meta.FindStatusCondition(s.Conditions, why); condition != nil {
		line.Why = condition.Reason
	}
	if a := s.Admission; a != nil {
		line.Attempt, line.Admitted, line.Has, line.Deadline = a.Attempt, a.Time.Unix(), a.Size, ptr.Deref(a.DeadlineSeconds, 0)
		if promise, err := state.PromiseOf(mc); err == nil && promise != nil {
			line.Has = int32(len(promise.Ranks()))
		}
	}
	return line
}

// mostCommand is how long the command of a line may be, in characters.
const mostCommand = 80

// lineOf is the beginning of the command of a MiniCluster, in one line.
func lineOf(mc *v1alpha2.MiniCluster) string {
	if len(mc.Spec.Containers) == 0 {
		return ""
	}
	var line []rune
	for word := range strings.FieldsSeq(mc.Spec.FluxContainer().Command) {
		if line != nil {
			line = append(line, ' ')
		}
		if line = append(line, []rune(word)...); len(line) > mostCommand {
			return string(line[:mostCommand-1]) + "…"
		}
	}
	return string(line)
}

// listedQueues are the queues that exist.
func listedQueues(made []v1alpha2.MiniClusterQueue) (out []Queue) {
	for i := range made {
		from := &made[i]
		out = append(out, Queue{
			Name: from.Name, Listed: true, Pending: from.Status.Pending, Admitted: from.Status.Admitted,
			Weight: from.Spec.Weight, Priority: from.Spec.Priority, Ordering: string(from.Spec.Ordering), Backfill: string(from.Spec.Backfill),
			Suspended: from.Spec.Suspended, Share: from.Status.Share, Deserved: from.Status.Deserved,
		})
	}
	return out
}

// withNamed adds the queues that MiniClusters name to those of a list that exist.
func withNamed(queues []Queue, miniClusters []MiniCluster) (out []Queue) {
	exist := map[string]bool{}
	for i := range queues {
		if queues[i].Listed {
			exist[queues[i].Name], out = true, append(out, queues[i])
		}
	}
	named := slices.DeleteFunc(countedQueues(miniClusters), func(q Queue) bool { return exist[q.Name] })
	out = append(out, named...)
	slices.SortFunc(out, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// countedQueues are the queues of some MiniClusters, as far as these tell.
func countedQueues(miniClusters []MiniCluster) []Queue {
	var out []Queue
	at := map[string]int{}
	for i := range miniClusters {
		mc := &miniClusters[i]
		if _, known := at[mc.Queue]; !known {
			at[mc.Queue] = len(out)
			out = append(out, Queue{Name: mc.Queue})
		}
		queue := &out[at[mc.Queue]]
		switch {
		case mc.Ended != 0:
		case mc.Admitted != 0:
			queue.Admitted++
		default:
			queue.Pending++
		}
	}
	return out
}
