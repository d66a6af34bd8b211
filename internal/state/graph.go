// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Promise is what a MiniCluster was given: nodes by rank, and what a broker takes
// on each. It holds as long as the MiniCluster needs it, with or without pods.
type Promise struct {
	UID      types.UID
	Nodes    []string
	Requests fluxion.Resources
	// End is when it will be over, at the latest; zero if that is not known.
	End time.Time
}

// TopologyLevels are the levels of the cluster's topology, outermost first, and the
// labels of nodes that tell them. A node without the label is in no domain of the
// level.
var TopologyLevels = []TopologyLevel{
	{"zone", corev1.LabelTopologyZone},
	{"block", "cloud.provider.com/topology-block"},
	{"rack", "cloud.provider.com/topology-rack"},
}

// TopologyLevel is one level of the topology, as gangs name it, and its label. The
// labels of blocks and racks are those in the documentation of Kueue and KAI.
type TopologyLevel struct{ Name, Label string }

// Graph makes the resource graph of the cluster: what the nodes have, without what
// is held by pods that have not ended and by promises. A promise is a job of the
// graph, by its UID, and a pod that came of it is a part of it. A pod that ended
// holds nothing; one that is being deleted holds until it is gone.
func Graph(nodes []*corev1.Node, pods []*corev1.Pod, promises []Promise) (*fluxion.Graph, error) {
	levels := make([]string, len(TopologyLevels))
	for i, level := range TopologyLevels {
		levels[i] = level.Name
	}
	graph, err := fluxion.NewGraph(fluxionNodes(nodes, daemons(pods)), levels...)
	if err != nil {
		return nil, err
	}
	kept := byUID(promises)
	for _, pod := range pods {
		node := jobset.PinnedNode(pod)
		if node == "" || Ended(pod) || isDaemon(pod) {
			continue
		}
		if requests := Requests(pod); !kept.by(pod, node, requests) {
			graph.Occupy(node, requests)
		}
	}
	for i := range promises {
		promise := kept[promises[i].UID]
		gang := fluxion.Gang{
			Job: string(promise.UID), Pods: fluxion.Shape{Requests: promise.Requests}, Sizes: []int{len(promise.Nodes)}, End: promise.End,
		}
		if err := graph.Adopt(gang, fluxion.Placement{Nodes: promise.unkept()}); err != nil {
			return nil, err
		}
	}
	return graph, nil
}

// promised are promises by UID.
type promised map[types.UID]*keptPromise

// keptPromise is a promise and the ranks that have a pod on their node; for true it takes
// what was promised.
type keptPromise struct {
	*Promise
	ranks map[int]bool
}

func byUID(promises []Promise) promised {
	kept := promised{}
	for i := range promises {
		kept[promises[i].UID] = &keptPromise{&promises[i], map[int]bool{}}
	}
	return kept
}

// by reports whether a pod holds nothing but what was promised to it. Of two pods of a
// rank only one does.
func (p promised) by(pod *corev1.Pod, node string, requests fluxion.Resources) bool {
	promise := p[types.UID(pod.Labels[v1alpha2.UIDLabel])]
	rank, ok := jobset.Rank(pod)
	if !ok || promise == nil || rank >= len(promise.Nodes) || promise.Nodes[rank] != node {
		return false
	}
	if _, twice := promise.ranks[rank]; twice {
		return false
	}
	promise.ranks[rank] = maps.Equal(requests, promise.Requests)
	return promise.ranks[rank]
}

// unkept are the nodes of the promise, without those whose pod takes something else.
func (p *keptPromise) unkept() []string {
	nodes := slices.Clone(p.Nodes)
	for rank, asPromised := range p.ranks {
		if !asPromised {
			nodes[rank] = ""
		}
	}
	return nodes
}

// isDaemon reports whether a pod belongs to its node (of a DaemonSet, or static). It is
// there whatever else runs, so what it takes is none of the node's capacity.
func isDaemon(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

func daemons(pods []*corev1.Pod) map[string][]*corev1.Pod {
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if node := jobset.PinnedNode(pod); node != "" && isDaemon(pod) && !Ended(pod) {
			byNode[node] = append(byNode[node], pod)
		}
	}
	return byNode
}

func fluxionNodes(nodes []*corev1.Node, daemons map[string][]*corev1.Pod) []fluxion.Node {
	out := make([]fluxion.Node, 0, len(nodes))
	for _, node := range nodes {
		capacity := resources(node.Status.Allocatable)
		for _, pod := range daemons[node.Name] {
			for name, amount := range Requests(pod) {
				capacity[name] -= amount
			}
		}
		topology := make([]string, len(TopologyLevels))
		for i, level := range TopologyLevels {
			topology[i] = node.Labels[level.Label]
		}
		out = append(out, fluxion.Node{Name: node.Name, Capacity: capacity, Down: down(node), Topology: topology})
	}
	return out
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
	out := resources(PodRequests(pod))
	out[fluxion.Pods] = 1
	return out
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
	pod.Annotations = keep(pod.Annotations, v1alpha2.QuorumAnnotation)
	pod.Spec.Volumes = nil
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			*c = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		}
	}
	return pod, nil
}

// keep returns the map with one of its keys alone.
func keep(values map[string]string, key string) map[string]string {
	value, ok := values[key]
	if !ok {
		return nil
	}
	return map[string]string{key: value}
}
