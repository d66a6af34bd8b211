// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/story"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// Ends of a run that are no state of a MiniCluster.
const (
	// Deleted: somebody else deleted the MiniCluster before it had finished.
	Deleted = "Deleted"
	// WaitLimit: the command did not start within limits.wait.
	WaitLimit = "WaitLimit"
)

// Record is the life of one run. Times have whole seconds, and are nil if they are not known.
type Record struct {
	Name       string            `json:"name"`
	Case       int               `json:"case"`
	Repetition int               `json:"repetition"`
	Parameters map[string]string `json:"parameters,omitempty"`
	// State is Succeeded, Failed, Rejected, Deleted or WaitLimit. Reason and Message say more.
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Submitted is when the MiniCluster was created, Admitted when it got the nodes on which it ran, Started when the
	// command began, and Finished when it ended.
	Submitted *time.Time `json:"submitted,omitempty"`
	Admitted  *time.Time `json:"admitted,omitempty"`
	Started   *time.Time `json:"started,omitempty"`
	Finished  *time.Time `json:"finished,omitempty"`
	// Wanted is the number of brokers asked for, and Size that with which the command was started, or for which the last
	// attempt had nodes if no command was. Tasks is the number with which the command was started.
	Wanted int32 `json:"wanted"`
	Size   int32 `json:"size"`
	Tasks  int32 `json:"tasks"`
	// Nodes are those of the last attempt by rank, as a hostlist.
	Nodes    string `json:"nodes,omitempty"`
	Queue    string `json:"queue,omitempty"`
	ExitCode *int32 `json:"exitCode,omitempty"`
	// GivenUp are the attempts before the last one.
	GivenUp []v1alpha2.Attempt `json:"givenUp,omitempty"`
	// UsefulNodeSeconds and LostNodeSeconds are those of status.usage.
	UsefulNodeSeconds int64 `json:"usefulNodeSeconds"`
	LostNodeSeconds   int64 `json:"lostNodeSeconds"`
	// StartingNodeSeconds are those of the last attempt before its command began; nil if they are not known.
	StartingNodeSeconds *int64 `json:"startingNodeSeconds,omitempty"`
	// Log is the file of the log, relative to the results. LogError says why there is none, or why a figure is missing.
	Log      string `json:"log,omitempty"`
	LogError string `json:"logError,omitempty"`
	// Kept is true if the MiniCluster was not deleted, because its log could not be read.
	Kept    bool               `json:"kept,omitempty"`
	Figures map[string]float64 `json:"figures,omitempty"`
}

// NewRecord records the life of a run. mc is the last known state of its MiniCluster, and end is "" or one of the ends
// that no MiniCluster says of itself.
func NewRecord(run Run, mc *v1alpha2.MiniCluster, end string) *Record {
	s := story.Of(mc)
	r := &Record{
		Name: run.Name, Case: run.Case, Repetition: run.Repetition, Parameters: run.Parameters, State: s.State,
		Submitted: &s.Submitted, Finished: moment(s.Ended), Wanted: s.Wanted, Size: s.Size, Tasks: s.Tasks, Queue: mc.Status.Queue,
		ExitCode: mc.Status.ExitCode, GivenUp: mc.Status.EarlierAttempts(),
	}
	if ready := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionReady); ready != nil {
		r.Message = ready.Message
	}
	if finished := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionFinished); finished != nil && finished.Status == metav1.ConditionTrue {
		r.Reason, r.Message = finished.Reason, finished.Message
	}
	if end != "" {
		r.State, r.Reason = end, end
	}
	if a := mc.Status.Admission; a != nil {
		last := s.Attempts[len(s.Attempts)-1]
		r.Admitted, r.Started, r.Nodes, r.StartingNodeSeconds = &last.Admitted, moment(last.Started), a.Nodes, last.Hostages
	}
	if u := mc.Status.Usage; u != nil {
		r.UsefulNodeSeconds, r.LostNodeSeconds = u.UsefulNodeSeconds, u.LostNodeSeconds
	}
	return r
}

// Story is the life of the run, with the nodes of its last attempt.
func (r *Record) Story() story.Story {
	s := story.Story{Name: r.Name, Ended: known(r.Finished), Wanted: r.Wanted, Size: r.Size, Tasks: r.Tasks, State: r.State}
	s.Submitted = known(r.Submitted)
	for i := range r.GivenUp {
		s.Attempts = append(s.Attempts, story.Earlier(r.GivenUp[i]))
	}
	if r.Admitted == nil {
		return s
	}
	last := story.Attempt{Size: r.Size, Admitted: *r.Admitted, Started: known(r.Started), Ended: s.Ended, Hostages: r.StartingNodeSeconds}
	nodes, _ := hostlist.Decode(r.Nodes, mostNodes) // unreadable: none
	for rank, node := range nodes {
		if len(nodes) != int(r.Size) { // some came later, or left: nobody knows when
			break
		}
		last.Stays = append(last.Stays, story.Stay{Rank: rank, Node: node, From: last.Admitted, To: last.Ended})
	}
	s.Attempts = append(s.Attempts, last)
	return s
}

// mostNodes bounds the nodes of a run that are read.
const mostNodes = 100_000

// moment is a time, or nil if it is not known.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// known is a time, or zero if it is not known.
func known(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// Ended reports whether nothing more happens to a MiniCluster by itself.
func Ended(mc *v1alpha2.MiniCluster) bool {
	return meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished) || story.StateOf(mc) == v1alpha2.StateRejected
}

// Succeeded reports whether the command ended with exit code 0.
func (r *Record) Succeeded() bool { return r.State == v1alpha2.StateSucceeded }

// Wait returns the time from the submission to the last admission, in seconds; false if one of the two is not known.
func (r *Record) Wait() (float64, bool) { return between(r.Submitted, r.Admitted) }

// RunTime returns for how long the command ran, in seconds; false if its start or its end is not known.
func (r *Record) RunTime() (float64, bool) { return between(r.Started, r.Finished) }

// HostageTime returns the node-seconds during which the run had nodes and its command did not run: of each attempt, the
// time until the command began, or until the attempt ended. It is false if an end is not known.
func (r *Record) HostageTime() (nodeSeconds float64, known bool) {
	s := r.Story()
	for i := range s.Attempts {
		held, known := s.Attempts[i].HostageTime()
		if !known {
			return nodeSeconds, false
		}
		nodeSeconds += held
	}
	return nodeSeconds, true
}

func between(from, to *time.Time) (float64, bool) {
	if from == nil || to == nil {
		return 0, false
	}
	return max(0, to.Sub(*from).Seconds()), true
}
