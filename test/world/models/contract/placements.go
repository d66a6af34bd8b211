// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Site is a part of a cluster for the scenarios of kube-scheduler: two nodes of 8 CPUs with a label. There are other nodes
// without the label.
type Site struct {
	Client    client.Client
	Namespace string
	Nodes     []string
	Label     map[string]string
}

// Placement is a scenario of kube-scheduler.
type Placement struct {
	Name  string
	Steps []PlacementStep
}

// PlacementStep is what is done, and the state (Site.State) in which the pods come to rest then.
type PlacementStep struct {
	Do   []SiteAct
	Want string
}

// SiteAct is one thing that is done.
type SiteAct func(ctx context.Context, s *Site) error

// Steps plays a scenario. `await` repeats an attempt until it succeeds, and returns its error if that takes too long.
func (s *Site) Steps(ctx context.Context, p Placement, await func(attempt func() error) error) error {
	for i, step := range p.Steps {
		for _, act := range step.Do {
			if err := await(func() error { return act(ctx, s) }); err != nil {
				return fmt.Errorf("step %d: %w", i+1, err)
			}
		}
		err := await(arrives(ctx, s.State, step.Want))
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

// number is how many nodes have a reason.
var number = regexp.MustCompile(`\d+ `)

// State says where each pod is, or why it is nowhere, without the numbers of nodes.
func (s *Site) State(ctx context.Context) (string, error) {
	var list corev1.PodList
	if err := s.Client.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		return "", err
	}
	var all []string
	for i := range list.Items {
		pod := &list.Items[i]
		text := pod.Name + " waits"
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				text = pod.Name + " is " + c.Reason
				if _, why, found := strings.Cut(c.Message, "available: "); found {
					why, _, _ = strings.Cut(why, ". ")
					reasons := strings.Split(strings.TrimSuffix(number.ReplaceAllString(why, ""), "."), ", ")
					slices.Sort(reasons)
					text += ": " + strings.Join(reasons, ", ")
				}
			}
		}
		if pod.Spec.NodeName != "" {
			text = fmt.Sprintf("%s is on %d", pod.Name, slices.Index(s.Nodes, pod.Spec.NodeName))
		}
		if pod.DeletionTimestamp != nil {
			text += ", is deleted"
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
				text += " for " + c.Reason
			}
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, "; "), nil
}

// pod makes a pod that asks for CPUs, on nodes of the site.
func pod(name, cpus string, change func(*Site, *corev1.PodSpec)) SiteAct {
	return func(ctx context.Context, s *Site) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, Spec: corev1.PodSpec{
			NodeSelector: s.Label, Containers: []corev1.Container{{Name: "main", Image: "app", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)},
			}}},
		}}
		if change != nil {
			change(s, &pod.Spec)
		}
		return s.Client.Create(ctx, pod)
	}
}

// pin binds a pod to a node of the site by its name, as MiniClusters do.
func pin(node int) func(*Site, *corev1.PodSpec) {
	return func(s *Site, spec *corev1.PodSpec) { pinTo(spec, s.Nodes[node]) }
}

func pinTo(spec *corev1.PodSpec, node string) {
	spec.NodeSelector = nil
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}}}
}

// remove deletes a pod at once.
func remove(name string) SiteAct {
	return func(ctx context.Context, s *Site) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
		return s.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
	}
}

// ungate removes the gates of a pod.
func ungate(name string) SiteAct {
	return func(ctx context.Context, s *Site) error {
		var pod corev1.Pod
		if err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, &pod); err != nil {
			return err
		}
		pod.Spec.SchedulingGates = nil
		return s.Client.Update(ctx, &pod)
	}
}

// change changes the spec of a node.
func change(node int, do func(*corev1.NodeSpec)) SiteAct {
	return func(ctx context.Context, s *Site) error {
		var object corev1.Node
		if err := s.Client.Get(ctx, client.ObjectKey{Name: s.Nodes[node]}, &object); err != nil {
			return err
		}
		do(&object.Spec)
		return s.Client.Update(ctx, &object)
	}
}

func cordon(node int, cordoned bool) SiteAct {
	return change(node, func(s *corev1.NodeSpec) { s.Unschedulable = cordoned })
}

const taintKey = "test/contract"

// taint gives the first node a taint, or removes it if the effect is "".
func taint(effect corev1.TaintEffect) SiteAct {
	return change(0, func(s *corev1.NodeSpec) {
		s.Taints = slices.DeleteFunc(s.Taints, func(t corev1.Taint) bool { return t.Key == taintKey })
		if effect != "" {
			s.Taints = append(s.Taints, corev1.Taint{Key: taintKey, Effect: effect})
		}
	})
}

