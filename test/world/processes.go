// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/test/world/models"
)

// processes is what was seen of the processes on the nodes.
type processes struct {
	// open are the runs of commands that had not ended, and seen the processes that were looked at.
	open []*models.Process
	seen int
	// running are the runs of commands that run now, by MiniCluster.
	running map[types.UID]*models.Process
	// ended are the last runs that ended and were reported, by MiniCluster.
	ended map[types.UID][]*models.Process
	// released are those that ended after their attempt: the command runs again whatever its exit code is.
	released map[*models.Process]bool
	// forgotten are those of which somebody deleted the Job while no manager led: nobody can know how they ended.
	forgotten map[*models.Process]bool
}

func newProcesses() processes {
	return processes{
		running: map[types.UID]*models.Process{}, ended: map[types.UID][]*models.Process{},
		released: map[*models.Process]bool{}, forgotten: map[*models.Process]bool{},
	}
}

// checkProcesses checks that one process of a command runs at most, and none after one that has ended with 0.
func (c *checks) checkProcesses() {
	p := &c.processes
	for i := 0; i < len(p.open); {
		if process := p.open[i]; !process.Runs() {
			p.open = append(p.open[:i], p.open[i+1:]...)
			if p.running[process.MiniCluster] == process {
				delete(p.running, process.MiniCluster)
			}
			p.ended[process.MiniCluster] = append(p.ended[process.MiniCluster], process)
			p.released[process] = c.wasReleased(process)
			continue
		}
		i++
	}
	all := c.world.kubelets.Processes()
	for ; p.seen < len(all); p.seen++ {
		if process := all[p.seen]; process.Command {
			c.began(process)
		}
	}
}

// began checks a run of a command that begins.
func (c *checks) began(process *models.Process) {
	p := &c.processes
	if other := p.running[process.MiniCluster]; other != nil && other.Runs() && !c.isExcused(other, process) {
		c.violate("the command of %s runs in pod %s on %s while it runs in pod %s on %s",
			c.nameOf(process.MiniCluster), process.PodName, process.Node, other.PodName, other.Node)
	}
	for _, before := range p.ended[process.MiniCluster] {
		forgiven := p.forgotten[before] && c.mayRunAgain(process.MiniCluster)
		if before.Code == 0 && !p.released[before] && !forgiven && !c.isExcused(before, process) {
			c.violate("the command of %s runs again in pod %s, but it ended with 0 in pod %s", c.nameOf(process.MiniCluster), process.PodName, before.PodName)
		}
	}
	if process.Runs() {
		p.running[process.MiniCluster] = process
		p.open = append(p.open, process)
	} else {
		p.ended[process.MiniCluster] = append(p.ended[process.MiniCluster], process)
		p.released[process] = c.wasReleased(process)
	}
}

// mayRunAgain reports whether the user lets a command run again that was lost.
func (c *checks) mayRunAgain(uid types.UID) bool {
	f := c.facts[uid]
	if f == nil || f.last == nil {
		return true
	}
	mc := f.last.DeepCopy()
	mc.Default()
	spec := &mc.Spec
	return spec.Elastic.OnLoss == v1alpha2.LossRecreate || spec.BackoffLimit > 0
}

// wasReleased reports whether the attempt of a process had to give its nodes back before the process ended.
func (c *checks) wasReleased(process *models.Process) bool {
	f := c.facts[process.MiniCluster]
	if f == nil || f.last == nil {
		return false
	}
	admission := f.last.Status.Admission
	return admission == nil || process.Since.Before(f.admitted[admission.Attempt])
}

// release notes an attempt that gave its nodes back: its runs that have ended, and whose end no kubelet has told yet, ended
// after that for everybody. A user who suspends a MiniCluster lets a run be repeated of which nobody knows the end.
func (c *checks) release(before, mc *v1alpha2.MiniCluster) {
	if before == nil || before.Status.Admission == nil || mc.Status.Admission != nil {
		return
	}
	c.checkProcesses()
	for _, process := range c.processes.ended[mc.UID] {
		if c.isUntold(process, mc) || c.processes.forgotten[process] && mc.Spec.Suspend {
			c.processes.released[process] = true
		}
	}
}

// isUntold reports whether no kubelet has told yet that a run has ended.
func (c *checks) isUntold(process *models.Process, mc *v1alpha2.MiniCluster) bool {
	pod := &corev1.Pod{}
	err := c.world.user.Get(c.world.ctx, types.NamespacedName{Namespace: mc.Namespace, Name: process.PodName}, pod)
	return err == nil && slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == mc.Name && s.State.Terminated == nil
	})
}

// isExcused reports whether the API server could not know of a process when another began: its node was cut off, or
// somebody had removed its pod by force.
func (c *checks) isExcused(other, process *models.Process) bool {
	at := other.Ended
	if other.Runs() {
		at = time.Now()
	}
	return c.world.wasUnknown(other.Node, at) || time.Now().Before(c.excused[process.MiniCluster])
}

func (c *checks) nameOf(uid types.UID) types.NamespacedName {
	if f := c.facts[uid]; f != nil {
		return f.name
	}
	return types.NamespacedName{Name: string(uid)}
}

