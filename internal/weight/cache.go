// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package weight

import (
	"fmt"
	"reflect"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

const (
	// added is how many bytes others may add to an object that the manager has made: the API server's defaults, webhooks,
	// and who writes the status.
	added = 32 << 10
	// addedToPod is how many bytes the status of a checked pod may add. The kubelet keeps 12 KiB of termination messages.
	addedToPod = 20 << 10
	// mostMemoryOfPod is how many bytes a checked pod may have in memory, twice: its status has as many parts as its spec.
	mostMemoryOfPod = 2 * 5 * MostPod
)

// MiniCluster is a transform of the cache. Of a MiniCluster that weighs more than Most, the transform keeps what a run goes
// on with. Nothing is made of the rest: the JobSet says what its files are made of.
func MiniCluster(object any) (any, error) {
	mc, ok := object.(*v1alpha2.MiniCluster)
	if !ok {
		return object, nil
	}
	mc.ManagedFields = nil
	delete(mc.Annotations, corev1.LastAppliedConfigAnnotation)
	size := sizeOf(measured(mc))
	if size <= Most {
		return mc, nil
	}
	from := &mc.Spec
	cut := &v1alpha2.MiniCluster{TypeMeta: mc.TypeMeta, ObjectMeta: identity(&mc.ObjectMeta), Status: mc.Status}
	cut.Annotations = map[string]string{excessAnnotation: fmt.Sprintf("%d KiB, most of them in %s", size>>10, largest(mc))}
	cut.Spec = v1alpha2.MiniClusterSpec{
		Containers: []v1alpha2.MiniClusterContainer{{}}, Size: from.Size, MinSize: from.MinSize, MaxSize: from.MaxSize, Tasks: from.Tasks,
		QueueingSpec: from.QueueingSpec, Placement: from.Placement, PriorityClassName: from.PriorityClassName, ManagedBy: from.ManagedBy, Suspend: from.Suspend,
		Elastic: from.Elastic, DeadlineSeconds: from.DeadlineSeconds, BackoffLimit: from.BackoffLimit, Cleanup: from.Cleanup,
		TTLSecondsAfterFinished: from.TTLSecondsAfterFinished, Interactive: from.Interactive,
	}
	return cut, nil
}

// Pod is a transform of the cache for pods with our labels. The transform keeps what is read of a pod (package protocol),
// and if that is too much, what the pod holds.
func Pod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	if pod = protocol.Strip(pod); pod.Size() <= MostPod+addedToPod && memoryOf(pod) <= mostMemoryOfPod {
		return pod, nil
	}
	return &corev1.Pod{
		TypeMeta: pod.TypeMeta, ObjectMeta: identity(&pod.ObjectMeta),
		Spec: corev1.PodSpec{
			NodeName: pod.Spec.NodeName, SchedulingGates: pod.Spec.SchedulingGates[:min(len(pod.Spec.SchedulingGates), 1)],
			Containers: []corev1.Container{{Name: "all", Resources: corev1.ResourceRequirements{Requests: state.Counted(pod)}}},
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}, nil
}

// Object is a transform of the caches for other objects with our labels. Of an object that weighs more than those that the
// manager makes, the transform keeps the identity.
func Object(object any) (any, error) {
	from, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	from.SetManagedFields(nil)
	if sizeOf(object) <= Most+added {
		return object, nil
	}
	cut := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
	cut.GetObjectKind().SetGroupVersionKind(from.GetObjectKind().GroupVersionKind())
	keep(from, cut)
	return cut, nil
}

// Named is a transform of the cache for objects of which only the name counts, and which it is.
func Named(object any) (any, error) {
	if from, ok := object.(client.Object); ok {
		from.SetManagedFields(nil)
		from.SetAnnotations(nil)
		from.SetLabels(nil)
		from.SetOwnerReferences(nil)
		from.SetFinalizers(nil)
	}
	return object, nil
}

// mostLabels is how many bytes of labels are kept of an object that weighs too much.
const mostLabels = 4 << 10

// ours are the labels by which objects are found.
var ours = []string{
	v1alpha2.MiniClusterLabel, v1alpha2.UIDLabel, v1alpha2.ExclusiveLabel, jobsetapi.ReplicatedJobNameKey, jobsetapi.JobSetUIDKey,
	jobsetapi.JobSetNameKey, batchv1.JobCompletionIndexAnnotation,
}

// identity is whose an object is, and whether it is being deleted.
func identity(from *metav1.ObjectMeta) (to metav1.ObjectMeta) {
	keep(from, &to)
	return to
}

// keep gives an object the identity of another.
func keep(from, to metav1.Object) {
	to.SetNamespace(from.GetNamespace())
	to.SetName(from.GetName())
	to.SetUID(from.GetUID())
	to.SetResourceVersion(from.GetResourceVersion())
	to.SetGeneration(from.GetGeneration())
	to.SetCreationTimestamp(from.GetCreationTimestamp())
	to.SetDeletionTimestamp(from.GetDeletionTimestamp())
	to.SetDeletionGracePeriodSeconds(from.GetDeletionGracePeriodSeconds())
	to.SetLabels(labelsOf(from))
	if owner := metav1.GetControllerOf(from); owner != nil {
		to.SetOwnerReferences([]metav1.OwnerReference{*owner})
	}
}

// labelsOf are the labels of an object; those by which it is found if all weigh too much.
func labelsOf(object metav1.Object) map[string]string {
	all, size := object.GetLabels(), 0
	for name, value := range all {
		size += len(name) + len(value)
	}
	if size <= mostLabels {
		return all
	}
	kept := map[string]string{}
	for _, name := range ours {
		if value, ok := all[name]; ok {
			kept[name] = value
		}
	}
	return kept
}
