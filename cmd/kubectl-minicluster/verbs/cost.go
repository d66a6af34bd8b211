// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// checkTasks checks the flags for tasks. A script may have both, as for sbatch.
func (m *submitter) checkTasks(cmd *cobra.Command, _ []string) error {
	switch perNode := cmd.Flags().Changed("ntasks-per-node"); {
	case perNode && cmd.Flags().Changed("ntasks"):
		return access.Usagef("name --ntasks or --ntasks-per-node, and not both")
	case perNode && m.perNode < 1:
		return access.Usagef("--ntasks-per-node=%d: it has to be at least 1", m.perNode)
	}
	return nil
}

// setTasks sets the number of tasks: that of the flags; or else that of the file, scaled from the size that the file has;
// or else one for each node, as srun and flux run.
func (m *submitter) setTasks(cmd *cobra.Command, spec *v1alpha2.MiniClusterSpec, size int32) error {
	total, perNode := cmd.Flags().Changed("ntasks"), cmd.Flags().Changed("ntasks-per-node")
	most := int64(max(spec.Size, 1))
	var tasks int64
	switch {
	case total:
		tasks = int64(m.tasks)
	case perNode:
		tasks = int64(m.perNode) * most
	case startsTasks(spec):
		return nil
	case m.file != "":
		before := int64(ptr.Deref(spec.Tasks, defaultTasks))
		if most == int64(size) || before%int64(size) != 0 || spec.Elastic.Tasks.Scaling == v1alpha2.TasksFixed {
			return nil
		}
		tasks = before / int64(size) * most
	default:
		tasks = most
	}
	if tasks > v1alpha2.MostTasks {
		return access.Usagef("%d tasks are more than %d", tasks, v1alpha2.MostTasks)
	}
	spec.Tasks = new(int32(tasks))
	return nil
}

// defaultTasks is the API's number of tasks of a MiniCluster that names none.
const defaultTasks = int32(1)

// startsTasks reports whether something else than the number of tasks says which tasks run.
func startsTasks(spec *v1alpha2.MiniClusterSpec) bool {
	c := spec.FluxContainer()
	return c.Launcher || c.Batch || spec.ForUsers()
}

// costOf says what a MiniCluster asks for, and what a user of other batch systems would not expect.
func costOf(mc *v1alpha2.MiniCluster) []string {
	spec, resources := &mc.Spec, resourcesOf(&mc.Spec)
	// options of Flux may say the tasks
	unknown := startsTasks(spec) || spec.Flux.OptionFlags != "" || spec.Flux.SubmitCommand != ""
	size, tasks := max(spec.Size, 1), ptr.Deref(spec.Tasks, defaultTasks)
	text := "The MiniCluster asks for " + counted(size, "node")
	if least := spec.MinSize; least > 0 && least < size {
		text += fmt.Sprintf(" (or as few as %d)", least)
	}
	switch {
	case unknown:
	case tasks == 0:
		text += " with one task on each node"
	default:
		text += " with " + counted(tasks, "task")
	}
	lines := []string{text + amounts(resources) + "."}
	if idle := size - tasks; idle > 0 && tasks > 0 && !unknown {
		lines = append(lines, counted(idle, "node")+" will run no task. To change the tasks: --ntasks or --ntasks-per-node. To change the nodes: --nodes.")
	}
	if !asks(resources, corev1.ResourceCPU) && !spec.Placement.Exclusive {
		lines = append(lines, "The MiniCluster asks for no CPUs, so other pods may use the same ones. To get CPUs of its own: --cpu. To get whole nodes: --exclusive.")
	}
	return lines
}

// resourcesOf are those of the Flux container, or else those of the pod.
func resourcesOf(spec *v1alpha2.MiniClusterSpec) *corev1.ResourceRequirements {
	own := &spec.FluxContainer().Resources
	if len(own.Limits) == 0 && len(own.Requests) == 0 {
		return &corev1.ResourceRequirements{Limits: spec.Pod.Resources}
	}
	return own
}

func counted(n int32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// asks reports whether a container asks for a resource.
func asks(r *corev1.ResourceRequirements, name corev1.ResourceName) bool {
	limit, request := r.Limits[name], r.Requests[name]
	return !limit.IsZero() || !request.IsZero()
}

// amounts are the CPUs, the memory and the GPUs that a container asks for; "" if none of these.
func amounts(r *corev1.ResourceRequirements) string {
	var parts []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, gpus} {
		amount, has := r.Requests[name]
		if !has {
			amount = r.Limits[name]
		}
		if !amount.IsZero() {
			parts = append(parts, string(name)+" "+amount.String())
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ", and on each node for " + strings.Join(parts, ", ")
}
