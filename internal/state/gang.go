// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// Promise is what a MiniCluster was given: nodes by rank, "" for a rank that holds
// none, and what a broker takes on each. It holds as long as the MiniCluster needs it,
// with or without pods.
type Promise struct {
	Nodes    []string
	Requests fluxion.Resources
	// End is when it will be over, at the latest; zero if that is not known.
	End time.Time
}

// PromiseOf is what the MiniCluster's admission holds; nil where it needs it no
// more. Ranks that gave their node back hold none.
func PromiseOf(mc *v1alpha2.MiniCluster) (*Promise, error) {
	if mc.Status.Admission == nil || meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished) {
		return nil, nil
	}
	nodes, err := Nodes(mc)
	if err != nil {
		return nil, err
	}
	vacated, err := ranks("vacated", mc.Status.Admission.Vacated, len(nodes))
	if err != nil {
		return nil, err
	}
	for _, rank := range vacated {
		nodes[rank] = ""
	}
	return &Promise{Nodes: nodes, Requests: withPod(resources(mc.Status.Admission.Requests)), End: end(mc)}, nil
}

// ranks reads a field of the admission that names some of the ranks.
func ranks(field, text string, size int) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	ids, err := idset.Decode(text, size)
	if err == nil && len(ids) > 0 && ids[len(ids)-1] >= int64(size) {
		err = fmt.Errorf("rank %d of %d brokers", ids[len(ids)-1], size)
	}
	if err != nil {
		return nil, fmt.Errorf("reading status.admission.%s: %w", field, err)
	}
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = int(id)
	}
	return out, nil
}

// endless is a deadline that says nothing: the default, about a year.
const endless = 31500000

// limit is how long a MiniCluster runs at most; 0 if that is not known.
func limit(mc *v1alpha2.MiniCluster) time.Duration {
	deadline := ptr.Deref(mc.Spec.DeadlineSeconds, endless)
	if deadline <= 0 || deadline >= endless {
		return 0
	}
	return time.Duration(deadline) * time.Second
}

// end is when a MiniCluster will be over, at the latest; zero if that is not known.
func end(mc *v1alpha2.MiniCluster) time.Time {
	if limit := limit(mc); limit > 0 && mc.Status.StartTime != nil {
		return mc.Status.StartTime.Add(limit)
	}
	return time.Time{}
}

// Sizing is what a spec, with its defaults, says about sizes and tasks.
func Sizing(s *v1alpha2.MiniClusterSpec) elastic.Sizing {
	e := &s.Elastic
	return elastic.Sizing{
		Min: int(s.LeastSize()), Size: int(s.Size),
		Operator: elastic.Operator(e.Sizes.Operator), Operand: int(e.Sizes.Operand),
		Tasks: elastic.Tasks{
			AtSize:     int(*s.Tasks),
			Fixed:      e.Tasks.Scaling == v1alpha2.TasksFixed,
			Constraint: elastic.Constraint(e.Tasks.Constraint),
			MultipleOf: int(ptr.Deref(e.Tasks.MultipleOf, 1)),
		},
		CoresPerNode: broker.Cores(s),
	}
}

// Gang is a MiniCluster, with its defaults, as the queue sees it. Pod is one of its
// pods as the cluster makes it.
func Gang(mc *v1alpha2.MiniCluster, pod *corev1.Pod) elastic.Gang {
	requests := Requests(pod)
	return elastic.Gang{
		ID:          string(mc.UID),
		Name:        mc.Namespace + "/" + mc.Name,
		Queue:       cmp.Or(mc.Status.Queue, mc.Spec.Queue, v1alpha2.DefaultQueue),
		Priority:    ptr.Deref(pod.Spec.Priority, 0),
		Created:     mc.CreationTimestamp.Time,
		Since:       since(mc),
		Sizing:      nextSizing(mc),
		WaitForSize: mc.Spec.Elastic.WaitForSize.Duration,
		Requests:    elastic.Resources(requests),
		BestEffort:  asksForNothing(requests),
		Class:       class(mc, pod, requests),
		Limit:       limit(mc),
	}
}

// nextSizing are the sizes for the next attempt.
func nextSizing(mc *v1alpha2.MiniCluster) elastic.Sizing {
	s := Sizing(&mc.Spec)
	if requeue := mc.Status.RequeueState; requeue != nil {
		s.Most = int(requeue.Size)
	}
	return s
}

// Age is from when on a MiniCluster counts as waiting in its queue; queue may be nil.
func Age(mc *v1alpha2.MiniCluster, queue *v1alpha2.MiniClusterQueue) time.Time {
	if queue != nil && queue.Spec.Requeue == v1alpha2.RequeueLast {
		return since(mc)
	}
	return mc.CreationTimestamp.Time
}

