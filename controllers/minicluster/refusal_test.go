// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// What Kubernetes says of Jobs and pods that it cannot make is a refusal if it will say the same again.
func TestRefusals(t *testing.T) {
	const denied = `pods "lmp-w-0-0-x7k2p" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no pods today`
	const want = "the pods are refused: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no pods today"
	for name, tc := range map[string]struct {
		kind, name, uid, message string
		age                      time.Duration
		want                     string
	}{
		"a policy":                  {kind: "Job", name: "lmp-w-0", message: "Error creating: " + denied, want: want},
		"again and again":           {kind: "Job", name: "lmp-w-0", message: "(combined from similar events): Error creating: " + denied, want: want},
		"a quota":                   {kind: "Job", name: "lmp-0-0", message: `Error creating: pods "lmp-0-0-0-c6b8x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`, want: "the pods are refused: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"},
		"Jobs":                      {kind: "JobSet", name: "lmp", uid: "set", message: `job "lmp-0-0" creation failed with error: jobs.batch "lmp-0-0" is forbidden: exceeded quota: q`, want: "the Jobs are refused: exceeded quota: q"},
		"Jobs of a JobSet before":   {kind: "JobSet", name: "lmp", uid: "before", message: `job "lmp-0-0" creation failed with error: jobs.batch "lmp-0-0" is forbidden: exceeded quota: q`},
		"another Job":               {kind: "Job", name: "other-0-0", message: "Error creating: " + denied},
		"it is told late":           {kind: "Job", name: "lmp-w-0", message: "Error creating: " + denied, age: 40 * time.Second, want: want},
		"before the last pod":       {kind: "Job", name: "lmp-w-0", message: "Error creating: " + denied, age: 46 * time.Second},
		"a webhook that is away":    {kind: "Job", name: "lmp-w-0", message: `Error creating: Internal error occurred: failed calling webhook "away.example.com": denied`},
		"a conflict":                {kind: "Job", name: "lmp-w-0", message: `Error creating: Operation cannot be fulfilled on resourcequotas "q": the object has been modified`},
		"a quota without a status":  {kind: "Job", name: "lmp-w-0", message: `Error creating: pods "x" is forbidden: status unknown for quota: q, resources: pods`},
		"roles that are not known":  {kind: "Job", name: "lmp-w-0", message: `Error creating: pods is forbidden: User "system:serviceaccount:kube-system:job-controller" cannot create resource "pods" in API group "" in the namespace "default"`},
		"an API server that is not": {kind: "Job", name: "lmp-w-0", message: "Error creating: etcdserver: request timed out"},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := jobset.JobSet(fixture.MiniCluster("lmp").Size(2).Defaulted(), 1)
			if err != nil {
				t.Fatal(err)
			}
			set.UID, set.CreationTimestamp = "set", metav1.NewTime(fixture.Noon.Add(-time.Minute))
			reason := map[string]string{"Job": "FailedCreate", "JobSet": "JobCreationFailed"}[tc.kind]
			event := &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Namespace: set.Namespace, Name: "e"},
				InvolvedObject: corev1.ObjectReference{Kind: tc.kind, Name: tc.name, UID: types.UID(tc.uid)},
				Reason:         reason, Message: tc.message, LastTimestamp: metav1.NewTime(fixture.Noon.Add(-tc.age)),
			}
			live := fake.NewClientBuilder().WithObjects(event).
				WithIndex(&corev1.Event{}, "reason", func(o client.Object) []string { return []string{o.(*corev1.Event).Reason} }).Build()
			var known refusals
			if got, err := known.of(t.Context(), live, set, fixture.Noon, fixture.Noon.Add(-40*time.Second)); err != nil || got != tc.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// Users may write as many events as they like, and each may have 1.5 MiB.
func TestManyEvents(t *testing.T) {
	for name, tc := range map[string]struct{ there, size, read int }{
		"few":        {25, 100, 25},
		"many":       {2000, 100, 500},
		"large ones": {100, 1 << 20, 10},
	} {
		t.Run(name, func(t *testing.T) {
			live := eventPages{event: corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Job"}, Message: strings.Repeat("x", tc.size)}, there: tc.there}
			got, err := failures(t.Context(), &live, "default", "FailedCreate")
			if err != nil || len(got) != tc.read || live.most > pageOfEvents {
				t.Errorf("%d events are kept, and %d at once were read, %v", len(got), live.most, err)
			}
			for _, e := range got {
				if want := min(tc.size, mostMessage); len(e.message) != want {
					t.Fatalf("%d bytes are kept of a message, not %d", len(e.message), want)
				}
			}
		})
	}
	live := eventPages{event: corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: strings.Repeat("x", 1<<20)}}, there: 3}
	if got, err := failures(t.Context(), &live, "default", "FailedCreate"); err != nil || len(got) != 0 {
		t.Errorf("%d events with large names are kept, %v", len(got), err)
	}
}

