// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/internal/weight"
)

const (
	// recheckInterval is when a spec that conflicts with the cluster, for example with a foreign
	// object, is checked again. It doubles with each failed check, up to recheckMost.
	recheckInterval = 5 * time.Second
	recheckMost     = 5 * time.Minute
	// recheckSoon is the longest pause after a dry run that failed: somebody may be about to make a ServiceAccount that is
	// missing, or to change a policy. The pause is longer if many fail, so that their dry runs are recheckEach apart.
	recheckSoon = 30 * time.Second
	recheckEach = 3 * time.Second
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
	// denied is true if a policy or webhook has denied the manager what it may allow to Kubernetes, which makes the pods.
	denied bool
	// tried is true if a trial passed, and not a dry run.
	tried bool
	// unchecked says why the API server could not check the pods or objects; "" if it could.
	unchecked string
	// at is when the check began, and until when to check again. The latter is zero if only a new
	// spec changes the result.
	at, until time.Time
	// failures is how many dry runs of a shape failed in a row that may pass without a new spec.
	failures int
	// failing is how many shapes of the namespace there were whose dry runs had failed, with this one; 0 if the check failed by
	// something else.
	failing int
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

// pause lets a check that failed, and will be made again, be made no sooner than the checks of this spec before: the shape may
// not know of these any more. It returns the check.
func (c *check) pause(last *check, mc *v1alpha2.MiniCluster) *check {
	if c == nil || c.until.IsZero() || last == nil || last.generation != mc.Generation || last.failures < c.failures {
		return c
	}
	return c.again(last.failures)
}

// again lets a result expire, because it may change without the spec. before is the number of checks
// that failed before.
func (c *check) again(before int) *check {
	most := recheckMost
	if c.failing > 0 {
		most = min(max(recheckSoon, time.Duration(c.failing)*recheckEach), recheckMost)
	}
	c.failures = before + 1
	c.until = c.at.Add(min(recheckInterval<<min(before, 10), most))
	return c
}

// checker asks the API server by dry runs whether specs can be carried out, and keeps the answers.
type checker struct {
	client     client.Client
	live       live
	clock      clock.PassiveClock
	scheduler  Scheduler
	topology   []state.TopologyLevel
	maxBrokers int
	dns        *DNS
	memories   *memories
	workers    int
	relaxed    relaxed
	shapes     shapes
	checking   checking
}

// check finds out whether the spec of a MiniCluster without pods can be carried out: whether the
// API server would accept its pods and objects (by dry runs, which make nothing), and whether the
// names are free. The result is kept for the generation.
func (c *checker) check(ctx context.Context, seen *observed) error {
	mc, memory := seen.view.MiniCluster, seen.memory
	if !seen.observation.Unplaced() || mc.IsSuspended() {
		c.memories.endTrial(mc)
		return nil
	}
	changed := c.changed(mc)
	if excess := weight.Excess(mc); excess != "" { // also by its labels, which leave the generation as it is
		memory.check = rejection(seen.now, v1alpha2.ReasonUnsupported, excess)
		memory.check.generation, memory.check.until = mc.Generation, seen.now
	} else if !memory.check.holds(mc, seen.now, changed) {
		if err := c.checkAgain(ctx, seen, changed); err != nil {
			return err
		}
	}
	if err := c.try(ctx, seen); err != nil {
		return err
	}
	seen.check, seen.observation.Rejected = memory.check, memory.check.Message
	if memory.check.refused != "" && seen.observation.Admission != nil { // it came after the admission
		seen.observation.Rejected = memory.check.refused
	}
	return nil
}

// checkAgain replaces the last check. If the API server accepts what it refused before, others are checked, too.
func (c *checker) checkAgain(ctx context.Context, seen *observed, changed time.Time) error {
	mc, memory := seen.view.MiniCluster, seen.memory
	if memory.check != nil && memory.check.generation != mc.Generation {
		memory.refusals = 0
	}
	workers := c.workers
	if seen.observation.Admission != nil { // it has nodes, which wait
		workers = math.MaxInt
	}
	result, err := c.checking.do(ctx, mc.Namespace, workers, c.clock, func(ctx context.Context) (*check, error) { return c.newCheck(ctx, seen, changed) })
	if err != nil {
		return err
	}
	if last := memory.check; result.unchecked != "" && result.failures == 0 && last != nil && last.generation == mc.Generation {
		result.failures = last.failures // nothing was asked, so the pause goes on afterwards
	}
	if result.passed() && !result.tried && memory.check.wasRefused(mc) && memory.check.at.After(c.memories.changed(mc.Namespace)) {
		c.relaxed.note(mc.Namespace)
	}
	result.generation, memory.check = mc.Generation, result
	return nil
}

// wasRefused reports whether the API server refused this spec by something other than a quota, which has changed if the spec
// passes now.
func (c *check) wasRefused(mc *v1alpha2.MiniCluster) bool {
	return c != nil && c.generation == mc.Generation && c.failing > 0 && c.refused == ""
}

// changed is when something may have changed the result of a failed check: the labels or policies of the
// namespace, or its quotas.
func (c *checker) changed(mc *v1alpha2.MiniCluster) time.Time {
	namespace := c.memories.changed(mc.Namespace)
	if _, _, quotas := c.scheduler.Place(mc); quotas.After(namespace) {
		return quotas
	}
	return namespace
}

// newCheck makes a check. Dry runs come first: all MiniClusters of the same shape share them.
func (c *checker) newCheck(ctx context.Context, seen *observed, changed time.Time) (*check, error) {
	mc, at := seen.view.MiniCluster, c.clock.Now()
	if missing := cmp.Or(c.tooMany(mc), state.UnknownTopology(mc, c.topology)); missing != "" {
		return rejection(at, v1alpha2.ReasonUnsupported, missing), nil
	}
	if wrong := c.checkDomain(ctx, seen, at); wrong != nil {
		return wrong, nil
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
	if excess := weight.ExcessOfJobSet(mc, set); excess != "" {
		return rejection(at, v1alpha2.ReasonUnsupported, excess), nil
	}
	files, err := jobset.Files(mc, set, func() (string, error) { return "", nil })
	if err != nil {
		return rejection(at, v1alpha2.ReasonPodRejected, err.Error()), nil
	}
	result, err := c.shapes.check(seen.stored, c.clock.Now(), changed, func(before int) (*check, error) {
		return c.dryRun(ctx, pod, services, slices.Concat([]client.Object{jobset.Scripts(set)}, files, objects, jobs(set), []client.Object{jobset.SliceAsMade(mc, pod)}), before)
	})
	if err != nil || !result.passed() {
		return result.pause(seen.memory.check, mc), err
	}
	clash, err := c.live.clash(ctx, mc, set, objects)
	if clash != nil {
		return seen.memory.refuse(mc, rejection(at, v1alpha2.ReasonNameClash, clash.Error())), nil
	}
	return result, err
}

// checkDomain is the check of a MiniCluster whose domain is wrong, or not known yet; nil for others.
func (c *checker) checkDomain(ctx context.Context, seen *observed, at time.Time) *check {
	mc := seen.view.MiniCluster
	wrong, known := c.dns.wrongDomain(ctx, mc, at)
	switch {
	case known && wrong != "":
		return seen.memory.refuse(mc, rejection(at, v1alpha2.ReasonUnsupported, wrong))
	case known:
		return nil
	}
	return &check{unchecked: "the DNS is being asked for other domains", at: at, until: at.Add(time.Second)}
}

// jobs are the Jobs of a JobSet.
func jobs(set *jobsetapi.JobSet) []client.Object {
	var objects []client.Object
	for _, job := range jobset.Jobs(set) {
		objects = append(objects, job)
	}
	return objects
}

// tooMany says that a MiniCluster may have more brokers than the manager allows; "" if it does not.
func (c *checker) tooMany(mc *v1alpha2.MiniCluster) string {
	field, most := "size", mc.Spec.MostSize()
	if c.maxBrokers == 0 || int(most) <= c.maxBrokers {
		return ""
	}
	if most > mc.Spec.Size {
		field = "maxSize"
	}
	return fmt.Sprintf("spec.%s is %d; this cluster allows at most %d brokers (--max-brokers of the manager)", field, most, c.maxBrokers)
}

// passed reports whether the spec can be carried out.
func (c *check) passed() bool { return c.Message == "" && c.refused == "" && c.unchecked == "" }

// dryRun asks the API server whether it would accept a broker's pod, the services pod if there is
// one, and objects. An object that exists was accepted before.
func (c *checker) dryRun(ctx context.Context, pod, services *corev1.Pod, objects []client.Object, before int) (*check, error) {
	at, asked, askedServices := c.clock.Now(), pod.DeepCopy(), services.DeepCopy()
	sort := func(reason, what string, err error) (*check, error) {
		return sortOut(&check{pod: asked, services: askedServices, at: at, failing: c.shapes.failing(pod.Namespace) + 1}, reason, what, before, err)
	}
	if err := c.client.Create(ctx, pod, client.DryRunAll); err != nil {
		return sort(v1alpha2.ReasonPodRejected, "the pods", err)
	}
	asked = pod
	asked.ManagedFields = nil // nobody reads them
	if services != nil {
		if err := c.client.Create(ctx, services, client.DryRunAll); err != nil {
			return sort(v1alpha2.ReasonPodRejected, "the services pod", err)
		}
		askedServices = services
		services.ManagedFields = nil
	}
	if fault := faultOf(at, pod, services, before); fault != nil {
		return fault, nil
	}
	for _, object := range objects {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		answer := object.DeepCopyObject().(client.Object) // the answer has no kind
		err := c.client.Create(ctx, answer, client.DryRunAll)
		if err != nil && !apierrors.IsAlreadyExists(err) && !c.live.isShared(ctx, object) {
			return sort(v1alpha2.ReasonObjectRejected, "the "+kind, err)
		}
	}
	return &check{Check: status.Check{Reason: v1alpha2.ReasonValid}, pod: pod, services: services, at: at}, nil
}

// faultOf is the check for a pod that the API server accepts, with the services pod if there is one, and the project does not;
// nil if both accept it.
func faultOf(at time.Time, pod, services *corev1.Pod, before int) *check {
	if excess := cmp.Or(state.TooLarge(pod), weight.ExcessOfPod(pod)); excess != "" {
		return rejection(at, v1alpha2.ReasonUnsupported, excess)
	}
	for _, made := range []*corev1.Pod{pod, services} {
		if made != nil && made.Spec.SchedulerName == v1alpha2.SchedulerName { // by a webhook, or from before the API refused that
			return rejection(at, v1alpha2.ReasonPodRejected, otherScheduler).again(before)
		}
	}
	return nil
}

// otherScheduler refuses pods that would pass for pods that the manager binds.
const otherScheduler = "the pods would have the schedulerName " + v1alpha2.SchedulerName + ", which is reserved"

// sortOut completes a check after an error of a dry run.
func sortOut(asked *check, reason, what string, before int, err error) (*check, error) {
	message := fmt.Sprintf("%s would be refused: %s", what, objectName.ReplaceAllString(err.Error(), ""))
	switch {
	case apierrors.IsInvalid(err) && !isDenied(err), isTooLarge(err):
		return rejection(asked.at, reason, message), nil
	case isQuotaRefusal(err):
		asked.refused = message
	case isUnanswered(err):
		asked.unchecked = fmt.Sprintf("%s cannot be checked: %s", what, unanswered(err))
	case wouldRefuse(err):
		asked.Check = status.Check{Reason: reason, Message: message}
		asked.denied = isDenied(err) && (reason == v1alpha2.ReasonPodRejected || what == "the Job")
	default:
		return nil, err
	}
	return asked.again(before), nil
}

// overQuota is the check of a MiniCluster whose Jobs or pods a quota refuses, although they were to be made.
func overQuota(seen *observed, message string) *check {
	result := &check{refused: message, at: seen.now}
	if last := seen.memory.check; last != nil {
		result.pod, result.services, result.binding = last.pod, last.services, last.binding
	}
	var err error
	if result.pod == nil { // after a restart
		if result.pod, err = jobset.Pod(seen.view.MiniCluster); err != nil {
			return rejection(seen.now, v1alpha2.ReasonPodRejected, err.Error())
		}
	}
	return result
}

// objectName is how the API server's messages begin. MiniClusters that differ in their names alone
// share the rest.
var objectName = regexp.MustCompile(`^\S+ "[^"]*" is (forbidden|invalid): `)

// isQuotaRefusal reports whether the API server refuses an object because of a quota.
func isQuotaRefusal(err error) bool {
	return apierrors.IsForbidden(err) && isQuotaText(err.Error())
}

func isQuotaText(text string) bool {
	return strings.Contains(text, "exceeded quota: ") || strings.Contains(text, "failed quota: ")
}

// isDenied reports whether a policy or a webhook of others refuses an object, with whatever reason. Both may be changed.
func isDenied(err error) bool { return err != nil && saysDenied(err.Error()) }

func saysDenied(text string) bool {
	return strings.Contains(text, "ValidatingAdmissionPolicy '") || strings.Contains(text, "admission webhook \"")
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
