// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

func newWhy(s *access.Session) *cobra.Command {
	return named(s, "why NAME", "Say why a MiniCluster waits, who is ahead of it, and what would help",
		"  kubectl minicluster why lammps", func(ctx context.Context, c client.WithWatch, key client.ObjectKey) error {
			return why(ctx, s, c, key)
		})
}

func why(ctx context.Context, s *access.Session, c client.Reader, key client.ObjectKey) error {
	mc, err := get(ctx, c, key)
	if err != nil {
		return err
	}
	var queue *v1alpha2.MiniClusterQueue
	var open []string
	var denied error
	if waits(mc) {
		var counted bool
		queue, counted, denied = queueOf(ctx, c, state.QueueOf(mc))
		denied = client.IgnoreNotFound(denied)
		if denied == nil && refused[condition(mc, v1alpha2.ConditionAdmitted).Reason].named {
			if open, err = openQueues(ctx, c, mc); err != nil {
				return err
			}
		}
		if !counted {
			queue = nil
		}
	}
	for _, line := range explain(mc, queue, open, s) {
		fmt.Fprintln(s.Out, access.PlainLine(line))
	}
	if denied != nil {
		fmt.Fprintf(s.ErrOut, "The place of %s in queue %s is not known: %s.\n", mc.Name, state.QueueOf(mc), access.Explain(denied))
	}
	return nil
}

// openQueues are the names of the queues that serve the namespace of a MiniCluster. There is none if the user may not list
// queues.
func openQueues(ctx context.Context, c client.Reader, mc *v1alpha2.MiniCluster) ([]string, error) {
	var queues v1alpha2.MiniClusterQueueList
	namespace := &corev1.Namespace{}
	if err := c.List(ctx, &queues); err != nil {
		return nil, ignoreForbidden(err)
	}
	if err := c.Get(ctx, client.ObjectKey{Name: mc.Namespace}, namespace); err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	return slices.DeleteFunc(names(queues.Items), func(name string) bool {
		i := slices.IndexFunc(queues.Items, func(q v1alpha2.MiniClusterQueue) bool { return q.Name == name })
		return i >= 0 && (queues.Items[i].Spec.Suspended || state.Barred(&queues.Items[i], mc.Namespace, namespace.Labels) != "")
	}), nil
}

func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// waits reports whether a MiniCluster waits for nodes.
func waits(mc *v1alpha2.MiniCluster) bool { return stateOf(mc) == v1alpha2.StateQueued }

// headline is the sentence that says in which state a MiniCluster is, and why.
func headline(mc *v1alpha2.MiniCluster, state string) string {
	return fmt.Sprintf("%s is %s%s.", mc.Name, state, strings.TrimSuffix(reasonOf(mc), "."))
}

// explain are the sentences about a MiniCluster. queue is nil if it cannot be read.
func explain(mc *v1alpha2.MiniCluster, queue *v1alpha2.MiniClusterQueue, open []string, s *access.Session) []string {
	state, now := stateOf(mc), s.Clock.Now()
	first := headline(mc, state)
	switch state {
	case v1alpha2.StateQueued:
		return append([]string{first}, explainWaiting(mc, queue, open, s)...)
	case v1alpha2.StateSuspended:
		return []string{first, "What helps: kubectl minicluster resume " + mc.Name}
	case v1alpha2.StateRejected:
		return []string{first, accepted(mc)}
	case v1alpha2.StateBackingOff:
		if r := mc.Status.RequeueState; r != nil && r.RequeueAt != nil {
			first += fmt.Sprintf(" The next attempt begins in %s.", duration.HumanDuration(max(0, r.RequeueAt.Sub(now))))
		}
		return []string{first, "What failed: kubectl minicluster status " + mc.Name}
	case v1alpha2.StateStarting:
		return []string{first, fmt.Sprintf("It has had nodes for %s. Its brokers: kubectl minicluster status %s", duration.HumanDuration(now.Sub(mc.Status.Admission.Time.Time)), mc.Name)}
	case v1alpha2.StateRunning:
		return []string{first, fmt.Sprintf("It does not wait. It has had nodes for %s.", duration.HumanDuration(now.Sub(mc.Status.Admission.Time.Time)))}
	}
	return []string{first}
}

