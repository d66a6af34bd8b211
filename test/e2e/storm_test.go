// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/test/harness/operator"
)

// Hundreds of MiniClusters wait for a quota that a running gang uses up. They share their checks, so
// the gang's decisions do not wait for requests, and all go on once the quota has grown.
func TestRefusedStorm(t *testing.T) {
	const storm, fewDryRuns = 400, 200 // without sharing each check is a dry run at least
	s := newOwnSite(t, 4)
	record := s.newRecord()
	f := operator.Operate(s.shared)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "two"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: *quantity("2")}},
	}
	if err := env.client.Create(s.ctx, quota); err != nil {
		t.Fatal(err)
	}
	running := s.create(s.miniCluster("running").Size(2).MinSize(1).MaxSize(2).Launcher().PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(running, v1alpha2.StateRunning)
	eventually(t, func() error { // the quota counts both pods
		if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		if used := quota.Status.Used[corev1.ResourcePods]; used.Value() != 2 {
			return fmt.Errorf("%s pods are counted", &used)
		}
		return nil
	})
	f.DryRuns.Store(0)
	f.Reads.Store(0)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range storm {
		mc := s.miniCluster(fmt.Sprintf("storm-%04d", i)).New()
		group.Go(func() error { return env.client.Create(s.ctx, mc) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	waiting := func() (refused, others int, err error) {
		var list v1alpha2.MiniClusterList
		if err := env.client.List(s.ctx, &list, client.InNamespace(s.namespace)); err != nil {
			return 0, 0, err
		}
		for i := range list.Items {
			switch condition(&list.Items[i], v1alpha2.ConditionAdmitted).Reason {
			case v1alpha2.ReasonQuotaExceeded:
				refused++
			case "":
			default:
				others++
			}
		}
		return refused, others, nil
	}
	began := wallClock.Now()
	eventually(t, func() error {
		refused, _, err := waiting()
		if err == nil && refused < storm {
			err = fmt.Errorf("%d wait for the quota", refused)
		}
		return err
	})
	t.Logf("%d wait for the quota after %s: %d dry runs, %d reads", storm, wallClock.Since(began), f.DryRuns.Load(), f.Reads.Load())
	began = wallClock.Now()
	s.patch(running, `{"spec":{"size":1}}`)
	record.await(s, running, "draining", func(mc *v1alpha2.MiniCluster) bool {
		return mc.Status.Admission != nil && mc.Status.Admission.Drain != nil
	})
	t.Logf("the running gang drains a rank after %s", wallClock.Since(began))
	s.await(running, "smaller", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Admission.Vacated != "" })
	if n := f.DryRuns.Load(); n > fewDryRuns {
		t.Errorf("%d dry runs were made while the quota was full", n)
	}
	f.DryRuns.Store(0)
	f.Reads.Store(0)
	began = wallClock.Now()
	s.patch(quota, `{"spec":{"hard":{"pods":"5000"}}}`)
	eventually(t, func() error {
		refused, others, err := waiting()
		if err == nil && (refused > 0 || others < storm+1) {
			err = fmt.Errorf("%d wait for the quota, %d do not", refused, others)
		}
		return err
	})
	t.Logf("all go on %s after the quota has grown: %d dry runs, %d reads", wallClock.Since(began), f.DryRuns.Load(), f.Reads.Load())
	if n := f.DryRuns.Load(); n > fewDryRuns {
		t.Errorf("%d dry runs were made after the quota has grown", n)
	}
	s.patchQueue(`{"spec":{"suspended":true}}`) // nothing starts while hundreds are deleted
}
