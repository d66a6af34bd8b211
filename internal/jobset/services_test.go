// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

func withServices(s *v1alpha2.MiniClusterSpec) {
	s.Services = []v1alpha2.MiniClusterContainer{
		{Name: "db", Image: "db", Command: "serve"},
		{Name: "cache", Image: "cache", Command: "ignored", NoWrapEntrypoint: true},
	}
}

func TestServicesPod(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(2).Spec(withServices).Defaulted()
	set := jobSetOf(t, mc)
	job := set.Spec.ReplicatedJobs[2]
	spec := &job.Template.Spec
	if job.Name != "services" || *spec.CompletionMode != batchv1.NonIndexedCompletion || *spec.Completions != 1 || *spec.Parallelism != 1 {
		t.Errorf("job %s, %s, %d pods", job.Name, *spec.CompletionMode, *spec.Completions)
	}
	// Failures of services are not the result.
	if *spec.BackoffLimit != math.MaxInt32 || !slices.Equal(set.Spec.SuccessPolicy.TargetReplicatedJobs, []string{"0"}) {
		t.Errorf("%d retries, success is that of %v", *spec.BackoffLimit, set.Spec.SuccessPolicy.TargetReplicatedJobs)
	}
	pod, err := ServicesPod(mc)
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.Hostname != "lmp-services" || pod.Spec.Subdomain != "lmp" || !protocol.IsGated(pod) || pod.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		t.Errorf("host %s in %s, gates %v, restart policy %s", pod.Spec.Hostname, pod.Spec.Subdomain, pod.Spec.SchedulingGates, pod.Spec.RestartPolicy)
	}
	db, cache := pod.Spec.Containers[0], pod.Spec.Containers[1]
	if !slices.Equal(db.Command, []string{"/bin/bash", "/flux_operator/service-0.sh"}) || len(db.VolumeMounts) != 1 || cache.Command != nil || len(cache.VolumeMounts) != 0 {
		t.Errorf("the containers are %+v", pod.Spec.Containers)
	}
	// Only brokers get the certificate.
	if volume := pod.Spec.Volumes[0].Projected; len(pod.Spec.Volumes) != 1 || len(volume.Sources) != 2 || volume.Sources[0].ConfigMap == nil || volume.Sources[1].ConfigMap == nil {
		t.Errorf("its volumes are %+v", pod.Spec.Volumes)
	}
	without, err := ServicesPod(fixture.MiniCluster("lmp").Defaulted())
	if without != nil || err != nil {
		t.Errorf("without services it is %v, %v", without, err)
	}
}

// Services of containers beside Flux select brokers, and not the services pod. The Service of the
// brokers selects nothing: its EndpointSlices are written. Nothing counts the services pod as a
// broker.
func TestServicesPodIsNoBroker(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Spec(withServices).Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Containers[0].RunFlux = true
		s.Containers = append(s.Containers, v1alpha2.MiniClusterContainer{Name: "web", Ports: []int32{80}})
		s.Pod.Labels = map[string]string{v1alpha2.SelectorLabel: "lmp", v1alpha2.RankLabel: "0", v1alpha2.ExclusiveLabel: "true", "mine": "1"}
	}).Defaulted()
	services, broker := jobSetOf(t, mc).Spec.ReplicatedJobs[1].Template.Spec.Template.Labels, jobSetOf(t, mc).Spec.ReplicatedJobs[0].Template.Spec.Template.Labels
	selects := func(selector, labels map[string]string) bool {
		for key, value := range selector {
			if labels[key] != value {
				return false
			}
		}
		return true
	}
	maps.Copy(broker, protocol.Binding(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: broker}}, "node", 0, protocol.Orders{Quorum: 1}).Labels) // it is placed
	made := servicesOf(t, mc)
	if made[0].Spec.Selector != nil {
		t.Errorf("Service %s selects %v", made[0].Name, made[0].Spec.Selector)
	}
	if web := made[1].Spec.Selector; len(web) == 0 || selects(web, services) || !selects(web, broker) {
		t.Errorf("Service %s selects %v", made[1].Name, web)
	}
	if services["mine"] != "1" || services[v1alpha2.RankLabel] != "services" || services[v1alpha2.JobNameLabel] != "lmp" || broker[v1alpha2.JobNameLabel] != "lmp" || services[v1alpha2.SelectorLabel] != "" || broker[v1alpha2.SelectorLabel] != "lmp" {
		t.Errorf("its labels are %v", services)
	}
	if broker[v1alpha2.ExclusiveLabel]+services[v1alpha2.ExclusiveLabel] != "" {
		t.Error("users choose by a label who has a node alone")
	}
	mc.Spec.Placement.Exclusive = true
	if pod, err := ServicesPod(mc); err != nil || pod.Labels[v1alpha2.ExclusiveLabel] != "" {
		t.Errorf("services have a node alone (%v)", err)
	}
	pod := fixture.ServicesPod("lmp").Obj()
	if read := protocol.Read(pod); read.Rank >= 0 || !read.Services || protocol.Read(fixture.BrokerPod("lmp", 0).Obj()).Services {
		t.Errorf("it has rank %d", read.Rank)
	}
}

