// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return noon.Add(time.Duration(seconds * float64(time.Second)))
}

func event(seconds float64, reason, message string) *corev1.Event {
	return &corev1.Event{
		InvolvedObject: corev1.ObjectReference{UID: "u"}, EventTime: metav1.NewMicroTime(at(seconds)), Reason: reason, Message: message,
	}
}

// describe lists stays as "rank node from-to@start of the command", attempts without known nodes as "? from-to", and waits
// as "wait from-to". Times are seconds.
func describe(s Story, until time.Time) string {
	since := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return fmt.Sprint(t.Sub(noon).Seconds())
	}
	var out []string
	for _, a := range s.Attempts {
		if len(a.Stays) == 0 {
			out = append(out, fmt.Sprintf("? %s-%s", since(a.Admitted), since(a.Ended)))
		}
		for _, stay := range a.Stays {
			text := fmt.Sprintf("%d %s %s-%s", stay.Rank, stay.Node, since(stay.From), since(stay.To))
			if from, _, runs := a.Command(stay, until); runs {
				text += "@" + since(from)
			}
			out = append(out, text)
		}
	}
	slices.Sort(out)
	for _, p := range s.Phases(until) {
		if p.Kind == KindWaiting || p.Kind == KindForgotten {
			out = append(out, fmt.Sprintf("%s %s-%s", strings.TrimSuffix(string(p.Kind), "ing"), since(p.From), since(p.To)))
		}
	}
	return strings.Join(out, ", ")
}

