// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/test/harness/operator"
)

// The manager is killed before and after every write of a life, those of JobSet's
// controller in it included, and started again: nothing is lost, nothing is done
// twice.
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	others := operator.AtEveryWrite(t, func(t *testing.T, at operator.Write) map[string]int {
		t.Helper()
		return live(t, at, false, "--binder=gate").Seen()
	},
		"PATCH miniclusters/status", "POST secrets", "POST configmaps", "POST services", "POST jobsets", "POST jobs",
		"PUT jobsets/status", "PATCH pods", "DELETE pods",
		"POST endpointslices", "DELETE endpointslices",
	)
	delete(others, "PUT endpointslices") // only if the pods get their addresses at different times
	if len(others) > 0 {
		t.Errorf("a life also has %v", others)
	}
}

// The manager is killed before and after it tells of every decision, through lives that are
// resized, lost, given up and suspended: each is told once, and nothing is done twice.
func TestKilledAtEveryEvent(t *testing.T) {
	t.Parallel()
	s := newOwnSite(t, 14)
	record := s.newRecord()
	defer operator.New(s.shared).KillAtEveryEvent()()
	again := func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.Recreate = v1alpha2.Recreate{Limit: new(int32(1)), BackoffBase: duration("1s")}
	}
	resized := s.create(s.miniCluster("resized").Launcher().Size(3).MinSize(1).MaxSize(6).PodAnnotation(simulator.Runtime, "1h"))
	lost := s.create(s.miniCluster("lost").Size(2).PodAnnotation(simulator.LoseRanks, "1").PodAnnotation(simulator.Runtime, "1h").
		Spec(again).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Elastic.OnLoss = v1alpha2.LossRecreate }))
	givenUp := s.create(s.miniCluster("given-up").Size(2).PodAnnotation(simulator.NeverStart, "1").
		Spec(again).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.QuorumTimeout, spec.Elastic.StartTimeout = duration("3s"), duration("5s")
	}))
	suspended := s.create(s.miniCluster("suspended").Size(2).PodAnnotation(simulator.Runtime, "1h"))
	reach := func(mc *v1alpha2.MiniCluster, reason string) {
		t.Helper()
		eventually(t, func() error {
			if seen := record.of(mc); seen.times(reason) == 0 {
				return fmt.Errorf("%s: no %s was decided", mc.Name, reason)
			}
			return nil
		})
	}
	reach(resized, "Started")
	s.patch(resized, `{"spec":{"size":5}}`)
	reach(suspended, "Started")
	s.patch(suspended, `{"spec":{"suspend":true}}`)
	reach(resized, "Grew")
	s.patch(resized, `{"spec":{"size":2}}`)
	reach(suspended, "Released")
	s.patch(suspended, `{"spec":{"suspend":false,"deadlineSeconds":1}}`)
	reach(resized, "Vacated")
	s.patch(resized, `{"spec":{"deadlineSeconds":1}}`)
	for _, mc := range []*v1alpha2.MiniCluster{resized, lost, givenUp, suspended} {
		s.awaitState(mc, v1alpha2.StateFailed)
	}
	record.check(s)
	for mc, runs := range map[*v1alpha2.MiniCluster]int{resized: 1, lost: 2, givenUp: 0, suspended: 2} {
		if n := record.runsOf(mc.UID); n != runs {
			t.Errorf("%s: the command began %d times, want %d", mc.Name, n, runs)
		}
	}
}

