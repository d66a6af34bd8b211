// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
)

// What somebody deletes while brokers come up is made again, with the content that it had, also after the spec was
// edited. A certificate that brokers have is not replaced by another, and the status says so.
func TestDeletedByHand(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	mc := s.create(s.miniCluster("mended").Size(2).PodAnnotation(simulator.NeverStart, "1").PodAnnotation(simulator.Runtime, untilTold).
		Spec(func(spec *v1alpha2.MiniClusterSpec) {
			spec.Elastic.QuorumTimeout, spec.Elastic.StartTimeout = duration("1h"), duration("2h")
		}))
	s.await(mc, "with a lead", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 1 })
	certificate, files := s.filesOf(mc)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: mc.Name}}
	s.patch(mc, `{"spec":{"containers":[{"image":"other","command":"other"}]}}`)
	s.delete(files.DeepCopy())
	s.delete(service)
	shared := scripts(t)
	shared.Namespace = s.namespace
	if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(shared), shared); err != nil {
		t.Fatal(err)
	}
	s.delete(shared.DeepCopy())
	eventually(t, func() error {
		for _, was := range []*corev1.ConfigMap{&files, shared} {
			var again corev1.ConfigMap
			if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(was), &again); err != nil {
				return err
			}
			if again.UID == was.UID || !maps.Equal(again.Data, was.Data) {
				return fmt.Errorf("ConfigMap %s is %v", was.Name, again.Data)
			}
		}
		return env.client.Get(s.ctx, client.ObjectKeyFromObject(service), &corev1.Service{})
	})
	s.delete(&certificate)
	s.await(mc, "told that its certificate is gone", func(mc *v1alpha2.MiniCluster) bool {
		return strings.Contains(condition(mc, v1alpha2.ConditionReady).Message, fmt.Sprintf("Secret %q was deleted", certificate.Name))
	})
	s.patch(mc, `{"spec":{"suspend":true}}`)
	s.awaitState(mc, v1alpha2.StateSuspended)
	eventually(t, func() error {
		if pods := s.pods(mc); len(pods) > 0 {
			return fmt.Errorf("%d pods are there", len(pods))
		}
		return nil
	})
	s.patch(mc, `{"spec":{"suspend":false}}`)
	s.await(mc, "with a lead again", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 1 })
	s.letStart(mc, 1)
	s.awaitState(mc, v1alpha2.StateRunning)
	s.endCommand(mc)
	s.awaitSuccess(mc)
}

// scripts is the ConfigMap with the scripts of this version.
func scripts(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	set, err := jobset.JobSet(fixture.MiniCluster("any").Size(1).Defaulted(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return jobset.Scripts(set)
}

// Nobody deletes a JobSet by hand whose pods the API server binds. Where somebody can, the pods that it leaves are deleted,
// and their nodes are free again.
func TestOrphanedJobSet(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	mc := s.create(s.miniCluster("orphaned").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(mc, v1alpha2.StateRunning)
	certificate, files := s.filesOf(mc)
	set := &jobsetapi.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: mc.Name}}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: metav1.GetControllerOf(s.podOfRank(mc, 0)).Name}}
	orphan := client.PropagationPolicy(metav1.DeletePropagationOrphan)
	for _, object := range []client.Object{set, job} {
		if err := env.client.Delete(s.ctx, object, orphan); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "delete or suspend the MiniCluster") {
			t.Errorf("an administrator deletes a %T: %v", object, err)
		}
	}
	if err := s.as(jobSetUser).Delete(s.ctx, set, orphan); err != nil {
		t.Fatal(err)
	}
	s.await(mc, "told of the loss", func(mc *v1alpha2.MiniCluster) bool {
		return condition(mc, v1alpha2.ConditionFinished).Reason == v1alpha2.ReasonLeadLost && mc.Status.Nodes == 0
	})
	eventually(t, func() error {
		if pods := s.pods(mc); len(pods) > 0 {
			return fmt.Errorf("%d pods are there", len(pods))
		}
		return nil
	})
	s.awaitSuccess(s.create(s.miniCluster("next").Size(2)))
	for _, kept := range []client.Object{&certificate, &files} { // the manager may not delete these
		s.delete(kept)
	}
}

// A finalizer that keeps a JobSet keeps no command running, and no nodes.
func TestKeptJobSet(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	mc := s.create(s.miniCluster("kept").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(mc, v1alpha2.StateRunning)
	set := &jobsetapi.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: mc.Name}}
	who := s.as(jobSetUser)
	keep := func(finalizers string) {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"finalizers":%s}}`, finalizers))
		if err := who.Patch(s.ctx, set, patch); err != nil {
			t.Fatal(err)
		}
	}
	keep(`["example.com/keeps"]`)
	if err := who.Delete(s.ctx, set, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	s.await(mc, "told of the loss, without nodes", func(mc *v1alpha2.MiniCluster) bool {
		return condition(mc, v1alpha2.ConditionFinished).Reason == v1alpha2.ReasonLeadLost && mc.Status.Nodes == 0
	})
	s.awaitSuccess(s.create(s.miniCluster("next").Size(2)))
	keep("null")
}
