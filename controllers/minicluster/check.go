// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
)

const (
	// recheckInterval is when a spec that conflicts with the cluster, for example with a foreign
	// object, is checked again. It doubles with each failed check, up to recheckMost.
	recheckInterval = 5 * time.Second
	recheckMost     = 5 * time.Minute
	// recheckWebhook is the longest pause while a webhook does not answer.
	recheckWebhook = 30 * time.Second
	// shapeInterval is how long a check that passed is valid for all MiniClusters of the same
	// shape. Users submit hundreds of them at once.
	shapeInterval = 5 * time.Second
)

// check is the result of checking one generation of a spec.
type check struct {
	status.Check
	generation int64
	// pod is one of its pods after admission by the API server. If a quota refuses the pod, it is
	// the pod before that.
	pod *corev1.Pod
	// services is the services pod after admission; nil if there is none.
	services *corev1.Pod
	// refused is the API server's refusal by a quota. The scheduler says so, and when there may be
	// room.
	refused string
	// unchecked says why the API server could not check the pods or objects; "" if it could.
	unchecked string
	// at is when the check began, and until when to check again. The latter is zero if only a new
	// spec changes the result.
	at, until time.Time
	// failures is how many checks in a row failed that may pass without a new spec.
	failures int
	// binding is the API server's last answer whether it would bind these pods when it creates them.
	// All MiniClusters of the same shape share the answer.
	binding *atomic.Pointer[binding]
}

// answer is where the API server's answer about such pods is kept. Without a check of such pods nobody
// shares it.
func (c *check) answer() *atomic.Pointer[binding] {
	if c == nil || c.binding == nil {
		return &atomic.Pointer[binding]{}
	}
	return c.binding
}

// holds reports whether a check is still valid. changed is when something else may have changed
// its result.
func (c *check) holds(mc *v1alpha2.MiniCluster, now, changed time.Time) bool {
	return c != nil && c.generation == mc.Generation && (c.until.IsZero() || (now.Before(c.until) && c.at.After(changed)))
}

// again lets a result expire, because it may change without the spec. before is the number of checks
// that failed before.
func (c *check) again(before int) *check {
	most := recheckMost
	if c.unchecked != "" {
		most = recheckWebhook
	}
	c.failures = before + 1
	c.until = c.at.Add(min(recheckInterval<<min(before, 10), most))
	return c
}

// check finds out whether the spec of a MiniCluster without pods can be carried out: whether the
// API server would accept its pods and objects (by dry runs, which make nothing), and whether the
// names are free. The result is kept for the generation.
func (r *Reconciler) check(ctx context.Context, seen *observed) error {
	mc, memory := seen.view.MiniCluster, seen.memory
	if !seen.observation.Unplaced() || mc.Spec.Suspend {
		return nil
	}
	changed := r.changed(mc)
	if !memory.check.holds(mc, seen.now, changed) {
		before := 0
		if memory.check != nil && memory.check.generation == mc.Generation {
			before = memory.check.failures
		}
		result, err := r.newCheck(ctx, seen, before, changed)
		if err != nil {
			return err
		}
		result.generation, memory.check = mc.Generation, result
	}
	seen.check, seen.observation.Rejected = memory.check, memory.check.Message
	if memory.check.refused != "" && seen.observation.Admission != nil { // it came after the admission
		seen.observation.Rejected = memory.check.refused
	}
	return nil
}

// changed is when something may have changed the result of a failed check: the labels of the
// namespace, or its quotas.
func (r *Reconciler) changed(mc *v1alpha2.MiniCluster) time.Time {
	namespace, quotas := r.memories.changed(mc.Namespace), r.Scheduler.Freed(mc)
	if quotas.After(namespace) {
		return quotas
	}
	return namespace
}

// newCheck makes a check after a number of checks that failed in a row. Dry runs come first: all
// MiniClusters of the same shape share them.
func (r *Reconciler) newCheck(ctx context.Context, seen *observed, before int, changed time.Time) (*check, error) {
	mc, at := seen.view.MiniCluster, r.Clock.Now()
	if missing := cmp.Or(r.tooMany(mc), state.UnknownTopology(mc, r.Topology)); missing != "" {
		return rejection(at, v1alpha2.ReasonUnsupported, missing), nil
	}
	pod, err := jobset.Pod(mc)
	if err != nil {
		return rejection(at, v1alpha2.ReasonPodRejected, err.Error()), nil
	}
	services, err := jobset.ServicesPod(mc)
	if err != nil {
		return rejection(at, v1alpha2.ReasonPodRejected, err.Error()), nil
	}
	objects, err := jobset.Objects(mc, 1)
	if err != nil {
		return rejection(at, v1alpha2.ReasonPodRejected, err.Error()), nil
	}
	set := objects[len(objects)-1].(*jobsetapi.JobSet)
	if err := jobset.Remember(mc, set); err != nil {
		return nil, err
	}
	files, err := jobset.Files(mc, set, func() (string, error) { return "", nil })
	if err != nil {
		return rejection(at, v1alpha2.ReasonPodRejected, err.Error()), nil
	}
	result, err := r.shapes.check(seen.stored, r.Clock.Now(), changed, func(before int) (*check, error) {
		return r.dryRun(ctx, pod, services, slices.Concat(files, objects), before)
	})
	if err != nil || !result.passed() {
		return result, err
	}
	result.failures = before // the objects may be refused although the check passes
	clash, err := r.clash(ctx, mc, objects)
	if clash != nil {
		return rejection(at, v1alpha2.ReasonNameClash, clash.Error()).again(before), nil
	}
	return result, err
}

