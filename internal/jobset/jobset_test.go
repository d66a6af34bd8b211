// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

func jobSetOf(t *testing.T, mc *v1alpha2.MiniCluster) *jobsetapi.JobSet {
	t.Helper()
	set, err := JobSet(mc, 2)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestJobSet(t *testing.T) {
	cases := map[string]struct {
		mc   *v1alpha2.MiniCluster
		want string // name: pods, backoff limit
	}{
		"one broker has no followers":    {fixture.MiniCluster("lmp").Defaulted(), "0: 1 pods, 0 retries"},
		"lead and followers":             {fixture.MiniCluster("lmp").Size(4).Defaulted(), "0: 1 pods, 0 retries; w: 3 pods, 100 retries"},
		"pods for all that there can be": {fixture.MiniCluster("lmp").Size(2).MaxSize(8).Launcher().Defaulted(), "0: 1 pods, 0 retries; w: 7 pods, 100 retries"},
		"no pods that are never used":    {fixture.MiniCluster("lmp").Size(2).MaxSize(8).Defaulted(), "0: 1 pods, 0 retries; w: 1 pods, 100 retries"},
		"an attempt has one lead":        {fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) { s.BackoffLimit = 3 }).Defaulted(), "0: 1 pods, 0 retries"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := jobSetOf(t, tc.mc)
			var got []string
			for _, job := range set.Spec.ReplicatedJobs {
				spec := job.Template.Spec
				if *spec.Completions != *spec.Parallelism || *spec.CompletionMode != batchv1.IndexedCompletion || job.Replicas != 1 {
					t.Errorf("job %s: %d completions, %d parallel, %s, %d replicas", job.Name, *spec.Completions, *spec.Parallelism, *spec.CompletionMode, job.Replicas)
				}
				if gates := spec.Template.Spec.SchedulingGates; len(gates) != 1 || gates[0].Name != v1alpha2.PlacementGate {
					t.Errorf("job %s: gates %v", job.Name, gates)
				}
				got = append(got, fmt.Sprintf("%s: %d pods, %d retries", job.Name, *spec.Parallelism, *spec.BackoffLimit))
			}
			if text := strings.Join(got, "; "); text != tc.want {
				t.Errorf("got %s, want %s", text, tc.want)
			}
			if targets := set.Spec.SuccessPolicy.TargetReplicatedJobs; !slices.Equal(targets, []string{"0"}) {
				t.Errorf("success is that of %v", targets)
			}
			if Attempt(set) != 2 || !metav1.IsControlledBy(set, tc.mc) {
				t.Errorf("attempt %d, owners %v", Attempt(set), set.OwnerReferences)
			}
		})
	}
}

// The longest names that the schema allows for a size make pod names of at most 63 characters.
func TestNamesFit(t *testing.T) {
	for _, size := range []int32{1, 2, 9, 10, 11, 12, 99, 100, 101, 102, 1000, 99999, 100000} {
		name := strings.Repeat("n", 52-len(fmt.Sprint(size)))
		longest := fmt.Sprintf("%s-%s-0-%d-abcde", name, v1alpha2.LeadJob, 0)
		if size > 1 {
			longest = fmt.Sprintf("%s-%s-0-%d-abcde", name, v1alpha2.WorkersJob, size-2)
		}
		if problems := validation.IsDNS1035Label(longest); len(problems) > 0 {
			t.Errorf("size %d: %s (%d characters): %v", size, longest, len(longest), problems)
		}
	}
}

// A rank has one living pod, whatever the user says about restarts. The pod of the lead is never replaced, and that of a
// follower that is evicted is not counted.
func TestOnePodOfARank(t *testing.T) {
	for _, policy := range []corev1.RestartPolicy{"", corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure} {
		mc := fixture.MiniCluster("lmp").Size(2).Spec(func(s *v1alpha2.MiniClusterSpec) {
			s.Pod.RestartPolicy, s.Services = policy, []v1alpha2.MiniClusterContainer{{Image: "db"}}
		}).Defaulted()
		for _, job := range jobSetOf(t, mc).Spec.ReplicatedJobs {
			spec := job.Template.Spec
			if *spec.PodReplacementPolicy != batchv1.Failed || (spec.PodFailurePolicy != nil) != (job.Name == v1alpha2.WorkersJob) {
				t.Errorf("%q: job %s: pods are replaced when they are %s, failure policy %v", policy, job.Name, *spec.PodReplacementPolicy, spec.PodFailurePolicy)
			}
			if got := spec.Template.Spec.RestartPolicy; (got == corev1.RestartPolicyNever) != (job.Name != v1alpha2.ServicesJob || policy == corev1.RestartPolicyNever) {
				t.Errorf("%q: job %s restarts containers: %s", policy, job.Name, got)
			}
		}
	}
}