// A scheduler of the cluster puts the services pod on nodes with Linux, or without the label, where the user wants it.
func TestServicesPodNeedsLinux(t *testing.T) {
	for name, tc := range map[string]struct {
		wants  map[string][]string
		labels map[string]string
		want   bool
	}{
		"Linux":                   {nil, map[string]string{corev1.LabelOSStable: "linux"}, true},
		"Windows":                 {nil, map[string]string{corev1.LabelOSStable: "windows"}, false},
		"no label":                {nil, nil, true},
		"where the user wants it": {map[string][]string{"pool": {"a"}}, map[string]string{"pool": "a"}, true},
		"elsewhere":               {map[string][]string{"pool": {"a"}}, map[string]string{corev1.LabelOSStable: "linux"}, false},
		"there, but Windows":      {map[string][]string{"pool": {"a"}}, map[string]string{"pool": "a", corev1.LabelOSStable: "windows"}, false},
	} {
		pod, err := ServicesPod(fixture.MiniCluster("lmp").Spec(withServices).Spec(func(s *v1alpha2.MiniClusterSpec) { s.Pod.NodeAffinity = tc.wants }).Defaulted())
		if err != nil {
			t.Fatal(err)
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}
		if got, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); got != tc.want || err != nil {
			t.Errorf("%s: it may run there: %t, %v", name, got, err)
		}
	}
}

func TestNamesOfServicesFit(t *testing.T) {
	name := strings.Repeat("n", 46)
	for _, longest := range []string{name + "-services-0-abcde", name + "-services"} {
		if problems := validation.IsDNS1035Label(longest); len(problems) > 0 {
			t.Errorf("%s (%d characters): %v", longest, len(longest), problems)
		}
	}
}

// A container beside Flux has its script and Flux at the same paths as the Flux container, and
// starts after Flux was copied.
func TestWrappedSidecar(t *testing.T) {
	for name, tc := range map[string]struct {
		disable bool
		want    []string
	}{
		"with a view":    {false, []string{"/flux_operator", "/mnt/flux", "/opt/software", "/data"}},
		"without a view": {true, []string{"/flux_operator", "/mnt/flux", "/data"}},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.Flux.Container.Disable = tc.disable
				s.Containers[0].RunFlux = true
				s.Containers = append(s.Containers, v1alpha2.MiniClusterContainer{
					Name: "web", Command: "serve", Volumes: map[string]v1alpha2.ContainerVolume{"data": {}},
				})
			}).Defaulted()
			pod, err := Pod(mc)
			if err != nil {
				t.Fatal(err)
			}
			web := pod.Spec.InitContainers[1]
			var mounts []string
			for _, mount := range web.VolumeMounts {
				mounts = append(mounts, mount.MountPath)
			}
			if !slices.Equal(web.Command, []string{"/bin/bash", "/flux_operator/start-1.sh"}) || !slices.Equal(mounts, tc.want) {
				t.Errorf("it runs %v with %v", web.Command, mounts)
			}
			if *web.RestartPolicy != corev1.ContainerRestartPolicyAlways || pod.Spec.InitContainers[0].Name != v1alpha2.DefaultViewName {
				t.Errorf("restart policy %v, the first init container is %s", *web.RestartPolicy, pod.Spec.InitContainers[0].Name)
			}
		})
	}
}

