// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// brokers are the pods that are on nodes, in the order of their names.
func (w *World) brokers() []*corev1.Pod {
	var out []*corev1.Pod
	for _, object := range w.objects(&corev1.PodList{}) {
		if pod := object.(*corev1.Pod); pod.Spec.NodeName != "" {
			out = append(out, pod)
		}
	}
	return out
}

// onPod does something to the n-th pod that is on a node.
func (w *World) onPod(n int, do func(pod *corev1.Pod)) {
	if pods := w.brokers(); len(pods) > 0 {
		pod := pods[n%len(pods)]
		w.trace("  " + pod.Name)
		do(pod)
	}
}

// planPodFault makes up what befalls one pod.
func (w *World) planPodFault(r *rand.Rand, at time.Time) part {
	n := r.IntN(1000)
	var what string
	var do func(pod *corev1.Pod)
	switch r.IntN(3) {
	case 0:
		what = "is evicted by its kubelet"
		do = func(pod *corev1.Pod) { w.kubelets.Evict(pod.UID, "The node was low on resource: memory.") }
	case 1:
		what = "has no memory left"
		do = func(pod *corev1.Pod) { w.kubelets.OOM(pod.UID, pod.Spec.Containers[0].Name) }
	case 2:
		what = "is evicted by a drain"
		do = func(pod *corev1.Pod) {
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
			w.mayRefuse(pod.Name, w.user.SubResource("eviction").Create(w.ctx, pod, eviction))
		}
	}
	what = fmt.Sprintf("pod %d %s", n, what)
	return part{name: what, deeds: []deed{{at, what, func() { w.onPod(n, do) }}}}
}

// planStartFault keeps containers from starting on a node for a while.
func (w *World) planStartFault(r *rand.Rand, at time.Time) part {
	reasons := []string{"ErrImagePull", "CreateContainerError", "RunContainerError", "StartError"}
	node, reason, lasts := nodeName(r.IntN(w.nodes)), reasons[r.IntN(len(reasons))], time.Duration(r.IntN(180))*time.Second
	what := fmt.Sprintf("no container starts on %s for %s: %s", node, lasts, reason)
	end := func() {}
	return part{name: what, deeds: []deed{
		{at, what, func() { end = w.kubelets.FailStart(node, "", "", reason, -1) }},
		{at.Add(lasts), "containers start on " + node, func() { end() }},
	}}
}

// planNodeDeletion deletes a node, and makes one of its name some time later. Its pods are deleted by force.
func (w *World) planNodeDeletion(r *rand.Rand, at time.Time) part {
	i, lasts := r.IntN(w.nodes), time.Duration(20+r.IntN(120))*time.Second
	what := fmt.Sprintf("%s is deleted for %s", nodeName(i), lasts)
	return part{name: what, deeds: []deed{
		{at, what, func() {
			w.loseSight(nodeName(i))
			w.kubelets.PowerOff(nodeName(i))
			must(w.user.Delete(w.ctx, newNode(i)))
		}},
		{at.Add(lasts), nodeName(i) + " is made again", func() {
			must(w.user.Create(w.ctx, newNode(i)))
			w.giveBack(nodeName(i))
		}},
	}}
}

// planOutOfService takes the power of a node, and says so with the taint by which Kubernetes removes its pods.
func (w *World) planOutOfService(r *rand.Rand, at time.Time) part {
	node, lasts := nodeName(r.IntN(w.nodes)), time.Duration(60+r.IntN(120))*time.Second
	taint := corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}
	what := fmt.Sprintf("%s has no power for %s", node, lasts)
	return part{name: what + ", and is out of service", deeds: []deed{
		{at, what, func() {
			w.loseSight(node)
			w.kubelets.PowerOff(node)
		}},
		{at.Add(lasts / 2), node + " is out of service", func() {
			w.changeTaints(node, func(taints []corev1.Taint) []corev1.Taint { return append(taints, taint) })
		}},
		{at.Add(lasts), node + " is back", func() {
			w.changeTaints(node, func(taints []corev1.Taint) []corev1.Taint {
				return slices.DeleteFunc(taints, func(t corev1.Taint) bool { return t.Key == taint.Key })
			})
			w.giveBack(node)
		}},
	}}
}

// changeTaints changes the taints of a node, unless the node is not there.
func (w *World) changeTaints(name string, change func([]corev1.Taint) []corev1.Taint) {
	node := &corev1.Node{}
	if w.user.Get(w.ctx, types.NamespacedName{Name: name}, node) != nil {
		return
	}
	node.Spec.Taints = change(node.Spec.Taints)
	must(w.user.Update(w.ctx, node))
}

// planQuota limits a namespace for a while.
func (w *World) planQuota(r *rand.Rand, at time.Time) part {
	namespace, pods, lasts := namespaces[r.IntN(len(namespaces))], 1+r.IntN(10), time.Duration(r.IntN(200))*time.Second
	name := fmt.Sprintf("quota-%d", r.IntN(1000))
	what := fmt.Sprintf("%s may have %d pods for %s", namespace, pods, lasts)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(pods), resource.DecimalSI)}
	return part{name: what, deeds: []deed{
		{at, what, func() {
			w.mayRefuse(name, w.user.Create(w.ctx, quota.DeepCopy()))
		}},
		{at.Add(lasts), namespace + " may have more pods", func() {
			must(w.user.Delete(w.ctx, quota.DeepCopy()))
		}},
	}}
}

// planNamespace deletes a namespace with all that is in it. Once the namespace is gone, it is made again.
func (w *World) planNamespace(r *rand.Rand, at time.Time) part {
	name := namespaces[r.IntN(len(namespaces))]
	what := fmt.Sprintf("namespace %s is deleted", name)
	return part{name: what, deeds: []deed{{at, what, func() {
		must(w.user.Delete(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		w.makeNamespaceAgain(name)
	}}}}
}

// makeNamespaceAgain waits until a namespace is gone. Its users keep nothing in it any more.
func (w *World) makeNamespaceAgain(name string) {
	w.later(10*time.Second, "make namespace "+name+" again", func() {
		for _, object := range w.objects(&v1alpha2.MiniClusterList{}, client.InNamespace(name)) {
			if isKeptByUser(object.(*v1alpha2.MiniCluster)) {
				w.dropFinalizers(object)
			}
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		switch err := w.user.Create(w.ctx, namespace); {
		case apierrors.IsAlreadyExists(err):
			must(w.user.Get(w.ctx, client.ObjectKeyFromObject(namespace), namespace))
			if namespace.DeletionTimestamp != nil { // otherwise it was made again after an earlier deletion
				w.makeNamespaceAgain(name)
			}
		case err != nil:
			panic(err)
		case w.hasKueue():
			must(w.user.Create(w.ctx, newLocalQueue(name)))
		}
	})
}
