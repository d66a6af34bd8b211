// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"math"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// setDefaults gives a built-in object its defaults: k8s.io/kubernetes/pkg/apis, file defaults.go of each group.
func setDefaults(object client.Object) {
	switch o := object.(type) {
	case *corev1.Pod:
		defaultRequests(o.Spec.InitContainers)
		defaultRequests(o.Spec.Containers)
		orDefault(&o.Spec.EnableServiceLinks, true)
		defaultPodSpec(&o.Spec)
	case *batchv1.Job:
		defaultJob(o)
	case *corev1.PodTemplate:
		defaultPodSpec(&o.Template.Spec)
	case *appsv1.Deployment:
		orDefault(&o.Spec.Replicas, 1)
		defaultPodSpec(&o.Spec.Template.Spec)
	case *appsv1.DaemonSet:
		defaultPodSpec(&o.Spec.Template.Spec)
	case *corev1.Service:
		defaultService(o)
	case *corev1.Secret:
		defaultSecret(o)
	case *corev1.Namespace:
		o.Labels = merged(o.Labels, map[string]string{corev1.LabelMetadataName: o.Name})
	case *corev1.Node:
		if o.Status.Allocatable == nil {
			o.Status.Allocatable = o.Status.Capacity
		}
	case *apiextensionsv1.CustomResourceDefinition:
		builtinScheme().Default(o) // the scheme of the API's own package has these defaults
	default:
		setOtherDefaults(object)
	}
}

func setOtherDefaults(object client.Object) {
	switch o := object.(type) {
	case *corev1.PersistentVolume:
		orText(&o.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
		orDefault(&o.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	case *corev1.PersistentVolumeClaim:
		orDefault(&o.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	case *storagev1.StorageClass:
		orDefault(&o.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		orDefault(&o.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	case *discoveryv1.EndpointSlice:
		for i := range o.Ports {
			orDefault(&o.Ports[i].Name, "")
			orDefault(&o.Ports[i].Protocol, corev1.ProtocolTCP)
		}
	}
}

func defaultSecret(secret *corev1.Secret) {
	orText(&secret.Type, corev1.SecretTypeOpaque)
	for name, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[name] = []byte(value)
	}
	secret.StringData = nil
}

func orDefault[T any](to **T, value T) {
	if *to == nil {
		*to = &value
	}
}

func orText[T ~string](to *T, value T) {
	if *to == "" {
		*to = value
	}
}

func orNumber[T int32 | int64](to *T, value T) {
	if *to == 0 {
		*to = value
	}
}

func defaultJob(job *batchv1.Job) {
	spec := &job.Spec
	if spec.Completions == nil && spec.Parallelism == nil {
		spec.Completions = new(int32(1))
	}
	orDefault(&spec.Parallelism, 1)
	if spec.BackoffLimitPerIndex != nil {
		orDefault(&spec.BackoffLimit, math.MaxInt32)
	}
	orDefault(&spec.BackoffLimit, 6)
	if len(job.Labels) == 0 {
		job.Labels = spec.Template.Labels
	}
	orDefault(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	orDefault(&spec.Suspend, false)
	if spec.PodFailurePolicy != nil {
		orDefault(&spec.PodReplacementPolicy, batchv1.Failed)
	}
	orDefault(&spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	orDefault(&spec.ManualSelector, false)
	defaultPodSpec(&spec.Template.Spec)
}

// defaultRequests lets the containers of a pod request what they are limited to.
func defaultRequests(containers []corev1.Container) {
	for i := range containers {
		r := &containers[i].Resources
		for name, limit := range r.Limits {
			if r.Requests == nil {
				r.Requests = corev1.ResourceList{}
			}
			if _, found := r.Requests[name]; !found {
				r.Requests[name] = limit.DeepCopy()
			}
		}
	}
}

func defaultPodSpec(spec *corev1.PodSpec) {
	orText(&spec.DNSPolicy, corev1.DNSClusterFirst)
	orText(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	orDefault(&spec.SecurityContext, corev1.PodSecurityContext{})
	orDefault(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	orText(&spec.SchedulerName, corev1.DefaultSchedulerName)
	if spec.DeprecatedServiceAccount == "" {
		spec.DeprecatedServiceAccount = spec.ServiceAccountName
	}
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
}

func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = corev1.PullIfNotPresent
		// Without a tag and without a digest, the tag is latest.
		_, tag, tagged := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":")
		if !strings.Contains(c.Image, "@") && (!tagged || tag == "latest") {
			c.ImagePullPolicy = corev1.PullAlways
		}
	}
	orText(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	orText(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		orText(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			orText(&from.FieldRef.APIVersion, "v1")
		}
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe == nil {
			continue
		}
		orNumber(&probe.TimeoutSeconds, 1)
		orNumber(&probe.PeriodSeconds, 10)
		orNumber(&probe.SuccessThreshold, 1)
		orNumber(&probe.FailureThreshold, 3)
		if probe.HTTPGet != nil {
			orText(&probe.HTTPGet.Path, "/")
			orText(&probe.HTTPGet.Scheme, corev1.URISchemeHTTP)
		}
	}
}

func defaultVolume(v *corev1.Volume) {
	switch s := &v.VolumeSource; {
	case s.Secret != nil:
		orDefault(&s.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case s.ConfigMap != nil:
		orDefault(&s.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case s.HostPath != nil:
		orDefault(&s.HostPath.Type, corev1.HostPathUnset)
	case s.DownwardAPI != nil:
		orDefault(&s.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultFields(s.DownwardAPI.Items)
	case s.Projected != nil:
		orDefault(&s.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for i := range s.Projected.Sources {
			if from := s.Projected.Sources[i].DownwardAPI; from != nil {
				defaultFields(from.Items)
			}
			if from := s.Projected.Sources[i].ServiceAccountToken; from != nil {
				orDefault(&from.ExpirationSeconds, int64(time.Hour.Seconds()))
			}
		}
	case *s == corev1.VolumeSource{}:
		s.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
}

func defaultFields(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		if files[i].FieldRef != nil {
			orText(&files[i].FieldRef.APIVersion, "v1")
		}
	}
}

func defaultService(service *corev1.Service) {
	spec := &service.Spec
	orText(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	orText(&spec.Type, corev1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		port := &spec.Ports[i]
		orText(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if spec.Type != corev1.ServiceTypeExternalName {
		orDefault(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
}