// The pods have the user's settings of pods and containers.
func TestPodTemplate(t *testing.T) {
	mc := fixture.MiniCluster("lmp").CPU("8").Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.PriorityClassName = "high"
		s.ShareProcessNamespace = true
		s.Network.HeadlessName = "net"
		s.Flux.Container.ImagePullSecret = "b"
		s.Pod = v1alpha2.PodSpec{
			Annotations: map[string]string{"a": "1"}, Labels: map[string]string{"l": "1", "app": "mine"},
			ServiceAccountName: "sa", RuntimeClassName: "rc", SchedulerName: "sn", NodeSelector: map[string]string{"n": "1"},
			NodeAffinity: map[string][]string{"z": {"1", "2"}}, DNSPolicy: corev1.DNSDefault, HostIPC: true, HostPID: true,
			Tolerations:     []v1alpha2.Toleration{{Key: "gpu", Operator: "Exists", Effect: "NoSchedule"}},
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(5))},
		}
		c := &s.Containers[0]
		c.Image, c.WorkingDir, c.ImagePullPolicy, c.ImagePullSecret = "img", "/w", corev1.PullNever, "a"
		c.Environment = map[string]string{"B": "2", "A": "1"}
		c.Secrets = map[string]v1alpha2.Secret{"S": {Name: "n", Key: "k"}}
		c.Ports = []int32{80}
		c.LifeCycle.PreStopExec = "sync; sync"
		c.SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	}).Defaulted()
	template, err := podTemplate(mc)
	if err != nil {
		t.Fatal(err)
	}
	spec := template.Spec
	flux := spec.Containers[0]
	env := map[string]string{}
	for _, v := range flux.Env {
		env[v.Name] = v.Value
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
			env[v.Name] = v.ValueFrom.SecretKeyRef.Name + "/" + v.ValueFrom.SecretKeyRef.Key
		}
	}
	got := map[string]any{
		"annotations": template.Annotations, "label l": template.Labels["l"], "label app": template.Labels["app"],
		"label hpa-selector": template.Labels["hpa-selector"], "label namespace": template.Labels["namespace"],
		"label of the MiniCluster": template.Labels[v1alpha2.MiniClusterLabel], "label of its UID": template.Labels[v1alpha2.UIDLabel],
		"priority class": spec.PriorityClassName, "shared": *spec.ShareProcessNamespace, "subdomain": spec.Subdomain,
		"service account": spec.ServiceAccountName, "token": *spec.AutomountServiceAccountToken,
		"runtime class": *spec.RuntimeClassName, "scheduler": spec.SchedulerName,
		"selector": spec.NodeSelector, "dns": spec.DNSPolicy, "ipc": spec.HostIPC, "pid": spec.HostPID,
		"affinity":    spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0],
		"tolerations": spec.Tolerations, "user": *spec.SecurityContext.RunAsUser,
		"pull secrets": spec.ImagePullSecrets,
		"container":    flux.Name, "image": flux.Image, "working dir": flux.WorkingDir, "pull": flux.ImagePullPolicy, "env": env,
		"port": flux.Ports[0].ContainerPort, "pre stop": flux.Lifecycle.PreStop.Exec.Command, "privileged": *flux.SecurityContext.Privileged,
		"cpu": flux.Resources.Limits.Cpu().String(), "command": flux.Command, "init command": spec.InitContainers[0].Command,
	}
	want := map[string]any{
		"annotations": map[string]string{"a": "1", stayKarpenter: "true", safeToEvict: "false"}, "label l": "1", "label app": "mine",
		"label hpa-selector": "", "label namespace": "default",
		"label of the MiniCluster": "lmp", "label of its UID": "uid-lmp",
		"priority class": "high", "shared": true, "subdomain": "net",
		"service account": "sa", "token": false, "runtime class": "rc", "scheduler": "sn",
		"selector": map[string]string{"n": "1"}, "dns": corev1.DNSDefault, "ipc": true, "pid": true,
		"affinity":     corev1.NodeSelectorRequirement{Key: "z", Operator: corev1.NodeSelectorOpIn, Values: []string{"1", "2"}},
		"tolerations":  []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		"user":         int64(5),
		"pull secrets": []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}},
		"container":    "lmp", "image": "img", "working dir": "/w", "pull": corev1.PullNever, "env": map[string]string{"A": "1", "B": "2", "S": "n/k", "JOB_COMPLETION_INDEX": ""},
		"port": int32(80), "pre stop": []string{"/bin/sh", "-c", "sync; sync"}, "privileged": true,
		"cpu": "8", "command": []string{"/bin/bash", "/flux_operator/wait-0.sh"}, "init command": []string{"/bin/bash", "/flux_operator/flux-init.sh"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the pod is another (-want +got):\n%s", diff)
	}
}