// tooMany says that a MiniCluster may have more brokers than the manager allows; "" if it does not.
func (r *Reconciler) tooMany(mc *v1alpha2.MiniCluster) string {
	field, most := "size", mc.Spec.MostSize()
	if r.MaxBrokers == 0 || int(most) <= r.MaxBrokers {
		return ""
	}
	if most > mc.Spec.Size {
		field = "maxSize"
	}
	return fmt.Sprintf("spec.%s is %d; this cluster allows at most %d brokers (--max-brokers of the manager)", field, most, r.MaxBrokers)
}

// clash says which of the names of objects belongs to another owner; nil if none does.
func (r *Reconciler) clash(ctx context.Context, mc *v1alpha2.MiniCluster, objects []client.Object) (clash *nameClashError, err error) {
	for _, object := range append(objects, jobset.OperatorFiles(mc)) {
		var err error
		if service, ok := object.(*corev1.Service); ok {
			_, err = r.existingService(ctx, service)
		} else {
			_, err = r.existing(ctx, mc, object)
		}
		switch {
		case errors.As(err, &clash) && clash.kind == "ConfigMap" && clash.owner != fluxOperator:
			clash = nil // nothing here has that name
		case clash != nil:
			return clash, nil
		case err != nil && !errors.Is(err, errStillThere):
			return nil, err
		}
	}
	return nil, nil
}

// passed reports whether the spec can be carried out.
func (c *check) passed() bool { return c.Message == "" && c.refused == "" && c.unchecked == "" }

// dryRun asks the API server whether it would accept a broker's pod, the services pod if there is
// one, and objects. An object that exists was accepted before.
func (r *Reconciler) dryRun(ctx context.Context, pod, services *corev1.Pod, objects []client.Object, before int) (*check, error) {
	at, asked := r.Clock.Now(), pod.DeepCopy()
	if err := r.Client.Create(ctx, pod, client.DryRunAll); err != nil {
		return sortOut(at, v1alpha2.ReasonPodRejected, "the pods", asked, before, err)
	}
	if excess := state.TooLarge(pod); excess != "" {
		return rejection(at, v1alpha2.ReasonUnsupported, excess), nil
	}
	if services != nil {
		if err := r.Client.Create(ctx, services, client.DryRunAll); err != nil {
			return sortOut(at, v1alpha2.ReasonPodRejected, "the services pod", pod, before, err)
		}
	}
	for _, made := range []*corev1.Pod{pod, services} {
		if made != nil && made.Spec.SchedulerName == v1alpha2.SchedulerName { // by a webhook, or from before the API refused that
			return rejection(at, v1alpha2.ReasonPodRejected, otherScheduler).again(before), nil
		}
	}
	for _, object := range objects {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		answer := object.DeepCopyObject().(client.Object) // the answer has no kind
		err := r.Client.Create(ctx, answer, client.DryRunAll, client.FieldOwner(FieldOwner))
		if err != nil && !apierrors.IsAlreadyExists(err) && !r.isShared(ctx, object) {
			return sortOut(at, v1alpha2.ReasonObjectRejected, "the "+kind, pod, before, err)
		}
	}
	return &check{Check: status.Check{Reason: v1alpha2.ReasonValid}, pod: pod, services: services, at: at}, nil
}

// otherScheduler refuses pods that would pass for pods that the manager binds.
const otherScheduler = "the pods would have the schedulerName " + v1alpha2.SchedulerName + ", which the manager alone gives to pods"

