// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// Exit codes that container runtimes and kubelets make up.
const (
	exitKilled     = 137 // SIGKILL
	exitTerminated = 143 // SIGTERM
	exitNotStarted = 128 // StartError
	exitUnknown    = 255 // the node was rebooted meanwhile
)

// container is a container of a pod on its node.
type container struct {
	worker *worker
	spec   *corev1.Container
	// state and last are those of its status. restarts is how often it was started again.
	state, last corev1.ContainerState
	restarts    int32
	// started and ready are what the probes have found. probeAt is when the next probe finds something else.
	started, ready bool
	probeAt        time.Time
	phase          time.Duration // of the probes within their period
	// file is true while the file exists for which the probes look.
	file bool
	// startAt is when the runtime starts it; zero if nobody has asked the runtime to.
	startAt time.Time
	tries   int // attempts to start it that failed since it last ran
	// endAt is when its process ends, with which code, reason and termination message; zero if nobody knows.
	endAt                  time.Time
	endCode                int32
	endReason, termination string
	// isSignalled is true once the process was asked to end. It is killed at killBy.
	isSignalled bool
	killBy      time.Time
	process     *Process
	broker      *broker
}

func newContainer(w *worker, spec *corev1.Container) *container {
	c := &container{worker: w, spec: spec}
	c.state.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	if len(w.pod.Spec.InitContainers) > 0 {
		c.state.Waiting.Reason = "PodInitializing"
	}
	return c
}

func (c *container) isSidecar() bool { return isSidecar(c.spec) }

// isInit reports whether the container has to complete before others start.
func (c *container) isInit() bool {
	for i := range c.worker.init {
		if c.worker.init[i] == c {
			return !c.isSidecar()
		}
	}
	return false
}

func (c *container) isRunning() bool { return c.state.Running != nil }

// restarts reports whether the container is started again after an exit code.
func (c *container) isRestarted(code int32) bool {
	if c.isSidecar() {
		return true
	}
	switch c.worker.pod.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	default:
		return !c.isInit() || code != 0
	}
}

// failedForGood reports whether the pod cannot start any more.
func (c *container) failedForGood() bool {
	ended := c.state.Terminated
	return c.isInit() && ended != nil && ended.ExitCode != 0 && !c.isRestarted(ended.ExitCode)
}

// isInitialized reports whether the containers after this init container may start.
func (c *container) isInitialized() bool {
	if c.isSidecar() {
		return c.started
	}
	return c.state.Terminated != nil && c.state.Terminated.ExitCode == 0
}

// isOver reports whether the container has ended and is not started again.
func (c *container) isOver() bool {
	return c.state.Terminated != nil && !c.isRestarted(c.state.Terminated.ExitCode)
}

// next is when something happens by time alone.
func (c *container) next() time.Time {
	next := c.endAt
	if c.worker.node.runs() { // without a kubelet only the processes go on
		next = soonest(next, c.startAt)
	}
	if c.isRunning() {
		if c.worker.node.runs() && c.worker.killBy.IsZero() { // probes end with the pod
			next = soonest(next, c.probeAt)
		}
		if c.isSignalled {
			next = soonest(next, c.killBy)
		}
	}
	return next
}

// run starts the container, or looks at its probes.
func (c *container) run(now time.Time) bool {
	switch {
	case c.isRunning():
		return c.probe(now)
	case c.isInit() && c.isInitialized(), c.isOver():
		return false
	case c.startAt.IsZero():
		c.startAt = now.Add(c.pause())
		return true
	case now.Before(c.startAt):
		return false
	}
	c.startAt = time.Time{}
	if fault := c.worker.node.all.faultOf(c); fault != nil {
		c.failStart(now, fault)
		return true
	}
	c.start(now)
	return true
}

// pause is how long it takes to start the container, with the pause after failures.
func (c *container) pause() time.Duration {
	random := c.worker.random()
	pause := random.between(100*time.Millisecond, 1500*time.Millisecond)
	if random.chance(0.1) { // the image is not on the node
		pause = random.between(3*time.Second, 30*time.Second)
	}
	switch {
	case c.tries > 0:
		pause += min(10*time.Second<<min(c.tries-1, 5), 5*time.Minute)
	case c.restarts > 1 || c.restarts == 1 && c.state.Terminated != nil:
		pause += min(10*time.Second<<min(c.restarts-1, 5), 5*time.Minute)
		if ended := c.state.Terminated; ended != nil {
			c.last, c.state = c.state, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		}
	}
	return pause
}