// Every container of a broker's pod learns the rank as its completion index, unless the user sets
// the variable. The services pod has no index.
func TestCompletionIndex(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Containers[0].RunFlux = true
		own := map[string]string{"JOB_COMPLETION_INDEX": "7"}
		s.Containers = append(s.Containers, v1alpha2.MiniClusterContainer{Name: "web"}, v1alpha2.MiniClusterContainer{Name: "own", Environment: own})
		s.Services = []v1alpha2.MiniClusterContainer{{Name: "db"}}
	}).Defaulted()
	pod, services := podsOf(t, mc)
	got := map[string]string{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers, services.Spec.Containers) {
		for _, v := range c.Env {
			got[c.Name] += v.Name + "=" + v.Value
			if v.ValueFrom != nil {
				got[c.Name] += v.ValueFrom.FieldRef.FieldPath
			}
		}
	}
	rank := "JOB_COMPLETION_INDEX=metadata.labels['job-index']"
	want := map[string]string{"flux-view": rank, "lmp": rank, "web": rank, "own": "JOB_COMPLETION_INDEX=7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the variables are others (-want +got):\n%s", diff)
	}
}

// podsOf returns the pod of a broker and the services pod.
func podsOf(t *testing.T, mc *v1alpha2.MiniCluster) (pod, services *corev1.Pod) {
	t.Helper()
	pod, err := Pod(mc)
	if err != nil {
		t.Fatal(err)
	}
	if services, err = ServicesPod(mc); err != nil {
		t.Fatal(err)
	}
	return pod, services
}

// Only the Flux container says whether its pod is ready. A pod that is not ready never ends for
// that reason.
func TestReadiness(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Containers[0].RunFlux = true
		s.Containers = append(s.Containers, v1alpha2.MiniClusterContainer{Name: "web", Command: "x"})
		s.Services = []v1alpha2.MiniClusterContainer{{Name: "db", Command: "x"}}
		s.Flux.Container.MountPath = "/a b"
	}).Defaulted()
	pod, services := podsOf(t, mc)
	const wait = "exec 9<> <(:); until [[ -e $0 ]] || ((SECONDS > 40)); do read -rt 0.2 -u 9 || (($? > 128)) || sleep 1; done; "
	probe := func(before string, period, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/bash", "-c", before + "[[ -e $0 ]] || { echo 'the broker has not joined, or the command does not run'; exit 1; }", "/a b/config/run/flux/ready"}}},
			PeriodSeconds: period, TimeoutSeconds: 60, FailureThreshold: failures,
		}
	}
	flux := pod.Spec.Containers[0]
	if diff := cmp.Diff([]*corev1.Probe{probe(wait, 1, math.MaxInt32), probe("", 60, 2), nil}, []*corev1.Probe{flux.StartupProbe, flux.ReadinessProbe, flux.LivenessProbe}); diff != "" {
		t.Errorf("its probes are others (-want +got):\n%s", diff)
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, services.Spec.Containers) {
		if c.StartupProbe != nil || c.ReadinessProbe != nil || c.LivenessProbe != nil {
			t.Errorf("container %s has probes", c.Name)
		}
	}
}