// A broker's pod reads its labels and annotations as files.
func TestAnnotationsAsFiles(t *testing.T) {
	pod, err := Pod(fixture.MiniCluster("lmp").Defaulted())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, source := range pod.Spec.Volumes[0].Projected.Sources {
		if source.DownwardAPI != nil {
			for _, item := range source.DownwardAPI.Items {
				got[item.Path] = item.FieldRef.FieldPath
			}
		}
	}
	want := map[string]string{
		"job":    "metadata.labels['jobset.sigs.k8s.io/replicatedjob-name']",
		"index":  "metadata.annotations['batch.kubernetes.io/job-completion-index']",
		"quorum": "metadata.annotations['flux-framework.org/quorum']",
		"drain":  "metadata.annotations['flux-framework.org/drain']",
		"stop":   "metadata.annotations['flux-framework.org/stop']",
	}
	if !maps.Equal(got, want) {
		t.Errorf("the files are %v", got)
	}
}

// Volumes that differ only in path and readOnly are one volume.
func TestOneVolumeInTwoContainers(t *testing.T) {
	claim := func(path string, readOnly bool) map[string]v1alpha2.ContainerVolume {
		return map[string]v1alpha2.ContainerVolume{"v": {ClaimName: "c", Path: path, ReadOnly: readOnly}}
	}
	for name, tc := range map[string]struct {
		first, second bool
		want          bool
	}{
		"both read": {true, true, true}, "the first writes": {false, true, false}, "the second writes": {true, false, false}, "both write": {false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			volumes, err := podVolumes(nil, []v1alpha2.MiniClusterContainer{{Volumes: claim("/a", tc.first)}, {Volumes: claim("/b", tc.second)}})
			if err != nil || len(volumes) != 1 || volumes[0].PersistentVolumeClaim.ReadOnly != tc.want {
				t.Errorf("volumes %+v, %v", volumes, err)
			}
		})
	}
}

func TestErrorsOfObjects(t *testing.T) {
	volume := func(v v1alpha2.ContainerVolume) map[string]v1alpha2.ContainerVolume {
		return map[string]v1alpha2.ContainerVolume{"v": v}
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha2.MiniClusterSpec)
		want   string
	}{
		"a size that is none": {func(s *v1alpha2.MiniClusterSpec) {
			s.Services[0].Volumes = volume(v1alpha2.ContainerVolume{EmptyDir: true, EmptyDirSizeLimit: "1e"})
		}, `volume "v": emptyDirSizeLimit "1e"`},
		"volumes of services that differ": {func(s *v1alpha2.MiniClusterSpec) {
			s.Services[0].Volumes, s.Services[1].Volumes = volume(v1alpha2.ContainerVolume{}), volume(v1alpha2.ContainerVolume{SecretName: "s"})
		}, `volume "v" differs between containers`},
		"a volume with a name of ours": {func(s *v1alpha2.MiniClusterSpec) {
			s.Containers[0].Volumes = map[string]v1alpha2.ContainerVolume{"flux-view": {}}
		}, `volume "flux-view" has a reserved name`},
		"two Services of a name": {func(s *v1alpha2.MiniClusterSpec) {
			s.Network.HeadlessName, s.Containers[0].RunFlux = "net", true
			s.Containers = append(s.Containers, v1alpha2.MiniClusterContainer{Name: "net", Ports: []int32{80}})
		}, `container "net": its Service would have the name of the brokers'`},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Spec(withServices).Spec(tc.change).Defaulted()
			if _, err := Objects(mc, 1); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// The API server accepts a port only once.
func TestPortsGivenTwice(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Containers[0].RunFlux = true
		s.Containers = append(s.Containers, v1alpha2.MiniClusterContainer{Name: "web", Image: "x", Ports: []int32{80, 22, 80}})
	}).Defaulted()
	made, err := Services(mc)
	if err != nil {
		t.Fatal(err)
	}
	if ports := made[1].Spec.Ports; len(ports) != 2 || ports[0].Port != 22 || ports[1].Port != 80 {
		t.Errorf("the Service has the ports %v", ports)
	}
}
