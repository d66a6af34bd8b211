// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// A command whose tasks never fit is refused, before Flux finds them unsatisfiable. Where
// the number of its tasks or cores is not known, it is not.
func TestTasksThatDoNotFit(t *testing.T) {
	flags := func(text string) func(*v1alpha2.MiniClusterSpec) {
		return func(s *v1alpha2.MiniClusterSpec) { s.Flux.OptionFlags = text }
	}
	submit := func(text string) func(*v1alpha2.MiniClusterSpec) {
		return func(s *v1alpha2.MiniClusterSpec) { s.Flux.SubmitCommand = text }
	}
	gpus := func(resourceName corev1.ResourceName, amount, flags string, named ...corev1.ResourceName) func(*v1alpha2.MiniClusterSpec) {
		return func(s *v1alpha2.MiniClusterSpec) {
			s.Flux.OptionFlags, s.Flux.GPUResources = flags, named
			s.Containers[0].Resources.Limits[resourceName] = resource.MustParse(amount)
		}
	}
	for name, tc := range map[string]struct {
		cpu    string
		tasks  int32
		change func(*v1alpha2.MiniClusterSpec)
		want   string // "" if it fits
		slots  int
	}{
		"a core for each task":             {cpu: "2", tasks: 6, slots: 2},
		"too few":                          {cpu: "1", tasks: 6, want: "spec.tasks is 6, more than the 3 for which Flux has cores (brokers: 3, cores of each: 1, cores per task: 1); raise the CPU in resources", slots: 1},
		"a part of a core counts as one":   {cpu: "500m", tasks: 3, slots: 1},
		"but not as two":                   {cpu: "1500m", tasks: 4, want: "spec.tasks is 4", slots: 1},
		"more cores than can be counted":   {cpu: "18446744073709552", tasks: 6, slots: 1<<31 - 1},
		"tasks of two cores":               {cpu: "4", tasks: 6, change: flags("-c 2"), slots: 2},
		"too many of two cores":            {cpu: "4", tasks: 7, change: flags("-ompi=pmix -c2"), want: "more than the 6 for which Flux has cores (brokers: 3, cores of each: 4, cores per task: 2)", slots: 2},
		"tasks that leave cores unused":    {cpu: "5", tasks: 7, change: flags("--cores-per-task=2"), want: "more than the 6 for which Flux has cores (brokers: 3, cores of each: 5", slots: 2},
		"a task that is larger":            {cpu: "4", tasks: 1, change: submit("flux run --cores-per-task 5"), want: "a task of 5 cores does not fit on a broker with 4"},
		"Flux chooses":                     {cpu: "1", tasks: 0, slots: 1},
		"other tasks by option":            {cpu: "1", tasks: 6, change: flags("-n 3")},
		"other nodes by option":            {cpu: "1", tasks: 6, change: submit("flux run --nodes=1")},
		"options that a shell has to read": {cpu: "1", tasks: 6, change: flags("-c $CORES")},
		"a program of the user":            {cpu: "1", tasks: 6, change: submit("my-submit")},
		"the cores of the nodes":           {cpu: "1", tasks: 6, change: func(s *v1alpha2.MiniClusterSpec) { s.Flux.Resources = v1alpha2.ResourcesLocal }},
		"no cores requested":               {tasks: 6},
		"its own configuration":            {cpu: "1", tasks: 6, change: func(s *v1alpha2.MiniClusterSpec) { s.Flux.BrokerConfig = "[resource]" }},
		"a batch":                          {cpu: "1", tasks: 6, change: func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Batch = true }, want: "spec.tasks is 6", slots: 1},
		"a launcher":                       {cpu: "4", tasks: 600, change: func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Launcher = true }, slots: 4},
		"no command":                       {cpu: "4", tasks: 600, change: func(s *v1alpha2.MiniClusterSpec) { s.Interactive = true }, slots: 4},
		"a GPU for each task":              {cpu: "4", tasks: 6, change: gpus("nvidia.com/gpu", "2", "--gpus-per-task=1"), slots: 2},
		"too few GPUs": {cpu: "4", tasks: 9, change: gpus("nvidia.com/mig-1g.10gb", "2", "-g 1"), slots: 2,
			want: "spec.tasks is 9, more than the 6 for which Flux has GPUs (brokers: 3, GPUs of each: 2, GPUs per task: 1); raise the GPUs in resources"},
		"a task of more GPUs":       {cpu: "4", tasks: 3, change: gpus("habana.ai/gaudi", "1", "-g2"), want: "a task of 2 GPUs does not fit on a broker with 1"},
		"GPUs of an unknown kind":   {cpu: "4", tasks: 3, change: gpus("example.com/chip", "1", "-g1"), want: "a task of 1 GPUs does not fit on a broker with 0; raise the GPUs in resources of the Flux container, or name their resource in flux.gpuResources"},
		"GPUs of a named resource":  {cpu: "4", tasks: 3, change: gpus("example.com/chip", "1", "-g1", "example.com/chip"), slots: 1},
		"GPUs that nobody asks for": {cpu: "4", tasks: 12, change: gpus("amd.com/gpu", "1", ""), slots: 4},
		"it joins another": {cpu: "1", tasks: 6, change: func(s *v1alpha2.MiniClusterSpec) {
			s.Flux.Bursting.LeadBroker = &v1alpha2.FluxBroker{Address: "a", Name: "b", Size: 1}
		}, slots: 1},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Size(3).Tasks(tc.tasks)
			if tc.cpu != "" {
				mc.Limit(corev1.ResourceCPU, tc.cpu)
			}
			if tc.change != nil {
				mc.Spec(tc.change)
			}
			_, err := Files(mc.Defaulted(), 1)
			if (tc.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if slots := Slots(&mc.Defaulted().Spec); slots != tc.slots {
				t.Errorf("a broker has cores for %d tasks, want %d", slots, tc.slots)
			}
		})
	}
}

// R has the request if there is no limit, and one core for a part of one.
func TestCoresOfPartsOfOne(t *testing.T) {
	for cpu, want := range map[string]int{"100m": 1, "1": 1, "1999m": 1, "2": 2, "0": 0} {
		mc := fixture.MiniCluster("lmp").Spec(func(s *v1alpha2.MiniClusterSpec) {
			s.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		}).Defaulted()
		if got := cores(&mc.Spec); got != want {
			t.Errorf("a request of %s is %d cores in Flux, want %d", cpu, got, want)
		}
	}
}