// Once a pod is ready, probes are rare. They are less rare if the controller waits for brokers that
// leave.
func TestReadinessPeriod(t *testing.T) {
	for name, tc := range map[string]struct {
		mc   *fixture.MiniClusterWrapper
		want int32
	}{
		"a fixed size":                {fixture.MiniCluster("lmp").Size(4), 60},
		"may start with fewer":        {fixture.MiniCluster("lmp").Size(4).MinSize(2), 5},
		"cannot grow to its maxSize":  {fixture.MiniCluster("lmp").Size(4).MaxSize(8), 60},
		"may shrink while it runs":    {fixture.MiniCluster("lmp").Size(4).Launcher(), 5},
		"an instance for interactive": {fixture.MiniCluster("lmp").Size(4).Spec(func(s *v1alpha2.MiniClusterSpec) { s.Interactive = true }), 5},
	} {
		t.Run(name, func(t *testing.T) {
			pod, err := Pod(tc.mc.Defaulted())
			if err != nil {
				t.Fatal(err)
			}
			if got := pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds; got != tc.want {
				t.Errorf("the period is %d s, want %d s", got, tc.want)
			}
		})
	}
}

func TestPodResourcesAreForAContainerWithoutItsOwn(t *testing.T) {
	four := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	podResources := func(s *v1alpha2.MiniClusterSpec) { s.Pod.Resources = four }
	for name, tc := range map[string]struct {
		mc   *v1alpha2.MiniCluster
		want string
	}{
		"without":  {fixture.MiniCluster("lmp").Spec(podResources).Defaulted(), "4"},
		"with own": {fixture.MiniCluster("lmp").CPU("8").Spec(podResources).Defaulted(), "8"},
	} {
		t.Run(name, func(t *testing.T) {
			pod, err := Pod(tc.mc)
			if err != nil {
				t.Fatal(err)
			}
			if got := pod.Spec.Containers[0].Resources.Limits.Cpu().String(); got != tc.want {
				t.Errorf("got %s CPUs, want %s", got, tc.want)
			}
		})
	}
}

func TestSidecarsAreNative(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Containers[0].RunFlux = true
		s.Containers = append(s.Containers, v1alpha2.MiniClusterContainer{Name: "web", Image: "nginx", NoWrapEntrypoint: true, Ports: []int32{80}})
	}).Defaulted()
	template, err := podTemplate(mc)
	if err != nil {
		t.Fatal(err)
	}
	if len(template.Spec.Containers) != 1 || len(template.Spec.InitContainers) != 2 {
		t.Fatalf("%d containers and %d init containers", len(template.Spec.Containers), len(template.Spec.InitContainers))
	}
	web := template.Spec.InitContainers[1]
	if web.Name != "web" || web.Command != nil || *web.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("the sidecar is %+v", web)
	}
	var names []string
	for _, service := range servicesOf(t, mc) {
		names = append(names, service.Name)
	}
	if !slices.Equal(names, []string{"lmp", "web"}) {
		t.Errorf("the services are %v", names)
	}
}

