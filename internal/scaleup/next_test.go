// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scaleup

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// server is an API server with the objects of one MiniCluster. Writes fail as there.
type server struct {
	Objects
	mc      *v1alpha2.MiniCluster
	version int
	log     []string
	// asked are the requests by kind and record, and repeated those that were made twice.
	asked    map[string]bool
	repeated []string
}

func newServer() *server { return &server{mc: miniCluster(), asked: map[string]bool{}} }

func (s *server) next() string {
	s.version++
	return fmt.Sprint(s.version)
}

// copy is what a cache has seen.
func (s *server) copy() Objects {
	c := Objects{Template: s.Template.DeepCopy()}
	for _, r := range s.Requests {
		own := *r
		c.Requests = append(c.Requests, &own)
	}
	return c
}

// write does one write, and reports whether it changed anything.
func (s *server) write(step Step) bool {
	switch {
	case step.CreateTemplate != nil && s.Template == nil:
		s.Template = step.CreateTemplate.DeepCopy()
		s.Template.UID, s.Template.ResourceVersion = types.UID("t"+s.next()), s.next()
		return s.say("record " + describe(RecordOf(s.Template)))
	case step.PatchTemplate != nil && s.Template != nil && s.Template.ResourceVersion == step.PatchTemplate.ResourceVersion:
		s.Template = step.PatchTemplate.DeepCopy()
		s.Template.ResourceVersion = s.next()
		return s.say("record " + describe(RecordOf(s.Template)))
	case step.DeleteTemplate != nil && s.Template != nil && s.Template.UID == step.DeleteTemplate.UID:
		s.Template = nil
		return s.say("forget")
	case step.CreateRequest != nil && !slices.ContainsFunc(s.Requests, func(r *Request) bool { return r.Kind == step.CreateRequest.Kind }):
		r := *step.CreateRequest
		r.UID, r.ResourceVersion, r.Generation = types.UID("r"+s.next()), s.next(), 1
		s.Requests = append(s.Requests, &r)
		id := r.Kind + " " + r.Labels[v1alpha2.ScaleUpLabel]
		if s.asked[id] {
			s.repeated = append(s.repeated, id)
		}
		s.asked[id] = true
		return s.say("ask with a " + r.Kind)
	case step.DeleteRequest != nil:
		before := len(s.Requests)
		s.Requests = slices.DeleteFunc(s.Requests, func(r *Request) bool { return r.UID == step.DeleteRequest.UID })
		return len(s.Requests) < before && s.say("end the "+step.DeleteRequest.Kind)
	case step.PatchRequest != nil:
		i := slices.IndexFunc(s.Requests, func(r *Request) bool { return r.UID == step.PatchRequest.UID })
		if i < 0 || s.Requests[i].ResourceVersion != step.PatchRequest.ResourceVersion {
			return false
		}
		r := *step.PatchRequest
		r.ResourceVersion, r.Generation = s.next(), r.Generation+1
		s.Requests[i] = &r
		return s.say(fmt.Sprintf("ask for %d", *r.Spec.Replicas))
	}
	return false
}

func (s *server) say(text string) bool {
	s.log = append(s.log, text)
	return true
}

func describe(r *Record) string {
	text := fmt.Sprintf("%d at %d", r.Attempt, r.Size)
	if r.Pauses != 0 {
		text += fmt.Sprintf(" paused %d", r.Pauses)
	}
	if !r.Until.IsZero() {
		text += " failed"
	}
	if r.Used {
		text += " used"
	}
	return text
}

// settle does all writes that follow from a wish.
func (s *server) settle(t *testing.T, wish *Wish, placed bool, now time.Time) {
	t.Helper()
	for range 10 {
		objects := s.copy()
		step := Next(s.mc, wish, placed, &objects, now)
		if step.Done() {
			return
		}
		if !s.write(step) {
			t.Fatalf("the write failed: %+v", step)
		}
	}
	t.Fatal("it never ends")
}

