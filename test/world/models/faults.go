// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// startFault keeps containers from starting.
type startFault struct {
	node, container string
	pod             types.UID
	reason          string
	times           int // how often it still happens; negative for always
}

// FailStart keeps containers from starting: on a node, of a pod, with a name; "" for all. The reason is that of a waiting
// container (ErrImagePull, CreateContainerError and others), or StartError. It happens a number of times, or always if
// that is negative. End ends it.
func (k *Kubelets) FailStart(node string, pod types.UID, container, reason string, times int) (end func()) {
	fault := &startFault{node: node, pod: pod, container: container, reason: reason, times: times}
	k.faults = append(k.faults, fault)
	return func() { fault.times = 0 }
}

func (k *Kubelets) faultOf(c *container) *startFault {
	for _, f := range k.faults {
		w := c.worker
		if f.times != 0 && (f.node == "" || f.node == w.node.name) && (f.pod == "" || f.pod == w.pod.UID) && (f.container == "" || f.container == c.spec.Name) {
			if f.times > 0 {
				f.times--
			}
			return f
		}
	}
	return nil
}

// failStart notes that the runtime could not start the container, and when it is tried again.
func (c *container) failStart(now time.Time, fault *startFault) {
	if fault.reason == "StartError" {
		at := metav1.NewTime(now)
		c.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: exitNotStarted, Reason: fault.reason, Message: "failed to create task for container", StartedAt: metav1.NewTime(time.Unix(0, 0)), FinishedAt: at,
		}}
		return
	}
	reason := fault.reason
	if reason == "ErrImagePull" && c.tries > 0 {
		reason = "ImagePullBackOff"
	}
	c.tries++
	c.state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "the model of the kubelet was told so"}}
}

// Cut cuts a node off from the API server. With alone it is also cut off from the other nodes, so that brokers on it lose
// the others. Its processes go on running.
func (k *Kubelets) Cut(node string, alone bool) {
	if n := k.byName[node]; n != nil && !n.off {
		n.renew()
		n.cut, n.alone = true, alone
		k.wakeAll()
	}
}

// Return joins a node again: one that was cut off at once, and one without power after its boot.
func (k *Kubelets) Return(node string) {
	n := k.byName[node]
	if n == nil {
		return
	}
	if n.off {
		n.off, n.down = false, time.Now().Add(k.cluster.between(20*time.Second, 2*time.Minute))
		for _, w := range n.workers {
			w.rebooted()
		}
	}
	n.cut, n.alone, n.unread = false, false, true
	k.wakeAll()
}

// PowerOff ends all processes of a node at once. Nobody hears of it.
func (k *Kubelets) PowerOff(node string) {
	n := k.byName[node]
	if n == nil || n.off {
		return
	}
	n.renew()
	n.off, n.down = true, time.Time{}
	now := time.Now()
	for _, w := range n.workers {
		for _, c := range w.containers() {
			if c.isRunning() {
				c.process.end(now, -1)
			}
			if c.broker != nil {
				c.broker.isMute = true
				c.broker.died(now)
				c.broker = nil
			}
		}
	}
	k.wakeAll()
}

// Restart ends the kubelet's own process on a node for some seconds. Containers go on running, but what the kubelet has not
// written yet of an eviction is lost.
func (k *Kubelets) Restart(node string) {
	n := k.byName[node]
	if n == nil || n.off {
		return
	}
	n.renew()
	n.down = time.Now().Add(k.cluster.between(time.Second, 15*time.Second))
	for _, w := range n.workers {
		if w.evicted && !w.isWritten {
			w.evicted, w.reason, w.message = false, "", ""
		}
	}
}

// renew keeps the time of the last heartbeat of a node that is about to go.
func (n *kubelet) renew() {
	if n.runs() && !n.cut {
		n.renewed = time.Now()
	}
}

// rebooted is what a kubelet finds of a pod after its node had no power: the runtime does not know how the containers ended.
func (w *worker) rebooted() {
	for _, c := range w.containers() {
		c.startAt, c.probeAt = time.Time{}, time.Time{}
		if c.isRunning() {
			c.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: exitUnknown, Reason: "Unknown", Message: c.termination, StartedAt: c.state.Running.StartedAt, FinishedAt: metav1.NewTime(time.Now()),
			}}
			c.started, c.ready, c.endAt = false, false, time.Time{}
		}
	}
	w.isWritten = false
}

// Evict lets the kubelet evict a pod, for example for memory (pkg/kubelet/eviction).
func (k *Kubelets) Evict(pod types.UID, message string) {
	if w := k.workerOf(pod); w != nil && w.stage != ended && w.killBy.IsZero() && w.node.runs() {
		w.evicted, w.reason, w.message = true, "Evicted", message
		w.kill(time.Now(), time.Second)
	}
}

// OOM kills the process of a container that uses too much memory.
func (k *Kubelets) OOM(pod types.UID, container string) {
	k.Kill(pod, container, exitKilled, "OOMKilled")
}

// Kill ends the process of a container at once, with an exit code and a reason ("" for the usual one).
func (k *Kubelets) Kill(pod types.UID, name string, code int32, reason string) {
	w := k.workerOf(pod)
	if w == nil || w.node.off {
		return
	}
	for _, c := range w.containers() {
		if c.spec.Name == name && c.isRunning() {
			c.endAt, c.endCode, c.endReason = time.Now(), code, reason
		}
	}
}

// workerOf is the pod on its node; nil if no kubelet has it.
func (k *Kubelets) workerOf(pod types.UID) *worker {
	for _, n := range k.nodes {
		for _, w := range n.workers {
			if w.pod.UID == pod {
				return w
			}
		}
	}
	return nil
}

func (k *Kubelets) wakeAll() {
	for _, i := range k.instances {
		i.moved = true
	}
}
