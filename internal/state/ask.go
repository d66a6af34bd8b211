// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// Ask is what a MiniCluster requests of the cluster. It depends on the MiniCluster, its pod and the
// volumes of the pod, not on the nodes.
type Ask struct {
	// Gang is the request without its sizes and without the nodes that its pods cannot use.
	fluxion.Gang
	// Places says which nodes the pods can use.
	Places Places
	// Reach says which nodes can reach the volumes of the pods. Request leaves it empty.
	Reach Reach
	// Namespace and Labels are those of the pods, by which pods of others may keep nodes from them.
	Namespace string
	Labels    labels.Set
	// Domains are where Kueue counts the pods; nil if that may be anywhere.
	Domains *Domains
	// Avoid are nodes that are avoided until AvoidUntil, as long as the other nodes could hold
	// the gang at its smallest size.
	Avoid      []string
	AvoidUntil time.Time
	Least      int
	// Queue is the queue of the MiniCluster, whose reservations it may use.
	Queue string
	// Arch is the architecture that the queue of a MiniCluster without nodes wants; "" for any. Request leaves it out.
	Arch string
	// Lasts is how long a MiniCluster without nodes holds nodes at most after it gets them; 0 if it has
	// no time limit. Request leaves out the deadlines of its queue.
	Lasts time.Duration
	// Ends is the latest time at which the MiniCluster gives its nodes back; zero if it is not known.
	Ends time.Time
}

// Places is what a pod says about the nodes that it can use.
type Places struct {
	// Pod has just those fields. Key is the same for pods with the same fields.
	Pod *corev1.Pod
	Key string
	// NamesArch is true if a selector names the label of architectures: then nodes of several may be used.
	NamesArch bool
}

// endGrace is how long a MiniCluster takes to give its nodes back after its time limit: the lead has
// 30 s to end the command, and the pods have 30 s to end.
const endGrace = time.Minute

// At is the request at a time. After AvoidUntil no node is avoided. A MiniCluster without nodes ends as
// if it got nodes at that time. The end of one that is overdue is not known.
func (a Ask) At(now time.Time) Ask {
	if !now.Before(a.AvoidUntil) {
		a.Avoid, a.AvoidUntil = nil, time.Time{}
	}
	if a.Lasts > 0 {
		a.Ends = now.Add(a.Lasts)
	} else if !a.Ends.After(now) {
		a.Ends = time.Time{}
	}
	return a
}

// Arch is the architecture that a queue, which may be nil, wants of the nodes of its MiniClusters; "" for any.
func Arch(q *v1alpha2.MiniClusterQueue) string {
	if q == nil {
		return ""
	}
	return q.Spec.Architecture
}

// Request is what the MiniCluster, with its defaults, requests of a cluster with these topology
// levels. pod is one of its pods after admission by the API server, and quota is that of Kueue, or nil.
// Where Kueue has assigned domains, no other topology counts.
func Request(mc *v1alpha2.MiniCluster, pod *corev1.Pod, quota *v1alpha2.Quota, levels []TopologyLevel) Ask {
	ask := Ask{
		Gang: fluxion.Gang{
			Job:      string(mc.UID),
			Pods:     fluxion.Shape{Requests: Requests(pod)},
			Distinct: !mc.Spec.Network.DisableAffinity,
			Topology: topology(mc, levels),
			Policy:   placementPolicy(mc),
		},
		Places: placesOf(pod),
		Least:  int(mc.Spec.LeastSize()),
		Queue:  QueueOf(mc),

		Namespace: mc.Namespace, Labels: labelsOf(mc, pod),
	}
	ask.Lasts, ask.Ends = stay(mc)
	if quota != nil && quota.Topology != nil {
		ask.Domains, ask.Topology = domainsOf(quota.Topology), fluxion.Topology{}
	}
	if avoid := mc.Status.Avoid; avoid != nil {
		ask.Avoid, ask.AvoidUntil = avoided(avoid), avoid.Until.Time
	}
	return ask
}

