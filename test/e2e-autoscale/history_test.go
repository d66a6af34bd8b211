// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2eautoscale

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/scaleup"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// moment is what was up to a resource version.
type moment struct {
	ready    map[string]bool               // nodes that have been ready without a taint that keeps pods off
	admitted map[types.UID]map[string]bool // the nodes that MiniClusters were given, at any time
	attempts map[types.UID]map[int32]bool  // that have been checked
	asked    map[string]map[types.UID]bool // the objects by which was asked, by their names and what they ask for
}

// broken returns what must never be, and was: a MiniCluster with nodes that have never been ready, or with fewer nodes than it can
// start with; a placed broker whose MiniCluster was not given the node; a request to an autoscaler that was made twice.
func (s *site) broken() ([]string, error) {
	events, err := s.of.history.Of(s.Namespace)
	if err != nil {
		return nil, err
	}
	m := moment{
		ready: map[string]bool{}, admitted: map[types.UID]map[string]bool{}, attempts: map[types.UID]map[int32]bool{},
		asked: map[string]map[types.UID]bool{},
	}
	var out []string
	for _, e := range events {
		for _, problem := range m.apply(e) {
			out = append(out, fmt.Sprintf("%T %s, version %d: %s", e.Object, e.Object.GetName(), e.Version, problem))
		}
	}
	return out, nil
}

func (m *moment) apply(e harness.Event) []string {
	switch object := e.Object.(type) {
	case *corev1.Node:
		if state.Down(object) == "" {
			m.ready[object.Name] = true
		}
	case *v1alpha2.MiniCluster:
		return m.applyMiniCluster(object)
	case *corev1.Pod:
		if _, isBroker := protocol.Rank(object); !isBroker {
			return nil
		}
		if node := protocol.PinnedNode(object); node != "" && !m.admitted[types.UID(object.Labels[v1alpha2.UIDLabel])][node] {
			return []string{"its MiniCluster was not given node " + node}
		}
	case *unstructured.Unstructured:
		if object.GroupVersionKind().Group != scaleup.Group {
			return nil
		}
		key := object.GetKind() + " " + object.GetName() + " " + object.GetLabels()[v1alpha2.ScaleUpLabel]
		if m.asked[key] == nil {
			m.asked[key] = map[types.UID]bool{}
		}
		if m.asked[key][object.GetUID()] = true; len(m.asked[key]) > 1 {
			return []string{"there was another one for " + key}
		}
	}
	return nil
}

func (m *moment) applyMiniCluster(mc *v1alpha2.MiniCluster) (out []string) {
	admission := mc.Status.Admission
	if admission == nil {
		return nil
	}
	nodes, err := state.Nodes(mc)
	if err != nil {
		return []string{err.Error()}
	}
	if m.attempts[mc.UID] == nil {
		m.attempts[mc.UID], m.admitted[mc.UID] = map[int32]bool{}, map[string]bool{}
	}
	for _, node := range nodes {
		if m.admitted[mc.UID][node] = true; !m.ready[node] {
			out = append(out, "it has node "+node+", which has never been ready")
		}
	}
	if !m.attempts[mc.UID][admission.Attempt] {
		m.attempts[mc.UID][admission.Attempt] = true
		if least := mc.Spec.LeastSize(); int32(len(nodes)) < least || admission.Size < least {
			out = append(out, fmt.Sprintf("it has %d nodes for %d brokers, and needs %d", len(nodes), admission.Size, least))
		}
	}
	return out
}