func TestOf(t *testing.T) {
	when := func(seconds float64) metav1.Time { return metav1.NewTime(at(seconds)) }
	pointer := func(seconds float64) *metav1.Time { return new(when(seconds)) }
	attempt := func(admitted, ended float64, started *metav1.Time) []v1alpha2.Attempt {
		return []v1alpha2.Attempt{{Attempt: 1, Size: 2, Admitted: when(admitted), Started: started, Ended: when(ended)}}
	}
	admission := func(seconds float64, size int32, nodes string) *v1alpha2.Admission {
		return &v1alpha2.Admission{Attempt: 1, Size: size, Quorum: size, Nodes: nodes, Time: when(seconds)}
	}
	for name, tc := range map[string]struct {
		status v1alpha2.MiniClusterStatus
		events []*corev1.Event
		since  float64
		want   string
	}{
		"one that waits": {want: "wait 0-100"},
		"one that runs": {
			status: v1alpha2.MiniClusterStatus{Admission: admission(10, 2, "n[1-2]"), StartTime: pointer(12)},
			want:   "0 n1 10-@12, 1 n2 10-@12, wait 0-10",
		},
		"one that has finished": {
			status: v1alpha2.MiniClusterStatus{Admission: admission(10, 1, "n1"), StartTime: pointer(12), CompletionTime: pointer(40)},
			want:   "0 n1 10-40@12, wait 0-10",
		},
		"one that was withdrawn while it waited": {
			status: v1alpha2.MiniClusterStatus{CompletionTime: pointer(40)},
			want:   "wait 0-40",
		},
		"an ended attempt has the nodes of its event": {
			status: v1alpha2.MiniClusterStatus{Attempts: attempt(10, 20, pointer(15)), Admission: admission(30, 2, "n[3-4]")},
			events: []*corev1.Event{
				event(30.2, "Admitted", "Placed 2 of 2 brokers on n[3-4]"),
				event(10.4, "Admitted", "Placed 2 of 2 brokers on n1,m[2]; queue q lets the command run for 1h0m0s"),
			},
			want: "0 n1 10-20@15, 0 n3 30-, 1 m2 10-20@15, 1 n4 30-, wait 0-10, wait 20-30",
		},
		"an attempt without its event has no node": {
			status: v1alpha2.MiniClusterStatus{Attempts: attempt(10, 20, nil)},
			want:   "? 10-20, wait 0-10, wait 20-100",
		},
		"ranks that left and came": {
			status: v1alpha2.MiniClusterStatus{Admission: admission(10, 3, "n[1-3]"), StartTime: pointer(12)},
			events: []*corev1.Event{event(50, "Vacated", "Shrunk, ranks 1 left"), event(60, "Grew", "Grew by 1, ranks 2 on n3")},
			want:   "0 n1 10-@12, 1 n2 10-50@12, 2 n3 60-@60, wait 0-10",
		},
		"an ended attempt that grew": {
			status: v1alpha2.MiniClusterStatus{Attempts: attempt(10, 20, nil)},
			events: []*corev1.Event{event(10, "Admitted", "Placed 1 of 2 brokers on n1"), event(15, "Grew", "Grew by 1, ranks 1 on n2")},
			want:   "0 n1 10-20, 1 n2 15-20, wait 0-10, wait 20-100",
		},
		"ranks that left, came back elsewhere, and moved": {
			status: v1alpha2.MiniClusterStatus{Attempts: attempt(10, 90, nil)},
			events: []*corev1.Event{
				event(10, "Admitted", "Placed 3 of 3 brokers on n[1-3]"), event(50, "Vacated", "Shrunk, ranks 2 left"),
				event(70, "Moved", "Moves, ranks 1 on x"), event(80, "Grew", "Grew by 2, ranks 2-3 on n[9-10]"),
			},
			want: "0 n1 10-90, 1 n2 10-70, 1 x 70-90, 2 n3 10-50, 2 n9 80-90, 3 n10 80-90, wait 0-10, wait 90-100",
		},
		"a rank of the admission that came back elsewhere": {
			status: v1alpha2.MiniClusterStatus{Admission: admission(10, 2, "n1,n9")},
			events: []*corev1.Event{
				event(10, "Admitted", "Placed 2 of 2 brokers on n[1-2]"), event(50, "Vacated", "Shrunk, ranks 1 left"), event(80, "Grew", "Grew by 1, ranks 1 on n9"),
			},
			want: "0 n1 10-, 1 n2 10-50, 1 n9 80-, wait 0-10",
		},
		"the last attempt of one that failed": {
			status: v1alpha2.MiniClusterStatus{
				Attempts: attempt(10, 40, pointer(15)), Admission: admission(10, 2, "n[1-2]"), StartTime: pointer(15), CompletionTime: pointer(40),
			},
			want: "0 n1 10-40@15, 1 n2 10-40@15, wait 0-10",
		},
		"a rank that left at a time that nobody knows any more": {
			status: v1alpha2.MiniClusterStatus{Admission: &v1alpha2.Admission{Attempt: 1, Size: 3, Quorum: 3, Nodes: "n[1-3]", Vacated: "1-2", Time: when(10)}},
			want:   "0 n1 10-, wait 0-10",
		},
		"nodes that are not readable": {
			status: v1alpha2.MiniClusterStatus{Admission: admission(10, 2, "n[1-")},
			want:   "? 10-, wait 0-10",
		},
		"attempts that the status does not list any more": {
			status: v1alpha2.MiniClusterStatus{Attempts: []v1alpha2.Attempt{{Attempt: 3, Size: 2, Admitted: when(50), Ended: when(60)}}},
			want:   "? 50-60, forgotten 0-50, wait 60-100",
		},
		"ten attempts that are all": {
			status: v1alpha2.MiniClusterStatus{Attempts: slices.Repeat(attempt(10, 20, nil), 10)},
			want:   strings.Repeat("? 10-20, ", 10) + "wait 0-10, wait 20-100",
		},
		"one that ended after its last attempt": {
			status: v1alpha2.MiniClusterStatus{Attempts: attempt(10, 20, nil), CompletionTime: pointer(40)},
			want:   "? 10-20, wait 0-10, wait 20-40",
		},
		"one whose end is a condition alone": {
			status: v1alpha2.MiniClusterStatus{Admission: admission(10, 1, "n1"), Conditions: []metav1.Condition{
				{Type: v1alpha2.ConditionFinished, Status: metav1.ConditionTrue, LastTransitionTime: when(30)},
			}},
			want: "0 n1 10-30, wait 0-10",
		},
		"what began before": {
			status: v1alpha2.MiniClusterStatus{Attempts: attempt(10, 20, nil), Admission: admission(30, 1, "n1"), StartTime: pointer(31)},
			since:  50,
			want:   "0 n1 50-@50",
		},
		"what it waited before, of attempts that are listed": {
			status: v1alpha2.MiniClusterStatus{
				Attempts:  attempt(10, 20, nil),
				Admission: &v1alpha2.Admission{Attempt: 2, Size: 1, Quorum: 1, Nodes: "n1", Time: when(60)}, StartTime: pointer(61),
			},
			since: 50,
			want:  "0 n1 60-@61, wait 50-60",
		},
		"what ended before": {
			status: v1alpha2.MiniClusterStatus{Admission: admission(30, 1, "n1"), CompletionTime: pointer(40)},
			since:  50,
		},
	} {
		t.Run(name, func(t *testing.T) {
			mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: when(0)}, Status: tc.status}
			if got := describe(Of(mc, tc.events...).Since(at(tc.since)), at(100)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// The size is that of the command once it was started, and the wanted one is that of the last admission.
func TestSizes(t *testing.T) {
	mc := &v1alpha2.MiniCluster{Spec: v1alpha2.MiniClusterSpec{Size: 4}}
	check := func(what string, size, wanted int32) {
		t.Helper()
		if s := Of(mc); s.Size != size || s.Wanted != wanted {
			t.Errorf("%s: %d of %d, want %d of %d", what, s.Size, s.Wanted, size, wanted)
		}
	}
	mc.Status.Size = 2 // brokers that still end
	check("it waits", 0, 4)
	mc.Status.Admission = &v1alpha2.Admission{Size: 6, Quorum: 5, Wanted: 8, Nodes: "n[1-6]"}
	check("it starts", 6, 8)
	mc.Status.StartTime = &metav1.Time{Time: noon}
	check("it started with fewer", 5, 8)
	mc.Status.Admission.Size = 9
	check("it has grown", 5, 9)
}

// Nodes are hostages from their admission until the command begins, as they were counted, or by their stays.
func TestHostageTime(t *testing.T) {
	stays := []Stay{{Node: "a", From: at(0)}, {Node: "b", From: at(4)}, {Node: "c", From: at(0), To: at(2)}, {Node: "d", From: at(9)}}
	for name, tc := range map[string]struct {
		a    Attempt
		want float64
	}{
		"counted":    {Attempt{Hostages: new(int64(7)), Started: at(5)}, 7},
		"by size":    {Attempt{Size: 3, Started: at(5), Admitted: at(1)}, 12},
		"by stays":   {Attempt{Size: 9, Started: at(5), Stays: stays}, 5 + 1 + 2},
		"no command": {Attempt{Size: 9, Ended: at(10), Stays: stays}, 10 + 6 + 2 + 1},
		"no end":     {Attempt{Size: 9, Stays: stays}, -1},
	} {
		got, known := tc.a.HostageTime()
		if !known {
			got = -1
		}
		if got != tc.want {
			t.Errorf("%s: %g, want %g", name, got, tc.want)
		}
	}
}
