// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/scaleup"
)

// Autoscaler makes nodes for ProvisioningRequests and CapacityBuffers, as the Cluster Autoscaler and Karpenter do: some time
// after it was asked, one after the other, at most so many as it may. It removes nodes of its own that nobody has used
// for a while. It looks at each request as if there were no other.
type Autoscaler struct {
	cluster *Cluster
	node    func(i int) *corev1.Node
	most    int
	delay   [2]time.Duration
	refuses bool
	made    int
	asked   map[types.UID]time.Time // when it acts on a request next
	idle    map[string]time.Time    // since when a node of its own is empty
	due     time.Time
}

// madeLabel is on the nodes that the autoscaler has made.
const madeLabel = "models/made"

// emptyFor is how long a node stays that nobody uses.
const emptyFor = 10 * time.Minute

// NewAutoscaler makes an autoscaler that has at most some nodes of its own. A node comes within `delay`.
func NewAutoscaler(c *Cluster, node func(i int) *corev1.Node, most int, delay [2]time.Duration) *Autoscaler {
	return &Autoscaler{cluster: c, node: node, most: most, delay: delay, asked: map[types.UID]time.Time{}, idle: map[string]time.Time{}}
}

// ScaleUpDefinitions are the definitions of what autoscalers are asked by, which keep all fields.
func ScaleUpDefinitions() []byte {
	var out []byte
	for _, provider := range []v1alpha2.ScaleUpProvider{v1alpha2.ProvideByRequest, v1alpha2.ProvideByBuffer} {
		r := scaleup.Resources[provider]
		out = fmt.Appendf(out, `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[1]s.%[2]s
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %[3]s, listKind: %[3]sList, plural: %[1]s, singular: %[4]s}
  versions:
  - name: %[5]s
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, r.Name, scaleup.Group, provider, strings.ToLower(string(provider)), r.Versions[0])
	}
	return out
}

// Name is the name of the model.
func (a *Autoscaler) Name() string { return "autoscaler" }

// Refuse lets it refuse ProvisioningRequests that need more nodes, and make no nodes, or go on.
func (a *Autoscaler) Refuse(refuses bool) { a.refuses = refuses }

// Next is when the next node comes, or goes.
func (a *Autoscaler) Next() time.Time { return a.due }

// Step makes a node, removes one, or answers a request.
func (a *Autoscaler) Step(ctx context.Context) bool {
	a.due = time.Time{}
	requests := a.requests(ctx)
	for _, request := range requests {
		if a.serve(ctx, request) {
			return true
		}
	}
	return len(requests) == 0 && a.shrink(ctx)
}

// requests are all that it was asked, in the order of their names.
func (a *Autoscaler) requests(ctx context.Context) []*scaleup.Request {
	var out []*scaleup.Request
	for _, provider := range []v1alpha2.ScaleUpProvider{v1alpha2.ProvideByRequest, v1alpha2.ProvideByBuffer} {
		kind := scaleup.Kind(provider, scaleup.Resources[provider].Versions[0])
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := a.cluster.Client.List(ctx, list); err != nil {
			continue // the API server does not have this kind
		}
		for i := range list.Items {
			if request, err := scaleup.Read(&list.Items[i]); err == nil && request.DeletionTimestamp == nil {
				out = append(out, request)
			}
		}
	}
	return out
}

// serve does the next thing for a request; false if there is nothing to do now.
func (a *Autoscaler) serve(ctx context.Context, request *scaleup.Request) bool {
	accepted, _ := conditionsOf(request)
	if is(request, "Failed") || is(request, "CapacityRevoked") || !isBuffer(request) && is(request, "Provisioned") {
		return false
	}
	if at, known := a.asked[request.UID]; !known {
		a.asked[request.UID] = time.Now().Add(a.cluster.between(a.delay[0], a.delay[1]))
	} else if at.After(time.Now()) && is(request, accepted) {
		a.due = soonest(a.due, at)
		return false
	}
	if c := meta.FindStatusCondition(request.Status.Conditions, accepted); c == nil || c.ObservedGeneration < request.Generation {
		return a.tell(ctx, request, accepted, true, "")
	}
	lacks, known := a.lacks(ctx, request)
	return known && a.provide(ctx, request, lacks)
}

// provide makes a node if there is no room for some pods, and says how far it has come.
func (a *Autoscaler) provide(ctx context.Context, request *scaleup.Request, lacks int64) bool {
	_, provisioned := conditionsOf(request)
	switch {
	case lacks <= 0:
		return !is(request, provisioned) && a.tell(ctx, request, provisioned, true, "")
	case is(request, provisioned):
		return a.tell(ctx, request, provisioned, false, "The nodes are gone")
	case a.refuses && !isBuffer(request):
		return a.tell(ctx, request, "Failed", true, "No capacity")
	case a.refuses || a.own(ctx) >= a.most:
		return false
	}
	a.asked[request.UID] = time.Now().Add(a.cluster.between(a.delay[0], a.delay[1]))
	return a.make(ctx)
}

func isBuffer(request *scaleup.Request) bool { return request.Kind == string(v1alpha2.ProvideByBuffer) }

// conditionsOf are the conditions that say that a request is understood, and that its nodes are there.
func conditionsOf(request *scaleup.Request) (accepted, provisioned string) {
	if isBuffer(request) {
		return "ReadyForProvisioning", "Provisioning"
	}
	return "Accepted", "Provisioned"
}

func is(request *scaleup.Request, kind string) bool {
	return meta.IsStatusConditionTrue(request.Status.Conditions, kind)
}

// lacks is how many pods of a request have no room; false if its template is not there.
func (a *Autoscaler) lacks(ctx context.Context, request *scaleup.Request) (lacks int64, known bool) {
	name, pods := ptr.Deref(request.Spec.PodTemplateRef, scaleup.Reference{}).Name, ptr.Deref(request.Spec.Replicas, 0)
	if len(request.Spec.PodSets) > 0 {
		name, pods = request.Spec.PodSets[0].PodTemplateRef.Name, request.Spec.PodSets[0].Count
	}
	var template corev1.PodTemplate
	if err := a.cluster.Client.Get(ctx, types.NamespacedName{Namespace: request.Namespace, Name: name}, &template); err != nil {
		return 0, false
	}
	pod := &corev1.Pod{ObjectMeta: template.Template.ObjectMeta, Spec: template.Template.Spec}
	required, used := nodeaffinity.GetRequiredNodeAffinity(pod), usedOn(a.cluster.Pods(ctx))
	lacks = int64(pods)
	for _, node := range a.cluster.Nodes(ctx) {
		matches, _ := required.Match(node)
		if !matches || node.Spec.Unschedulable || nodeReady(node).Status != corev1.ConditionTrue ||
			untolerated(pod, node, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute) != nil {
			continue
		}
		lacks -= roomFor(pod, node, used[node.Name])
	}
	return lacks, true
}

// roomFor is for how many pods a node has room; for one at most if each of them wants another node.
func roomFor(pod *corev1.Pod, node *corev1.Node, used usage) int64 {
	most := node.Status.Allocatable.Pods().Value() - used.pods
	for name, request := range requestsOf(pod) {
		if request.IsZero() {
			continue
		}
		has, taken := node.Status.Allocatable[name], used.requests[name]
		free := has.AsApproximateFloat64() - taken.AsApproximateFloat64()
		most = min(most, int64(math.Floor(free/request.AsApproximateFloat64()+1e-9)))
	}
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.PodAntiAffinity != nil {
		apart := slices.ContainsFunc(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(t corev1.PodAffinityTerm) bool {
			selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
			return err == nil && t.TopologyKey == corev1.LabelHostname && selector.Matches(labels.Set(pod.Labels))
		})
		if apart {
			most = min(most, 1)
		}
	}
	return max(most, 0)
}

// own is how many nodes of its own there are.
func (a *Autoscaler) own(ctx context.Context) int {
	n := 0
	for _, node := range a.cluster.Nodes(ctx) {
		if node.Labels[madeLabel] != "" {
			n++
		}
	}
	return n
}

// make makes a node. Its kubelet makes it ready.
func (a *Autoscaler) make(ctx context.Context) bool {
	node := a.node(a.made)
	a.made++
	metav1.SetMetaDataLabel(&node.ObjectMeta, madeLabel, "true")
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady"}}
	_ = a.cluster.Client.Create(ctx, node) // another one is made after the delay
	return true
}

// shrink removes a node of its own that has been empty for a while.
func (a *Autoscaler) shrink(ctx context.Context) bool {
	used, now := usedOn(a.cluster.Pods(ctx)), time.Now()
	for _, node := range a.cluster.Nodes(ctx) {
		if node.Labels[madeLabel] == "" || used[node.Name].pods > 0 {
			delete(a.idle, node.Name)
			continue
		}
		if a.idle[node.Name].IsZero() {
			a.idle[node.Name] = now
		}
		if at := a.idle[node.Name].Add(emptyFor); at.After(now) {
			a.due = soonest(a.due, at)
			continue
		}
		delete(a.idle, node.Name)
		_ = a.cluster.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}) // it is empty still
		return true
	}
	return false
}

// tell sets a condition of a request.
func (a *Autoscaler) tell(ctx context.Context, request *scaleup.Request, kind string, value bool, message string) bool {
	condition := metav1.Condition{
		Type: kind, Status: metav1.ConditionTrue, Reason: kind, Message: message, ObservedGeneration: request.Generation,
		LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
	}
	if !value {
		condition.Status = metav1.ConditionFalse
	}
	meta.SetStatusCondition(&request.Status.Conditions, condition)
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&request.Status)
	if err != nil {
		return false
	}
	object, err := request.Unstructured()
	if err != nil {
		return false
	}
	object.Object["status"] = status
	_ = a.cluster.Client.Status().Update(ctx, object) // it is told again, also after a conflict
	return true
}

// Revoke takes the capacity of a ProvisioningRequest back.
func (a *Autoscaler) Revoke(ctx context.Context, request types.NamespacedName) {
	for _, r := range a.requests(ctx) {
		if (types.NamespacedName{Namespace: r.Namespace, Name: r.Name}) == request && r.Kind == string(v1alpha2.ProvideByRequest) {
			a.tell(ctx, r, "CapacityRevoked", true, "The nodes were needed elsewhere")
		}
	}
}
