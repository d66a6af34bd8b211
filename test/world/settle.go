// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

const (
	// bound is how long the lives may last once nothing goes wrong any more.
	bound = 3 * time.Hour
	// goesWithin is how long objects may stay after their MiniCluster was deleted.
	goesWithin = 30 * time.Minute
	// lookEvery is how often that is looked at, and quietFor how long nothing may be written once there is nothing to do.
	lookEvery = 20 * time.Second
	// Before that, followers of commands that have just ended are removed, within tidyFor.
	quietFor = 5 * time.Minute
	tidyFor  = time.Minute
)

// settle waits until all lives have ended, or wait for what does not come and say so.
func (w *World) settle() {
	w.trace("* the end of faults")
	w.until(bound, func() error {
		for _, l := range w.lives {
			if err := w.settled(l); err != nil {
				return err
			}
		}
		return w.unannounced()
	})
	w.run(time.Now().Add(tidyFor))
	w.beQuiet()
	w.checkEvents()
}

// until lets the world go on until a condition holds and all deeds are done. What does not hold in time is a violation.
func (w *World) until(within time.Duration, holds func() error) {
	end := time.Now().Add(within)
	for w.violation == nil {
		err := holds()
		if err == nil && len(w.deeds) > 0 {
			err = fmt.Errorf("there is still to %s", w.deeds[0].what)
		}
		if err == nil {
			return
		}
		if time.Now().After(end) {
			w.violate("after %s: %w", within, err)
			return
		}
		w.run(time.Now().Add(lookEvery))
	}
}

// settled returns an error that says what a life still waits for.
func (w *World) settled(l *life) error {
	mc := &v1alpha2.MiniCluster{}
	err := w.user.Get(w.ctx, client.ObjectKey{Namespace: l.namespace, Name: l.name}, mc)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case isKeptByUser(mc):
		if mc.Status.Nodes > 0 {
			return fmt.Errorf("%s was deleted, and has %d nodes", l.name, mc.Status.Nodes)
		}
		return w.hasTidied(l)
	case mc.DeletionTimestamp != nil || outcomeOf(mc) != "" && mc.Spec.TTLSecondsAfterFinished != nil:
		return fmt.Errorf("%s is to go", l.name)
	case outcomeOf(mc) != "" && mc.Status.Nodes == 0:
		return w.hasTidied(l)
	case mc.Status.Nodes == 0 && w.isTold(mc):
		return nil
	}
	ready := conditionOf(mc, v1alpha2.ConditionReady)
	return fmt.Errorf("%s/%s is %s with %d nodes: %s", l.namespace, l.name, ready.Reason, mc.Status.Nodes, ready.Message)
}

// isKeptByUser reports whether a MiniCluster that is to go stays because of a finalizer of its user.
func isKeptByUser(mc *v1alpha2.MiniCluster) bool {
	return mc.DeletionTimestamp != nil && slices.Equal(mc.Finalizers, []string{keeper})
}

// isTold reports whether a MiniCluster says why it cannot run, and is right.
func (w *World) isTold(mc *v1alpha2.MiniCluster) bool {
	accepted, admitted := conditionOf(mc, v1alpha2.ConditionAccepted), conditionOf(mc, v1alpha2.ConditionAdmitted)
	rejected := accepted.Status == metav1.ConditionFalse && accepted.Message != ""
	fitsNowhere := admitted.Reason == v1alpha2.ReasonNeverFits || admitted.Reason == v1alpha2.ReasonWaitingForQuota // of as many CPUs
	held := admitted.Reason == v1alpha2.ReasonDependency
	return rejected || admitted.Message != "" && (fitsNowhere && !w.fits(mc) || held && w.lacksOthers(mc))
}

// lacksOthers reports whether a MiniCluster waits for others that are not as they were to be. Nobody waits for a singleton key
// once all has settled.
func (w *World) lacksOthers(mc *v1alpha2.MiniCluster) bool {
	return slices.ContainsFunc(mc.Spec.After, func(d v1alpha2.Dependency) bool {
		on := &v1alpha2.MiniCluster{}
		return w.user.Get(w.ctx, client.ObjectKey{Namespace: mc.Namespace, Name: d.Name}, on) != nil || !slices.Contains(dependenciesMet(on), d.Condition)
	})
}

