// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults of fields whose parent may be left out: the schema cannot set these defaults.
const (
	DefaultQueue         = "default"
	DefaultImage         = "ghcr.io/rse-ops/accounting:app-latest"
	DefaultViewName      = "flux-view"
	DefaultViewImage     = "ghcr.io/converged-computing/flux-view-ubuntu:tag-noble"
	DefaultViewMountPath = "/mnt/flux"
	DefaultOutputDir     = "/tmp/fluxout"
	DefaultLogLevel      = 6
	DefaultPort          = 8050
	DefaultInterface     = "eth0"
	DefaultClusterDomain = "cluster.local"

	DefaultQuorumTimeout = 2 * time.Minute
	DefaultStartTimeout  = 10 * time.Minute
	DefaultRecreateLimit = 5
	DefaultRequeueLimit  = 10
	DefaultBackoffBase   = 30 * time.Second
	DefaultBackoffMax    = 30 * time.Minute
	DefaultPatience      = 5 * time.Minute
	DefaultHalfLife      = 7 * 24 * time.Hour
	DefaultNodeTimeout   = 10 * time.Minute
	DefaultNodeCooldown  = 2 * time.Minute
	DefaultGrace         = 30 * time.Second
	DefaultMaxGrace      = 10 * time.Minute

	DefaultCheckpointWait = 2 * time.Minute

	// DefaultDeadlineSeconds means that no deadline is set. The schema of the Flux Operator has
	// the same default, so it cannot be told from a missing field.
	DefaultDeadlineSeconds = 31500000
)

// Default sets every field that has a default and is not set, and removes a leadBroker without
// an address. It does not set fields whose empty value has a meaning of its own: queue,
// elastic.resize (see ResizePolicy), flux.connectTimeout, flux.topology.
func (mc *MiniCluster) Default() {
	s := &mc.Spec
	setDefault(&s.Size, 1)
	setDefault(&s.MaxSize, s.Size)
	setDefault(&s.MinSize, s.Size)
	setDefaultPointer(&s.Tasks, 1)
	setDefault(&s.Placement.Policy, PlacementPack)
	setDefault(&s.Placement.Topology, TopologyPreferred)
	setDefaultPointer(&s.DeadlineSeconds, DefaultDeadlineSeconds)
	s.Elastic.setDefaults()

	setDefault(&s.Network.HeadlessName, mc.Name)
	setDefault(&s.Network.Port, DefaultPort)
	setDefault(&s.Network.Interface, DefaultInterface)
	setDefault(&s.Network.ClusterDomain, DefaultClusterDomain)
	setDefault(&s.Flux.Resources, ResourcesOfPod)
	setDefaultPointer(&s.Flux.LogLevel, DefaultLogLevel)
	setDefault(&s.Flux.Container.Name, DefaultViewName)
	setDefault(&s.Flux.Container.Image, DefaultViewImage)
	setDefault(&s.Flux.Container.MountPath, DefaultViewMountPath)
	s.Flux.Container.MountPath = path.Clean(s.Flux.Container.MountPath) // paths that are made of it are compared
	setDefault(&s.Flux.Scheduler.QueuePolicy, "easy")
	s.Flux.Bursting.setDefaults(s.MaxSize)

	if len(s.Containers) == 1 {
		s.Containers[0].RunFlux = true
	}
	for i := range s.Containers {
		s.Containers[i].setDefaults()
		if s.Containers[i].RunFlux {
			s.Containers[i].Name = mc.Name
		}
	}
	s.setOnLoss()
	for i := range s.Services {
		s.Services[i].setDefaults()
		s.Services[i].RunFlux = false // Flux runs in none of them
	}
}

// setOnLoss sets onLoss, whose default depends on how the command runs.
func (s *MiniClusterSpec) setOnLoss() {
	switch {
	case s.Elastic.Checkpoint != nil:
		setDefault(&s.Elastic.OnLoss, LossRecreate)
	case s.submitsItself() || s.FluxContainer().Batch:
		setDefault(&s.Elastic.OnLoss, LossContinue)
	}
	setDefault(&s.Elastic.OnLoss, LossFail)
}

func (b *Bursting) setDefaults(size int32) {
	for i := range b.Clusters {
		setDefault(&b.Clusters[i].Name, fmt.Sprintf("burst-%d", i))
		setDefault(&b.Clusters[i].Size, size)
	}
	if b.LeadBroker != nil && b.LeadBroker.Address == "" {
		b.LeadBroker = nil
	}
	if b.LeadBroker != nil {
		setDefault(&b.LeadBroker.Port, DefaultPort)
	}
}

func (c *MiniClusterContainer) setDefaults() {
	setDefault(&c.Image, DefaultImage)
	setDefault(&c.Logs, DefaultOutputDir)
}

func (e *ElasticSpec) setDefaults() {
	setDefaultDuration(&e.WaitForSize, 0)
	setDefaultDuration(&e.QuorumTimeout, DefaultQuorumTimeout)
	setDefaultDuration(&e.StartTimeout, DefaultStartTimeout)
	setDefault(&e.Tasks.Scaling, TasksPerNode)
	setDefault(&e.Tasks.Constraint, TasksAny)
	setDefaultPointer(&e.Recreate.Limit, DefaultRecreateLimit)
	setDefaultPointer(&e.RequeueLimit, DefaultRequeueLimit)
	setDefaultDuration(&e.Recreate.BackoffBase, DefaultBackoffBase)
	setDefaultDuration(&e.Recreate.BackoffMax, DefaultBackoffMax)
	setDefault(&e.Recreate.SizePolicy, SizeSame)
	if e.Sizes == nil {
		e.Sizes = &Sizes{}
	}
	setDefault(&e.Sizes.Operator, "+")
	setDefault(&e.Sizes.Operand, 1)
	if e.Checkpoint != nil {
		setDefaultDuration(&e.Checkpoint.Wait, DefaultCheckpointWait)
	}
}

