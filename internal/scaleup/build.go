// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scaleup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// Name is the name of the objects that are made for a MiniCluster, one of each kind.
func Name(miniCluster string) string { return miniCluster + "-scale-up" }

// validUntil is the parameter by which ProvisioningRequests of the class of all or nothing end.
const validUntil = "ValidUntilSeconds"

// Annotations of pods that use what a ProvisioningRequest has provided.
const (
	consumesAnnotation = Group + "/consume-provisioning-request"
	classAnnotation    = Group + "/provisioning-class-name"
)

// Consumption are the annotations of the pods of a MiniCluster whose queue asks with ProvisioningRequests; nil for another
// queue, and for none.
func Consumption(miniCluster string, q *v1alpha2.MiniClusterQueue) map[string]string {
	if q == nil || q.Spec.ScaleUp == nil || q.Spec.ScaleUp.Provider != v1alpha2.ProvideByRequest {
		return nil
	}
	q = q.DeepCopy()
	q.Default()
	return map[string]string{consumesAnnotation: Name(miniCluster), classAnnotation: q.Spec.ScaleUp.Class}
}

// objectMeta is the metadata of an object, which goes with its MiniCluster.
func objectMeta(mc *v1alpha2.MiniCluster) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: mc.Namespace, Name: Name(mc.Name), Labels: map[string]string{v1alpha2.MiniClusterLabel: mc.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(mc, v1alpha2.GroupVersion.WithKind(v1alpha2.MiniClusterKind))},
	}
}

// template is the PodTemplate with the record of a new attempt.
func (w *Wish) template(mc *v1alpha2.MiniCluster, now time.Time) *corev1.PodTemplate {
	t := &corev1.PodTemplate{ObjectMeta: objectMeta(mc), Template: w.podTemplate(mc)}
	record := &Record{
		Attempt: w.Attempt, Pauses: w.Pauses, Size: w.Size, Apart: w.Apart, Asked: now.UTC().Truncate(time.Millisecond),
		Provider: w.Provider, Template: hashOf(t.Template),
	}
	t.Annotations = map[string]string{v1alpha2.ScaleUpAnnotation: record.text()}
	return t
}

// hashOf is a hash of a template.
func hashOf(template corev1.PodTemplateSpec) string {
	text, err := json.Marshal(template)
	if err != nil { // it never is
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// podTemplate is a template of pods that request what brokers do, and are where brokers can be. Nobody makes such a pod.
func (w *Wish) podTemplate(mc *v1alpha2.MiniCluster) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{}
	t.Labels = map[string]string{v1alpha2.MiniClusterLabel: mc.Name, v1alpha2.UIDLabel: string(mc.UID)}
	if mc.Spec.Placement.Exclusive {
		t.Labels[v1alpha2.ExclusiveLabel] = "true"
	}
	spec := &t.Spec
	from := &w.Pod.Spec
	spec.Containers = []corev1.Container{{Name: "broker", Image: from.Containers[0].Image, Resources: w.resources()}}
	spec.NodeSelector, spec.Tolerations, spec.RestartPolicy = maps.Clone(from.NodeSelector), slices.Clone(from.Tolerations), corev1.RestartPolicyNever
	for i := range from.Volumes {
		if from.Volumes[i].PersistentVolumeClaim != nil { // its nodes are those that reach the volume
			spec.Volumes = append(spec.Volumes, *from.Volumes[i].DeepCopy())
		}
	}
	spec.Affinity = w.affinity(mc)
	return t
}

// resources are what a broker requests in all. Resources of which a node cannot give more than it has need a limit.
func (w *Wish) resources() corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{Requests: state.PodRequests(w.Pod)}
	for name, amount := range out.Requests {
		if strings.Contains(string(name), "/") || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			if out.Limits == nil {
				out.Limits = corev1.ResourceList{}
			}
			out.Limits[name] = amount
		}
	}
	return out
}

