// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Process is a process on a node: the main process of a container, or a run of a command. It is known whether or not the
// API server knows of it.
type Process struct {
	// MiniCluster is the UID of the MiniCluster; "" if the pod belongs to none.
	MiniCluster types.UID
	Pod         types.UID
	Namespace   string
	PodName     string
	Node        string
	Container   string
	// Command is true for a run of the command, which the lead starts. Run counts the runs of this lead.
	Command bool
	Run     int
	// Brokers are how many brokers have a part in the command.
	Brokers int
	Since   time.Time
	// Ended is when it ended; zero if it runs. Code is its exit code then; -1 if it was never reported, for example since
	// its node lost its power.
	Ended time.Time
	Code  int32
}

// Runs reports whether the process runs.
func (p *Process) Runs() bool { return p.Ended.IsZero() }

// Processes are all processes, also those that have ended, in the order in which they began. They may only be read.
func (k *Kubelets) Processes() []*Process { return k.processes }

func (k *Kubelets) begin(c *container, now time.Time) *Process {
	pod := c.worker.pod
	p := &Process{
		MiniCluster: miniClusterOf(pod), Pod: pod.UID, Namespace: pod.Namespace, PodName: pod.Name, Node: c.worker.node.name,
		Container: c.spec.Name, Since: now,
	}
	k.processes = append(k.processes, p)
	return p
}

// command begins a run of the command of a lead's container.
func (k *Kubelets) command(c *container, run, brokers int, now time.Time) *Process {
	p := k.begin(c, now)
	p.Command, p.Run, p.Brokers = true, run, brokers
	return p
}

func (p *Process) end(now time.Time, code int32) {
	if p != nil && p.Runs() {
		p.Ended, p.Code = now, code
	}
}

func miniClusterOf(pod *corev1.Pod) types.UID { return types.UID(pod.Labels[v1alpha2.UIDLabel]) }
