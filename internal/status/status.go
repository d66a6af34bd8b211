// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// Check is what the check of a spec came to.
type Check struct {
	// Reason is one of the reasons of the condition Accepted.
	Reason string
	// Message says what is wrong, for people; "" if nothing is.
	Message string
}

// Input is all that a status is made from.
type Input struct {
	// MiniCluster has its defaults. Its status is the one that was there.
	MiniCluster *v1alpha2.MiniCluster
	Observation *elastic.Observation
	Plan        elastic.Plan
	Check       Check
	// OccupiedNodes are the nodes that its pods hold.
	OccupiedNodes map[string]bool
	// Requests are what one of its pods takes.
	Requests corev1.ResourceList
	// Priority is that of its pods.
	Priority int32
	// Queue is the one it waits in; "" if that is not known.
	Queue string
	Now   time.Time
}

// Compute returns the new status. The decision of the plan is carried out in it;
// what the plan makes or removes is not there yet.
func Compute(in Input) v1alpha2.MiniClusterStatus {
	s := in.MiniCluster.Status.DeepCopy()
	s.ObservedGeneration = in.MiniCluster.Generation
	s.Selector = v1alpha2.SelectorLabel + "=" + in.MiniCluster.Name
	if s.Admission == nil || s.MaximumSize == 0 { // else the pods that were made say it
		s.MaximumSize = in.MiniCluster.Spec.MaxSize
	}
	if in.Queue != "" && (in.Plan.State == elastic.StateQueued || in.Plan.Step == elastic.Admit || s.Queue == "") {
		s.Queue = in.Queue
	}
	decide(s, in)
	count(s, in)
	setAccepted(s, in)
	setAdmitted(s, in)
	setQuorumReached(s, in)
	setFinished(s, in)
	setReady(s, in)
	return *s
}

// decide writes the plan's decision down.
func decide(s *v1alpha2.MiniClusterStatus, in Input) {
	plan, o := in.Plan, in.Observation
	now := metav1.NewTime(in.Now)
	switch plan.Step {
	case elastic.Admit:
		s.Admission = &v1alpha2.Admission{
			Attempt: int32(o.Attempt()), Generation: in.MiniCluster.Generation,
			Size: int32(len(o.Offer)), Quorum: int32(plan.Quorum),
			Nodes: hostlist.Encode(o.Offer), Requests: in.Requests, Priority: in.Priority, Time: now,
		}
		s.StartTime, s.CompletionTime, s.ExitCode = nil, nil, nil
	case elastic.LowerQuorum:
		s.Admission.Quorum = int32(plan.Quorum)
	case elastic.Start:
		s.StartTime = &now
	case elastic.DrainRanks, elastic.Vacate, elastic.GrowRanks, elastic.MoveRanks:
		resize(s.Admission, plan)
	case elastic.Evict:
		s.Admission, s.StartTime = nil, nil
		s.RequeueState = &v1alpha2.RequeueState{Count: int32(o.GivenUp), RequeueAt: &now}
	case elastic.GiveUp:
		s.RequeueState = &v1alpha2.RequeueState{Count: int32(o.GivenUp) + 1, RequeueAt: ptr.To(metav1.NewTime(plan.NotBefore))}
		s.Admission, s.StartTime = nil, nil
	case elastic.Withdraw:
		s.Admission, s.StartTime = nil, nil
		if o.Policy.Suspend {
			s.RequeueState = nil
		}
	case elastic.Finish:
		s.CompletionTime = &now
		if plan.ExitCode != nil {
			s.ExitCode = ptr.To(int32(*plan.ExitCode))
		}
	}
}