// One reconciler reads the events of a namespace. The others do not take what was read before for news.
func TestOneReadsEvents(t *testing.T) {
	set, err := jobset.JobSet(fixture.MiniCluster("lmp").Size(2).Defaulted(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var known refusals
	of := func(now time.Time) error {
		_, err := known.of(t.Context(), &eventPages{}, set, now, now)
		return err
	}
	if err := of(fixture.Noon); err != nil {
		t.Fatal(err)
	}
	events := known.in(set.Namespace, fixture.Noon)
	events.reading.Lock() // somebody reads
	if err := of(fixture.Noon.Add(time.Second)); err != nil {
		t.Errorf("what was read just now is not known: %v", err)
	}
	if err := of(fixture.Noon.Add(time.Hour)); !errors.Is(err, errReading) {
		t.Errorf("what is being read is known: %v", err)
	}
	events.reading.Unlock()
	if err := of(fixture.Noon.Add(time.Hour)); err != nil {
		t.Error(err)
	}
}

// eventPages has so many copies of an event. most is how many it was asked for at once.
type eventPages struct {
	client.Reader
	event       corev1.Event
	there, most int
}

func (p *eventPages) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	first, _ := strconv.Atoi(options.Continue)
	end := p.there
	if options.Limit > 0 {
		end = min(end, first+int(options.Limit))
	}
	p.most = max(p.most, end-first)
	events := list.(*corev1.EventList)
	events.Items = slices.Repeat([]corev1.Event{p.event}, end-first)
	if end < p.there {
		events.Continue = strconv.Itoa(end)
	}
	return nil
}

// The pause after a refusal doubles, whatever succeeds in between, until a command begins.
func TestPauseAfterRefusals(t *testing.T) {
	l, m := &lookout{memories: &memories{}}, &memory{}
	seen := func() *observed {
		s := &observed{now: fixture.Noon, memory: m, observation: &life.Observation{Trial: true, Workload: life.Ahead}}
		s.view.MiniCluster = fixture.MiniCluster("lmp").Defaulted()
		return s
	}
	for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
		s := seen()
		l.refuse(s, "no pods today")
		if err := unforeseen(s, nil); err != nil { // the next JobSet was made
			t.Fatal(err)
		}
		if got := m.check.until.Sub(s.now); got != want || s.observation.Trial || s.observation.Rejected != "no pods today" {
			t.Errorf("after refusal %d: a pause of %s, %+v", i+1, got, s.observation)
		}
	}
	s := seen()
	l.refuse(s, `exceeded quota: q`)
	if s.check.refused == "" || s.check.pod == nil {
		t.Errorf("the queue does not learn of %+v", s.check)
	}
	s = seen()
	s.observation.Workload, s.observation.Started = life.Active, fixture.Noon
	l.lookForRefusal(t.Context(), s)
	if m.refusals != 0 {
		t.Errorf("%d refusals are remembered", m.refusals)
	}
}

// Only a refusal of what brokers need gives nodes back, and only as long as the command cannot have begun.
func TestNoteRefusal(t *testing.T) {
	policy := errors.New("ValidatingAdmissionPolicy 'p' with binding 'p' denied request: not today")
	for name, tc := range map[string]struct {
		err    error
		change func(*life.Observation)
		noted  bool
	}{
		"a policy":                       {err: needed(policy), noted: true},
		"scripts that are gone":          {err: needed(&goneError{what: "gone", other: "others"}), noted: true},
		"a name that others have":        {err: &nameClashError{kind: "ConfigMap", name: "scripts"}, noted: true},
		"they are gone, and it may run":  {err: &goneError{what: "gone"}, change: func(o *life.Observation) { o.Started = fixture.Noon }},
		"something else":                 {err: policy},
		"a conflict":                     {err: needed(errors.New("the object has been modified"))},
		"roles that are not known":       {err: needed(errors.New(`services "lmp" is forbidden: User "u" cannot get resource "services" in API group "" in the namespace "default"`))},
		"a webhook that does not answer": {err: needed(errors.New("failed calling webhook \"w\""))},
		"the command may run":            {err: needed(policy), change: func(o *life.Observation) { o.Started = fixture.Noon }},
		"all is over":                    {err: needed(policy), change: func(o *life.Observation) { o.Outcome = life.OutcomeSucceeded }},
		"no nodes":                       {err: needed(policy), change: func(o *life.Observation) { o.Admission = nil }},
	} {
		o := &life.Observation{Brokers: make([]life.Broker, 2)}
		o.Admission = &life.Admission{Attempt: 3, At: fixture.Noon, Quorum: 2, Nodes: []string{"a", "b"}}
		if tc.change != nil {
			tc.change(o)
		}
		s := &observed{now: fixture.Noon, memory: &memory{}, observation: o}
		again := noteRefusal(s, tc.err)
		if noted := s.memory.refused.why != ""; noted != tc.noted || noted != again.Before(fixture.Noon.Add(recheckInterval)) {
			t.Errorf("%s: noted %t, again at %s", name, noted, again)
		}
	}
}
