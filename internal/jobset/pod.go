// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/broker"
)

// Volumes of every pod, and their paths. The volume to which Flux is copied comes on top.
const (
	filesVolume  = "flux-operator"
	besideVolume = "flux-operator-beside" // of containers in which no broker runs
	homeVolume   = "flux-operator-home"

	homeDir     = "/home/flux-operator"
	softwareDir = "/opt/software"
)

// Pod returns a pod like those that the Jobs will make. It is for a dry run: would the API server
// accept the pod, and what would it change?
func Pod(mc *v1alpha2.MiniCluster) (*corev1.Pod, error) {
	template, err := podTemplate(mc)
	if err != nil {
		return nil, err
	}
	return podOf(mc, template, v1alpha2.LeadJob), nil
}

// podTemplate returns the pod template of every broker: lead and followers differ only in their
// host names.
func podTemplate(mc *v1alpha2.MiniCluster) (corev1.PodTemplateSpec, error) {
	s := &mc.Spec
	volumes, err := podVolumes(ownVolumes(mc), s.Containers)
	if err != nil {
		return corev1.PodTemplateSpec{}, err
	}
	spec := podSpec(mc, corev1.RestartPolicyNever)
	spec.HostIPC, spec.HostPID, spec.HostNetwork = s.Pod.HostIPC, s.Pod.HostPID, s.Pod.HostNetwork
	if s.Pod.HostNetwork && (spec.DNSPolicy == "" || spec.DNSPolicy == corev1.DNSClusterFirst) { // which would be Default
		spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}
	if s.ShareProcessNamespace {
		spec.ShareProcessNamespace = ptr.To(true)
	}
	spec.Volumes = volumes
	spec.InitContainers = []corev1.Container{viewContainer(mc)}
	for i := range s.Containers {
		if !s.Containers[i].RunFlux {
			spec.InitContainers = append(spec.InitContainers, sidecar(mc, i))
		}
	}
	spec.Containers = []corev1.Container{fluxContainer(mc)}
	setIndex(spec.InitContainers)
	setIndex(spec.Containers)
	labels := podLabels(mc)
	if s.Placement.Exclusive {
		labels[v1alpha2.ExclusiveLabel] = "true"
	}
	for i := range s.Containers {
		if hasService(&s.Containers[i]) {
			labels[v1alpha2.SidecarLabelPrefix+s.Containers[i].Name] = "true"
		}
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: podAnnotations(s.Pod.Annotations)},
		Spec:       spec,
	}, nil
}

// completionIndex is the variable in which Kubernetes tells containers the index of their pod.
const completionIndex = "JOB_COMPLETION_INDEX"

// setIndex sets the completion index to the rank of the pod, unless the user sets this variable.
// Kubernetes would set the index in the Job, which is 0 for the lead and for the first follower,
// too. Kubernetes keeps a variable that a container already has.
func setIndex(containers []corev1.Container) {
	for i := range containers {
		c := &containers[i]
		if slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == completionIndex }) {
			continue
		}
		rank := corev1.EnvVar{Name: completionIndex, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['" + v1alpha2.RankLabel + "']"},
		}}
		c.Env = append([]corev1.EnvVar{rank}, c.Env...) // first, so that other variables can refer to it
	}
}

