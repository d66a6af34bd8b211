// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/constants"
	"sigs.k8s.io/jobset/pkg/util/placement"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// A check asks the API server as the manager, and before the Jobs are there. Policies, webhooks and quotas may refuse the
// Jobs and pods of Kubernetes after all, which says so in events alone.

const (
	// refusalGrace is how long no further pod may be made before the events are read that say why. The pause doubles.
	refusalGrace = 5 * time.Second
	// What is read of the events of a namespace for a reason: so many, a page at a time, until they have so many bytes. Users
	// may write events. mostMessage is how much of a message is kept.
	mostEvents     = 500
	pageOfEvents   = 10
	mostEventBytes = 4 << 20
	mostMessage    = 1 << 10
)

// missing is what is known of pods that are to be made, and are not there.
type missing struct {
	// there is how many pods there are, and since is since when there are as many. look is when the events are read next.
	there       int
	since, look time.Time
}

// lookout finds out by events why pods are not made, or do not start.
type lookout struct {
	live     live
	memories *memories
	events   refusals
}

// lookForRefusal finds out why pods are not made. If the API server refuses them, or what they need to start, the check has
// failed after all. Events that cannot be read keep nothing else from being done.
func (l *lookout) lookForRefusal(ctx context.Context, seen *observed) {
	memory := seen.memory
	if !seen.observation.Started.IsZero() {
		memory.refusals = 0
	}
	refused, a := memory.refused, seen.observation.Admission
	if memory.refused.why = ""; refused.why != "" && a != nil && refused.attempt == a.Attempt {
		l.refuse(seen, refused.why)
		return
	}
	if !lacksPods(seen) {
		memory.missing = missing{}
		l.lookForMounts(ctx, seen)
		return
	}
	m := &memory.missing
	if m.since.IsZero() || len(seen.view.Pods) > m.there {
		*m = missing{there: len(seen.view.Pods), since: seen.now, look: seen.now.Add(refusalGrace)}
	}
	if !seen.now.Before(m.look) {
		m.look = seen.now.Add(max(seen.now.Sub(m.since), refusalGrace))
		why, err := l.events.of(ctx, l.live, seen.view.JobSet, seen.now, m.since)
		switch {
		case errors.Is(err, errReading):
			m.look = seen.now.Add(time.Second)
		case err != nil:
			ctrl.LoggerFrom(ctx).Error(err, "Reading why pods are not made")
		case why != "":
			l.refuse(seen, why)
			return
		}
	}
	seen.lookAgain = elastic.Earliest(seen.lookAgain, m.look)
}

// lacksPods reports whether pods are to be made, and are not there.
func lacksPods(seen *observed) bool {
	o := seen.observation
	if o.Admission == nil {
		return o.Trial && o.Workload == life.Ahead
	}
	isMissing := func(b life.Broker) bool { return b.State == life.Missing && !b.NodeGone }
	return o.Workload == life.Active && o.Started.IsZero() && slices.ContainsFunc(o.Brokers, isMissing)
}

// neededError is about something without which brokers cannot start: names, files, Services, a placement.
type neededError struct{ error }

func (e *neededError) Unwrap() error { return e.error }

func needed(err error) error {
	if err == nil {
		return nil
	}
	return &neededError{err}
}

// noteRefusal lets the next pass give the nodes back of brokers that wait in vain: a quota, a policy or a webhook refuses what
// they need to start, or it is gone for good or somebody else has its name and no broker has begun. It returns when the next pass is due.
func noteRefusal(seen *observed, err error) time.Time {
	o, need, gone, clash := seen.observation, (*neededError)(nil), (*goneError)(nil), (*nameClashError)(nil)
	inVain := (errors.As(err, &gone) || errors.As(err, &clash)) && !seen.view.Mounted() || errors.As(err, &need) && isRefusal(err.Error())
	if !inVain || o.Admission == nil || o.MayRun(seen.now) || o.Outcome != "" {
		return seen.now.Add(recheckInterval)
	}
	seen.memory.refused.attempt, seen.memory.refused.why = o.Admission.Attempt, fmt.Sprintf("brokers cannot start: %s", err)
	return seen.now.Add(time.Second)
}

// refuse lets the check fail because Kubernetes cannot make the Jobs or pods. The pause until the next check doubles until a
// command begins.
func (l *lookout) refuse(seen *observed, why string) {
	memory, mc := seen.memory, seen.view.MiniCluster
	result := rejection(seen.now, v1alpha2.ReasonPodRejected, why)
	if isQuotaText(why) {
		result = overQuota(seen, why)
	}
	memory.refuse(mc, result)
	if seen.observation.Admission != nil {
		seen.observation.Refused = why
		return
	}
	seen.check, seen.observation.Rejected, seen.observation.Trial = result, result.Message, false
	l.memories.endTrial(mc)
}