// affinity confines the pods of a template to where the brokers can be, beside each other and beside other brokers.
func (w *Wish) affinity(mc *v1alpha2.MiniCluster) *corev1.Affinity {
	own := &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha2.UIDLabel: string(mc.UID)}}
	alone := corev1.PodAffinityTerm{ // a broker that has its node alone
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha2.ExclusiveLabel: "true"}}, NamespaceSelector: &metav1.LabelSelector{}, TopologyKey: corev1.LabelHostname,
	}
	apart := []corev1.PodAffinityTerm{alone}
	switch {
	case mc.Spec.Placement.Exclusive:
		apart[0].LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: v1alpha2.UIDLabel, Operator: metav1.LabelSelectorOpExists}}}
	case w.Apart:
		apart = append(apart, corev1.PodAffinityTerm{LabelSelector: own, TopologyKey: corev1.LabelHostname})
	}
	out := &corev1.Affinity{
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: apart},
		NodeAffinity:    w.nodeAffinity(),
	}
	if placement := &mc.Spec.Placement; placement.TopologyKey != "" && placement.Topology == v1alpha2.TopologyRequired {
		out.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: own, TopologyKey: placement.TopologyKey}}}
	}
	return out
}

// nodeAffinity is what the pods require, on nodes that brokers may use.
func (w *Wish) nodeAffinity() *corev1.NodeAffinity {
	var terms []corev1.NodeSelectorTerm
	if affinity := w.Pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil && affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms = affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.DeepCopy().NodeSelectorTerms
	}
	batch := requirements(w.Batch)
	if len(terms) == 0 && len(batch) > 0 {
		terms = []corev1.NodeSelectorTerm{{}}
	}
	if len(terms) == 0 {
		return nil
	}
	for i := range terms {
		terms[i].MatchExpressions = append(terms[i].MatchExpressions, batch...)
	}
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}
}

// operators are those of node affinities for those of selectors.
var operators = map[selection.Operator]corev1.NodeSelectorOperator{
	selection.Equals: corev1.NodeSelectorOpIn, selection.DoubleEquals: corev1.NodeSelectorOpIn, selection.In: corev1.NodeSelectorOpIn,
	selection.NotEquals: corev1.NodeSelectorOpNotIn, selection.NotIn: corev1.NodeSelectorOpNotIn,
	selection.Exists: corev1.NodeSelectorOpExists, selection.DoesNotExist: corev1.NodeSelectorOpDoesNotExist,
	selection.GreaterThan: corev1.NodeSelectorOpGt, selection.LessThan: corev1.NodeSelectorOpLt,
}

// requirements are those of a selector of nodes.
func requirements(selector labels.Selector) []corev1.NodeSelectorRequirement {
	if selector == nil {
		return nil
	}
	var out []corev1.NodeSelectorRequirement
	all, _ := selector.Requirements()
	for _, r := range all {
		out = append(out, corev1.NodeSelectorRequirement{Key: r.Key(), Operator: operators[r.Operator()], Values: slices.Sorted(maps.Keys(r.Values()))})
	}
	return out
}

// request is the object by which the autoscaler is asked for what a record says: for all pods of the gang, because the
// autoscaler knows the free nodes that they can use, too.
func (w *Wish) request(mc *v1alpha2.MiniCluster, record *Record) *Request {
	r := &Request{ObjectMeta: objectMeta(mc)}
	r.SetGroupVersionKind(Kind(w.Provider, w.Version))
	r.Labels[v1alpha2.ScaleUpLabel] = record.ID()
	template := Reference{Name(mc.Name)}
	if w.Provider == v1alpha2.ProvideByBuffer {
		r.Spec.PodTemplateRef, r.Spec.Replicas = &template, ptr.To(int32(record.Size))
		return r
	}
	r.Spec.Class, r.Spec.PodSets, r.Spec.Parameters = w.Class, []PodSet{{template, int32(record.Size)}}, maps.Clone(w.Parameters)
	if w.Class == v1alpha2.DefaultProvisioningClass && r.Spec.Parameters[validUntil] == "" {
		if r.Spec.Parameters == nil {
			r.Spec.Parameters = map[string]string{}
		}
		r.Spec.Parameters[validUntil] = strconv.Itoa(int(w.Timeout / time.Second))
	}
	return r
}
