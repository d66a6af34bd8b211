// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"cmp"
	"math"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/broker"
)

// servicesJob returns the Job of the services pod. The Job ends with the JobSet. It has no limit
// of failures, since failures of services must not fail the command.
func servicesJob(mc *v1alpha2.MiniCluster) (jobsetapi.ReplicatedJob, error) {
	template, err := servicesTemplate(mc)
	if err != nil {
		return jobsetapi.ReplicatedJob{}, err
	}
	job := replicatedJob(mc, v1alpha2.ServicesJob, template, 1, math.MaxInt32)
	// An Indexed Job would set the host name.
	job.Template.Spec.CompletionMode = ptr.To(batchv1.NonIndexedCompletion)
	return job, nil
}

// ServicesPod returns the services pod as its Job will make it, or nil if there are no services.
// It is for a dry run: would the API server accept the pod?
func ServicesPod(mc *v1alpha2.MiniCluster) (*corev1.Pod, error) {
	if len(mc.Spec.Services) == 0 {
		return nil, nil
	}
	template, err := servicesTemplate(mc)
	if err != nil {
		return nil, err
	}
	return podOf(mc, template, v1alpha2.ServicesJob), nil
}

// servicesHost returns the host name of the services pod.
func servicesHost(mc *v1alpha2.MiniCluster) string { return mc.Name + "-services" }

// servicesTemplate returns the template of the services pod. The pod waits behind the gate until
// the brokers have their nodes. Then a scheduler of the cluster chooses its node.
func servicesTemplate(mc *v1alpha2.MiniCluster) (corev1.PodTemplateSpec, error) {
	var own []corev1.Volume
	spec := podSpec(mc, cmp.Or(mc.Spec.Pod.RestartPolicy, corev1.RestartPolicyOnFailure))
	spec.Hostname = servicesHost(mc)
	spec.Affinity = onLinux(spec.Affinity)
	if spec.SchedulerName == v1alpha2.SchedulerName {
		spec.SchedulerName = ""
	}
	for i := range mc.Spec.Services {
		c := &mc.Spec.Services[i]
		container := newContainer(c)
		if broker.WrappedService(c) {
			container.Command = script(broker.ServiceScript(i))
			container.VolumeMounts = append([]corev1.VolumeMount{{Name: filesVolume, MountPath: broker.Dir, ReadOnly: true}}, container.VolumeMounts...)
			own = []corev1.Volume{filesBeside(mc, filesVolume)}
		}
		spec.Containers = append(spec.Containers, container)
	}
	labels := podLabels(mc)
	labels[v1alpha2.RankLabel] = v1alpha2.ServicesJob
	var err error
	spec.Volumes, err = podVolumes(own, mc.Spec.Services)
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: podAnnotations(mc.Spec.Pod.Annotations)},
		Spec:       spec,
	}, err
}

// onLinux confines a pod to nodes with Linux. Nodes without the label count as such. Terms of an affinity are alternatives,
// so each has a copy for both.
func onLinux(of *corev1.Affinity) *corev1.Affinity {
	term := corev1.NodeSelectorTerm{}
	if of != nil {
		term = of.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
	}
	linux := corev1.NodeSelectorRequirement{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{string(corev1.Linux)}}
	unlabelled := corev1.NodeSelectorRequirement{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpDoesNotExist}
	var terms []corev1.NodeSelectorTerm
	for _, system := range []corev1.NodeSelectorRequirement{linux, unlabelled} {
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: append(slices.Clip(term.MatchExpressions), system)})
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}