// since is when it began to wait for its size: when it was made, or queued again.
func since(mc *v1alpha2.MiniCluster) time.Time {
	created := mc.CreationTimestamp.Time
	if requeue := mc.Status.RequeueState; requeue != nil && requeue.RequeueAt != nil && requeue.RequeueAt.After(created) {
		return requeue.RequeueAt.Time
	}
	return created
}

// asksForNothing reports whether a pod takes nothing but its place.
func asksForNothing(requests fluxion.Resources) bool {
	for name, amount := range requests {
		if name != fluxion.Pods && amount > 0 {
			return false
		}
	}
	return true
}

// class is the same for MiniClusters whose pods take the same and can be at the same
// places.
func class(mc *v1alpha2.MiniCluster, pod *corev1.Pod, requests fluxion.Resources) string {
	text, err := json.Marshal(struct {
		Requests  fluxion.Resources
		Places    string
		Distinct  bool
		Placement v1alpha2.PlacementSpec
		Avoid     *v1alpha2.Avoid
	}{requests, placesOf(pod).key, !mc.Spec.Network.DisableAffinity, mc.Spec.Placement, mc.Status.Avoid})
	if err != nil { // it never is
		return string(mc.UID)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Running is a MiniCluster, with its defaults, that has nodes. Pod is one of its pods
// as the cluster makes it. One that was promised nothing any more is on its way out.
func Running(mc *v1alpha2.MiniCluster, pod *corev1.Pod) (elastic.Running, error) {
	r := elastic.Running{Gang: Gang(mc, pod), End: end(mc), Malleable: malleable(mc)}
	admission := mc.Status.Admission
	if admission != nil {
		r.Admitted, r.Priority = admission.Time.Time, admission.Priority
		r.Requests = elastic.Resources(withPod(resources(admission.Requests)))
		r.BestEffort = asksForNothing(fluxion.Resources(r.Requests))
	}
	promise, err := PromiseOf(mc)
	if err != nil {
		return elastic.Running{}, err
	}
	r.Ending = promise == nil || mc.DeletionTimestamp != nil
	if promise != nil {
		r.Ranks = promise.Ranks()
		if r.Draining, err = draining(admission, r.Ranks); err != nil {
			return elastic.Running{}, err
		}
		if len(r.Draining) > 0 && admission.Drain.Deadline != nil {
			r.DrainBy = admission.Drain.Deadline.Time
		}
	}
	r.Max = len(r.Ranks)
	if bearsChange(mc) && !r.Ending && mc.Status.StartTime != nil {
		r.Max = mostBrokers(mc)
	}
	r.Sizing.Most = 0
	return r, nil
}

// MaxSize is up to which size a MiniCluster can grow: while it has nodes, that for which
// pods were made.
func MaxSize(mc *v1alpha2.MiniCluster) int32 {
	if mc.Status.Admission != nil && mc.Status.MaximumSize > 0 {
		return mc.Status.MaximumSize
	}
	return mc.Spec.MaxSize
}

// Ranks are those that hold a node, rising.
func (p *Promise) Ranks() []int {
	var out []int
	for rank, node := range p.Nodes {
		if node != "" {
			out = append(out, rank)
		}
	}
	return out
}

// Any reports whether one of these ranks holds a node already.
func (p *Promise) Any(pods []elastic.Pod) bool {
	return slices.ContainsFunc(pods, func(pod elastic.Pod) bool { return pod.Rank < len(p.Nodes) && p.Nodes[pod.Rank] != "" })
}

// With is the promise with other nodes for some ranks, or with more of them.
func (p *Promise) With(pods []elastic.Pod) *Promise {
	more := *p
	more.Nodes = slices.Clone(p.Nodes)
	for _, pod := range pods {
		for len(more.Nodes) <= pod.Rank {
			more.Nodes = append(more.Nodes, "")
		}
		more.Nodes[pod.Rank] = pod.Node
	}
	return &more
}

// draining are the ranks, of those that hold a node, that are asked to leave.
func draining(admission *v1alpha2.Admission, holds []int) ([]int, error) {
	if admission.Drain == nil {
		return nil, nil
	}
	asked, err := ranks("drain.ranks", admission.Drain.Ranks, int(admission.Size))
	return slices.DeleteFunc(asked, func(rank int) bool { return !slices.Contains(holds, rank) }), err
}

// malleable reports whether ranks may leave: the command has not begun, or bears it.
func malleable(mc *v1alpha2.MiniCluster) bool { return mc.Status.StartTime == nil || bearsChange(mc) }

// bearsChange reports whether the command goes on when ranks join and leave, since it
// submits jobs of its own or there are people who do. A single MPI job does not.
func bearsChange(mc *v1alpha2.MiniCluster) bool {
	s := &mc.Spec
	return s.Interactive || (len(s.Containers) > 0 && s.FluxContainer().Launcher)
}

// MayGrow reports whether a MiniCluster that runs can take more nodes.
func MayGrow(mc *v1alpha2.MiniCluster) bool {
	return bearsChange(mc) && mc.Status.Admission != nil && mc.Status.MaximumSize > mc.Status.Admission.Size
}

// AmountText writes an amount of a resource for people: "8 cpu", "4 pods".
func AmountText(name string, amount int64) string {
	if text := (fluxion.Resources{name: amount}).String(); text != "" {
		return text
	}
	return fmt.Sprintf("%d %s", amount, name)
}

// Queue is how a queue is served.
func Queue(made *v1alpha2.MiniClusterQueue) elastic.Queue {
	q := made.DeepCopy()
	q.Default()
	s := &q.Spec
	return elastic.Queue{
		Name:        q.Name,
		Weight:      int(s.Weight),
		Priority:    s.Priority,
		Capacity:    elastic.Resources(resources(s.Capacity)),
		Guarantee:   elastic.Resources(resources(s.Guarantee)),
		Reclaimable: *s.Reclaimable,
		Ordering:    elastic.Ordering(s.Ordering),
		Backfill:    elastic.Backfill(s.Backfill),
		Patience:    s.Patience.Duration,
		Suspended:   s.Suspended,
	}
}

// Ask is what a Room has to know of a gang. It stays true as long as the MiniCluster
// and its pod are the same, whatever becomes of the nodes.
type Ask struct {
	// Gang is the request, but for its sizes. The nodes that its pods cannot use are
	// those of its places, when there are such.
	fluxion.Gang
	places *places
	// avoid are nodes that it is not placed on until AvoidUntil, as long as others could
	// hold it at its least size.
	avoid      []string
	AvoidUntil time.Time
	least      int
}

// At is what is asked at a time: after AvoidUntil no node is avoided.
func (a Ask) At(now time.Time) Ask {
	if !now.Before(a.AvoidUntil) {
		a.avoid, a.AvoidUntil = nil, time.Time{}
	}
	return a
}

// Request is what the MiniCluster, with its defaults, asks of the cluster; pod is one
// of its pods as the cluster makes it.
func Request(c *Cluster, mc *v1alpha2.MiniCluster, pod *corev1.Pod) Ask {
	ask := Ask{
		Gang: fluxion.Gang{
			Job:      string(mc.UID),
			Pods:     fluxion.Shape{Requests: Requests(pod)},
			Distinct: !mc.Spec.Network.DisableAffinity,
			Topology: topology(mc, c.levels),
			Policy:   placementPolicy(mc),
		},
		places: placesOf(pod),
		least:  int(mc.Spec.LeastSize()),
	}
	if avoid := mc.Status.Avoid; avoid != nil {
		ask.avoid, _ = hostlist.Decode(avoid.Nodes, v1alpha2.MostAvoided) // what cannot be read is not avoided
		ask.AvoidUntil = avoid.Until.Time
	}
	return ask
}

func placementPolicy(mc *v1alpha2.MiniCluster) fluxion.Policy {
	if mc.Spec.Placement.Policy == v1alpha2.PlacementSpread {
		return fluxion.Spread
	}
	return fluxion.Pack
}

// topology is how close the pods of a MiniCluster have to be. A key that is none of
// the levels' labels (UnknownTopology) is the name of no level.
func topology(mc *v1alpha2.MiniCluster, levels []TopologyLevel) fluxion.Topology {
	placement := &mc.Spec.Placement
	if placement.TopologyKey == "" {
		return fluxion.Topology{}
	}
	level := placement.TopologyKey
	if i := levelOf(level, levels); i >= 0 {
		level = levels[i].Name
	}
	return fluxion.Topology{Level: level, Required: placement.Topology == v1alpha2.TopologyRequired}
}

// levelOf is the index of the level that a label tells; -1 if there is none.
func levelOf(label string, levels []TopologyLevel) int {
	return slices.IndexFunc(levels, func(level TopologyLevel) bool { return level.Label == label })
}

// UnknownTopology says that the MiniCluster's topologyKey is none of the levels'
// labels; "" if it is one, or there is none.
func UnknownTopology(mc *v1alpha2.MiniCluster, levels []TopologyLevel) string {
	key := mc.Spec.Placement.TopologyKey
	if key == "" || levelOf(key, levels) >= 0 {
		return ""
	}
	if len(levels) == 0 {
		return fmt.Sprintf("placement.topologyKey %q is no label that the topology of the nodes is told by: there is none", key)
	}
	labels := make([]string, len(levels))
	for i, level := range levels {
		labels[i] = level.Label
	}
	return fmt.Sprintf("placement.topologyKey %q is no label that the topology of the nodes is told by: those are %s", key, strings.Join(labels, ", "))
}