// podSpec returns the settings that the pods of brokers and the services pod have in common.
func podSpec(mc *v1alpha2.MiniCluster, restartPolicy corev1.RestartPolicy) corev1.PodSpec {
	s := &mc.Spec
	spec := corev1.PodSpec{
		SchedulingGates:              []corev1.PodSchedulingGate{{Name: v1alpha2.PlacementGate}},
		Subdomain:                    s.Network.HeadlessName,
		RestartPolicy:                restartPolicy,
		PriorityClassName:            s.PriorityClassName,
		ServiceAccountName:           s.Pod.ServiceAccountName,
		AutomountServiceAccountToken: ptr.To(s.Pod.AutomountServiceAccountToken),
		SchedulerName:                s.Pod.SchedulerName,
		NodeSelector:                 s.Pod.NodeSelector,
		Affinity:                     affinity(s.Pod.NodeAffinity),
		Tolerations:                  tolerations(s.Pod.Tolerations),
		DNSPolicy:                    s.Pod.DNSPolicy,
		SecurityContext:              s.Pod.SecurityContext,
		ImagePullSecrets:             pullSecrets(s),
	}
	if s.Pod.RuntimeClassName != "" {
		spec.RuntimeClassName = ptr.To(s.Pod.RuntimeClassName)
	}
	return spec
}

// podLabels returns the labels of pods: the user's and ours. Ours win, but for those by which nobody here selects.
func podLabels(mc *v1alpha2.MiniCluster) map[string]string {
	labels := map[string]string{
		v1alpha2.AppLabel:         v1alpha2.AppName,
		v1alpha2.AppInstanceLabel: mc.Name,
		v1alpha2.NamespaceLabel:   mc.Namespace,
	}
	maps.Copy(labels, ofUsers(mc.Spec.Pod.Labels))
	maps.Copy(labels, map[string]string{
		v1alpha2.MiniClusterLabel: mc.Name,
		v1alpha2.JobNameLabel:     mc.Name,
		v1alpha2.UIDLabel:         string(mc.UID),
	})
	// Only this project says which pods are brokers, which ranks they have, and which have their
	// nodes alone.
	delete(labels, v1alpha2.ExclusiveLabel)
	delete(labels, v1alpha2.SelectorLabel)
	delete(labels, v1alpha2.RankLabel)
	return labels
}

// Annotations by which autoscalers leave the nodes of pods, unless the user says otherwise: those of Karpenter and of
// the Cluster Autoscaler. A node whose pods have ended is idle, and may go.
const (
	stayKarpenter = "karpenter.sh/do-not-disrupt"
	safeToEvict   = "cluster-autoscaler.kubernetes.io/safe-to-evict"
)

// podAnnotations returns the user's annotations, and those by which autoscalers leave running gangs. Annotations of
// this project are the project's own, and requests for a topology are for the Workload.
func podAnnotations(annotations map[string]string) map[string]string {
	out := map[string]string{stayKarpenter: "true", safeToEvict: "false"}
	maps.Copy(out, annotations)
	maps.DeleteFunc(out, func(key, _ string) bool {
		return strings.HasPrefix(key, v1alpha2.Group+"/") || strings.HasPrefix(key, v1alpha2.KueuePodSetPrefix)
	})
	return out
}

// viewContainer returns the init container, which copies Flux and its configuration to a shared
// volume. If the application's image has Flux, it copies only the configuration.
func viewContainer(mc *v1alpha2.MiniCluster) corev1.Container {
	view := &mc.Spec.Flux.Container
	return corev1.Container{
		Name:            view.Name,
		Image:           view.Image,
		ImagePullPolicy: pullPolicy(view.PullAlways, ""),
		Command:         script(broker.InitScript),
		WorkingDir:      view.WorkingDir,
		Resources:       view.Resources,
		SecurityContext: view.SecurityContext,
		VolumeMounts: []corev1.VolumeMount{
			{Name: besideVolume, MountPath: broker.Dir, ReadOnly: true},
			{Name: view.Name, MountPath: view.MountPath},
		},
	}
}

// fluxContainer returns the container that runs the broker and the command.
func fluxContainer(mc *v1alpha2.MiniCluster) corev1.Container {
	container := newContainer(mc.Spec.FluxContainer())
	container.Command = script(broker.WaitScript)
	if len(container.Resources.Limits) == 0 && len(container.Resources.Requests) == 0 {
		container.Resources.Requests, container.Resources.Limits = mc.Spec.Pod.Resources, mc.Spec.Pod.Resources
	}
	mounts := append(fluxMounts(mc, filesVolume), corev1.VolumeMount{Name: homeVolume, MountPath: homeDir})
	container.VolumeMounts = append(mounts, container.VolumeMounts...)
	// No probe ends the container: a broker may wait without limit.
	container.StartupProbe, container.ReadinessProbe = startProbe(mc), readyProbe(mc, readinessPeriod(&mc.Spec))
	return container
}

