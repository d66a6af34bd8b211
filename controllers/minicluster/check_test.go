// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// A user who edits a spec again and again leaves a bounded number of checks, of which those that expired have no pod.
func TestManyShapes(t *testing.T) {
	var s shapes
	runs := 0
	edit := func(tasks int32, now time.Time) {
		t.Helper()
		mc := fixture.MiniCluster("lmp").Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Tasks = &tasks }).Obj()
		if _, err := s.check(mc, now, time.Time{}, func(int) (*check, error) {
			runs++
			return &check{pod: &corev1.Pod{}, at: now}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	const edits = mostShapes + 100
	for i := range edits {
		edit(int32(i), fixture.Noon.Add(time.Duration(i)*time.Millisecond))
	}
	if len(s.byKey) != mostShapes {
		t.Errorf("%d checks are kept", len(s.byKey))
	}
	runs = 0
	edit(edits-1, fixture.Noon.Add(time.Second))
	edit(0, fixture.Noon.Add(time.Second))
	if runs != 1 {
		t.Errorf("%d of the first and last edit were checked again", runs)
	}
	edit(0, fixture.Noon.Add(time.Second+shapeInterval))
	for _, known := range s.byKey {
		if known.result != nil && !fixture.Noon.Add(time.Second+shapeInterval).Before(known.until) {
			t.Fatalf("a check that expired at %s has its pod", known.until)
		}
	}
	late, early := shapeKey{namespace: "late"}, shapeKey{namespace: "early"}
	s.of(early, fixture.Noon, time.Time{}).result = &check{}
	s.of(late, fixture.Noon.Add(shapeInterval), time.Time{})
	if one := s.of(early, fixture.Noon.Add(time.Second), time.Time{}); one.done == nil { // its clock was read before that of the other
		t.Error("who waits for this check waits for ever")
	}
}

// MiniClusters of one shape share a check, whether it passes or fails, for as long as it is valid.
func TestShapesShareChecks(t *testing.T) {
	var s shapes
	runs := 0
	now, changed := fixture.Noon, time.Time{}
	quota := apierrors.NewForbidden(corev1.Resource("pods"), "job-0-x7k2p", errors.New("exceeded quota: small, requested: pods=1"))
	var answer error
	check := func(name string) *check {
		t.Helper()
		mc := fixture.MiniCluster(name).Obj()
		result, err := s.check(mc, now, changed, func(before int) (*check, error) {
			runs++
			if answer == nil {
				return &check{pod: &corev1.Pod{}, at: now}, nil
			}
			return sortOut(&check{pod: &corev1.Pod{}, at: now}, v1alpha2.ReasonPodRejected, "the pods", before, answer)
		})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	want := func(what string, n int) {
		t.Helper()
		if runs != n {
			t.Errorf("%s: %d dry runs, want %d", what, runs, n)
		}
		runs = 0
	}
	for i := range 100 {
		check(fmt.Sprintf("job-%03d", i))
	}
	want("a check that passes", 1)
	check("another-length")
	want("a name of another length", 1)

	now, answer = now.Add(time.Minute), quota
	for i := range 100 {
		got := check(fmt.Sprintf("job-%03d", i))
		if got.refused != "the pods would be refused: exceeded quota: small, requested: pods=1" || !got.until.Equal(now.Add(5*time.Second)) {
			t.Fatalf("the check says %q until %s", got.refused, got.until)
		}
	}
	want("a check that fails", 1)
	for i, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute} {
		now = check("job-000").until
		want("before the time is up", 0)
		for range 10 {
			if got := check("job-000"); got.until.Sub(now) != pause || got.failures != i+2 {
				t.Errorf("failure %d: the next check is %s later, want %s", got.failures, got.until.Sub(now), pause)
			}
		}
		want("after the time is up", 1)
	}
	changed, now = now.Add(time.Second), now.Add(2*time.Second)
	check("job-000")
	check("job-001")
	want("after a change of the quota", 1)

	answer = apierrors.NewInvalid(v1alpha2.GroupVersion.WithKind("Pod").GroupKind(), "job-002-0",
		field.ErrorList{field.Invalid(field.NewPath("spec"), "x", "nonsense")})
	now = now.Add(time.Hour)
	if got := check("job-002"); strings.Contains(got.Message, "job-002") || got.until != (time.Time{}) {
		t.Errorf("the check says %q until %s", got.Message, got.until)
	}
	answer = apierrors.NewForbidden(corev1.Resource("pods"), "x", errors.New("job-003 is not welcome"))
	now = now.Add(time.Hour)
	runs = 0
	check("job-003")
	check("job-004")
	want("a message that contains the name", 2)
}

// A dry run that failed is repeated soon if few fail, and the more seldom, the more fail. A webhook that does not answer is
// not the user's mistake.
func TestPauseAfterDryRuns(t *testing.T) {
	at := fixture.Noon
	forbidden := func(why string) *apierrors.StatusError {
		return apierrors.NewForbidden(corev1.Resource("pods"), "x", errors.New(why))
	}
	policy := forbidden(`ValidatingAdmissionPolicy 'small' with binding 'small' denied request`)
	policy.ErrStatus.Reason, policy.ErrStatus.Code = metav1.StatusReasonInvalid, 422 // as a policy without a reason says
	for name, tc := range map[string]struct {
		err               error
		denied, unchecked bool
	}{
		"no answer":         {err: apierrors.NewInternalError(errors.New(`failed calling webhook "mpod.kb.io": connection refused`)), unchecked: true},
		"a webhook":         {err: forbidden(`admission webhook "mpod.kb.io" denied the request`), denied: true},
		"a policy":          {err: policy, denied: true},
		"no ServiceAccount": {err: forbidden(`error looking up service account a/b: serviceaccount "b" not found`)},
	} {
		for _, pause := range []struct {
			before, failing int
			want            time.Duration
		}{
			{0, 1, 5 * time.Second},
			{1, 1, 10 * time.Second},
			{2, 1, 20 * time.Second},
			{3, 1, 30 * time.Second},
			{9, 10, 30 * time.Second},
			{9, 20, time.Minute},
			{9, 500, 5 * time.Minute},
			{9, 0, 5 * time.Minute},
		} {
			got, err := sortOut(&check{at: at, failing: pause.failing}, v1alpha2.ReasonPodRejected, "the pods", pause.before, tc.err)
			if err != nil {
				t.Fatal(err)
			}
			if got.passed() || (got.unchecked != "") != tc.unchecked || got.denied != tc.denied || got.failures != pause.before+1 {
				t.Errorf("%s: the check says %+v", name, got)
			}
			if got.until.Sub(at) != pause.want {
				t.Errorf("%s, failure %d of %d shapes: the next check is %s later, want %s", name, got.failures, pause.failing, got.until.Sub(at), pause.want)
			}
		}
	}
}

// What a failed check waits for, beside its time.
func TestCheckHolds(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Obj()
	at, later := fixture.Noon, fixture.Noon.Add(time.Second)
	failed := rejection(at, v1alpha2.ReasonNameClash, "x").again(0)
	for name, tc := range map[string]struct {
		check        *check
		now, changed time.Time
		generation   int64
		want         bool
	}{
		"none":                          {now: later},
		"a pass":                        {check: &check{at: at}, now: at.Add(time.Hour), changed: later, want: true},
		"a pass of another generation":  {check: &check{at: at}, now: later, generation: 1},
		"a failure before its time":     {check: failed, now: later, want: true},
		"a failure after its time":      {check: failed, now: at.Add(5 * time.Second)},
		"a failure before a change":     {check: failed, now: later, changed: later},
		"a failure after a change":      {check: failed, now: later, changed: at.Add(-1), want: true},
		"a spec that cannot be carried": {check: rejection(at, v1alpha2.ReasonPodRejected, "x"), now: at.Add(time.Hour), changed: later, want: true},
	} {
		mc.Generation = tc.generation
		if got := tc.check.holds(mc, tc.now, tc.changed); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The pause after a check that failed doubles, also when the checks of other specs are too many to be kept. No check
// passes while the DNS is being asked.
func TestPauseAfterChecks(t *testing.T) {
	quota := apierrors.NewForbidden(corev1.Resource("pods"), "lmp-0-0-0", errors.New("exceeded quota: small"))
	api := interceptor.NewClient((&written{}).newClient(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return quota },
	})
	now := testingclock.NewFakePassiveClock(fixture.Noon)
	c := &checker{client: api, live: live{api}, clock: now, dns: &DNS{Domain: "other", answers: map[string]answer{"cluster.local": {at: fixture.Noon.Add(time.Hour)}}}}
	seen := &observed{now: fixture.Noon, memory: &memory{}, stored: fixture.MiniCluster("lmp").Size(2).Obj()}
	seen.view.MiniCluster = fixture.MiniCluster("lmp").Size(2).Defaulted()
	check := func(want time.Duration) {
		t.Helper()
		result, err := c.newCheck(t.Context(), seen, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if got := result.until.Sub(now.Now()); got != want {
			t.Errorf("it is valid for %s, and not %s", got, want)
		}
		result.generation, seen.memory.check = seen.view.MiniCluster.Generation, result
		now.SetTime(result.until)
		clear(c.shapes.byKey)
	}
	for _, pause := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		check(pause)
	}
	c.dns.answers, c.dns.asking = nil, map[string]bool{"default": true}
	check(time.Second)
	if why := seen.memory.check.unchecked; why == "" {
		t.Error("it passes while the DNS is being asked")
	}
}

// Once the API server accepts a spec that it refused, the other MiniClusters of the namespace are checked at once: a policy or
// a webhook may have changed, or an object is there that was missing. Quotas are watched, and a new spec says nothing of others.
func TestRelaxed(t *testing.T) {
	forbidden := func(why string) error {
		return apierrors.NewForbidden(corev1.Resource("pods"), "lmp-0-0-0", errors.New(why))
	}
	for name, tc := range map[string]struct {
		refusal error
		edit    bool
		between func(c *checker)
		relaxed bool
	}{
		"a policy":                      {refusal: forbidden("ValidatingAdmissionPolicy 'small' with binding 'small' denied request"), relaxed: true},
		"a ServiceAccount that is made": {refusal: forbidden(`error looking up service account a/b: serviceaccount "b" not found`), relaxed: true},
		"another spec":                  {refusal: forbidden("ValidatingAdmissionPolicy 'small' with binding 'small' denied request"), edit: true},
		"a quota":                       {refusal: forbidden("exceeded quota: small")},
		"accepted at once":              {},
		"a trial of one that is alike": {refusal: forbidden("ValidatingAdmissionPolicy 'small' with binding 'small' denied request"), between: func(c *checker) {
			passed := check{Check: status.Check{Reason: v1alpha2.ReasonValid}, pod: &corev1.Pod{}, tried: true, at: c.clock.Now()}
			if err := c.shapes.settle(fixture.MiniCluster("lmp").Size(2).Obj(), passed); err != nil {
				t.Error(err)
			}
		}},
		"others that were woken": {refusal: forbidden("ValidatingAdmissionPolicy 'small' with binding 'small' denied request"), between: func(c *checker) {
			c.memories.change("default", c.clock.Now())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			answer := tc.refusal
			api := interceptor.NewClient((&written{}).newClient(), interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return answer },
			})
			now := testingclock.NewFakePassiveClock(fixture.Noon)
			c := &checker{client: api, live: live{api}, clock: now, scheduler: &waitingRoom{}, memories: &memories{}, relaxed: make(relaxed, 1)}
			memory := &memory{}
			check := func(generation int64) *check {
				mc := fixture.MiniCluster("lmp").Size(2).Defaulted()
				mc.Generation = generation
				seen := &observed{now: now.Now(), memory: memory, stored: fixture.MiniCluster("lmp").Size(2).Obj(), observation: &life.Observation{Workload: life.Absent}}
				seen.view.MiniCluster = mc
				if err := c.check(t.Context(), seen); err != nil {
					t.Fatal(err)
				}
				return seen.check
			}
			if got := check(1); got.passed() != (tc.refusal == nil) {
				t.Fatalf("the check is %+v", got)
			}
			answer = nil
			if tc.between != nil {
				tc.between(c)
			}
			now.SetTime(now.Now().Add(time.Minute))
			generation := int64(1)
			if tc.edit {
				generation++
			}
			if got := check(generation); !got.passed() {
				t.Fatalf("the check is %+v", got)
			}
			if relaxed := len(c.relaxed) > 0; relaxed != tc.relaxed {
				t.Errorf("others are checked: %v", relaxed)
			}
		})
	}
}

