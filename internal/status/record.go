// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// mostAttempts is how many attempts are kept.
const mostAttempts = 10

// longestWhy is how many bytes of the reason of an attempt's end are kept.
const longestWhy = 256

// writeRecord writes what a decision changed into the status.
func writeRecord(s *v1alpha2.MiniClusterStatus, in Input, decision life.Decision) {
	record := in.record
	usage := usageOf(s).After(in.Observation.Record, record, in.Now)
	finish, over := decision.(life.Finish)
	if s.Admission != nil && (record.Admission == nil || (over && finish.Outcome != life.OutcomeSucceeded)) {
		keepAttempt(s, in, decision, usage.Held)
	}
	writeAdmission(s, in, record.Admission)
	writeUsage(s, usage)
	s.StartTime, s.CompletionTime, s.ExitCode = timeOf(record.Started), timeOf(record.Ended), nil
	if record.ExitCode != nil {
		s.ExitCode = ptr.To(int32(*record.ExitCode))
	}
	s.Runs, s.CheckpointTime = int32(record.Runs), timeOf(record.Checkpointed)
	if _, again := decision.(life.Restarted); again {
		keepRestart(s, in)
	}
	if record.GivenUp+record.Retried+record.Requeued > 0 || !record.NotBefore.IsZero() {
		s.RequeueState = &v1alpha2.RequeueState{
			Count: int32(record.GivenUp), Retries: int32(record.Retried), Deadlines: int32(record.Requeued),
			RequeueAt: timeOf(record.NotBefore), Size: int32(record.Most),
		}
	}
	s.Avoid = nil
	if len(record.Avoid) > 0 {
		nodes := record.Avoid[:min(len(record.Avoid), v1alpha2.MostAvoided)]
		s.Avoid = &v1alpha2.Avoid{Nodes: hostlist.Encode(nodes), Until: metav1.NewTime(record.AvoidUntil)}
	}
}

// writeAdmission writes what the MiniCluster holds. The requests, traits and initial values of an
// admission stay.
func writeAdmission(s *v1alpha2.MiniClusterStatus, in Input, a *life.Admission) {
	if a == nil {
		s.Admission = nil
		return
	}
	if s.Admission == nil {
		s.BlockedSince = nil
		s.Admission = &v1alpha2.Admission{
			Attempt: int32(a.Attempt), Generation: in.MiniCluster.Generation, Wanted: in.MiniCluster.Spec.Size,
			Requests: in.Requests, Exclusive: in.MiniCluster.Spec.Placement.Exclusive, Priority: in.Priority, Traits: in.Traits, Quota: in.Quota, Time: metav1.NewTime(a.At),
			QueueDeadlines: deadlinesOf(in.Deadlines),
		}
	}
	out := s.Admission
	out.Size, out.Quorum, out.Nodes, out.Lead = int32(len(a.Nodes)), int32(a.Quorum), hostlist.Encode(a.Nodes), types.UID(a.Lead)
	out.Vacated, out.Moved, out.Drain, out.Loss = idset.Encode(a.Vacated), idset.Encode(a.Moved), nil, nil
	if d := a.Draining; d != nil {
		out.Drain = &v1alpha2.Drain{Ranks: idset.Encode(d.Ranks), Reason: shorten(d.Reason), Time: timeOf(d.At), Deadline: timeOf(d.Deadline), Again: d.Again}
	}
	out.Joining, out.Restarts, out.Losses, out.ReadySince = idset.Encode(a.Joining), int32(a.Restarts), int32(a.Losses), timeOf(a.ReadySince)
	out.Restart, out.Eviction = nil, nil
	if r := a.Restart; r != nil {
		out.Restart = &v1alpha2.Restart{Time: metav1.NewTime(r.At), From: int32(r.From), To: out.Quorum, Reason: cut(r.Reason, longestWhy), Again: r.Again}
	}
	if e := a.Eviction; e != nil {
		out.Eviction = &v1alpha2.Eviction{Reason: e.Reason, Message: shorten(e.Message), Deadline: metav1.NewTime(e.Deadline), Again: e.Again}
	}
	if a.Loss != nil {
		out.Loss = &v1alpha2.Loss{Ranks: idset.Encode(a.Loss.Ranks), Time: metav1.NewTime(a.Loss.At)}
	}
}

// keepRestart records that the command runs again.
func keepRestart(s *v1alpha2.MiniClusterStatus, in Input) {
	before := in.Observation.Admission
	at := before.Restart.At
	restart := v1alpha2.Restart{
		Time: metav1.NewTime(at), From: int32(before.Restart.From), To: int32(before.Quorum), Reason: cut(before.Restart.Reason, longestWhy),
		Seconds: ptr.To(int64(in.Now.Sub(at) / time.Second)), Again: before.Restart.Again,
	}
	if down := in.Observation.LeadDownSince; down.After(at) {
		restart.CheckpointSeconds = ptr.To(int64(down.Sub(at) / time.Second))
	}
	s.Restarts = append(s.Restarts, restart)
	s.Restarts = s.Restarts[max(0, len(s.Restarts)-mostAttempts):]
}

// keepAttempt records how the attempt ended, and what it used.
func keepAttempt(s *v1alpha2.MiniClusterStatus, in Input, decision life.Decision, nodeSeconds int64) {
	s.Attempts = append(s.Attempts, v1alpha2.Attempt{
		Attempt: s.Admission.Attempt, Size: s.Admission.Size, Admitted: s.Admission.Time, Started: s.StartTime,
		Ended: metav1.NewTime(in.Now), NodeSeconds: nodeSeconds, Reason: life.PropertiesOf(decision).Event, Message: cut(in.message(), longestWhy),
	})
	s.Attempts = s.Attempts[max(0, len(s.Attempts)-mostAttempts):]
}

// deadlinesOf converts the deadlines of a queue to the API's type; nil if it has none.
func deadlinesOf(d elastic.Deadlines) *v1alpha2.Deadlines {
	if d.Grace = 0; d == (elastic.Deadlines{}) { // the traits have it
		return nil
	}
	return &v1alpha2.Deadlines{Default: durationOf(d.Default), Max: durationOf(d.Max), Extend: d.Extend}
}

// durationOf converts a duration to the API's type; nil if it is 0.
func durationOf(d time.Duration) *metav1.Duration {
	if d == 0 {
		return nil
	}
	return &metav1.Duration{Duration: d}
}

// secondsOf are the seconds of a duration; nil if it is 0.
func secondsOf(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	return ptr.To(int64(d / time.Second))
}

// timeOf converts a time to the API's type; nil if it is zero.
func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return ptr.To(metav1.NewTime(t))
}