// refusals are the events of namespaces that say why Jobs and pods are not made. MiniClusters share them for some time.
type refusals struct {
	mutex       sync.Mutex
	byNamespace map[string]*namespaceEvents
}

// namespaceEvents are those of a namespace, which one reconciler reads at a time.
type namespaceEvents struct {
	reading sync.Mutex
	last    atomic.Pointer[eventsAt]
}

// eventsAt are events that were read at a time.
type eventsAt struct {
	at     time.Time
	events []failure
}

// failure is such an event.
type failure struct {
	kind, name string
	uid        types.UID
	at         time.Time
	message    string
}

// of is what the API server said last to those who make the Jobs of a JobSet, and the brokers' pods of the Jobs, which are
// missing since some time; "" if that is not known. Events may come late: the Job controller writes them one after the other.
func (f *refusals) of(ctx context.Context, live client.Reader, set *jobsetapi.JobSet, now, since time.Time) (string, error) {
	events, err := f.in(set.Namespace, now).read(ctx, live, set.Namespace, now)
	if err != nil {
		return "", err
	}
	names := map[string]bool{}
	for i := range set.Spec.ReplicatedJobs {
		of := set.Spec.ReplicatedJobs[i].Name
		names[placement.GenJobName(set.Name, of, 0)] = of != v1alpha2.ServicesJob
	}
	var last failure
	for _, e := range events {
		isOurs := e.kind == "Job" && names[e.name] || e.kind == "JobSet" && e.uid == set.UID
		isNew := !e.at.Before(set.CreationTimestamp.Time) && since.Sub(e.at) <= refusalGrace // nothing was made after it
		if isOurs && isNew && e.at.After(last.at) {
			last = e
		}
	}
	what := "pods"
	if last.kind == "JobSet" {
		what = "Jobs"
	}
	if text := saysMaker.ReplaceAllString(last.message, ""); isRefusal(text) {
		return fmt.Sprintf("the %s are refused: %s", what, objectName.ReplaceAllString(text, "")), nil
	}
	return "", nil
}

// saysMaker is how the messages of the Job controller and of JobSet's begin.
var saysMaker = regexp.MustCompile(`^(\(combined from similar events\): )?(Error creating: |job "[^"]*" creation failed with error: )?`)

// in are the events of a namespace.
func (f *refusals) in(namespace string, now time.Time) *namespaceEvents {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.byNamespace == nil {
		f.byNamespace = map[string]*namespaceEvents{}
	}
	maps.DeleteFunc(f.byNamespace, func(_ string, n *namespaceEvents) bool { return now.Sub(n.last.Load().at) > time.Minute && n.isIdle() })
	known := f.byNamespace[namespace]
	if known == nil {
		known = &namespaceEvents{}
		known.last.Store(&eventsAt{at: now.Add(-refusalGrace)})
		f.byNamespace[namespace] = known
	}
	return known
}

func (n *namespaceEvents) isIdle() bool {
	if !n.reading.TryLock() {
		return false
	}
	n.reading.Unlock()
	return true
}

// errReading is what those find who want to know what is being read.
var errReading = errors.New("the events are being read")

func (n *namespaceEvents) read(ctx context.Context, live client.Reader, namespace string, now time.Time) ([]failure, error) {
	isNew := func() bool { return now.Sub(n.last.Load().at) < refusalGrace }
	if !isNew() {
		if !n.reading.TryLock() {
			return nil, errReading
		}
		defer n.reading.Unlock()
	}
	if isNew() {
		return n.last.Load().events, nil
	}
	ctx, cancel := context.WithTimeout(ctx, refusalGrace)
	defer cancel()
	var events []failure
	for _, reason := range []string{"FailedCreate", constants.JobCreationFailedReason, failedMount} {
		some, err := failures(ctx, live, namespace, reason)
		if err != nil {
			n.last.Store(&eventsAt{now, n.last.Load().events}) // nobody tries again at once
			return nil, fmt.Errorf("listing events: %w", err)
		}
		events = append(events, some...)
	}
	n.last.Store(&eventsAt{now, events})
	return events, nil
}

// failures are the events of a namespace that have a reason, and are of Jobs, JobSets and pods.
func failures(ctx context.Context, live client.Reader, namespace, reason string) ([]failure, error) {
	var out []failure
	read, size, next := 0, 0, ""
	for read < mostEvents && size < mostEventBytes {
		var list corev1.EventList
		if err := live.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{"reason": reason}, client.Limit(pageOfEvents), client.Continue(next)); err != nil {
			return nil, err
		}
		read += len(list.Items)
		for i := range list.Items {
			e := &list.Items[i]
			size += e.Size()
			if of := e.InvolvedObject; slices.Contains(told, of.Kind) && len(of.Name)+len(of.UID) <= mostMessage { // the API server bounds neither
				message := strings.ToValidUTF8(e.Message[:min(len(e.Message), mostMessage)], "")
				out = append(out, failure{of.Kind, of.Name, of.UID, lastSeen(e), strings.Clone(message)}) // without the rest of the message
			}
		}
		if next = list.Continue; next == "" {
			break
		}
	}
	return out, nil
}