// Periods of the probes in seconds. They are rare, since each runs a program beside the command, on its cores.
const (
	// watchPeriod is for brokers whose readiness the controller waits for: followers that may have to leave, and a lead that
	// tells by it that the command runs again, or has written a checkpoint. pkg/elastic/life knows this period (seenGrace).
	watchPeriod = 5
	// stayPeriod is for the brokers of a fixed size: readiness changes only if a broker fails, and
	// then Flux ends the command.
	stayPeriod = 60
)

func readinessPeriod(s *v1alpha2.MiniClusterSpec) int32 {
	if s.Malleable() || s.LeastSize() < s.MostSize() {
		return watchPeriod
	}
	return stayPeriod
}

// watchLead lets the kubelet look at the lead's broker often, and leave files that say what was seen: .missed has a dot
// for each look at a lead that is not ready. The lead waits until it was seen not to be ready before it is ready again, and
// the other way round, so that nobody misses it.
func watchLead(mc *v1alpha2.MiniCluster, lead *corev1.PodTemplateSpec) {
	if !mc.Spec.TellsRuns() {
		return
	}
	probe := readyProbe(mc, watchPeriod)
	probe.Exec.Command[2] = strings.Replace(probe.Exec.Command[2], "{ ", `{ printf . >>"$0.missed"; `, 1) + `; : >"$0.seen" || true`
	lead.Spec.Containers[0].ReadinessProbe = probe
}

// startProbe returns a probe that waits for broker.ReadyFile, so that a pod is ready at once. It is one program that looks five
// times a second without another one: an engine takes some tenths of a second of CPU time to run a program in a container, and
// many brokers may wait on a node. A second program follows before the first one is late.
func startProbe(mc *v1alpha2.MiniCluster) *corev1.Probe {
	probe := readyProbe(mc, 1)
	probe.Exec.Command[2] = "exec 9<> <(:); until [[ -e $0 ]] || ((SECONDS > 40)); do read -rt 0.2 -u 9 || (($? > 128)) || sleep 1; done; " + probe.Exec.Command[2]
	probe.FailureThreshold = math.MaxInt32
	return probe
}

// readyProbe returns a probe that looks for broker.ReadyFile every period seconds. The image has
// Bash, since Bash runs the scripts. A busy node may start Bash slowly: the timeout is long, and one look that takes longer
// does not count, since readiness tells the controller what the broker wants to say. Two would be a checkpoint that nobody
// has written.
func readyProbe(mc *v1alpha2.MiniCluster, period int32) *corev1.Probe {
	const test = "[[ -e $0 ]] || { echo 'the broker has not joined, or the command does not run'; exit 1; }"
	command := []string{"/bin/bash", "-c", test, broker.ReadyFile(mc)}
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}},
		PeriodSeconds:    period,
		TimeoutSeconds:   60,
		FailureThreshold: 2, // again.sh waits for as many
	}
}

// sidecar returns container i of the spec, which runs beside Flux. It is a native sidecar: an
// init container that is always restarted. So it starts before Flux, and the pod completes
// without it.
func sidecar(mc *v1alpha2.MiniCluster, i int) corev1.Container {
	c := &mc.Spec.Containers[i]
	container := newContainer(c)
	container.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	if broker.Wrapped(c) {
		container.Command = script(broker.SidecarScript(i))
		container.VolumeMounts = append(fluxMounts(mc, besideVolume), container.VolumeMounts...)
	}
	return container
}

