// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// site is a part of a cluster that a test has for itself: a namespace, and nodes with a
// ResourceFlavor. Kueue's cluster-scoped objects of the site have the namespace before their names.
type site struct {
	*harness.Site
	history *harness.History
	made    []client.Object // cluster-scoped, in the order of creation
}

// newSite takes nodes of the shared cluster.
func newSite(t *testing.T, nodes int) *site {
	t.Helper()
	return env.cluster.newSite(t, nodes)
}

// newSite takes nodes for a test. They are given back, and what the test made is removed, when the
// test ends.
func (c *cluster) newSite(t *testing.T, nodes int) *site {
	t.Helper()
	s := &site{Site: c.NewSite(t, nodes), history: c.history}
	t.Cleanup(s.close)
	s.makeFlavor()
	return s
}

// makeFlavor makes the ResourceFlavor of the site's nodes.
func (s *site) makeFlavor() {
	s.T.Helper()
	flavor := &kueueapi.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	flavor.Spec.NodeLabels = map[string]string{harness.SiteLabel: s.Namespace}
	s.make(flavor)
}

func (s *site) close() {
	if s.T.Failed() {
		s.Describe("mc,workloads,localqueues,jobsets,jobs,pods,events")
	}
	s.Clear()
	for _, kind := range []client.Object{&kueueapi.Workload{}, &kueueapi.LocalQueue{}} {
		if err := s.Cluster.Client.DeleteAllOf(s.Ctx, kind, client.InNamespace(s.Namespace)); err != nil {
			s.T.Error(err)
		}
	}
	s.CheckHistory(s.broken)
	for i := len(s.made) - 1; i >= 0; i-- {
		if err := client.IgnoreNotFound(s.Cluster.Client.Delete(s.Ctx, s.made[i])); err != nil {
			s.T.Error(err)
		}
	}
	s.Close()
}

// make creates a cluster-scoped object, which is deleted when the test ends.
func (s *site) make(object client.Object) {
	s.T.Helper()
	s.Create(object)
	s.made = append(s.made, object)
}

// name returns the name of a cluster-scoped object of the site.
func (s *site) name(name string) string { return s.Namespace + "-" + name }

// newPools makes the flavors "one", of the first of three nodes, and "rest", of the others.
func (s *site) newPools() {
	s.T.Helper()
	s.newFlavor("one", "pool", "one")
	s.newFlavor("rest", "pool", "rest")
	for i, name := range s.Nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Patch(node, `{"metadata":{"labels":{"pool":%q}}}`, []string{"one", "rest", "rest"}[i])
	}
}

// newFlavor makes a ResourceFlavor of nodes with a label.
func (s *site) newFlavor(name, label, value string) {
	s.T.Helper()
	flavor := &kueueapi.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: s.name(name)}}
	flavor.Spec.NodeLabels = map[string]string{harness.SiteLabel: s.Namespace, label: value}
	s.make(flavor)
}

// newCohort makes a Cohort. ClusterQueues join it by inCohort.
func (s *site) newCohort(name string) {
	s.T.Helper()
	s.make(&kueueapi.Cohort{ObjectMeta: metav1.ObjectMeta{Name: s.name(name)}})
}

// newCheck makes an AdmissionCheck of a controller. ClusterQueues use the check by withCheck.
func (s *site) newCheck(name, controller string) *kueueapi.AdmissionCheck {
	s.T.Helper()
	check := &kueueapi.AdmissionCheck{ObjectMeta: metav1.ObjectMeta{Name: s.name(name)}, Spec: kueueapi.AdmissionCheckSpec{ControllerName: controller}}
	s.make(check)
	return check
}

// newPriority makes a WorkloadPriorityClass, and returns its name.
func (s *site) newPriority(name string, value int32) string {
	s.T.Helper()
	s.make(&kueueapi.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: s.name(name)}, Value: value})
	return s.name(name)
}

// option is a part of a ClusterQueue.
type option func(*site, *kueueapi.ClusterQueueSpec)

func inCohort(name string) option {
	return func(s *site, spec *kueueapi.ClusterQueueSpec) {
		spec.CohortName = kueueapi.CohortReference(s.name(name))
	}
}

func withCheck(name string) option {
	return func(s *site, spec *kueueapi.ClusterQueueSpec) {
		rule := kueueapi.AdmissionCheckStrategyRule{Name: kueueapi.AdmissionCheckReference(s.name(name))}
		if spec.AdmissionChecksStrategy == nil {
			spec.AdmissionChecksStrategy = &kueueapi.AdmissionChecksStrategy{}
		}
		spec.AdmissionChecksStrategy.AdmissionChecks = append(spec.AdmissionChecksStrategy.AdmissionChecks, rule)
	}
}