// sortOut returns the check for an error of a dry run.
func sortOut(at time.Time, reason, what string, pod *corev1.Pod, before int, err error) (*check, error) {
	message := fmt.Sprintf("%s would be refused: %s", what, objectName.ReplaceAllString(err.Error(), ""))
	switch {
	case apierrors.IsInvalid(err) && !isDenied(err), apierrors.IsRequestEntityTooLargeError(err):
		return rejection(at, reason, message), nil
	case isQuotaRefusal(err):
		return (&check{refused: message, pod: pod, at: at}).again(before), nil
	case isUnanswered(err):
		return (&check{unchecked: fmt.Sprintf("%s cannot be checked: %s", what, unanswered(err)), at: at}).again(before), nil
	case isDenied(err), wouldRefuse(err):
		return rejection(at, reason, message).again(before), nil
	}
	return nil, err
}

// objectName is how the API server's messages begin. MiniClusters that differ in their names alone
// share the rest.
var objectName = regexp.MustCompile(`^\S+ "[^"]*" is (forbidden|invalid): `)

// isQuotaRefusal reports whether the API server refuses an object because of a quota.
func isQuotaRefusal(err error) bool {
	return apierrors.IsForbidden(err) && (strings.Contains(err.Error(), "exceeded quota: ") || strings.Contains(err.Error(), "failed quota: "))
}

// isDenied reports whether a policy or a webhook of others refuses an object, with whatever reason. Both may be changed.
func isDenied(err error) bool {
	return strings.Contains(err.Error(), "ValidatingAdmissionPolicy '") || strings.Contains(err.Error(), "admission webhook \"")
}

// isUnanswered reports whether a webhook that has to agree does not answer. The spec is not at fault.
func isUnanswered(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}

// unanswered is the API server's message about a webhook that does not answer.
func unanswered(err error) string {
	_, message, _ := strings.Cut(err.Error(), "Internal error occurred: ")
	return message
}

func rejection(at time.Time, reason, message string) *check {
	return &check{Check: status.Check{Reason: reason, Message: message}, at: at}
}

// shapes are the checks of MiniClusters that differ in their names alone.
type shapes struct {
	mutex  sync.Mutex
	byHash map[[sha256.Size]byte]*shape
}

// shape is one such check. Others wait while it is made.
type shape struct {
	begun  atomic.Bool
	done   chan struct{} // closed when it is made
	at     time.Time
	before int // failures in a row before this check
	// binding is that of the checks before, too.
	binding *atomic.Pointer[binding]

	// The mutex of shapes guards these until done is closed. until is how long the check is valid,
	// and name the MiniCluster for which it was made.
	until  time.Time
	name   string
	result *check
	err    error
}

// check returns the check of a MiniCluster, without its defaults (some contain its name), by its
// shape. A check is not shared if its message contains the name. Checks from before changed are
// not used.
func (s *shapes) check(mc *v1alpha2.MiniCluster, now, changed time.Time, dryRun func(before int) (*check, error)) (*check, error) {
	text, err := json.Marshal(mc.Spec)
	if err != nil {
		return nil, err
	}
	one := s.of(sha256.Sum256(fmt.Appendf(nil, "%s %d %s", mc.Namespace, len(mc.Name), text)), now, changed)
	if one.begun.Swap(true) {
		<-one.done
	} else {
		s.make(one, mc.Name, dryRun)
	}
	if one.name != mc.Name && (one.err != nil || strings.Contains(one.result.Message+one.result.refused+one.result.unchecked, one.name)) {
		return dryRun(one.before)
	}
	if one.err != nil {
		return nil, one.err
	}
	result := *one.result // a copy for this MiniCluster
	result.binding = one.binding
	return &result, nil
}

// errNotMade is what those find who waited for a check whose maker panicked.
var errNotMade = errors.New("the check was not made")

// make makes a check, for which others wait.
func (s *shapes) make(one *shape, name string, dryRun func(before int) (*check, error)) {
	defer close(one.done)
	s.mutex.Lock()
	one.name, one.err = name, errNotMade
	s.mutex.Unlock()
	result, err := dryRun(one.before)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one.result, one.err = result, err
	if err == nil && !result.until.IsZero() {
		one.until = result.until
	}
}

// of returns the shape of a hash, and forgets shapes that expired long ago.
func (s *shapes) of(hash [sha256.Size]byte, now, changed time.Time) *shape {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	maps.DeleteFunc(s.byHash, func(_ [sha256.Size]byte, s *shape) bool { return now.Sub(s.until) >= recheckMost })
	if s.byHash == nil {
		s.byHash = map[[sha256.Size]byte]*shape{}
	}
	known := s.byHash[hash]
	if known != nil && now.Before(known.until) && known.at.After(changed) {
		return known
	}
	fresh := &shape{at: now, until: now.Add(shapeInterval), done: make(chan struct{}), binding: &atomic.Pointer[binding]{}}
	if known != nil {
		fresh.binding = known.binding
	}
	if known != nil && known.result != nil {
		fresh.before = known.result.failures
	}
	s.byHash[hash] = fresh
	return fresh
}