// fits reports whether the empty cluster has room for a MiniCluster.
func (w *World) fits(mc *v1alpha2.MiniCluster) bool {
	mc = mc.DeepCopy()
	mc.Default()
	cpus := mc.Spec.Containers[0].Resources.Limits.Cpu().Value()
	return int(mc.Spec.MinSize) <= w.nodes*int(nodeCPUs/max(cpus, 1))
}

// hasTidied checks that a MiniCluster that has ended has no pod that runs.
func (w *World) hasTidied(l *life) error {
	for _, object := range w.objects(&corev1.PodList{}, client.InNamespace(l.namespace), client.MatchingLabels{v1alpha2.MiniClusterLabel: l.name}) {
		pod := object.(*corev1.Pod)
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("%s has ended, and its pod %s is %s", l.name, pod.Name, pod.Status.Phase)
		}
	}
	return nil
}

// beQuiet checks that nothing is written while there is nothing to do, except statuses of queues and leases.
func (w *World) beQuiet() {
	if w.violation != nil {
		return
	}
	w.trace("* nothing is to be done")
	clear(w.writes)
	clear(w.passes)
	w.run(time.Now().Add(quietFor))
	for _, what := range sortedKeys(w.writes) {
		if n := w.writes[what]; n > quietWrites(what) {
			w.violate("%d times %s while there is nothing to do", n, what)
		}
	}
	for _, what := range sortedKeys(w.passes) {
		if n := w.passes[what]; n > 30 {
			w.violate("%d times %s while there is nothing to do", n, what)
		}
	}
}

// clear deletes all MiniClusters, and checks that nothing is left.
func (w *World) clear() {
	if w.violation != nil {
		return
	}
	w.trace("* delete all")
	for _, object := range w.objects(&v1alpha2.MiniClusterList{}) {
		must(w.user.Delete(w.ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		if len(object.GetFinalizers()) > 0 {
			w.dropFinalizers(object)
		}
	}
	w.until(goesWithin, func() error {
		for _, list := range w.leftovers() {
			for _, object := range w.objects(list) {
				if inNamespaces(object) && !isKept(object) {
					return fmt.Errorf("%T %s/%s is left", object, object.GetNamespace(), object.GetName())
				}
			}
		}
		return nil
	})
	w.beQuiet()
}

// dropFinalizers lets an object go that its user keeps.
func (w *World) dropFinalizers(object client.Object) {
	must(w.user.Patch(w.ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// leftovers are the kinds of which no object may be left.
func (w *World) leftovers() []client.ObjectList {
	lists := []client.ObjectList{
		&v1alpha2.MiniClusterList{}, &jobsetapi.JobSetList{}, &batchv1.JobList{}, &corev1.PodList{}, &corev1.ConfigMapList{}, &corev1.SecretList{},
		&corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}, &corev1.PodTemplateList{},
	}
	if w.hasKueue() {
		lists = append(lists, &kueueapi.WorkloadList{})
	}
	if w.hasAutoscaler() {
		lists = append(lists, requests()...)
	}
	return lists
}

// isKept reports whether an object is a file or an ended Job of a JobSet that somebody deleted without what it owned. Who
// deletes it so keeps its files: the manager has no right to delete Secrets and ConfigMaps.
func isKept(object client.Object) bool {
	switch o := object.(type) {
	case *corev1.ConfigMap, *corev1.Secret:
		return len(object.GetOwnerReferences()) == 0
	case *batchv1.Job:
		return len(o.OwnerReferences) == 0 && o.Status.Active == 0
	}
	return false
}

// inNamespaces reports whether an object is in a namespace of MiniClusters, and was not there before them.
func inNamespaces(object client.Object) bool {
	return slices.Contains(namespaces, object.GetNamespace()) && object.GetName() != "kube-root-ca.crt"
}

// quietWrites is how often something may be written within quietFor although there is nothing to do.
func quietWrites(what string) int {
	switch {
	case strings.Contains(what, " MiniClusterQueue "):
		return int(quietFor/time.Minute) + 1
	// client-go ends a series some minutes after its last event, and makes an event of which the API server had refused the
	// first, as in a namespace that went and came back. The names of our own events have a number at the end.
	case strings.HasPrefix(what, "patch Event "), strings.HasPrefix(what, "create Event ") && strings.Count(what, ".") == 1:
		return 1
	}
	return 0
}
