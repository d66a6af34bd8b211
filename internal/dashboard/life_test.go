// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// at is a number of seconds after the creation.
func at(second int) metav1.Time {
	return metav1.NewTime(fixture.Noon.Add(time.Duration(second) * time.Second))
}

func TestSpans(t *testing.T) {
	gaveUp := func(admitted, ended int, started ...int) v1alpha2.Attempt {
		a := v1alpha2.Attempt{Attempt: 1, Admitted: at(admitted), Ended: at(ended)}
		for _, second := range started {
			a.Started = new(at(second))
		}
		return a
	}
	status := func(change func(*v1alpha2.MiniClusterStatus)) *v1alpha2.MiniCluster {
		return fixture.MiniCluster("mc").Admitted(1, 1, "n1").Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Admission.Time = at(50)
			change(s)
		}).Obj()
	}
	for name, tc := range map[string]struct {
		mc   *v1alpha2.MiniCluster
		want string
	}{
		"waits":          {fixture.MiniCluster("mc").Obj(), "waiting 0-"},
		"starts":         {status(func(*v1alpha2.MiniClusterStatus) {}), "waiting 0-50 starting 50-"},
		"runs":           {status(func(s *v1alpha2.MiniClusterStatus) { s.StartTime = new(at(60)) }), "waiting 0-50 starting 50-60 running 60-"},
		"has ended":      {status(func(s *v1alpha2.MiniClusterStatus) { s.StartTime, s.CompletionTime = new(at(60)), new(at(90)) }), "waiting 0-50 starting 50-60 running 60-90"},
		"never started":  {status(func(s *v1alpha2.MiniClusterStatus) { s.CompletionTime = new(at(90)) }), "waiting 0-50 starting 50-90"},
		"second attempt": {status(func(s *v1alpha2.MiniClusterStatus) { s.Attempts = []v1alpha2.Attempt{gaveUp(10, 30)} }), "waiting 0-10 starting 10-30 waiting 30-50 starting 50-"},
		"lost while run": {status(func(s *v1alpha2.MiniClusterStatus) { s.Attempts = []v1alpha2.Attempt{gaveUp(10, 30, 15)} }), "waiting 0-10 starting 10-15 running 15-30 waiting 30-50 starting 50-"},
		"in one second":  {status(func(s *v1alpha2.MiniClusterStatus) { s.Attempts = []v1alpha2.Attempt{gaveUp(0, 50)} }), "starting 0-50 starting 50-"},
		"too many to tell": {status(func(s *v1alpha2.MiniClusterStatus) {
			s.Attempts = []v1alpha2.Attempt{gaveUp(10, 20)}
			s.Attempts[0].Attempt = 4
		}), "forgotten 0-10 starting 10-20 waiting 20-50 starting 50-"},
	} {
		var got []string
		for _, span := range spansOf(tc.mc) {
			text := fmt.Sprintf("%s %d-", span.Kind, span.From-fixture.Noon.Unix())
			if span.To != 0 {
				text += fmt.Sprint(span.To - fixture.Noon.Unix())
			}
			got = append(got, text)
		}
		if text := strings.Join(got, " "); text != tc.want {
			t.Errorf("%s: got %s, want %s", name, text, tc.want)
		}
	}
}

// A life has the brokers by rank, with what their pods and nodes show.
func TestLife(t *testing.T) {
	mc := fixture.MiniCluster("mc").Size(5).Admitted(1, 5, "n[1-5]").Vacated("4").Defaulted()
	view := &state.View{MiniCluster: mc, JobSet: fixture.JobSet("mc", 1).Obj(), Node: func(name string) *corev1.Node {
		if name == "n3" {
			return fixture.Node(name).NotReady().Obj()
		}
		return fixture.Node(name).Obj()
	}}
	for _, pod := range []*corev1.Pod{
		fixture.BrokerPod("mc", 0).On("n1").Up().Obj(), fixture.BrokerPod("mc", 1).On("n2").Obj(), fixture.BrokerPod("mc", 2).On("n3").Up().Obj(),
	} {
		view.Pods = append(view.Pods, protocol.Read(pod))
	}
	queue := fixture.Queue("default").Obj()
	got, err := NewLife(view, queue)
	if err != nil {
		t.Fatal(err)
	}
	var brokers []string
	for _, b := range got.Brokers {
		brokers = append(brokers, strings.TrimSpace(fmt.Sprintf("%d %s %s %s %s", b.Rank, b.Node, b.State, b.Pod, b.Note)))
	}
	want := "0 n1 up mc-0|1 n2 coming mc-1|2 n3 up mc-2 the node is not ready|3 n4 missing|4 n5 vacated"
	if text := strings.Join(brokers, "|"); text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	if story := got.Story[0]; story.Key() != "default/mc" || story.Quorum != 5 || story.Command == "" || story.UID != "uid-mc" {
		t.Errorf("story %+v", story)
	}
	for _, b := range got.WithoutPods().Brokers {
		if b.Pod != "" || b.State != "" || b.Note != "" || b.Node == "" {
			t.Errorf("somebody who may not see pods sees %+v", b)
		}
	}
	if d := got.Since(nil); len(d.Set["brokers"]) != 5 || len(d.Set["story"]) != 1 {
		t.Errorf("the first delta is %+v", d)
	}
	if d := got.Since(got); !d.Empty() {
		t.Errorf("nothing has changed, but the delta is %+v", d)
	}
}

// Each state of a broker has a name.
func TestStates(t *testing.T) {
	for s := life.Missing; s <= life.Failed; s++ {
		if names[s] == "" {
			t.Errorf("state %d has no name", s)
		}
	}
}