// start starts the process.
func (c *container) start(now time.Time) {
	if c.state.Terminated != nil {
		c.last = c.state
	}
	if c.last.Terminated != nil {
		c.restarts++
	}
	c.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}
	c.tries, c.isSignalled, c.file, c.endAt, c.termination = 0, false, false, time.Time{}, ""
	c.started, c.ready = c.spec.StartupProbe == nil, c.spec.StartupProbe == nil && c.spec.ReadinessProbe == nil
	c.probeAt, c.phase = time.Time{}, c.worker.random().between(0, time.Second)
	c.process = c.worker.node.all.begin(c, now)
	switch {
	case c.isInit():
		c.endAt, c.endCode = now.Add(c.worker.random().between(100*time.Millisecond, 2*time.Second)), c.initCode()
	case isBroker(c):
		c.worker.node.all.join(c, now)
	case len(c.spec.Command) > 0 && c.spec.Command[0] == Injected:
		if after, code, ends := endOfInjected(c.spec.Command[1:]); ends {
			c.endAt, c.endCode = now.Add(after), code
		}
	default:
		if runtime, code, ends := playOf(c.worker.pod); ends && !c.isSidecar() {
			c.endAt, c.endCode = now.Add(runtime), code
		}
	}
}

// Injected is the program of containers that others add to pods. It runs for the duration in its first argument, and ends with
// the exit code in the second one. Without arguments it never ends.
const Injected = "injected"

func endOfInjected(args []string) (after time.Duration, code int32, ends bool) {
	if len(args) != 2 {
		return 0, 0, false
	}
	after, unread := time.ParseDuration(args[0])
	number, unreadToo := strconv.ParseInt(args[1], 10, 32)
	if unread != nil || unreadToo != nil {
		return 0, 2, true
	}
	return after, int32(number), true
}

// initCode is the exit code of an init container: 1 if the annotation LeadFails says so.
func (c *container) initCode() int32 {
	pod := c.worker.pod
	if pod.Annotations[simulator.LeadFails] == simulator.PhaseInit && c == c.worker.init[0] && isLead(pod) {
		return 1
	}
	return 0
}

// signal asks the process to end, or keeps the container from starting.
func (c *container) signal(now, killBy time.Time) {
	c.killBy, c.startAt = killBy, time.Time{}
	if !c.isRunning() || c.isSignalled {
		return
	}
	c.isSignalled = true
	if c.broker != nil {
		c.broker.signal(now)
		return
	}
	random := c.worker.random()
	if random.chance(0.1) { // it ignores the signal
		return
	}
	if at := now.Add(random.between(0, 2*time.Second)); c.endAt.IsZero() || at.Before(c.endAt) {
		c.endAt, c.endCode = at, exitTerminated
	}
}

// exit ends the process if it is due.
func (c *container) exit(now time.Time) bool {
	switch {
	case !c.isRunning():
		return false
	case !c.endAt.IsZero() && !now.Before(c.endAt):
		c.terminate(now, c.endCode, c.endReason)
	case c.isSignalled && !now.Before(c.killBy):
		c.terminate(now, exitKilled, "")
	default:
		return false
	}
	return true
}

// terminate ends the process now.
func (c *container) terminate(now time.Time, code int32, reason string) {
	if reason == "" {
		reason = "Error"
		if code == 0 {
			reason = "Completed"
		}
	}
	c.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, Message: c.termination, StartedAt: c.state.Running.StartedAt, FinishedAt: metav1.NewTime(now),
	}}
	c.started, c.ready, c.endAt, c.probeAt = false, false, time.Time{}, time.Time{}
	c.process.end(now, code)
	if c.broker != nil {
		c.broker.died(now)
		c.broker = nil
	}
	if !c.worker.killBy.IsZero() {
		return
	}
	c.worker.isWritten = false
}

// probe lets the kubelet look for the file. It looks once a period; looks that find nothing new are left out.
func (c *container) probe(now time.Time) bool {
	probe := c.spec.ReadinessProbe
	if !c.started {
		probe = c.spec.StartupProbe
	}
	if probe == nil {
		moved := !c.started || !c.ready
		c.started, c.ready = true, true
		return moved
	}
	if c.file == (c.started && c.ready) || !c.started && !c.file {
		moved := !c.probeAt.IsZero()
		c.probeAt = time.Time{}
		return moved
	}
	if c.probeAt.IsZero() {
		c.probeAt = c.nextProbe(now, probe)
		return true
	}
	if now.Before(c.probeAt) {
		return false
	}
	// The startup probe ends with its success, and the readiness probe runs at once.
	c.started, c.ready, c.probeAt = true, c.file, time.Time{}
	c.worker.node.all.wake(c.worker)
	return true
}

// nextProbe is when a probe has looked often enough to find something else.
func (c *container) nextProbe(now time.Time, probe *corev1.Probe) time.Time {
	period := time.Duration(max(probe.PeriodSeconds, 1)) * time.Second
	began := c.state.Running.StartedAt.Add(c.phase)
	since := now.Sub(began)
	if since < 0 {
		return began
	}
	at := now.Add(period - since%period)
	if c.ready {
		at = at.Add(time.Duration(max(probe.FailureThreshold-1, 0)*probe.PeriodSeconds) * time.Second)
	}
	return at
}

// isBroker reports whether a broker runs in the container.
func isBroker(c *container) bool {
	pod := c.worker.pod
	return pod.Labels[v1alpha2.MiniClusterLabel] == c.spec.Name && instanceOf(pod) != ""
}