// explainWaiting says who is ahead of a MiniCluster that waits for nodes, and what would help.
func explainWaiting(mc *v1alpha2.MiniCluster, queue *v1alpha2.MiniClusterQueue, open []string, s *access.Session) []string {
	reason := condition(mc, v1alpha2.ConditionAdmitted).Reason
	lines := []string{fmt.Sprintf("Reason: %s. It has waited for %s.", reason, duration.HumanDuration(s.Clock.Now().Sub(mc.CreationTimestamp.Time)))}
	if queue != nil && reason != v1alpha2.ReasonDependency && reason != v1alpha2.ReasonLater { // these are in no queue
		lines = append(lines, place(mc, queue))
	}
	var help []string
	if size := smaller(mc, reason); size != "" {
		help = append(help, size)
	}
	switch reason {
	case v1alpha2.ReasonNoRoom, v1alpha2.ReasonWaitingForTurn:
		if access.Limit(mc) == 0 {
			help = append(help, "a deadlineSeconds: a MiniCluster with a known end may start before others that wait")
		}
	case v1alpha2.ReasonWaitingForSize:
		help = append(help, "a shorter elastic.waitForSize")
	case v1alpha2.ReasonNeverFits:
		help = append(help, "smaller requests for each broker, or larger nodes")
	case v1alpha2.ReasonNodesTimedOut, v1alpha2.ReasonNodesFailed, v1alpha2.ReasonNodesExpired, v1alpha2.ReasonNodesRevoked:
		help = append(help, "what the autoscaler says about its node groups and limits")
	}
	if what := helpFor(mc, queue, open); what != "" {
		help = append(help, what)
	}
	if len(help) > 0 {
		lines = append(lines, "What would help: "+strings.Join(help, "; ")+".")
	}
	return lines
}

// refused are the reasons of MiniClusters that their queue, a quota or a volume does not let start, and what helps.
var refused = map[string]struct {
	help  func(mc *v1alpha2.MiniCluster, queue *v1alpha2.MiniClusterQueue) string
	named bool // the queues that serve the namespace are named
}{
	v1alpha2.ReasonQueueFull:        {help: text("time: it starts when enough MiniClusters of its queue have ended")},
	v1alpha2.ReasonUserLimit:        {help: text("time: it starts when enough MiniClusters of its user in its queue have ended")},
	v1alpha2.ReasonTooLargeForQueue: {help: text("fewer or smaller brokers")},
	v1alpha2.ReasonDeadlineTooLong:  {help: shorter},
	v1alpha2.ReasonNoSuchQueue:      {help: text("a queue that exists, by submit -q"), named: true},
	v1alpha2.ReasonQueueSuspended:   {help: administrator, named: true},
	v1alpha2.ReasonNotAllowed:       {help: text("a queue for the namespace, by submit -q"), named: true},
	v1alpha2.ReasonQuotaExceeded: {help: text("brokers within the ResourceQuotas of the namespace, by kubectl describe quota; a larger quota; " +
		"or time, until others in the namespace have ended")},
	v1alpha2.ReasonDependency:       {help: text("time, or another spec.after, by kubectl edit mc")},
	v1alpha2.ReasonSingleton:        {help: text("time: it starts once no other MiniCluster with its key runs; or another spec.singleton, by kubectl edit mc")},
	v1alpha2.ReasonLater:            {help: text("time, or another spec.notBefore, by kubectl edit mc")},
	v1alpha2.ReasonWaitingForVolume: {help: text("the claim, the volume or the StorageClass that the message names, by kubectl describe pvc")},
}

func text(help string) func(*v1alpha2.MiniCluster, *v1alpha2.MiniClusterQueue) string {
	return func(*v1alpha2.MiniCluster, *v1alpha2.MiniClusterQueue) string { return help }
}

func administrator(mc *v1alpha2.MiniCluster, _ *v1alpha2.MiniClusterQueue) string {
	return "the administrator of queue " + state.QueueOf(mc) + ", or another queue, by submit -q"
}