// labelsOf are the labels of the pods of a MiniCluster. The pod may be of another one that is alike.
func labelsOf(mc *v1alpha2.MiniCluster, pod *corev1.Pod) labels.Set {
	out := labels.Merge(pod.Labels, labels.Set{
		v1alpha2.MiniClusterLabel: mc.Name, v1alpha2.JobNameLabel: mc.Name, v1alpha2.SelectorLabel: mc.Name, v1alpha2.UIDLabel: string(mc.UID),
	})
	if _, own := mc.Spec.Pod.Labels[v1alpha2.AppInstanceLabel]; !own {
		out[v1alpha2.AppInstanceLabel] = mc.Name
	}
	return out
}

// stay is how long a MiniCluster without nodes would hold them at most, or until when one with nodes
// holds them at most. Both are zero without a time limit. The start counts, as long as it takes at most.
func stay(mc *v1alpha2.MiniCluster) (lasts time.Duration, ends time.Time) {
	of := AdmittedDeadlines(mc)
	ends = end(mc)
	switch {
	case ends.IsZero():
		return Lasts(mc, Limit(mc, of), of), ends
	case mc.Status.StartTime == nil:
		ends = ends.Add(StartTimeout(mc, of))
	}
	return 0, ends.Add(endGrace)
}

// Lasts is how long a MiniCluster with a time limit holds nodes at most, in a queue with some deadlines; 0 without a limit.
func Lasts(mc *v1alpha2.MiniCluster, limit time.Duration, of elastic.Deadlines) time.Duration {
	if limit == 0 {
		return 0
	}
	return StartTimeout(mc, of) + limit + endGrace
}

// avoided are the nodes to avoid; none if the field cannot be read.
func avoided(avoid *v1alpha2.Avoid) []string {
	nodes, _ := hostlist.Decode(avoid.Nodes, v1alpha2.MostAvoided)
	return nodes
}

// placesOf returns the fields of a pod that choose nodes.
func placesOf(pod *corev1.Pod) Places {
	p := Places{Pod: &corev1.Pod{}}
	to, from := &p.Pod.Spec, &pod.Spec
	to.NodeSelector, to.Tolerations = from.NodeSelector, from.Tolerations
	if from.Affinity != nil && from.Affinity.NodeAffinity != nil {
		required := from.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		to.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	p.Key = digest(&p.Pod.Spec)
	p.NamesArch = namesArch(&p.Pod.Spec)
	return p
}

// namesArch reports whether a pod says on which architectures it may run. A toleration allows nodes, and chooses none.
func namesArch(spec *corev1.PodSpec) bool {
	if _, names := spec.NodeSelector[corev1.LabelArchStable]; names || spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return names
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	return required != nil && slices.ContainsFunc(required.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return r.Key == corev1.LabelArchStable })
	})
}

func placementPolicy(mc *v1alpha2.MiniCluster) fluxion.Policy {
	if mc.Spec.Placement.Policy == v1alpha2.PlacementSpread {
		return fluxion.Spread
	}
	return fluxion.Pack
}

// Wants is what a MiniCluster wants of the scheduler.
type Wants struct {
	Want
	// Pod is one of its pods after admission by the API server, and Services its services pod; nil if it has none.
	Pod, Services *corev1.Pod
	// Quota is what Kueue granted; nil if it needs none.
	Quota *v1alpha2.Quota
	// Refused is the refusal of its pods or objects by a quota; "" if they were accepted. Then it is offered no nodes. Its
	// pods are as before admission by the API server, if a quota refused them.
	Refused string
}

// Want says whether a MiniCluster wants nodes.
type Want int

// Wants of nodes.
const (
	// NoNodes: it is in no queue. Nodes that it was offered and has not taken become free.
	NoNodes Want = iota
	// NodesLater is NoNodes for one that waits, and cannot be decided on yet: it was not checked, or pods of before are
	// going. What an autoscaler was asked for it stays.
	NodesLater
	// NodesNow: it is in its queue.
	NodesNow
	// Gone is NoNodes for one that does not exist any more. Only its name counts.
	Gone
)
