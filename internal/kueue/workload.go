// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// The pod sets of a Workload. Kueue may admit fewer workers, and never fewer leads.
const (
	lead    kueueapi.PodSetReference = "lead"
	workers kueueapi.PodSetReference = "workers"
)

const (
	// group is the name of the group of the pod sets.
	group = "minicluster"
	// jobUIDLabel is Kueue's label for the UID of the object behind a Workload.
	jobUIDLabel = "kueue.x-k8s.io/job-uid"
	// shapeAnnotation is on a Workload. The value is a hash of what cannot be changed in it.
	shapeAnnotation = v1alpha2.Group + "/shape"
	// suspendedAnnotation is on a Workload that was deactivated because its MiniCluster is suspended.
	suspendedAnnotation = v1alpha2.Group + "/suspended"
	// neverFitsAnnotation is on a Workload that was deactivated because the empty cluster could not hold the pods. The value
	// says why.
	neverFitsAnnotation = v1alpha2.Group + "/never-fits"
	// triesAnnotation is on a Workload whose pods the empty cluster could not hold at the last try. The value is how often it
	// had given quota back before the first try of which that is so.
	triesAnnotation = v1alpha2.Group + "/never-fits-since"
	// longestName is the largest number of bytes of a MiniCluster's name in a Workload's.
	longestName = 200
)

// Uses reports whether a MiniCluster gets its quota from Kueue: its admission says so, or the label
// while it has none.
func Uses(mc *v1alpha2.MiniCluster) bool {
	if mc.Status.Admission != nil {
		return mc.Status.Admission.Quota != nil
	}
	return mc.Labels[v1alpha2.KueueQueueLabel] != ""
}

// Name is the name of the Workload of a MiniCluster.
func Name(mc *v1alpha2.MiniCluster) string {
	sum := sha256.Sum256([]byte(mc.UID))
	return "minicluster-" + mc.Name[:min(len(mc.Name), longestName)] + "-" + hex.EncodeToString(sum[:])[:5]
}

// Workload asks for quota for a MiniCluster, with its defaults. pod is one of its pods after
// admission by the API server, so that Kueue counts what the pods will request. class is the
// WorkloadPriorityClass that the MiniCluster names; nil if it names none. topology is the
// TopologyRequest, and deadlines are those of the queue of all MiniClusters with quota.
func Workload(
	mc *v1alpha2.MiniCluster, pod *corev1.Pod, class *kueueapi.WorkloadPriorityClass, topology *kueueapi.PodSetTopologyRequest, deadlines elastic.Deadlines,
) *kueueapi.Workload {
	wl := newWorkload(mc, Name(mc))
	wl.Spec.PodSets = podSets(mc, pod, topology)
	wl.Spec.MaximumExecutionTimeSeconds = longestExecution(mc, state.Limit(mc, deadlines))
	setPriority(&wl.Spec, pod, class)
	wl.Annotations = map[string]string{shapeAnnotation: shape(&wl.Spec)}
	return wl
}

// newWorkload returns a Workload of a MiniCluster, without pod sets.
func newWorkload(mc *v1alpha2.MiniCluster, name string) *kueueapi.Workload {
	return &kueueapi.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: mc.Namespace, Name: name,
			Labels:          map[string]string{v1alpha2.MiniClusterLabel: mc.Name, jobUIDLabel: string(mc.UID)},
			Finalizers:      []string{kueueapi.ResourceInUseFinalizerName},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(mc, v1alpha2.GroupVersion.WithKind(v1alpha2.MiniClusterKind))},
		},
		Spec: kueueapi.WorkloadSpec{
			QueueName: kueueapi.LocalQueueName(mc.Labels[v1alpha2.KueueQueueLabel]), Active: ptr.To(true),
		},
	}
}

// podSets are the lead, which every size has, and the workers, of which Kueue may leave some out. They
// are a group, so that they get the same flavors and the same domain of a required topology.
func podSets(mc *v1alpha2.MiniCluster, pod *corev1.Pod, topology *kueueapi.PodSetTopologyRequest) []kueueapi.PodSet {
	template := corev1.PodTemplateSpec{Spec: countedFields(&pod.Spec)}
	sets := []kueueapi.PodSet{{Name: lead, Count: 1, Template: template, TopologyRequest: topology}}
	if mc.Spec.Size == 1 {
		return sets
	}
	set := kueueapi.PodSet{Name: workers, Count: mc.Spec.Size - 1, Template: *template.DeepCopy()}
	if least := int32(max(state.Sizing(&mc.Spec).Allowed().Least()-1, 1)); least < set.Count {
		set.MinCount = &least
	}
	sets = append(sets, set)
	for i := range sets {
		request := ptr.Deref(topology, kueueapi.PodSetTopologyRequest{})
		request.PodSetGroupName = ptr.To(group)
		sets[i].TopologyRequest = &request
	}
	return sets
}

// countedFields are the fields of a pod by which Kueue counts its requests and chooses flavors.
func countedFields(from *corev1.PodSpec) corev1.PodSpec {
	spec := corev1.PodSpec{
		InitContainers: counted(from.InitContainers), Containers: counted(from.Containers), Overhead: from.Overhead, Resources: from.Resources,
		NodeSelector: from.NodeSelector, Tolerations: from.Tolerations, RestartPolicy: corev1.RestartPolicyNever,
		PriorityClassName: from.PriorityClassName, RuntimeClassName: from.RuntimeClassName, ResourceClaims: from.ResourceClaims,
	}
	if from.Affinity != nil && from.Affinity.NodeAffinity != nil {
		spec.Affinity = &corev1.Affinity{NodeAffinity: from.Affinity.NodeAffinity}
	}
	return *spec.DeepCopy()
}

func counted(containers []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for _, c := range containers {
		out = append(out, corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
	}
	return out
}

// longestExecution is how long Kueue lets a Workload with a time limit run; nil without a limit. Kueue
// counts from the admission, and the time limit counts from the start of the command, so there is time to
// start. A MiniCluster that goes on after its deadline keeps its Workload for all attempts together.
func longestExecution(mc *v1alpha2.MiniCluster, limit time.Duration) *int32 {
	if limit == 0 || mc.Spec.Elastic.OnDeadline == v1alpha2.DeadlineRequeue {
		return nil
	}
	seconds := int64(limit.Seconds()) + int64(mc.Spec.Elastic.StartTimeout.Seconds()) + 60
	return ptr.To(int32(min(seconds, math.MaxInt32)))
}

// setPriority sets the priority of the WorkloadPriorityClass, or else of the pods.
func setPriority(spec *kueueapi.WorkloadSpec, pod *corev1.Pod, class *kueueapi.WorkloadPriorityClass) {
	switch {
	case class != nil:
		spec.Priority, spec.PriorityClassRef = ptr.To(class.Value), kueueapi.NewWorkloadPriorityClassRef(class.Name)
	case pod.Spec.PriorityClassName != "":
		spec.Priority, spec.PriorityClassRef = ptr.To(ptr.Deref(pod.Spec.Priority, 0)), kueueapi.NewPodPriorityClassRef(pod.Spec.PriorityClassName)
	default:
		spec.Priority, spec.PriorityClassRef = ptr.To(ptr.Deref(pod.Spec.Priority, 0)), nil
	}
}

// shape is a hash of what cannot be changed in a Workload.
func shape(spec *kueueapi.WorkloadSpec) string {
	text, err := json.Marshal(spec.PodSets)
	if err != nil { // it never is
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