// fluxMounts returns the mounts of the scripts, in one of our volumes, and of Flux.
func fluxMounts(mc *v1alpha2.MiniCluster, files string) []corev1.VolumeMount {
	view := &mc.Spec.Flux.Container
	mounts := []corev1.VolumeMount{
		{Name: files, MountPath: broker.Dir, ReadOnly: true},
		{Name: view.Name, MountPath: view.MountPath},
	}
	if !view.Disable {
		// The view has links into this directory, so every container needs it at the same path.
		mounts = append(mounts, corev1.VolumeMount{Name: view.Name, MountPath: softwareDir, SubPath: "software"})
	}
	return mounts
}

// script returns the command that runs a file of package broker.
func script(name string) []string { return []string{"/bin/bash", path.Join(broker.Dir, name)} }

// newContainer returns a container with the settings of the spec, except its command.
func newContainer(c *v1alpha2.MiniClusterContainer) corev1.Container {
	container := corev1.Container{
		Name:            c.Name,
		Image:           c.Image,
		ImagePullPolicy: pullPolicy(c.PullAlways, c.ImagePullPolicy),
		WorkingDir:      c.WorkingDir,
		Env:             environment(c),
		Lifecycle:       lifecycle(c.LifeCycle),
		Resources:       *c.Resources.DeepCopy(),
		SecurityContext: c.SecurityContext,
		VolumeMounts:    volumeMounts(c.Volumes),
	}
	for _, port := range ports(c) {
		container.Ports = append(container.Ports, corev1.ContainerPort{ContainerPort: port, Protocol: corev1.ProtocolTCP})
	}
	return container
}

// ports returns the sorted ports of a container, without duplicates.
func ports(c *v1alpha2.MiniClusterContainer) []int32 {
	return slices.Compact(slices.Sorted(slices.Values(c.Ports)))
}

func environment(c *v1alpha2.MiniClusterContainer) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(c.Environment)) {
		if _, secret := c.Secrets[name]; secret {
			continue
		}
		out = append(out, corev1.EnvVar{Name: name, Value: c.Environment[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		secret := c.Secrets[name]
		out = append(out, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: secret.Name}, Key: secret.Key,
		}}})
	}
	return out
}

func lifecycle(l v1alpha2.LifeCycle) *corev1.Lifecycle {
	if l == (v1alpha2.LifeCycle{}) {
		return nil
	}
	handler := func(command string) *corev1.LifecycleHandler {
		if command == "" {
			return nil
		}
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", command}}}
	}
	return &corev1.Lifecycle{PostStart: handler(l.PostStartExec), PreStop: handler(l.PreStopExec)}
}

func pullPolicy(always bool, policy corev1.PullPolicy) corev1.PullPolicy {
	switch {
	case always:
		return corev1.PullAlways
	case policy != "":
		return policy
	}
	return corev1.PullIfNotPresent
}

// pullSecrets returns the pull secrets of all containers of all pods, without duplicates.
func pullSecrets(s *v1alpha2.MiniClusterSpec) []corev1.LocalObjectReference {
	names := []string{s.Flux.Container.ImagePullSecret}
	for _, container := range slices.Concat(s.Containers, s.Services) {
		names = append(names, container.ImagePullSecret)
	}
	slices.Sort(names)
	var out []corev1.LocalObjectReference
	for _, name := range slices.Compact(names) {
		if name != "" {
			out = append(out, corev1.LocalObjectReference{Name: name})
		}
	}
	return out
}

func affinity(labels map[string][]string) *corev1.Affinity {
	if len(labels) == 0 {
		return nil
	}
	term := corev1.NodeSelectorTerm{}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: labels[key],
		})
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
	}}
}

func tolerations(in []v1alpha2.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for _, t := range in {
		out = append(out, corev1.Toleration{Key: t.Key, Operator: t.Operator, Value: t.Value, Effect: t.Effect})
	}
	return out
}