// Default sets every field that has a default and is not set.
func (q *MiniClusterQueue) Default() {
	setDefault(&q.Spec.Weight, 1)
	setDefaultPointer(&q.Spec.Reclaimable, true)
	setDefault(&q.Spec.Ordering, OrderPriority)
	setDefault(&q.Spec.Backfill, BackfillEASY)
	setDefaultDuration(&q.Spec.Patience, DefaultPatience)
	setDefault(&q.Spec.Requeue, RequeueOriginal)
	setDefaultDuration(&q.Spec.Grace, DefaultGrace)
	setDefaultDuration(&q.Spec.MaxGrace, DefaultMaxGrace)
	if q.Spec.Users != nil {
		setDefaultDuration(&q.Spec.Users.HalfLife, DefaultHalfLife)
	}
	if s := q.Spec.ScaleUp; s != nil {
		setDefaultDuration(&s.Timeout, DefaultNodeTimeout)
		setDefaultDuration(&s.Cooldown, DefaultNodeCooldown)
		if s.Provider == ProvideByRequest {
			setDefault(&s.Class, DefaultProvisioningClass)
		}
	}
}

// IsSuspended reports whether a MiniCluster is to hold nothing: it is suspended, or deleted, and something keeps it.
func (mc *MiniCluster) IsSuspended() bool { return mc.Spec.Suspend || mc.DeletionTimestamp != nil }

// LeastSize returns the smallest size to start at: minSize, unless size was lowered below
// minSize. The spec must have its defaults.
func (s *MiniClusterSpec) LeastSize() int32 { return min(s.MinSize, s.Size) }

// IsOurs reports whether this project carries out the MiniCluster.
func (s *MiniClusterSpec) IsOurs() bool { return s.ManagedBy == "" || s.ManagedBy == ManagedBy }

// MostSize returns the largest number of brokers for which pods are made: maxSize, or size if the
// MiniCluster cannot grow. With bursting it is maxSize in any case, because the other
// MiniClusters of the instance know the hosts up to maxSize. The spec must have its defaults.
func (s *MiniClusterSpec) MostSize() int32 {
	if s.Malleable() || s.Flux.Bursting.Used() {
		return s.MaxSize
	}
	return s.Size
}

// ResizePolicy returns how the command follows when brokers join or leave: elastic.resize, or its default.
func (s *MiniClusterSpec) ResizePolicy() ResizePolicy {
	switch {
	case s.Elastic.Resize != "":
		return s.Elastic.Resize
	case s.submitsItself():
		return ResizeFlux
	}
	return ResizeNone
}

// submitsItself reports whether the command submits jobs of its own, or users do.
func (s *MiniClusterSpec) submitsItself() bool {
	return s.ForUsers() || (len(s.Containers) > 0 && s.FluxContainer().Launcher)
}

// ForUsers reports whether Flux starts and waits for users: the MiniCluster is interactive, or has no command.
func (s *MiniClusterSpec) ForUsers() bool {
	return s.Interactive || len(s.Containers) > 0 && s.FluxContainer().Text() == ""
}

// Text returns what the lead runs: commands.script, or else the command; "" if there is nothing but space.
func (c *MiniClusterContainer) Text() string {
	if text := cmp.Or(c.Commands.Script, c.Command); strings.TrimSpace(text) != "" {
		return text
	}
	return ""
}

// Malleable reports whether brokers can join and leave while the MiniCluster runs: the command goes on
// without a break, or it is run again.
func (s *MiniClusterSpec) Malleable() bool { return s.ResizePolicy() != ResizeNone }

// TellsRuns reports whether the readiness of the lead tells more than that the command was begun: that the command runs
// again, or has written a checkpoint.
func (s *MiniClusterSpec) TellsRuns() bool {
	return s.ResizePolicy() == ResizeRestart || s.Elastic.Checkpoint.Tells()
}

// Tells reports whether it can be seen that a checkpoint is written while the command runs. c may be nil.
func (c *Checkpoint) Tells() bool { return c != nil && (c.Path != "" || c.Interval != nil) }

// Used reports whether the Flux instance may have brokers of other MiniClusters.
func (b *Bursting) Used() bool {
	return b.LeadBroker != nil || b.Hostlist != "" || len(b.Clusters) > 0
}

// FluxContainer returns the container in which Flux runs: the one with runFlux, or else the
// first. Default sets runFlux of a single container.
func (s *MiniClusterSpec) FluxContainer() *MiniClusterContainer {
	for i := range s.Containers {
		if s.Containers[i].RunFlux {
			return &s.Containers[i]
		}
	}
	return &s.Containers[0]
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setDefaultPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func setDefaultDuration(field **metav1.Duration, value time.Duration) {
	setDefaultPointer(field, metav1.Duration{Duration: value})
}