// Events are not answered: all decisions are made nevertheless, also by a manager that is started
// meanwhile. Once events are answered, each decision is told once.
func TestKilledWhileEventsHang(t *testing.T) {
	t.Parallel()
	s := newOwnSite(t, 4)
	record := s.newRecord()
	o := operator.New(s.shared)
	release := o.Hold()
	defer release()
	if err := o.Start(); err != nil {
		t.Fatal(err)
	}
	running := s.create(s.miniCluster("running").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	ended := s.create(s.miniCluster("ended").Size(2))
	s.awaitState(running, v1alpha2.StateRunning)
	s.awaitSuccess(ended)
	s.awaitTold(running)
	o.Kill()
	if err := o.Start(); err != nil {
		t.Fatal(err)
	}
	s.endCommand(running)
	for _, mc := range []*v1alpha2.MiniCluster{running, ended} {
		s.awaitSuccess(mc)
		s.awaitTold(mc)
	}
	release()
	for _, mc := range []*v1alpha2.MiniCluster{running, ended} {
		s.awaitTold(mc, "Admitted", "Started", v1alpha2.ReasonSucceeded)
		s.await(mc, "without pending events", func(mc *v1alpha2.MiniCluster) bool { return len(mc.Status.PendingEvents) == 0 })
	}
	record.check(s)
}

// A lead ends, and somebody deletes its pod, while nobody looks. Its Job knows that the command has succeeded.
func TestKilledWhileTheLeadEndsAndGoes(t *testing.T) {
	t.Parallel()
	s := newOwnSite(t, 2)
	o := operator.Operate(s.shared)
	mc := s.create(s.miniCluster("gone").Size(2).PodAnnotation(simulator.Runtime, untilTold).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.OnLoss = v1alpha2.LossRecreate
	}))
	s.awaitState(mc, v1alpha2.StateRunning)
	o.Kill()
	s.endCommand(mc)
	eventually(t, func() error {
		pod := s.podOfRank(mc, 0)
		if pod.Status.Phase != corev1.PodSucceeded || len(pod.Finalizers) > 0 {
			return fmt.Errorf("the lead's pod is %s, and has the finalizers %v", pod.Status.Phase, pod.Finalizers)
		}
		return env.client.Delete(s.ctx, pod)
	})
	if err := o.Start(); err != nil {
		t.Fatal(err)
	}
	s.awaitSuccess(mc)
	if n := s.leadsOf(mc); n != 1 {
		t.Errorf("%d leads were made", n)
	}
}

// The command begins, and somebody deletes its lead's Job or its JobSet, while nobody looks: it does not run again.
func TestKilledWhileTheLeadGoes(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]client.Object{"job": &batchv1.Job{}, "jobset": &jobsetapi.JobSet{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newOwnSite(t, 2)
			o := operator.Operate(s.shared, "--binder=gate")
			mc := s.create(s.miniCluster("gone").Size(2).PodAnnotation(simulator.NeverStart, "1").PodAnnotation(simulator.Runtime, untilTold))
			s.await(mc, "with a lead", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 1 })
			o.Kill()
			s.letStart(mc, 1)
			lead := s.podOfRank(mc, 0)
			eventually(t, func() error {
				if lead = s.podOfRank(mc, 0); !protocol.Read(lead).Broker.Ready {
					return errors.New("the command does not run")
				}
				return nil
			})
			gone.SetNamespace(s.namespace)
			gone.SetName(mc.Name)
			if name == "job" {
				gone.SetName(metav1.GetControllerOf(lead).Name)
			}
			s.delete(gone, client.PropagationPolicy(metav1.DeletePropagationBackground)) // as kubectl does
			eventually(t, func() error {
				if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(lead), &corev1.Pod{}); !apierrors.IsNotFound(err) {
					return fmt.Errorf("the lead is there: %w", err)
				}
				return nil
			})
			if err := o.Start(); err != nil {
				t.Fatal(err)
			}
			s.await(mc, "told of the loss", func(mc *v1alpha2.MiniCluster) bool {
				return condition(mc, v1alpha2.ConditionFinished).Reason == v1alpha2.ReasonLeadLost && mc.Status.Nodes == 0 && mc.Status.Runs == 1
			})
			if n := s.leadsOf(mc); n != 1 {
				t.Errorf("%d leads had a node", n)
			}
		})
	}
}

// The same while its pods are made without nodes, to find out whether a policy refuses them.
func TestKilledDuringATrial(t *testing.T) {
	t.Parallel()
	killedAt(t, []operator.Write{
		{Kind: "POST secrets", N: 1}, {Kind: "POST configmaps", N: 1}, {Kind: "POST configmaps", N: 2}, {Kind: "POST services", N: 1}, {Kind: "POST jobsets", N: 1},
		{Kind: "POST jobs", N: 1}, {Kind: "PATCH miniclusters/status", N: 1}, {Kind: "PATCH miniclusters/status", N: 2}, {Kind: "PATCH pods", N: 1},
	}, true)
}

