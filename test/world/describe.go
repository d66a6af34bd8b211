// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// describe writes the objects down: the MiniClusters that have not ended in full, and of others what matters.
func (w *World) describe() string {
	var out strings.Builder
	for _, object := range w.objects(&v1alpha2.MiniClusterList{}) {
		mc := object.(*v1alpha2.MiniCluster).DeepCopy()
		mc.ManagedFields = nil
		text, err := yaml.Marshal(mc)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&out, "%s---\n", text)
	}
	for _, object := range w.objects(&jobsetapi.JobSetList{}) {
		set := object.(*jobsetapi.JobSet)
		fmt.Fprintf(&out, "JobSet %s deleted=%v %s\n", set.Name, set.DeletionTimestamp, set.Status.TerminalState)
	}
	for _, object := range w.objects(&batchv1.JobList{}) {
		job := object.(*batchv1.Job)
		fmt.Fprintf(&out, "Job %s deleted=%v finalizers=%v active=%d failed=%d succeeded=%d %v\n",
			job.Name, job.DeletionTimestamp, job.Finalizers, job.Status.Active, job.Status.Failed, job.Status.Succeeded, job.Status.Conditions)
	}
	for _, object := range w.objects(&corev1.PodList{}) {
		pod := object.(*corev1.Pod)
		fmt.Fprintf(&out, "Pod %s node=%s gates=%v deleted=%v finalizers=%v %s %s %v\n", pod.Name, pod.Spec.NodeName, pod.Spec.SchedulingGates,
			pod.DeletionTimestamp, pod.Finalizers, pod.Status.Phase, pod.Status.Reason, states(pod))
	}
	for _, object := range w.objects(&corev1.NodeList{}) {
		node := object.(*corev1.Node)
		fmt.Fprintf(&out, "Node %s cordoned=%v taints=%v\n", node.Name, node.Spec.Unschedulable, node.Spec.Taints)
	}
	for _, p := range w.kubelets.Processes() {
		if p.Command {
			fmt.Fprintf(&out, "Command %s of %s on %s since %s, ended %s with %d\n", p.PodName, p.MiniCluster, p.Node, w.at(p.Since), w.at(p.Ended), p.Code)
		}
	}
	return out.String()
}

func states(pod *corev1.Pod) []string {
	var out []string
	for _, s := range pod.Status.ContainerStatuses {
		switch {
		case s.State.Terminated != nil:
			out = append(out, fmt.Sprintf("%s: ended with %d", s.Name, s.State.Terminated.ExitCode))
		case s.State.Running != nil:
			out = append(out, fmt.Sprintf("%s: runs, ready=%v", s.Name, s.Ready))
		case s.State.Waiting != nil:
			out = append(out, s.Name+": "+s.State.Waiting.Reason)
		}
	}
	return out
}

func compareNames(a, b client.Object) int {
	return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()), strings.Compare(string(a.GetUID()), string(b.GetUID())))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// at is a time as the trace has it.
func (w *World) at(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return fmt.Sprintf("%.3f", t.Sub(w.began).Seconds())
}
