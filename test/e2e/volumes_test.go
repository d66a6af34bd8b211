// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// A volume is in one zone of the site. All ranks go to that zone, a gang larger than the zone never fits,
// and a gang whose claim is missing waits for the claim.
func TestVolumesRestrictNodes(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	zone, near := s.namespace+"-b", s.nodes[2:]
	for i, name := range s.nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.patch(node, `{"metadata":{"labels":{%q:%q}}}`, corev1.LabelTopologyZone, s.namespace+[]string{"-a", "-b"}[i/2])
		t.Cleanup(func() { s.patch(node, `{"metadata":{"labels":{%q:null}}}`, corev1.LabelTopologyZone) })
	}
	mounts := func(s *v1alpha2.MiniClusterSpec) {
		s.Containers[0].Volumes = map[string]v1alpha2.ContainerVolume{"data": {ClaimName: "data", Path: "/data"}}
	}
	fits := s.create(s.miniCluster("fits").Size(2).Spec(mounts))
	waits := func(mc *v1alpha2.MiniCluster, reason, message string) {
		t.Helper()
		s.await(mc, "waiting: "+message, func(mc *v1alpha2.MiniCluster) bool {
			c := condition(mc, v1alpha2.ConditionAdmitted)
			return c.Reason == reason && strings.Contains(c.Message, message)
		})
	}
	waits(fits, v1alpha2.ReasonWaitingForVolume, "There is no PersistentVolumeClaim data")
	s.createVolumeOf("data", &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
	}}}})
	s.await(fits, "admitted", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Admission != nil })
	nodes := s.nodesOf(fits)
	slices.Sort(nodes)
	if !slices.Equal(nodes, near) {
		t.Errorf("it was admitted on %v, and the volume is on %v", nodes, near)
	}
	s.awaitSuccess(fits)
	large := s.create(s.miniCluster("large").Size(3).Spec(mounts))
	waits(large, v1alpha2.ReasonNeverFits, "cannot reach volume "+s.namespace+" of claim data")
}
