// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
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
	if a := s.Admission; a != nil && a.Wanted > 0 && a.Wanted != in.MiniCluster.Spec.Size && !in.finished() {
		a.Resized = true
	}
	count(s, in)
	setAccepted(s, in)
	setAdmitted(s, in)
	setQuorumReached(s, in)
	setFinished(s, in)
	setReady(s, in)
	if event := decided(in, s); event != nil {
		s.LastDecision = &v1alpha2.Decision{
			Time: metav1.NewMicroTime(in.Now.Truncate(time.Microsecond)), Type: event.Type, Reason: event.Reason, Message: shorten(event.Note),
		}
	}
	return *s
}

// avoidFor is how long nodes are avoided on which brokers did not start.
const avoidFor = 10 * time.Minute

// mostAttempts is how many attempts are kept.
const mostAttempts = 10

// decide writes the plan's decision down.
func decide(s *v1alpha2.MiniClusterStatus, in Input) {
	plan, o := in.Plan, in.Observation
	now := metav1.NewTime(in.Now)
	avoid(s, in)
	if plan.State == elastic.StateSuspended { // it begins anew
		s.RequeueState, s.Avoid, s.Attempts = nil, nil, nil
	}
	switch plan.Step {
	case elastic.Admit:
		s.Admission = &v1alpha2.Admission{
			Attempt: int32(o.Attempt()), Generation: in.MiniCluster.Generation, Wanted: in.MiniCluster.Spec.Size,
			Size: int32(len(o.Offer)), Quorum: int32(plan.Quorum),
			Nodes: hostlist.Encode(o.Offer), Requests: in.Requests, Priority: in.Priority, Time: now,
		}
		s.StartTime, s.CompletionTime, s.ExitCode = nil, nil, nil
	case elastic.Start:
		s.Admission.Quorum = int32(plan.Quorum)
		vacate(s.Admission, plan.Ranks)
		s.StartTime = &now
	case elastic.LowerQuorum, elastic.DrainRanks, elastic.Vacate, elastic.Keep, elastic.GrowRanks, elastic.MoveRanks:
		resize(s.Admission, plan)
	case elastic.Lose:
		s.Admission.Loss = &v1alpha2.Loss{Ranks: Ranks(plan.Ranks), Time: now}
	case elastic.Evict:
		endAttempt(s, in)
		requeue(s, o.GivenUp, in.Now, 0)
	case elastic.GiveUp:
		endAttempt(s, in)
		requeue(s, o.GivenUp+1, plan.NotBefore, plan.Size)
	case elastic.Withdraw:
		endAttempt(s, in)
	case elastic.Finish:
		finish(s, in)
	}
}

// requeue queues it again: at a smaller size, or at those that were allowed before.
func requeue(s *v1alpha2.MiniClusterStatus, count int, at time.Time, size int) {
	next := &v1alpha2.RequeueState{Count: int32(count), RequeueAt: ptr.To(metav1.NewTime(at)), Size: int32(size)}
	if s.RequeueState != nil && size == 0 {
		next.Size = s.RequeueState.Size
	}
	s.RequeueState = next
}

func finish(s *v1alpha2.MiniClusterStatus, in Input) {
	s.CompletionTime = ptr.To(metav1.NewTime(in.Now))
	if in.Plan.ExitCode != nil {
		s.ExitCode = ptr.To(int32(*in.Plan.ExitCode))
	}
	if in.Plan.Outcome != elastic.OutcomeSucceeded {
		keepAttempt(s, in)
	}
}

// endAttempt takes the admission back.
func endAttempt(s *v1alpha2.MiniClusterStatus, in Input) {
	if s.Admission != nil {
		keepAttempt(s, in)
	}
	s.Admission, s.StartTime = nil, nil
}

// keepAttempt writes down what became of the attempt that ends.
func keepAttempt(s *v1alpha2.MiniClusterStatus, in Input) {
	s.Attempts = append(s.Attempts, v1alpha2.Attempt{
		Attempt: s.Admission.Attempt, Size: s.Admission.Size, Admitted: s.Admission.Time, Started: s.StartTime,
		Ended: metav1.NewTime(in.Now), Reason: endReason(in.Plan), Message: cut(in.message(), longestWhy),
	})
	s.Attempts = s.Attempts[max(0, len(s.Attempts)-mostAttempts):]
}