// What is written, one after the other.
func TestNext(t *testing.T) {
	type stage struct {
		wish      *Wish
		placed    bool
		suspended bool
		others    bool          // another controller manages it
		says      string        // the condition of the request
		after     time.Duration // until the next stage; an hour if zero
	}
	buffer, request := v1alpha2.ProvideByBuffer, v1alpha2.ProvideByRequest
	second := func(w *Wish) { w.Attempt, w.Size = 2, 2 }
	third := func(w *Wish) { w.Attempt, w.Size = 3, 2 }
	pauses := func(w *Wish) { w.Pauses = 1 }
	paused := func(w *Wish) { w.Pause, w.Verdict = time.Minute, elastic.NodesTimedOut }
	for name, tc := range map[string]struct {
		stages []stage
		want   string
	}{
		"a MiniCluster that gets its nodes": {
			[]stage{{wish: wish(buffer)}, {placed: true}}, "record 1 at 4, ask with a CapacityBuffer, record 1 at 4 used, end the CapacityBuffer, forget",
		},
		"a ProvisioningRequest stays while its nodes are in use": {
			[]stage{{wish: wish(request)}, {placed: true}, {}}, "record 1 at 4, ask with a ProvisioningRequest, record 1 at 4 used, end the ProvisioningRequest, forget",
		},
		"it asks again after it has lost its nodes": {
			[]stage{{wish: wish(request)}, {placed: true}, {wish: wish(request)}},
			"record 1 at 4, ask with a ProvisioningRequest, record 1 at 4 used, record 1 at 4, end the ProvisioningRequest, ask with a ProvisioningRequest",
		},
		"one that waits no longer": {
			[]stage{{wish: wish(buffer)}, {}}, "record 1 at 4, ask with a CapacityBuffer, record 1 at 4 used, end the CapacityBuffer, forget",
		},
		"a failure, a pause, and a smaller size": {
			[]stage{{wish: wish(buffer)}, {wish: wish(buffer, paused)}, {wish: wish(buffer, second)}},
			"record 1 at 4, ask with a CapacityBuffer, record 1 at 4 failed, end the CapacityBuffer, record 2 at 2, ask with a CapacityBuffer",
		},
		"a failure, and no quota for a while": {
			[]stage{{wish: wish(buffer)}, {wish: wish(buffer, paused)}, {}, {wish: wish(buffer, second)}},
			"record 1 at 4, ask with a CapacityBuffer, record 1 at 4 failed, end the CapacityBuffer, record 2 at 2, ask with a CapacityBuffer",
		},
		"a failure, and no quota for long": {
			[]stage{{wish: wish(buffer)}, {wish: wish(buffer, paused)}, {}, {}},
			"record 1 at 4, ask with a CapacityBuffer, record 1 at 4 failed, end the CapacityBuffer, record 1 at 4 failed used, forget",
		},
		"a failure, and no quota while it asks again": {
			[]stage{{wish: wish(buffer, second, pauses), after: 59 * time.Minute}, {after: time.Minute - 1}, {wish: wish(buffer, third, pauses)}},
			"record 2 at 2 paused 1, ask with a CapacityBuffer, record 2 at 2 failed, end the CapacityBuffer, record 3 at 2 paused 1, ask with a CapacityBuffer",
		},
		"a failure, and no quota for long while it asks again": {
			[]stage{{wish: wish(buffer, second, pauses), after: 59 * time.Minute}, {after: time.Minute}, {}},
			"record 2 at 2 paused 1, ask with a CapacityBuffer, record 2 at 2 failed, end the CapacityBuffer, record 2 at 2 failed used, forget",
		},
		"half of the size, and no quota": {
			[]stage{{wish: wish(buffer, second), after: time.Minute}, {}},
			"record 2 at 2, ask with a CapacityBuffer, record 2 at 2 paused -1 failed, end the CapacityBuffer",
		},
		"a failure of which the queue has not heard, and no quota": {
			[]stage{{wish: wish(request)}, {says: conditionFailed, after: time.Minute}, {wish: wish(request, second)}},
			"record 1 at 4, ask with a ProvisioningRequest, record 1 at 4 failed, end the ProvisioningRequest, record 2 at 2, ask with a ProvisioningRequest",
		},
		"somebody suspends it while it asks again": {
			[]stage{{wish: wish(buffer, second), after: time.Minute}, {suspended: true}},
			"record 2 at 2, ask with a CapacityBuffer, record 2 at 2 used, end the CapacityBuffer, forget",
		},
		"a failure, and another controller takes it": {
			[]stage{{wish: wish(buffer)}, {wish: wish(buffer, paused)}, {others: true}},
			"record 1 at 4, ask with a CapacityBuffer, record 1 at 4 failed, end the CapacityBuffer, record 1 at 4 failed used, forget",
		},
		"a failure, and somebody suspends it": {
			[]stage{{wish: wish(buffer)}, {wish: wish(buffer, paused)}, {suspended: true}},
			"record 1 at 4, ask with a CapacityBuffer, record 1 at 4 failed, end the CapacityBuffer, record 1 at 4 failed used, forget",
		},
		"a failure, and nodes all the same": {
			[]stage{{wish: wish(buffer)}, {wish: wish(buffer, paused)}, {placed: true}},
			"record 1 at 4, ask with a CapacityBuffer, record 1 at 4 failed, end the CapacityBuffer, record 1 at 4 failed used, forget",
		},
		"a smaller size at once": {
			[]stage{{wish: wish(buffer)}, {wish: wish(buffer, second)}},
			"record 1 at 4, ask with a CapacityBuffer, record 2 at 2, end the CapacityBuffer, ask with a CapacityBuffer",
		},
		"a queue that asks in another way": {
			[]stage{{wish: wish(buffer)}, {wish: wish(request)}},
			"record 1 at 4, ask with a CapacityBuffer, record 1 at 4, end the CapacityBuffer, ask with a ProvisioningRequest",
		},
		"a spec that was changed": {
			[]stage{{wish: wish(buffer)}, {wish: wish(buffer, func(w *Wish) { w.Pod.Spec.NodeSelector = map[string]string{"pool": "x"} })}},
			"record 1 at 4, ask with a CapacityBuffer, record 1 at 4, end the CapacityBuffer, ask with a CapacityBuffer",
		},
		"a decision that is outdated": {
			[]stage{{wish: wish(buffer, second)}, {wish: wish(buffer)}, {wish: wish(buffer, paused)}}, "record 2 at 2, ask with a CapacityBuffer",
		},
		"a failure of which nothing is known": {[]stage{{wish: wish(buffer, paused)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			now := fixture.Noon
			for _, stage := range tc.stages {
				if s.mc.Spec.Suspend = stage.suspended; stage.others {
					s.mc.Spec.ManagedBy = "example.com/other"
				}
				if stage.says != "" {
					s.Requests[0].Status.Conditions = []metav1.Condition{{Type: stage.says, Status: metav1.ConditionTrue}}
				}
				s.settle(t, stage.wish, stage.placed, now)
				now = now.Add(cmp.Or(stage.after, time.Hour))
			}
			if got := strings.Join(s.log, ", "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// A buffer that is provided although nodes are missing is asked for more, and for fewer never again.
func TestMoreReplicas(t *testing.T) {
	s := newServer()
	w := wish(v1alpha2.ProvideByBuffer)
	s.settle(t, w, false, fixture.Noon)
	s.Requests[0].Status.Conditions = []metav1.Condition{{Type: "Provisioning", Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(fixture.Noon), ObservedGeneration: 1}}
	s.settle(t, w, false, fixture.Noon.Add(doubt))
	s.Requests[0].Status.Conditions = nil
	s.settle(t, w, false, fixture.Noon.Add(doubt))
	if got, want := strings.Join(s.log[2:], ", "), "ask for 8"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// However far behind the cache is, and wherever the manager is killed, what is wished comes about at the end, and nothing
// is left when nothing is wished. Nothing is asked twice with one record, also if the wish goes and comes back.
func TestNextBehind(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 24))
		s := newServer()
		cache := s.copy()
		w, placed, now := wish(v1alpha2.ProvideByBuffer), false, fixture.Noon
		for range 60 {
			switch random.IntN(12) {
			case 0: // what the queue decides by the record that it sees
				if r := RecordOf(cache.Template); r != nil && w != nil {
					next := *w
					next.Attempt, next.Size, next.Pause = r.Attempt+random.IntN(2), 1+random.IntN(4), 0
					if next.Attempt == r.Attempt {
						next.Size, next.Pause, next.Verdict = r.Size, time.Minute, elastic.NodesTimedOut
					}
					w = &next
				}
			case 1:
				w = nil
			case 2:
				w = wish([]v1alpha2.ScaleUpProvider{v1alpha2.ProvideByBuffer, v1alpha2.ProvideByRequest}[random.IntN(2)])
			case 3:
				placed = !placed
			}
			now = now.Add(time.Second)
			if random.IntN(3) > 0 {
				cache = s.copy()
			}
			s.write(Next(s.mc, w, placed, &cache, now))
		}
		again := wish(v1alpha2.ProvideByBuffer)
		if r := RecordOf(s.Template); r != nil {
			again.Attempt = r.Attempt + 1
		}
		s.settle(t, again, false, now)
		if r := RecordOf(s.Template); r == nil || s.current(r) == nil || r.Attempt != again.Attempt {
			t.Fatalf("seed %d: nothing is asked for\n%s", seed, strings.Join(s.log, "\n"))
		}
		s.settle(t, nil, false, now)
		s.settle(t, nil, false, now.Add(failureCounts))
		if len(s.repeated) > 0 {
			t.Fatalf("seed %d: made twice: %v\n%s", seed, s.repeated, strings.Join(s.log, "\n"))
		}
		if s.Template != nil || len(s.Requests) > 0 {
			t.Fatalf("seed %d: %d requests are left", seed, len(s.Requests))
		}
	}
}