// tolerant pins a pod to a node, whose taint it tolerates for some seconds; for ever if they are negative.
func tolerant(node int, seconds int64) func(*Site, *corev1.PodSpec) {
	return func(s *Site, spec *corev1.PodSpec) {
		pinTo(spec, s.Nodes[node])
		toleration := corev1.Toleration{Key: taintKey, Operator: corev1.TolerationOpExists}
		if seconds >= 0 {
			toleration.Effect, toleration.TolerationSeconds = corev1.TaintEffectNoExecute, &seconds
		}
		spec.Tolerations = []corev1.Toleration{toleration}
	}
}

const hold = "test/hold"

// held keeps the pod of an act after its deletion, until letGo.
func held(act SiteAct, name string) SiteAct {
	return func(ctx context.Context, s *Site) error {
		if err := client.IgnoreAlreadyExists(act(ctx, s)); err != nil {
			return err
		}
		return s.setFinalizers(ctx, name, hold)
	}
}

func letGo(name string) SiteAct {
	return func(ctx context.Context, s *Site) error { return s.setFinalizers(ctx, name) }
}

func (s *Site) setFinalizers(ctx context.Context, name string, finalizers ...string) error {
	var pod corev1.Pod
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, &pod); err != nil {
		return err
	}
	pod.Finalizers = finalizers
	return s.Client.Update(ctx, &pod)
}

func then(want string, acts ...SiteAct) PlacementStep { return PlacementStep{Do: acts, Want: want} }

const elsewhere = "node(s) didn't satisfy plugin(s) [NodeAffinity]"

// Placements are the scenarios of kube-scheduler.
var Placements = []Placement{
	{Name: "by name", Steps: []PlacementStep{
		then("a is on 1", pod("a", "4", pin(1))),
		then("a is on 1; b is on 1", pod("b", "4", pin(1))),
		then("a is on 1; b is on 1; c is Unschedulable: Insufficient cpu, "+elsewhere, pod("c", "1", pin(1))),
		then("b is on 1; c is on 1", remove("a")),
	}},
	{Name: "by a label", Steps: []PlacementStep{
		then("a is on 0; b is on 1", pod("a", "8", pin(0)), pod("b", "7", nil)),
		then("a is on 0; b is on 1; c is Unschedulable: Insufficient cpu, node(s) didn't match Pod's node affinity/selector", pod("c", "2", nil)),
		then("b is on 1; c is on 0", remove("a")),
	}},
	{Name: "gates", Steps: []PlacementStep{
		then("a is SchedulingGated", pod("a", "1", func(s *Site, spec *corev1.PodSpec) {
			pinTo(spec, s.Nodes[0])
			spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test/gate"}}
		})),
		then("a is on 0", ungate("a")),
	}},
	{Name: "another scheduler", Steps: []PlacementStep{
		then("a waits; b is on 0", pod("a", "1", func(_ *Site, spec *corev1.PodSpec) { spec.SchedulerName = "flux-elastic" }), pod("b", "1", pin(0))),
	}},
	{Name: "a node that does not exist", Steps: []PlacementStep{
		then("a is Unschedulable: "+elsewhere, pod("a", "1", func(_ *Site, spec *corev1.PodSpec) { pinTo(spec, "nowhere") })),
	}},
	{Name: "a cordon", Steps: []PlacementStep{
		then("a is Unschedulable: "+elsewhere+", node(s) were unschedulable", cordon(0, true), pod("a", "1", pin(0))),
		then("a is on 0", cordon(0, false)),
	}},
	{Name: "a taint", Steps: []PlacementStep{
		then("a is Unschedulable: "+elsewhere+", node(s) had untolerated taint(s); b is on 0", taint(corev1.TaintEffectNoSchedule),
			pod("a", "1", pin(0)), pod("b", "1", tolerant(0, -1))),
		then("a is on 0; b is on 0", taint("")),
	}},
	{Name: "a taint that ends pods", Steps: []PlacementStep{
		then("a is on 0; b is on 0; c is on 0", held(pod("a", "1", pin(0)), "a"), held(pod("b", "1", tolerant(0, 3)), "b"), pod("c", "1", tolerant(0, -1))),
		then("a is on 0, is deleted for DeletionByTaintManager; b is on 0, is deleted for DeletionByTaintManager; c is on 0", taint(corev1.TaintEffectNoExecute)),
		then("c is on 0", letGo("a"), letGo("b"), taint("")),
	}},
	{Name: "pods of a node that does not exist", Steps: []PlacementStep{
		then("a is on -1, is deleted for DeletionByPodGC", held(pod("a", "1", func(_ *Site, spec *corev1.PodSpec) { spec.NodeName = "nowhere" }), "a")),
		then("", letGo("a")),
	}},
}
