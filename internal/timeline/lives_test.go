// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

func event(seconds float64, reason, message string) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{UID: "u"}, EventTime: metav1.NewMicroTime(at(seconds)), Reason: reason, Message: message,
	}
}

// describe lists spans as "rank node held-freed@start of the command", and waits as "wait from-to". Times are seconds.
func describe(r *Recorder) []string {
	var out []string
	for _, span := range r.spans {
		text := fmt.Sprintf("%d %s %g-", span.Rank, span.Node, span.Held.Sub(noon).Seconds())
		if !span.Freed.IsZero() {
			text += fmt.Sprintf("%g", span.Freed.Sub(noon).Seconds())
		}
		if start, end := r.commandTime(span); end.After(start) {
			text += fmt.Sprintf("@%g", start.Sub(noon).Seconds())
		}
		out = append(out, text)
	}
	slices.Sort(out)
	for _, wait := range r.Waits() {
		out = append(out, fmt.Sprintf("wait %g-%g", wait.From.Sub(noon).Seconds(), wait.To.Sub(noon).Seconds()))
	}
	return out
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
		status  v1alpha2.MiniClusterStatus
		events  []corev1.Event
		since   float64
		unknown int
		want    string
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
			events: []corev1.Event{
				event(30.2, "Admitted", "Placed 2 of 2 brokers on n[3-4]"),
				event(10.4, "Admitted", "Placed 2 of 2 brokers on n1,m[2]; queue q lets the command run for 1h0m0s"),
			},
			want: "0 n1 10-20@15, 0 n3 30-, 1 m2 10-20@15, 1 n4 30-, wait 0-10, wait 20-30",
		},
		"an attempt without its event has no node": {
			status:  v1alpha2.MiniClusterStatus{Attempts: attempt(10, 20, nil)},
			unknown: 1,
			want:    "0  10-20, wait 0-10, wait 20-100",
		},
		"ranks that left and came": {
			status: v1alpha2.MiniClusterStatus{Admission: admission(10, 3, "n[1-3]"), StartTime: pointer(12)},
			events: []corev1.Event{event(50, "Vacated", "Shrunk, ranks 1 left"), event(60, "Grew", "Grew by 1, ranks 2 on n3")},
			want:   "0 n1 10-@12, 1 n2 10-50@12, 2 n3 60-@60, wait 0-10",
		},
		"an ended attempt that grew": {
			status: v1alpha2.MiniClusterStatus{Attempts: attempt(10, 20, nil)},
			events: []corev1.Event{event(10, "Admitted", "Placed 1 of 2 brokers on n1"), event(15, "Grew", "Grew by 1, ranks 1 on n2")},
			want:   "0 n1 10-20, 1 n2 15-20, wait 0-10, wait 20-100",
		},
		"ranks that left, came back elsewhere, and moved": {
			status: v1alpha2.MiniClusterStatus{Attempts: attempt(10, 90, nil)},
			events: []corev1.Event{
				event(10, "Admitted", "Placed 3 of 3 brokers on n[1-3]"), event(50, "Vacated", "Shrunk, ranks 2 left"),
				event(70, "Moved", "Moves, ranks 1 on x"), event(80, "Grew", "Grew by 2, ranks 2-3 on n[9-10]"),
			},
			want: "0 n1 10-90, 1 n2 10-70, 1 x 70-90, 2 n3 10-50, 2 n9 80-90, 3 n10 80-90, wait 0-10, wait 90-100",
		},
		"a rank of the admission that came back elsewhere": {
			status: v1alpha2.MiniClusterStatus{Admission: admission(10, 2, "n1,n9")},
			events: []corev1.Event{
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
		"what began before": {
			status: v1alpha2.MiniClusterStatus{Attempts: attempt(10, 20, nil), Admission: admission(30, 1, "n1"), StartTime: pointer(31)},
			since:  50,
			want:   "0 n1 50-@50",
		},
		"what ended before": {
			status: v1alpha2.MiniClusterStatus{Admission: admission(30, 1, "n1"), CompletionTime: pointer(40)},
			since:  50,
		},
	} {
		t.Run(name, func(t *testing.T) {
			mc := v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "lab", UID: "u", CreationTimestamp: when(0)}, Status: tc.status}
			r, unknown := Of(&Objects{MiniClusters: []v1alpha2.MiniCluster{mc}, Events: tc.events, Nodes: []string{"n1", "idle"}, Qualified: true}, at(tc.since), at(100))
			if got := strings.Join(describe(r), ", "); got != tc.want || unknown != tc.unknown {
				t.Errorf("got  %s, %d unknown\nwant %s, %d unknown", got, unknown, tc.want, tc.unknown)
			}
			if slices.Contains(r.nodes, "") || !slices.Contains(r.nodes, "idle") {
				t.Errorf("nodes %q", r.nodes)
			}
			for _, run := range r.Runs() {
				if run.Name != "lab/a" {
					t.Errorf("it has the name %s", run.Name)
				}
			}
			for _, draw := range []func(*strings.Builder) error{
				func(b *strings.Builder) error { return r.SVG(b) }, func(b *strings.Builder) error { return r.HTML(b) },
			} {
				var out strings.Builder
				if err := draw(&out); err != nil || strings.Contains(out.String(), "NaN") {
					t.Errorf("%v: %s", err, out.String())
				}
			}
		})
	}
}
