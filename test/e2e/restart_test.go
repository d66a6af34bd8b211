// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
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