// resize writes down which ranks leave, have left, come or move.
func resize(a *v1alpha2.Admission, plan elastic.Plan) {
	switch plan.Step {
	case elastic.DrainRanks:
		a.Drain = &v1alpha2.Drain{Ranks: Ranks(plan.Ranks), Deadline: metav1.NewTime(plan.Deadline), Reason: shorten(plan.Message)}
		return
	case elastic.Vacate:
		a.Drain, a.Quorum = nil, int32(plan.Quorum)
		vacated, _ := idset.Parse(a.Vacated) // it was read to observe
		leaving, _ := idset.Parse(Ranks(plan.Ranks))
		a.Vacated = idset.Union(vacated, leaving).String()
		return
	}
	nodes, _ := hostlist.Decode(a.Nodes, int(a.Size))
	vacated, _ := idset.Decode(a.Vacated, int(a.Size))
	for _, pod := range plan.Pods {
		if pod.Rank == len(nodes) {
			nodes = append(nodes, pod.Node)
			continue
		}
		nodes[pod.Rank] = pod.Node
		vacated = slices.DeleteFunc(vacated, func(rank int64) bool { return rank == int64(pod.Rank) })
	}
	a.Nodes, a.Size, a.Vacated = hostlist.Encode(nodes), int32(len(nodes)), idset.Encode(vacated)
	if plan.Step == elastic.GrowRanks {
		a.Quorum = int32(plan.Quorum)
	}
}

// Ranks are ranks as an idset.
func Ranks(ranks []int) string {
	ids := make([]int64, len(ranks))
	for i, rank := range ranks {
		ids[i] = int64(rank)
	}
	return idset.Encode(ids)
}

// members are the nodes of the ranks that have one.
func members(a *v1alpha2.Admission) []string {
	nodes, _ := hostlist.Decode(a.Nodes, int(a.Size)) // it was read to observe
	vacated, _ := idset.Parse(a.Vacated)
	var out []string
	for rank, node := range nodes {
		if !vacated.Has(int64(rank)) {
			out = append(out, node)
		}
	}
	return out
}

// count fills in the numbers.
func count(s *v1alpha2.MiniClusterStatus, in Input) {
	nodes := map[string]bool{}
	maps.Copy(nodes, in.OccupiedNodes)
	s.Size = 0
	if !in.finished() { // the tasks stay those that ran
		s.Tasks = 0
		for _, broker := range in.Observation.Brokers {
			if broker.State == elastic.Up && !broker.Vacated {
				s.Size++
			}
		}
		if s.Admission != nil {
			s.Tasks = int32(in.Observation.Policy.Sizing.TasksAt(int(s.Admission.Quorum)))
			for _, node := range members(s.Admission) {
				nodes[node] = true
			}
		}
	}
	s.Nodes = int32(len(nodes))
}

func setAccepted(s *v1alpha2.MiniClusterStatus, in Input) {
	if in.Check.Reason == "" {
		return // not checked in this pass: what was said holds
	}
	value, message := metav1.ConditionTrue, "The spec can be carried out"
	if in.Check.Message != "" {
		value, message = metav1.ConditionFalse, in.Check.Message
	}
	set(s, in, v1alpha2.ConditionAccepted, value, in.Check.Reason, message)
}

func setAdmitted(s *v1alpha2.MiniClusterStatus, in Input) {
	value, reason, message := metav1.ConditionFalse, v1alpha2.ReasonReleased, in.message()
	switch {
	case in.finished():
		reason, message = v1alpha2.ReasonFinished, "It is done"
	case s.Admission != nil:
		value, reason = metav1.ConditionTrue, v1alpha2.ReasonAdmitted
		message = fmt.Sprintf("Holds nodes for %d of %d brokers", len(members(s.Admission)), in.MiniCluster.Spec.Size)
	case in.Plan.Step == elastic.Evict:
		reason = in.Plan.Reason
	case in.Plan.State == elastic.StateReleasing && givenToOthers(s):
		return // why it has no nodes stays said until it waits again
	case in.Plan.State == elastic.StateSuspended, in.Plan.State == elastic.StateRejected:
		reason = string(in.Plan.State)
	case in.Plan.State == elastic.StateQueued:
		reason, message = admittedReasons[in.Observation.Verdict], sentence(in.Observation.Why)
	}
	set(s, in, v1alpha2.ConditionAdmitted, value, reason, message)
}

// givenToOthers reports whether it had to give its nodes to others.
func givenToOthers(s *v1alpha2.MiniClusterStatus) bool {
	admitted := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionAdmitted)
	return admitted != nil && (admitted.Reason == v1alpha2.ReasonPreempted || admitted.Reason == v1alpha2.ReasonReclaimed)
}