// checkOutcome checks that the outcome of a MiniCluster is that of its command.
func (c *checks) checkOutcome(mc *v1alpha2.MiniCluster) {
	c.checkProcesses()
	var codes []int32
	for _, process := range c.processes.ended[mc.UID] {
		if !c.processes.released[process] {
			codes = append(codes, process.Code)
		}
	}
	succeeded := len(codes) > 0 && codes[len(codes)-1] == 0
	name, outcome := c.nameOf(mc.UID), outcomeOf(mc)
	if outcome == v1alpha2.ReasonSucceeded {
		ended := c.processes.ended[mc.UID]
		late := len(ended) > 0 && ended[len(ended)-1].Code == 0 // its attempt may have been ended before
		if !succeeded && !late && !mc.Spec.Interactive {
			c.violate("%s has Succeeded, but its command ended with %v", name, codes)
		}
		return
	}
	if c.processes.running[mc.UID] == nil && succeeded && !c.isUnknown(mc) {
		c.violate("%s is %s, but its command ended with %v", name, outcome, codes)
	}
	if outcome == v1alpha2.ReasonCommandFailed {
		c.checkFailure(mc)
	}
}

// checkFailure checks that a command failed which is said to have failed.
func (c *checks) checkFailure(mc *v1alpha2.MiniCluster) {
	if mc.Status.ExitCode != nil && *mc.Status.ExitCode == 0 {
		c.violate("%s is CommandFailed with exit code 0", c.nameOf(mc.UID))
	}
	if !c.neverRan(mc) {
		return
	}
	if mc.Status.ExitCode != nil {
		c.violate("%s has the exit code %d of a command that never ran", c.nameOf(mc.UID), *mc.Status.ExitCode)
	}
	if mc.Spec.Pod.Annotations[simulator.LeadFails] == "" {
		c.violate("%s is CommandFailed, but its command never ran: %s", c.nameOf(mc.UID), conditionOf(mc, v1alpha2.ConditionFinished).Message)
	}
}

// neverRan reports whether the command of a MiniCluster was never begun.
func (c *checks) neverRan(mc *v1alpha2.MiniCluster) bool {
	return c.processes.running[mc.UID] == nil && len(c.processes.ended[mc.UID]) == 0 && !mc.Spec.Interactive
}

// unseen is how long a command may have run without the manager knowing of it.
const unseen = 30 * time.Second

// probed is how long after the start of a command its kubelet tells of the start.
const probed = 3 * time.Second

// checkAttempts checks that the command did not run in attempts that say so, unless nobody could know.
func (c *checks) checkAttempts(mc *v1alpha2.MiniCluster) {
	f := c.facts[mc.UID]
	for _, attempt := range mc.Status.Attempts {
		if attempt.Started != nil {
			continue
		}
		for _, process := range c.processes.ended[mc.UID] {
			seen := process.Since.Before(f.ended[attempt.Attempt].Add(-unseen)) && !c.world.wasUnknown(process.Node, process.Since.Add(probed))
			if seen && process.Since.After(f.admitted[attempt.Attempt]) {
				c.violate("attempt %d of %s says that the command did not run, but it ran since %s in %s: %s",
					attempt.Attempt, c.nameOf(mc.UID), c.world.at(process.Since), process.PodName, attempt.Message)
			}
		}
	}
}

// forget notes that nobody can know how the runs of a MiniCluster ended, or will end.
func (c *checks) forget(namespace, name string) {
	c.checkProcesses()
	mc := &v1alpha2.MiniCluster{}
	if c.world.user.Get(c.world.ctx, types.NamespacedName{Namespace: namespace, Name: name}, mc) != nil {
		return
	}
	for _, process := range append(c.processes.ended[mc.UID], c.processes.running[mc.UID]) {
		c.processes.forgotten[process] = true // nil, too
	}
}

// isUnknown reports whether nobody could know how the last run ended.
func (c *checks) isUnknown(mc *v1alpha2.MiniCluster) bool {
	ended := c.processes.ended[mc.UID]
	last := ended[len(ended)-1]
	return c.processes.forgotten[last] || c.isUntold(last, mc) || c.world.wasUnknown(last.Node, last.Ended) || time.Now().Before(c.excused[mc.UID])
}

// checkRoom checks that the pods that are bound to a node fit on it, except those that its kubelet refused or that have
// ended. A JobSet controller that has not heard of its JobSet's end makes the Jobs again: the kubelet refuses their pods where
// there is no room, and the garbage collector deletes them. A rank whose pod is being deleted counts once.
func (c *checks) checkRoom(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || c.isOrphan(pod) {
		return
	}
	sum, leaving, staying := int64(0), map[string]int64{}, map[string]bool{}
	for _, object := range c.world.objects(&corev1.PodList{}) {
		other := object.(*corev1.Pod)
		if other.Spec.NodeName != pod.Spec.NodeName || other.Status.Phase == corev1.PodSucceeded || other.Status.Phase == corev1.PodFailed {
			continue
		}
		rank, isBroker := protocol.Rank(other)
		id := fmt.Sprintf("%s/%d", other.Labels[v1alpha2.UIDLabel], rank)
		if isBroker && other.DeletionTimestamp != nil {
			leaving[id] = max(leaving[id], cpus(other))
			continue
		}
		staying[id] = isBroker
		sum += cpus(other)
	}
	for id, amount := range leaving {
		if !staying[id] {
			sum += amount
		}
	}
	if sum > nodeCPUs {
		c.violate("the pods on %s want %d CPUs since %s is there", pod.Spec.NodeName, sum, pod.Name)
	}
}

// isOrphan reports whether the JobSet of a pod is gone.
func (c *checks) isOrphan(pod *corev1.Pod) bool {
	uid := pod.Labels[jobsetapi.JobSetUIDKey]
	return uid != "" && !slices.ContainsFunc(c.world.objects(&jobsetapi.JobSetList{}), func(set client.Object) bool { return string(set.GetUID()) == uid })
}

// cpus is how many CPUs the containers of a pod request.
func cpus(pod *corev1.Pod) (sum int64) {
	for i := range pod.Spec.Containers {
		sum += pod.Spec.Containers[i].Resources.Requests.Cpu().Value()
	}
	return sum
}