// shorter says which times the queue of a MiniCluster allows. queue is nil if it cannot be read.
func shorter(mc *v1alpha2.MiniCluster, queue *v1alpha2.MiniClusterQueue) string {
	allows := state.Deadlines(queue)
	switch most := allows.Max; {
	case queue == nil:
		return "a shorter time, as the message says"
	case most > 0 && access.Limit(mc) > most:
		return fmt.Sprintf("submit with -t %s or less (deadlineSeconds)", state.Short(most))
	}
	return fmt.Sprintf("an elastic.checkpoint.wait of at most %s", state.Short(allows.Grace))
}

// helpFor says what helps a MiniCluster that is refused; "" if it is not. open are the queues that its namespace may use.
func helpFor(mc *v1alpha2.MiniCluster, queue *v1alpha2.MiniClusterQueue, open []string) string {
	r, found := refused[condition(mc, v1alpha2.ConditionAdmitted).Reason]
	switch {
	case !found:
		return ""
	case r.named && len(open) > 0:
		return r.help(mc, queue) + " (queues that you may use: " + strings.Join(open, ", ") + ")"
	case r.named:
		return r.help(mc, queue) + "; an administrator knows which"
	}
	return r.help(mc, queue)
}

// accepted says what helps a MiniCluster that is rejected.
func accepted(mc *v1alpha2.MiniCluster) string {
	help := "What helps: a change of the spec, by kubectl edit minicluster " + mc.Name
	switch condition(mc, v1alpha2.ConditionAccepted).Reason {
	case v1alpha2.ReasonPodRejected, v1alpha2.ReasonObjectRejected:
		help += "; or, if the message names a policy or a webhook, a change of that by an administrator: then it starts by itself"
	}
	return help
}

// tooLarge are the reasons of MiniClusters that need fewer nodes to start.
var tooLarge = []string{
	v1alpha2.ReasonNoRoom, v1alpha2.ReasonNeverFits, v1alpha2.ReasonNodesTimedOut, v1alpha2.ReasonNodesFailed, v1alpha2.ReasonNodesExpired, v1alpha2.ReasonNodesRevoked,
}

// smaller says whether a smaller minSize may help; "" if none would.
func smaller(mc *v1alpha2.MiniCluster, reason string) string {
	if mc.Spec.MinSize < 2 || !slices.Contains(tooLarge, reason) {
		return ""
	}
	return fmt.Sprintf("a minSize below %d, if the command can run with fewer brokers", mc.Spec.MinSize)
}

// mostAhead is how many of those ahead are named.
const mostAhead = 5

// place says where in its queue a MiniCluster is, and who is ahead.
func place(mc *v1alpha2.MiniCluster, queue *v1alpha2.MiniClusterQueue) string {
	if queue.Spec.Suspended {
		return fmt.Sprintf("Queue %s is suspended: it starts nothing.", queue.Name)
	}
	var ahead []string
	for _, w := range queue.Status.Waiting {
		if w.Namespace == mc.Namespace && w.Name == mc.Name {
			switch {
			case w.Position == 0 && queue.Status.Pending == 1:
				return fmt.Sprintf("No other MiniCluster waits in queue %s.", queue.Name)
			case w.Position == 0:
				return fmt.Sprintf("%d MiniClusters wait in queue %s.", queue.Status.Pending, queue.Name)
			}
			text := fmt.Sprintf("It is number %d of %d in queue %s", w.Position, queue.Status.Pending, queue.Name)
			if len(ahead) > mostAhead {
				ahead = append(ahead[:mostAhead], fmt.Sprintf("and %d more", len(ahead)-mostAhead))
			}
			if len(ahead) > 0 {
				text += ", after " + strings.Join(ahead, ", ")
			}
			return text + "."
		}
		ahead = append(ahead, w.Namespace+"/"+w.Name)
	}
	return fmt.Sprintf("Queue %s has %d that wait, and lists the first %d.", queue.Name, queue.Status.Pending, len(queue.Status.Waiting))
}