// withFlavor adds CPUs of another flavor, which Kueue tries after the flavors before.
func withFlavor(name string, cpus int) option {
	return func(s *site, spec *kueueapi.ClusterQueueSpec) {
		group := &spec.ResourceGroups[0]
		group.Flavors = append(group.Flavors, quota(s.name(name), cpus))
	}
}

// preempting lets a ClusterQueue preempt Workloads of lower priority.
func preempting(_ *site, spec *kueueapi.ClusterQueueSpec) {
	spec.Preemption = &kueueapi.ClusterQueuePreemption{WithinClusterQueue: kueueapi.PreemptionPolicyLowerPriority}
}

// reclaiming lets a ClusterQueue take its quota back that its cohort has borrowed.
func reclaiming(_ *site, spec *kueueapi.ClusterQueueSpec) {
	spec.Preemption = &kueueapi.ClusterQueuePreemption{ReclaimWithinCohort: kueueapi.PreemptionPolicyAny}
}

// withPlacement makes an AdmissionCheck that flux-elastic answers, and lets a ClusterQueue use it.
func (s *site) withPlacement() option {
	s.T.Helper()
	s.newCheck("placement", v1alpha2.PlacementCheck)
	return withCheck("placement")
}

func quota(flavor string, cpus int) kueueapi.FlavorQuotas {
	return kueueapi.FlavorQuotas{
		Name:      kueueapi.ResourceFlavorReference(flavor),
		Resources: []kueueapi.ResourceQuota{{Name: corev1.ResourceCPU, NominalQuota: *resource.NewQuantity(int64(cpus), resource.DecimalSI)}},
	}
}

// clusterQueue returns a ClusterQueue with a number of CPUs of the site's nodes.
func (s *site) clusterQueue(name string, cpus int, options ...option) *kueueapi.ClusterQueue {
	queue := &kueueapi.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: s.name(name)}}
	queue.Spec.NamespaceSelector = &metav1.LabelSelector{}
	queue.Spec.ResourceGroups = []kueueapi.ResourceGroup{{
		CoveredResources: []corev1.ResourceName{corev1.ResourceCPU}, Flavors: []kueueapi.FlavorQuotas{quota(s.Namespace, cpus)},
	}}
	for _, apply := range options {
		apply(s, &queue.Spec)
	}
	return queue
}

// newQueue makes a ClusterQueue with a number of CPUs of the site's nodes, and a LocalQueue with the
// given name. It waits until the ClusterQueue is active.
func (s *site) newQueue(name string, cpus int, options ...option) *kueueapi.ClusterQueue {
	s.T.Helper()
	queue := s.clusterQueue(name, cpus, options...)
	s.make(queue)
	local := &kueueapi.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	local.Spec.ClusterQueue = kueueapi.ClusterQueueReference(queue.Name)
	s.Create(local)
	harness.Eventually(s.T, func() error {
		if err := s.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(queue), queue); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(queue.Status.Conditions, kueueapi.ClusterQueueActive) {
			return fmt.Errorf("ClusterQueue %s is not active: %+v", queue.Name, queue.Status.Conditions)
		}
		return nil
	})
	return queue
}

// podSet returns a podSet whose pods take a number of CPUs.
func podSet(name string, count int32, cpus string) kueueapi.PodSet {
	set := kueueapi.PodSet{Name: kueueapi.PodSetReference(name), Count: count}
	set.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
		Name: "app", Image: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}},
	}}}
	return set
}

// workload returns a Workload without a job behind it.
func (s *site) workload(name, queue string, podSets ...kueueapi.PodSet) *kueueapi.Workload {
	workload := &kueueapi.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	workload.Spec.QueueName, workload.Spec.PodSets = kueueapi.LocalQueueName(queue), podSets
	return workload
}

// newWorkload makes a Workload without a job behind it.
func (s *site) newWorkload(name, queue string, podSets ...kueueapi.PodSet) *kueueapi.Workload {
	s.T.Helper()
	workload := s.workload(name, queue, podSets...)
	s.Create(workload)
	return workload
}

// newUrgent makes a Workload of a WorkloadPriorityClass, without a job behind it.
func (s *site) newUrgent(name, queue, class string, podSets ...kueueapi.PodSet) *kueueapi.Workload {
	s.T.Helper()
	workload := s.workload(name, queue, podSets...)
	workload.Spec.PriorityClassRef, workload.Spec.Priority = kueueapi.NewWorkloadPriorityClassRef(class), new(int32(100))
	s.Create(workload)
	return workload
}