// longestWhy is how many bytes are kept of why an attempt ended.
const longestWhy = 256

// avoid adds the nodes on which brokers did not start to those that are avoided, and
// forgets the latter when their time has come.
func avoid(s *v1alpha2.MiniClusterStatus, in Input) {
	if s.Avoid != nil && !in.Now.Before(s.Avoid.Until.Time) && (in.Plan.Step == elastic.Admit || len(in.Plan.Avoid) > 0) {
		s.Avoid = nil
	}
	if len(in.Plan.Avoid) == 0 {
		return
	}
	nodes := slices.Clone(in.Plan.Avoid)
	if s.Avoid != nil {
		before, _ := hostlist.Decode(s.Avoid.Nodes, v1alpha2.MostAvoided)
		nodes = append(nodes, before...)
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	nodes = nodes[:min(len(nodes), v1alpha2.MostAvoided)]
	s.Avoid = &v1alpha2.Avoid{Nodes: hostlist.Encode(nodes), Until: metav1.NewTime(in.Now.Add(avoidFor))}
}

// vacate writes down that ranks gave their nodes back.
func vacate(a *v1alpha2.Admission, ranks []int) {
	vacated, _ := idset.Parse(a.Vacated) // it was read to observe
	leaving, _ := idset.Parse(Ranks(ranks))
	a.Vacated = idset.Union(vacated, leaving).String()
}

// resize writes down which ranks leave, have left, come or move.
func resize(a *v1alpha2.Admission, plan elastic.Plan) {
	switch plan.Step {
	case elastic.LowerQuorum, elastic.DrainRanks:
		a.Drain, a.Quorum = &v1alpha2.Drain{Ranks: Ranks(plan.Ranks), Reason: shorten(plan.Message)}, int32(plan.Quorum)
		if !plan.Deadline.IsZero() {
			a.Drain.Deadline = ptr.To(metav1.NewTime(plan.Deadline))
		}
		return
	case elastic.Vacate:
		vacate(a, plan.Ranks)
		fallthrough
	case elastic.Keep:
		a.Quorum = int32(plan.Quorum)
		drained(a, plan.Ranks)
		return
	}
	nodes, _ := hostlist.Decode(a.Nodes, int(a.Size))
	vacated, _ := idset.Decode(a.Vacated, int(a.Size))
	moved, _ := idset.Decode(a.Moved, int(a.Size))
	for _, pod := range plan.Pods {
		rank := int64(pod.Rank)
		moved = slices.DeleteFunc(moved, func(other int64) bool { return other == rank })
		if plan.Step == elastic.MoveRanks {
			moved = append(moved, rank)
		}
		if pod.Rank == len(nodes) {
			nodes = append(nodes, pod.Node)
			continue
		}
		nodes[pod.Rank] = pod.Node
		vacated = slices.DeleteFunc(vacated, func(other int64) bool { return other == rank })
	}
	a.Nodes, a.Size = hostlist.Encode(nodes), int32(len(nodes))
	a.Vacated, a.Moved = idset.Encode(vacated), idset.Encode(moved)
	if plan.Step == elastic.GrowRanks {
		a.Quorum = int32(plan.Quorum)
	}
}

// drained writes down that ranks that were asked to leave have left, or stay.
func drained(a *v1alpha2.Admission, ranks []int) {
	if a.Drain == nil {
		return
	}
	asked, _ := idset.Decode(a.Drain.Ranks, int(a.Size))
	asked = slices.DeleteFunc(asked, func(rank int64) bool { return slices.Contains(ranks, int(rank)) })
	if a.Drain.Ranks = idset.Encode(asked); len(asked) == 0 {
		a.Drain = nil
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
		has := len(members(s.Admission))
		message = fmt.Sprintf("Holds nodes for %d of %d brokers", has, max(has, int(in.MiniCluster.Spec.Size)))
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
		if meta.IsStatusConditionTrue(s.Conditions, v1alpha2.ConditionQuorumReached) && in.Plan.Step != elastic.Keep {
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
	wanted := cmp.Or(s.Admission.Wanted, in.MiniCluster.Spec.Size)
	message := fmt.Sprintf("%d of %d brokers", s.Admission.Quorum, max(s.Admission.Quorum, wanted))
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