// admittedReasons are the API's words for the scheduler's verdicts.
var admittedReasons = map[elastic.Verdict]string{
	"":                     v1alpha2.ReasonWaitingForTurn, // no cycle has been since it came
	elastic.NeverFits:      v1alpha2.ReasonNeverFits,
	elastic.NotAllowed:     v1alpha2.ReasonNotAllowed,
	elastic.NoRoom:         v1alpha2.ReasonNoRoom,
	elastic.WaitingForSize: v1alpha2.ReasonWaitingForSize,
	elastic.WaitingForTurn: v1alpha2.ReasonWaitingForTurn,
}

func setQuorumReached(s *v1alpha2.MiniClusterStatus, in Input) {
	switch {
	case in.finished():
		return // what was so stays said
	case s.StartTime != nil:
		if meta.IsStatusConditionTrue(s.Conditions, v1alpha2.ConditionQuorumReached) {
			return // it is about the start
		}
		set(s, in, v1alpha2.ConditionQuorumReached, metav1.ConditionTrue, v1alpha2.ReasonQuorumReached, quorumMessage(s, in))
	case s.Admission != nil:
		set(s, in, v1alpha2.ConditionQuorumReached, metav1.ConditionFalse, v1alpha2.ReasonWaitingForBrokers,
			fmt.Sprintf("%d of %d brokers up", s.Size, s.Admission.Quorum))
	default:
		set(s, in, v1alpha2.ConditionQuorumReached, metav1.ConditionFalse, v1alpha2.ReasonNotAdmitted, "It has no nodes")
	}
}

// quorumMessage says with what the command starts, of what was asked for.
func quorumMessage(s *v1alpha2.MiniClusterStatus, in Input) string {
	message := fmt.Sprintf("%d of %d brokers", s.Admission.Quorum, max(s.Admission.Quorum, in.MiniCluster.Spec.Size))
	if tasks := max(s.Tasks, *in.MiniCluster.Spec.Tasks); tasks > 0 {
		message += fmt.Sprintf(", tasks %d of %d", s.Tasks, tasks)
	}
	return message
}

func setFinished(s *v1alpha2.MiniClusterStatus, in Input) {
	switch {
	case in.Observation.Outcome != "":
	case in.Plan.Step == elastic.Finish:
		message := in.message()
		if message == "" {
			message = "The command ended with exit code 0"
		}
		set(s, in, v1alpha2.ConditionFinished, metav1.ConditionTrue, string(in.Plan.Outcome), message)
	default:
		set(s, in, v1alpha2.ConditionFinished, metav1.ConditionFalse, v1alpha2.ReasonUnfinished, "It is not done")
	}
}

// setReady sums the others up.
func setReady(s *v1alpha2.MiniClusterStatus, in Input) {
	value := metav1.ConditionFalse
	if in.Plan.State == elastic.StateRunning {
		value = metav1.ConditionTrue
	}
	message := in.message()
	if in.finished() {
		message = meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionFinished).Message
		if n := in.Observation.Occupied; n > 0 {
			message += fmt.Sprintf("; %d pods are still ending", n)
		}
	}
	set(s, in, v1alpha2.ConditionReady, value, string(in.Plan.State), message)
}

func (in Input) finished() bool {
	return in.Observation.Outcome != "" || in.Plan.Step == elastic.Finish
}

// message is the plan's, as a sentence. What is wrong with a spec is said as it is: it
// may begin with the name of a field.
func (in Input) message() string {
	if in.Plan.State == elastic.StateRejected {
		return in.Plan.Message
	}
	return sentence(in.Plan.Message)
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// longest is how many bytes a message may have: what an event's note may have by
// Kubernetes' validation.
const longest = 1024

// shorten cuts a text that is too long.
func shorten(text string) string { return cut(text, longest) }

func cut(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest-len("...")], "") + "..."
}

func set(s *v1alpha2.MiniClusterStatus, in Input, kind string, value metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: shorten(message),
		ObservedGeneration: in.MiniCluster.Generation, LastTransitionTime: metav1.NewTime(in.Now),
	})
}