// The answer to a dry run has no kind: the objects of the check keep theirs.
func TestDryRunKeepsKinds(t *testing.T) {
	api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			return nil
		},
	}).Build()
	c := &checker{client: api, clock: clock.RealClock{}}
	object := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}}
	result, err := c.dryRun(t.Context(), &corev1.Pod{}, nil, []client.Object{object}, 0)
	if err != nil || !result.passed() || object.Kind != "Service" {
		t.Errorf("the kind is %q after %+v: %v", object.Kind, result, err)
	}
}

// A spec for more brokers than the manager allows is not accepted, and nothing is made of it.
func TestTooManyBrokers(t *testing.T) {
	for name, tc := range map[string]struct {
		mc   *fixture.MiniClusterWrapper
		most int
		want string
	}{
		"as many as allowed":     {mc: fixture.MiniCluster("lmp").Size(10), most: 10},
		"any number":             {mc: fixture.MiniCluster("lmp").Size(100_000), most: 0},
		"a size that is larger":  {mc: fixture.MiniCluster("lmp").Size(11), most: 10, want: "spec.size is 11; this cluster allows at most 10 brokers (--max-brokers of the manager)"},
		"a maxSize":              {mc: fixture.MiniCluster("lmp").MaxSize(100_000).Launcher(), most: 10, want: "spec.maxSize is 100000; "},
		"a maxSize without pods": {mc: fixture.MiniCluster("lmp").MaxSize(100_000), most: 10},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &observed{view: state.View{MiniCluster: tc.mc.Defaulted()}}
			c := &checker{clock: clock.RealClock{}, maxBrokers: tc.most}
			if got := c.tooMany(seen.view.MiniCluster); !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
				t.Fatalf("it says %q, want %q", got, tc.want)
			}
			if tc.want == "" {
				return
			}
			result, err := c.newCheck(t.Context(), seen, time.Time{}) // without a client
			if err != nil || result.Reason != v1alpha2.ReasonUnsupported || !strings.HasPrefix(result.Message, tc.want) || !result.until.IsZero() {
				t.Errorf("the check is %+v, %v", result, err)
			}
		})
	}
}

