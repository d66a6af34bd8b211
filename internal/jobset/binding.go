// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// BoundDirectly reports whether an older manager made a JobSet with --binder=direct: its pods wait for a Binding by the manager
// in place of the gate, and have a scheduler name that no scheduler has.
func BoundDirectly(set *jobsetapi.JobSet) bool {
	return slices.ContainsFunc(set.Spec.ReplicatedJobs, func(job jobsetapi.ReplicatedJob) bool {
		pod := &job.Template.Spec.Template.Spec
		return job.Name == v1alpha2.LeadJob && pod.SchedulerName == v1alpha2.SchedulerName && !slices.ContainsFunc(pod.SchedulingGates, isPlacementGate)
	})
}

// BindAtAdmission changes a JobSet before it is created: the API server binds its pods to these
// nodes, by rank, when the pods are created, if it has the policy of config/admission. A pod whose
// rank has no node ("") keeps its gate. So do all pods without the policy, and each pod that
// replaces another: the Job counts the failures of each rank, and the policy binds the first pod
// alone. admitted is the time of the admission.
func BindAtAdmission(set *jobsetapi.JobSet, nodes []string, quorum int, admitted time.Time) {
	set.Annotations[v1alpha2.AdmittedAnnotation] = AdmittedAt(admitted)
	for i := range set.Spec.ReplicatedJobs {
		job := &set.Spec.ReplicatedJobs[i].Template.Spec
		annotations := job.Template.Annotations
		switch set.Spec.ReplicatedJobs[i].Name {
		case v1alpha2.LeadJob:
			job.BackoffLimitPerIndex = job.BackoffLimit
			annotations[v1alpha2.NodesAnnotation] = nodeList(nodes[:1])
			annotations[v1alpha2.QuorumAnnotation] = strconv.Itoa(quorum)
		case v1alpha2.WorkersJob:
			annotations[v1alpha2.NodesAnnotation] = nodeList(nodes[1:])
		}
	}
}

// mostAnnotations is how many bytes the annotations of a pod template may have here: the API's bound, without room for
// those that JobSet, the Job controller and webhooks add.
const mostAnnotations = apivalidation.TotalAnnotationSizeLimitB - 32<<10

// AnnotationsFit reports whether the API server accepts the annotations of all pods of a JobSet, and the manager reads them.
// The names of thousands of nodes that have little in common are too long.
func AnnotationsFit(set *jobsetapi.JobSet) bool {
	return !slices.ContainsFunc(set.Spec.ReplicatedJobs, func(job jobsetapi.ReplicatedJob) bool {
		size := 0
		for name, value := range job.Template.Spec.Template.Annotations {
			size += len(name) + len(value)
		}
		list, lists := job.Template.Spec.Template.Annotations[v1alpha2.NodesAnnotation]
		return size > mostAnnotations || lists && ListedNodes(list) == nil
	})
}

// Annotate adds annotations to the brokers' pods of a JobSet that is to be created.
func Annotate(set *jobsetapi.JobSet, annotations map[string]string) {
	for i := range set.Spec.ReplicatedJobs {
		if job := &set.Spec.ReplicatedJobs[i]; job.Name != v1alpha2.ServicesJob {
			maps.Copy(job.Template.Spec.Template.Annotations, annotations)
		}
	}
}

// Admitted is the annotation of a JobSet whose pods are bound when they are created; "" for others.
func Admitted(set metav1.Object) string { return set.GetAnnotations()[v1alpha2.AdmittedAnnotation] }

// AdmittedAt is that annotation for the time of an admission.
func AdmittedAt(admission time.Time) string { return admission.UTC().Format(time.RFC3339) }

// nodeList is the value of NodesAnnotation. Parts that all names share are written once.
func nodeList(nodes []string) string {
	if len(nodes) == 0 {
		nodes = []string{""} // an empty list would be one node without a name
	}
	var prefix, suffix string
	first := true
	for _, node := range nodes {
		switch {
		case node == "":
		case first:
			prefix, suffix, first = node, node, false
		default:
			for !strings.HasPrefix(node, prefix) {
				prefix = prefix[:len(prefix)-1]
			}
			for !strings.HasSuffix(node, suffix) {
				suffix = suffix[1:]
			}
		}
	}
	for _, node := range nodes { // the two must not overlap
		if over := len(prefix) + len(suffix) - len(node); node != "" && over > 0 {
			suffix = suffix[min(over, len(suffix)):]
		}
	}
	middles := make([]string, len(nodes))
	for i, node := range nodes {
		if middles[i] = noNode; node != "" {
			middles[i] = node[len(prefix) : len(node)-len(suffix)]
		}
	}
	return prefix + "/" + suffix + "/" + strings.Join(middles, ",")
}

// noNode stands for no node in a list: no name has this character.
const noNode = "*"

// mostListed is how many nodes a value of NodesAnnotation may have.
const mostListed = 1 << 14

// ListedNodes are the nodes of a value of NodesAnnotation, by index; "" for no node. A value that cannot be read has none,
// as for the policy of config/admission. Without the policies, whoever may create Jobs writes such values: one of a long
// prefix and of many nodes would have gigabytes of names.
func ListedNodes(text string) []string {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || strings.Count(parts[2], ",") >= mostListed {
		return nil
	}
	nodes := strings.Split(parts[2], ",")
	for i, middle := range nodes {
		if len(parts[0])+len(middle)+len(parts[1]) > validation.DNS1123SubdomainMaxLength {
			return nil
		}
		if nodes[i] = ""; middle != noNode {
			nodes[i] = parts[0] + middle + parts[1]
		}
	}
	return nodes
}

// FirstPod returns the first pod that the Job of the lead will make. It is for a dry run: would the
// API server bind the pod?
func FirstPod(mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet) *corev1.Pod {
	pod := podOf(mc, *set.Spec.ReplicatedJobs[0].Template.Spec.Template.DeepCopy(), set.Spec.ReplicatedJobs[0].Name)
	pod.OwnerReferences = []metav1.OwnerReference{{ // the policy wants a Job
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: pod.Labels[batchv1.JobNameLabel], UID: mc.UID, Controller: ptr.To(true),
	}}
	return pod
}

func isPlacementGate(gate corev1.PodSchedulingGate) bool { return gate.Name == v1alpha2.PlacementGate }

// NeedsScheduler reports whether only a scheduler can bind a pod. This is true for pods with
// volumes of claims, which kube-scheduler binds and counts for each node, ephemeral or CSI volumes, ports of the node, resource
// claims, gates of other programs, rules about the pods beside them, or a schedulerName that is not the default. The pod must be
// as the API server would create it with our gate.
func NeedsScheduler(pod *corev1.Pod) bool {
	spec := &pod.Spec
	return len(spec.ResourceClaims) > 0 ||
		(spec.SchedulerName != "" && spec.SchedulerName != corev1.DefaultSchedulerName) ||
		(spec.Affinity != nil && (spec.Affinity.PodAffinity != nil || spec.Affinity.PodAntiAffinity != nil)) || len(spec.TopologySpreadConstraints) > 0 ||
		slices.ContainsFunc(spec.SchedulingGates, func(gate corev1.PodSchedulingGate) bool { return !isPlacementGate(gate) }) ||
		slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool { return takesPort(c, spec.HostNetwork) }) ||
		slices.ContainsFunc(spec.Volumes, func(volume corev1.Volume) bool {
			return volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil || volume.CSI != nil
		})
}

// takesPort reports whether a container takes a port of the node.
func takesPort(c corev1.Container, hasHostNetwork bool) bool {
	return slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool { return port.HostPort > 0 || hasHostNetwork })
}