func TestVolumes(t *testing.T) {
	cases := map[string]struct {
		volume v1alpha2.ContainerVolume
		mount  string
		source string // JSON
	}{
		"no source is an empty directory":          {v1alpha2.ContainerVolume{Path: "/data"}, "/data", `{"emptyDir":{}}`},
		"an empty directory is at /dev/shm":        {v1alpha2.ContainerVolume{EmptyDir: true, EmptyDirMedium: "memory"}, "/dev/shm", `{"emptyDir":{"medium":"Memory"}}`},
		"unless it has a path":                     {v1alpha2.ContainerVolume{EmptyDir: true, Path: "/tmp/x", EmptyDirSizeLimit: "64Gi"}, "/tmp/x", `{"emptyDir":{"sizeLimit":"64Gi"}}`},
		"host path":                                {v1alpha2.ContainerVolume{HostPath: "/h", Path: "/p"}, "/p", `{"hostPath":{"path":"/h","type":"Directory"}}`},
		"claim":                                    {v1alpha2.ContainerVolume{ClaimName: "c", Path: "/p", ReadOnly: true}, "/p", `{"persistentVolumeClaim":{"claimName":"c","readOnly":true}}`},
		"config map, whatever the volume's name":   {v1alpha2.ContainerVolume{ConfigMapName: "cm", Path: "/p", Items: map[string]string{"b": "2", "a": "1"}}, "/p", `{"configMap":{"name":"cm","items":[{"key":"a","path":"1"},{"key":"b","path":"2"}]}}`},
		"secret":                                   {v1alpha2.ContainerVolume{SecretName: "s", Path: "/p"}, "/p", `{"secret":{"secretName":"s"}}`},
		"CSI":                                      {v1alpha2.ContainerVolume{CSIDriver: "d", Path: "/p", CSIDriverAttributes: map[string]string{"k": "v"}}, "/p", `{"csi":{"driver":"d","readOnly":false,"volumeAttributes":{"k":"v"}}}`},
		"of several sources the first is taken":    {v1alpha2.ContainerVolume{SecretName: "s", HostPath: "/h", Path: "/p"}, "/p", `{"secret":{"secretName":"s"}}`},
		"without a path it is where its name says": {v1alpha2.ContainerVolume{ConfigMapName: "cm"}, "/vol", `{"configMap":{"name":"cm"}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Containers[0].Volumes = map[string]v1alpha2.ContainerVolume{"vol": tc.volume}
			}).Defaulted()
			template, err := podTemplate(mc)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "vol" })
			source, err := json.Marshal(template.Spec.Volumes[i].VolumeSource)
			if err != nil {
				t.Fatal(err)
			}
			if string(source) != tc.source {
				t.Errorf("got source %s, want %s", source, tc.source)
			}
			mounts := template.Spec.Containers[0].VolumeMounts
			i = slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == "vol" })
			if mounts[i].MountPath != tc.mount || mounts[i].ReadOnly != tc.volume.ReadOnly {
				t.Errorf("mounted at %s (read-only %v), want %s", mounts[i].MountPath, mounts[i].ReadOnly, tc.mount)
			}
		})
	}
}

func TestVolumesThatAreRefused(t *testing.T) {
	cases := map[string][]v1alpha2.MiniClusterContainer{
		"a size that is none":                {{Volumes: map[string]v1alpha2.ContainerVolume{"v": {EmptyDir: true, EmptyDirSizeLimit: "1e"}}}},
		"one name for two different volumes": {{RunFlux: true, Volumes: map[string]v1alpha2.ContainerVolume{"v": {SecretName: "a"}}}, {Name: "x", Volumes: map[string]v1alpha2.ContainerVolume{"v": {SecretName: "b"}}}},
	}
	for name, containers := range cases {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) { s.Containers = containers }).Defaulted()
			if _, err := JobSet(mc, 1); err == nil {
				t.Error("it was taken")
			}
		})
	}
}

// A volume is mounted only in the containers that name it.
func TestMountsOfContainers(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Containers[0].RunFlux = true
		s.Containers[0].Volumes = map[string]v1alpha2.ContainerVolume{"a": {Path: "/a"}, "both": {Path: "/one"}}
		s.Containers = append(s.Containers, v1alpha2.MiniClusterContainer{Name: "x", Volumes: map[string]v1alpha2.ContainerVolume{"b": {Path: "/b"}, "both": {Path: "/two"}}})
	}).Defaulted()
	template, err := podTemplate(mc)
	if err != nil {
		t.Fatal(err)
	}
	paths := func(c corev1.Container) string {
		var out []string
		for _, m := range c.VolumeMounts {
			if strings.HasPrefix(m.Name, "a") || strings.HasPrefix(m.Name, "b") {
				out = append(out, m.MountPath)
			}
		}
		return strings.Join(out, " ")
	}
	if got := paths(template.Spec.Containers[0]); got != "/a /one" {
		t.Errorf("the Flux container mounts %s", got)
	}
	if got := paths(template.Spec.InitContainers[1]); got != "/b /two" {
		t.Errorf("the other container mounts %s", got)
	}
}

func TestObjects(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(2).Defaulted()
	objects, err := Objects(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.GetObjectKind().GroupVersionKind().Kind+" "+object.GetName())
		owners := object.GetOwnerReferences()
		if object.GetNamespace() != "default" || len(owners) != 1 || owners[0].UID != mc.UID || object.GetLabels()[v1alpha2.MiniClusterLabel] != "lmp" {
			t.Errorf("%s is in %q, of %v, labelled %v", object.GetName(), object.GetNamespace(), owners, object.GetLabels())
		}
	}
	if want := []string{"Service lmp", "JobSet lmp"}; !slices.Equal(kinds, want) {
		t.Errorf("got %v, want %v, the JobSet last", kinds, want)
	}
}

// The pods of a JobSet mount immutable files, which the JobSet owns.
func TestFiles(t *testing.T) {
	made, failure := 0, error(nil)
	certificate := func() (string, error) { made++; return "a new one", failure }
	for name, tc := range map[string]struct {
		own, want string
		made      int
	}{
		"a certificate is made":   {"", "a new one", 1},
		"unless the user has one": {"my own", "my own", 0},
	} {
		t.Run(name, func(t *testing.T) {
			made = 0
			mc := fixture.MiniCluster("lmp").Size(2).Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Flux.CurveCert = tc.own
				s.Services = []v1alpha2.MiniClusterContainer{{Name: "db", Command: "db", RunFlux: true}}
			}).Defaulted()
			set, err := JobSet(mc, 2)
			if err != nil {
				t.Fatal(err)
			}
			set.UID = "set"
			NameFiles(mc, set, "2-abcde")
			files, err := Files(mc, set, certificate)
			if err != nil {
				t.Fatal(err)
			}
			secret, configMap := files[0].(*corev1.Secret), files[1].(*corev1.ConfigMap)
			for _, file := range files {
				if file.GetNamespace() != "default" || !metav1.IsControlledBy(file, set) || file.GetLabels()[v1alpha2.MiniClusterLabel] != "lmp" || Attempt(file) != 2 {
					t.Errorf("%s is %+v", file.GetName(), file)
				}
			}
			if secret.Name != "lmp-curve-2-abcde" || configMap.Name != "lmp-entrypoint-2-abcde" || !*secret.Immutable || !*configMap.Immutable {
				t.Errorf("the files are %+v and %+v", secret, configMap)
			}
			for _, source := range fileSources(set) {
				names := []string{Scripts(set).Name, configMap.Name}
				if (source.Secret != nil && source.Secret.Name != secret.Name) || (source.ConfigMap != nil && !slices.Contains(names, source.ConfigMap.Name)) {
					t.Errorf("a job mounts %+v", source)
				}
			}
			if got := string(secret.Data["curve.cert"]); got != tc.want || made != tc.made {
				t.Errorf("the certificate is %q, %d were made", got, made)
			}
		})
	}
	failure = errors.New("no random numbers")
	mc := fixture.MiniCluster("lmp").Defaulted()
	set, err := JobSet(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	if files, err := Files(mc, set, certificate); !errors.Is(err, failure) {
		t.Errorf("without a certificate it made %v: %v", files, err)
	}
}

func servicesOf(t *testing.T, mc *v1alpha2.MiniCluster) []*corev1.Service {
	t.Helper()
	out, err := Services(mc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Autoscalers leave running gangs, unless the user says otherwise. Users cannot set the annotations that say how a pod was
// placed. Requests for a topology are for the Workload: pods with such an annotation are not counted by Kueue.
func TestPodAnnotations(t *testing.T) {
	mc := fixture.MiniCluster("lmp").PodAnnotation("mine", "1").PodAnnotation(v1alpha2.QuorumAnnotation, "all").
		PodAnnotation(v1alpha2.DrainAnnotation, "0").PodAnnotation(v1alpha2.Group+"/placed", "now").
		PodAnnotation(v1alpha2.NodesAnnotation, "a//").PodAnnotation("kueue.x-k8s.io/podset-required-topology", "rack").
		PodAnnotation(safeToEvict, "true").Defaulted()
	pod, err := podTemplate(mc)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"mine": "1", stayKarpenter: "true", safeToEvict: "true"}
	if !maps.Equal(pod.Annotations, want) {
		t.Errorf("annotations %v", pod.Annotations)
	}
	if len(mc.Spec.Pod.Annotations) != 7 {
		t.Errorf("the spec was changed: %v", mc.Spec.Pod.Annotations)
	}
}
