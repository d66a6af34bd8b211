// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/test/world/apiserver"
	"github.com/flux-elastic/flux-elastic/test/world/models"
)

const (
	// localQueue is the LocalQueue of each namespace, and clusterQueue the ClusterQueue of all.
	localQueue   = "hpc"
	clusterQueue = "all"
)

// hasKueue reports whether there is a Kueue in the world.
func (w *World) hasKueue() bool { return w.Seed%5 == 2 }

// quota is how many CPUs the ClusterQueue has: those of all nodes, also of those that may come.
func (w *World) quota() int {
	if w.hasAutoscaler() {
		return (w.nodes + mostMade) * nodeCPUs
	}
	return w.nodes * nodeCPUs
}

// newKueueQueue is the queue of the MiniClusters with quota.
func newKueueQueue() *v1alpha2.MiniClusterQueue {
	queue := fixture.Queue(v1alpha2.KueueQueue).Ordering(v1alpha2.OrderFIFO).New()
	queue.Spec.Reclaimable = new(false)
	return queue
}

// installKueue makes Kueue, with a quota of all CPUs.
func (w *World) installKueue() []client.Object {
	must(w.server.InstallModule("sigs.k8s.io/kueue", "config/components/crd/bases"))
	w.kueue = models.NewKueue(&models.Cluster{
		Client: w.server.Client(apiserver.Admin), Random: rand.New(rand.NewPCG(w.Seed, 5)), Changed: w.server.Changed,
	})
	w.models = append(w.models, w.kueue)
	const all, check = clusterQueue, "placement"
	objects := []client.Object{
		&kueueapi.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: all}},
		&kueueapi.AdmissionCheck{ObjectMeta: metav1.ObjectMeta{Name: check}, Spec: kueueapi.AdmissionCheckSpec{ControllerName: v1alpha2.PlacementCheck}},
		&kueueapi.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: all}, Spec: kueueapi.ClusterQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{},
			Preemption:        &kueueapi.ClusterQueuePreemption{WithinClusterQueue: kueueapi.PreemptionPolicyLowerPriority},
			ResourceGroups: []kueueapi.ResourceGroup{{
				CoveredResources: []corev1.ResourceName{corev1.ResourceCPU},
				Flavors: []kueueapi.FlavorQuotas{{Name: all, Resources: []kueueapi.ResourceQuota{
					{Name: corev1.ResourceCPU, NominalQuota: *resource.NewQuantity(int64(w.quota()), resource.DecimalSI)},
				}}},
			}},
			AdmissionChecksStrategy: &kueueapi.AdmissionChecksStrategy{AdmissionChecks: []kueueapi.AdmissionCheckStrategyRule{{Name: check}}},
		}},
	}
	for _, namespace := range namespaces {
		objects = append(objects, newLocalQueue(namespace))
	}
	return objects
}

func newLocalQueue(namespace string) client.Object {
	return &kueueapi.LocalQueue{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: localQueue}, Spec: kueueapi.LocalQueueSpec{ClusterQueue: clusterQueue},
	}
}

// planKueue stops the ClusterQueue for a while, takes half of its quota for a while, or has a Workload preempted.
func (w *World) planKueue(r *rand.Rand, at time.Time) part {
	if !w.hasKueue() {
		return part{name: "nothing: there is no Kueue"}
	}
	n, how, lasts := r.IntN(1000), r.IntN(4), time.Duration(r.IntN(200))*time.Second
	forAWhile := func(what, begin, end string) part {
		return part{name: what, deeds: []deed{
			{at, what, func() { w.patchClusterQueue(begin) }},
			{at.Add(lasts), "the ClusterQueue is as before", func() { w.patchClusterQueue(end) }},
		}}
	}
	stop, quota := `{"op":"add","path":"/spec/stopPolicy","value":%q}`, `{"op":"replace","path":"/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota","value":"%d"}`
	switch how {
	case 0:
		return forAWhile(fmt.Sprintf("the ClusterQueue is held for %s", lasts), fmt.Sprintf(stop, kueueapi.Hold), fmt.Sprintf(stop, kueueapi.None))
	case 1:
		return forAWhile(fmt.Sprintf("the ClusterQueue is drained for %s", lasts), fmt.Sprintf(stop, kueueapi.HoldAndDrain), fmt.Sprintf(stop, kueueapi.None))
	case 2:
		all := w.quota()
		return forAWhile(fmt.Sprintf("the ClusterQueue has half of its quota for %s", lasts), fmt.Sprintf(quota, all/2), fmt.Sprintf(quota, all))
	}
	what := fmt.Sprintf("Workload %d is preempted", n)
	return part{name: what, deeds: []deed{{at, what, func() {
		var admitted []types.UID
		for _, object := range w.objects(&kueueapi.WorkloadList{}) {
			if workload := object.(*kueueapi.Workload); workload.Status.Admission != nil {
				admitted = append(admitted, workload.UID)
			}
		}
		if len(admitted) > 0 {
			w.kueue.Evict(admitted[n%len(admitted)], kueueapi.WorkloadEvictedByPreemption)
		}
	}}}}
}

func (w *World) patchClusterQueue(operation string) {
	queue := &kueueapi.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: clusterQueue}}
	must(w.user.Patch(w.ctx, queue, client.RawPatch(types.JSONPatchType, []byte("["+operation+"]"))))
}

// joinKueue gives a life its quota from Kueue, where there is one.
func joinKueue(w *World, _ *rand.Rand, l *life) {
	if w.hasKueue() {
		l.wrapper.Label(v1alpha2.KueueQueueLabel, localQueue)
	}
}
