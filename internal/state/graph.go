// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// TopologyLevel is one level of the topology, as gangs and messages name it, and the
// label of nodes that tells it. A node without the label is in no domain of the level.
type TopologyLevel struct{ Name, Label string }

// TopologyLevels are those that are usual, outermost first: zones, and the labels of blocks
// and racks that are in the documentation of Kueue and KAI.
var TopologyLevels = []TopologyLevel{
	{"zone", corev1.LabelTopologyZone},
	{"block", "cloud.provider.com/topology-block"},
	{"rack", "cloud.provider.com/topology-rack"},
}

// ParseTopologyLevels reads levels as their labels, outermost first, with commas between.
// A level has the name of its label without domain and "topology-".
func ParseTopologyLevels(text string) ([]TopologyLevel, error) {
	var levels []TopologyLevel
	for label := range strings.SplitSeq(text, ",") {
		label = strings.TrimSpace(label)
		if label == "" {
			continue
		}
		if problems := validation.IsQualifiedName(label); len(problems) > 0 {
			return nil, fmt.Errorf("%q is no label of nodes: %s", label, strings.Join(problems, "; "))
		}
		name := strings.TrimPrefix(label[strings.LastIndexByte(label, '/')+1:], "topology-")
		for _, level := range levels {
			if level.Name == name || level.Label == label {
				return nil, fmt.Errorf("two levels of the topology are called %q: %s and %s", name, level.Label, label)
			}
		}
		levels = append(levels, TopologyLevel{name, label})
	}
	return levels, nil
}

// isDaemon reports whether a pod belongs to its node (of a DaemonSet, or static). It is
// there whatever else runs, so what it takes is none of the node's capacity.
func isDaemon(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

// lifecycleTaints mark states of a node that pass, such as not-ready.
const lifecycleTaints = "node.kubernetes.io/"

// down is why nothing can be placed on the node for the time being; "" if it is up.
func down(node *corev1.Node) string {
	switch {
	case node.DeletionTimestamp != nil:
		return "being removed"
	case node.Spec.Unschedulable:
		return "cordoned"
	case !Ready(node):
		return "not ready"
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && strings.HasPrefix(taint.Key, lifecycleTaints) {
			return strings.TrimPrefix(taint.Key, lifecycleTaints)
		}
	}
	return ""
}

// Ready reports whether a node says that it is.
func Ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Excluded are the nodes that a pod cannot use whoever holds them, each with the
// reason: taints that it does not tolerate, labels that it does not select.
func Excluded(pod *corev1.Pod, nodes []*corev1.Node) iter.Seq2[string, string] {
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	picky := len(pod.Spec.NodeSelector) > 0 || pod.Spec.Affinity != nil
	return func(yield func(node, reason string) bool) {
		for _, node := range nodes {
			if reason := excludes(node, pod, required, picky); reason != "" && !yield(node.Name, reason) {
				return
			}
		}
	}
}

// excludes is why a node keeps a pod off for good; "" if it does not.
func excludes(node *corev1.Node, pod *corev1.Pod, required nodeaffinity.RequiredNodeAffinity, picky bool) string {
	if len(node.Spec.Taints) > 0 {
		taint, untolerated := schedulinghelper.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, lasting, false)
		if untolerated {
			return fmt.Sprintf("tainted %s", taint.Key)
		}
	}
	if !picky {
		return ""
	}
	if match, err := required.Match(node); err != nil || !match {
		return "not selected by the pod's node labels"
	}
	return ""
}

// lasting taints keep pods off for good; the others are states that pass.
func lasting(taint *corev1.Taint) bool {
	return taint.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(taint.Key, lifecycleTaints)
}

// Requests are what a pod takes of its node, as kube-scheduler counts it: init
// containers, sidecars and overhead included, and the pod itself.
func Requests(pod *corev1.Pod) fluxion.Resources {
	return withPod(resources(PodRequests(pod)))
}

// withPod counts the pod itself.
func withPod(amounts fluxion.Resources) fluxion.Resources {
	amounts[fluxion.Pods] = 1
	return amounts
}

// PodRequests are what a pod takes of its node, in Kubernetes' own units.
func PodRequests(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// resources are amounts in the units of package fluxion.
func resources(list corev1.ResourceList) fluxion.Resources {
	out := make(fluxion.Resources, len(list)+1)
	for name, quantity := range list {
		if name == corev1.ResourceCPU {
			out[fluxion.CPU] = quantity.MilliValue()
		} else {
			out[string(name)] = quantity.Value()
		}
	}
	return out
}

// Ended reports whether the pod's containers are done for good.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// StripPod takes out of a pod what nobody here reads, before it is cached: a
// cluster has many. It is a cache transform.
func StripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod.ManagedFields = nil
	pod.Annotations = keep(pod.Annotations, v1alpha2.QuorumAnnotation, v1alpha2.DrainAnnotation, v1alpha2.StopAnnotation, jobset.PlacedAnnotation)
	pod.Spec.Volumes = nil
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			*c = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		}
	}
	return pod, nil
}

// keep returns the map with some of its keys alone.
func keep(values map[string]string, keys ...string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, ok := values[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}