// killedAt lives a life for each of some writes, and for before and after the write. The operator has flags until it is killed.
func killedAt(t *testing.T, writes []operator.Write, trial bool, flags ...string) {
	t.Helper()
	for _, at := range writes {
		for _, at.Before = range []bool{true, false} {
			t.Run(at.String(), func(t *testing.T) {
				t.Parallel()
				if o := live(t, at, trial, flags...); !o.Killed() {
					t.Error("nobody was killed")
				}
			})
		}
	}
}

// live lives a life of which the operator is killed at a write, with a trial or without one. The operator has flags until it is
// killed.
func live(t *testing.T, at operator.Write, trial bool, flags ...string) *operator.Operator {
	t.Helper()
	s := newOwnSite(t, 3)
	o := operator.Operate(s.shared, flags...)
	o.KillAt(at)
	reach := func(what string, reached func() bool) {
		t.Helper()
		o.Eventually(func() error {
			if !reached() {
				return errors.New("it is not " + what)
			}
			return nil
		})
	}
	if trial {
		s.createObject(policyOf(s, "", "pods", onlyJobsMakePods, "only Jobs make pods"))
	}
	mc := s.create(s.miniCluster("life").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	named := func() int {
		names, err := s.names(mc.Name)
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	reach("named", func() bool { return named() == 2*2 }) // a busy manager could first look when all is over
	s.endCommand(mc)
	reach("done", func() bool {
		return state(s.get(mc)) == v1alpha2.StateSucceeded && mc.Status.Nodes == 0 && len(s.pods(mc)) == 1 && named() == 0
	})
	checkLife(s, mc)
	return o
}

// checkLife checks that a life of two brokers was lived once, to its end: the lead's
// pod is left alone.
func checkLife(s *site, mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	eventually(s.t, func() error {
		if n := len(s.pods(mc)); n != 1 {
			return fmt.Errorf("%d pods are left", n)
		}
		return nil
	})
	if n := s.leadsOf(mc); n != 1 {
		s.t.Errorf("the command ran %d times", n)
	}
	if mc.Status.Admission.Attempt != 1 || mc.Status.RequeueState != nil || *mc.Status.ExitCode != 0 {
		s.t.Errorf("the status is %+v", mc.Status)
	}
	var set jobsetapi.JobSet
	if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(mc), &set); err != nil {
		s.t.Fatal(err)
	}
	if n := s.podsOf(mc); n != 2 {
		s.t.Errorf("%d pods were made for two brokers", n)
	}
	// Pods that the API server binds are bound as they are made.
	if made := env.watch.madeBeforeBound(set.UID); made != 2 && jobset.Admitted(&set) == "" {
		s.t.Errorf("%d of 2 pods were there when the first was bound", made)
	}
	for reason, n := range s.events(mc) {
		if n > 1 {
			s.t.Errorf("event %s was said %d times", reason, n)
		}
	}
}

// A manager that uses the JobSet of the cluster makes what one needs that it runs
// itself, with the rights of config/default alone.
func TestExternalJobSet(t *testing.T) {
	defer stopManager(t)()
	s := newSite(t, 2)
	external, err := startManager(s.installed("default"), jobSetExternal)
	if err != nil {
		t.Fatal(err)
	}
	defer external.Stop()
	mc := s.create(s.miniCluster("life").Size(2))
	// Nobody runs JobSets: it gets as far as having one.
	eventually(t, func() error {
		return env.client.Get(s.ctx, client.ObjectKeyFromObject(mc), &jobsetapi.JobSet{})
	})
	if pods := s.pods(mc); len(pods) > 0 {
		t.Errorf("it has %d pods", len(pods))
	}
	defer s.shared.RunJobSet()()
	s.awaitSuccess(mc)
	checkLife(s, mc)
}