// The API server accepts pods with requests beyond all numbers.
func TestTooLargeRequests(t *testing.T) {
	c := &checker{client: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build(), clock: clock.RealClock{}}
	result, err := c.dryRun(t.Context(), fixture.Pod("p").CPU("9223372036854775807").Obj(), nil, nil, 0)
	if err != nil || result.passed() || !strings.HasPrefix(result.Message, "a pod requests 9223372036854775807 cpu in all, more than ") {
		t.Errorf("the check is %+v, %v", result, err)
	}
}

// etcd says without a reason that an object is too large.
func TestTooLargeForEtcd(t *testing.T) {
	err := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: "etcdserver: request is too large"}}
	if !refused(fmt.Errorf("creating: %w", err)) || refused(&apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "etcdserver: no leader"}}) {
		t.Error("it is not told from what passes")
	}
}

// Pods with the scheduler name of pods that the manager binds are refused, whoever has given them the name.
func TestDryRunRefusesOurSchedulerName(t *testing.T) {
	c := &checker{client: (&written{}).newClient(), clock: clock.RealClock{}}
	plain, ours := fixture.BrokerPod("lmp", 0).Obj(), fixture.BrokerPod("lmp", 1).Spec(func(s *corev1.PodSpec) { s.SchedulerName = v1alpha2.SchedulerName }).Obj()
	for name, tc := range map[string]struct {
		pod, services *corev1.Pod
		want          string
	}{
		"neither":      {plain, fixture.ServicesPod("lmp").Obj(), ""},
		"the brokers":  {ours, nil, otherScheduler},
		"the services": {plain, ours, otherScheduler},
	} {
		var services *corev1.Pod
		if tc.services != nil {
			services = tc.services.DeepCopy()
		}
		result, err := c.dryRun(t.Context(), tc.pod.DeepCopy(), services, nil, 0)
		if err != nil || result.Message != tc.want {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
}