// told are the kinds of which events say why pods are not made, or do not start.
var told = []string{"Job", "JobSet", "Pod"}

// lastSeen is when an event was seen last.
func lastSeen(e *corev1.Event) time.Time {
	at := e.EventTime.Time
	if e.LastTimestamp.After(at) {
		at = e.LastTimestamp.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}

// isRefusal reports whether a message says that the API server refuses an object as things are. Conflicts, timeouts and
// webhooks that do not answer pass.
func isRefusal(text string) bool {
	return !passes.MatchString(text) && (strings.Contains(text, " is forbidden: ") || strings.Contains(text, " is invalid: ") || saysDenied(text))
}

// passes are the words of what passes. An API server that has just started may not know the roles yet: then it says that a
// user, for example a controller, cannot do what the user may.
var passes = regexp.MustCompile(`failed calling webhook|status unknown for quota|quota evaluation timed out| is forbidden: User "[^"]*" cannot \S+ resource "`)

// A pod does not start while a Secret or ConfigMap does not exist that the pod mounts. No check knows that before, since the
// manager may not read Secrets, and only events of the kubelet say so.

const (
	// mountGrace is how long a kubelet may take to mount the volumes of a pod before events are read.
	mountGrace = 10 * time.Second
	// failedMount is the reason of the kubelet's events.
	failedMount = "FailedMount"
)

// saysUnmounted matches what a kubelet says of an object that a volume needs, and that does not exist.
var saysUnmounted = regexp.MustCompile(`(?:secrets?|configmaps?) "([^"]*)" not found`)

// lookForMounts finds out why the pods of an attempt do not start that could not have begun: their nodes go back if what they
// mount does not exist.
func (l *lookout) lookForMounts(ctx context.Context, seen *observed) {
	o := seen.observation
	if o.Admission == nil || o.Outcome != "" || o.Workload != life.Active || o.MayRun(seen.now) {
		return
	}
	waits := map[types.UID]time.Duration{}
	for _, pod := range seen.view.Brokers() {
		placed := pod.Broker.Placed
		if placed.IsZero() || !awaitsVolumes(pod.Pod) {
			continue
		}
		waited := seen.now.Sub(placed)
		seen.lookAgain = elastic.Earliest(seen.lookAgain, seen.now.Add(max(mountGrace-waited, waited, time.Second)))
		if waited >= mountGrace {
			waits[pod.UID] = waited
		}
	}
	if len(waits) == 0 {
		return
	}
	events, err := l.events.in(seen.view.JobSet.Namespace, seen.now).read(ctx, l.live, seen.view.JobSet.Namespace, seen.now)
	switch {
	case errors.Is(err, errReading):
		seen.lookAgain = elastic.Earliest(seen.lookAgain, seen.now.Add(time.Second))
	case err != nil:
		ctrl.LoggerFrom(ctx).Error(err, "Reading why pods do not start")
	}
	if why := unmounted(events, waits, seen.now, jobset.FileNames(seen.view.MiniCluster, seen.view.JobSet)); why != "" {
		l.refuse(seen, "brokers cannot start: "+why)
	}
}

// awaitsVolumes reports whether a kubelet has not mounted all volumes of a pod yet: it makes the sandbox after that.
func awaitsVolumes(pod *corev1.Pod) bool {
	isSandbox := func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse
	}
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending && slices.ContainsFunc(pod.Status.Conditions, isSandbox)
}

// unmounted is what a volume of one of some pods needs, and what does not exist; "" if that is not known. waits says how long
// the pods have waited. A kubelet tries again after pauses that double: an event that is older than half of the time is out
// of date, and so is one of the first seconds. The manager makes the files of the JobSet by itself, maybe after the pods.
func unmounted(events []failure, waits map[types.UID]time.Duration, now time.Time, files []string) string {
	const slack = 2 * time.Second // of clocks
	for _, e := range events {
		waited, ours := waits[e.uid]
		age := now.Sub(e.at)
		if !ours || e.kind != "Pod" || age < -slack || age > min(waited/2+slack, waited-mountGrace/2) {
			continue
		}
		for _, found := range saysUnmounted.FindAllStringSubmatch(e.message, -1) {
			if !slices.Contains(files, found[1]) {
				return found[0]
			}
		}
	}
	return ""
}