// workloads returns the Workloads of a MiniCluster, by name: the first one, and those of its growth.
func (s *site) workloads(mc *v1alpha2.MiniCluster) ([]kueueapi.Workload, error) {
	var list kueueapi.WorkloadList
	if err := s.Cluster.Client.List(s.Ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(wl kueueapi.Workload) bool { return !metav1.IsControlledBy(&wl, mc) }), nil
}

// workloadOf waits for the Workload of a MiniCluster.
func (s *site) workloadOf(mc *v1alpha2.MiniCluster) *kueueapi.Workload {
	s.T.Helper()
	var found *kueueapi.Workload
	harness.Eventually(s.T, func() error {
		workloads, err := s.workloads(mc)
		if err == nil && len(workloads) == 0 {
			err = fmt.Errorf("%s has no Workload", mc.Name)
		}
		if err == nil {
			found = &workloads[0]
		}
		return err
	})
	return found
}

// awaitWorkload waits until a Workload is as the test expects.
func (s *site) awaitWorkload(workload *kueueapi.Workload, what string, holds func(*kueueapi.Workload) bool) {
	s.T.Helper()
	harness.Eventually(s.T, func() error {
		if err := s.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(workload), workload); err != nil {
			return harness.Final(fmt.Errorf("waiting until Workload %s is %s: %w", workload.Name, what, err))
		}
		if !holds(workload) {
			wrong := fmt.Errorf("Workload %s is not %s", workload.Name, what)
			for _, c := range workload.Status.Conditions {
				wrong = errors.Join(wrong, fmt.Errorf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
			}
			return wrong
		}
		return nil
	})
}

// awaitInactive waits until a Workload has neither quota nor a place in its queue.
func (s *site) awaitInactive(workload *kueueapi.Workload) {
	s.T.Helper()
	s.awaitWorkload(workload, "inactive, without quota", func(wl *kueueapi.Workload) bool { return !*wl.Spec.Active && wl.Status.Admission == nil })
}

// awaitCondition waits until a Workload has a condition with a status, and returns the condition.
func (s *site) awaitCondition(workload *kueueapi.Workload, kind string, status metav1.ConditionStatus) metav1.Condition {
	s.T.Helper()
	s.awaitWorkload(workload, kind+"="+string(status), func(workload *kueueapi.Workload) bool {
		return meta.IsStatusConditionPresentAndEqual(workload.Status.Conditions, kind, status)
	})
	return *meta.FindStatusCondition(workload.Status.Conditions, kind)
}

// setStatus changes the status of an object.
func (s *site) setStatus(object client.Object, change func()) {
	s.T.Helper()
	harness.Eventually(s.T, func() error {
		if err := s.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return harness.Final(err)
		}
		change()
		return s.Cluster.Client.Status().Update(s.Ctx, object)
	})
}

// untilTold is how long a command runs that a test ends by endCommand.
const untilTold = "1h"

// miniCluster begins a MiniCluster whose pods take whole nodes of the site, and whose command runs
// until the test ends it.
func (s *site) miniCluster(name string) *fixture.MiniClusterWrapper {
	return fixture.MiniCluster(name).PodAnnotation(simulator.Runtime, untilTold).CPU("8").Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Pod.NodeSelector = map[string]string{harness.SiteLabel: s.Namespace}
	})
}

// create creates a MiniCluster in a LocalQueue of the site; with "", in none.
func (s *site) create(w *fixture.MiniClusterWrapper, queue string) *v1alpha2.MiniCluster {
	s.T.Helper()
	mc := w.New()
	mc.Namespace = s.Namespace
	if queue != "" {
		mc.Labels = map[string]string{v1alpha2.KueueQueueLabel: queue}
	}
	s.Create(mc)
	return mc
}

// succeed ends commands that run until the test ends them, and waits until the MiniClusters hold
// neither nodes nor quota.
func (s *site) succeed(mcs ...*v1alpha2.MiniCluster) {
	s.T.Helper()
	for _, mc := range mcs {
		s.endCommand(mc)
		s.AwaitSuccess(mc)
		if mc.Labels[v1alpha2.KueueQueueLabel] != "" {
			s.awaitCondition(s.workloadOf(mc), kueueapi.WorkloadFinished, metav1.ConditionTrue)
		}
	}
}

// endCommand ends a command that runs until the test ends it.
func (s *site) endCommand(mc *v1alpha2.MiniCluster) {
	s.T.Helper()
	s.Tell(mc, 0, simulator.Runtime, "0s")
}
