// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Whatever the notes of events say, a story has a bounded number of stays, of ranks that there are.
func FuzzOf(f *testing.F) {
	f.Add("Placed 2 of 2 brokers on n[1-2]", ", ranks 2 on n3", ", ranks 1 left", "n[1-2]", "")
	f.Add("Placed 1 of 1 brokers on n[0-65535]", ", ranks 0-65535 on m[0-65535]", ", ranks 0-65535 left", "n[0-9]", "1-3")
	f.Add("Placed 1 of 1 brokers on n[0-999999999]", ", ranks 0-9999999 on m[0-9999999]", ", ranks 99999999999 left", "", "5-1")
	f.Fuzz(func(t *testing.T, placed, moved, left, nodes, vacated string) {
		mc := &v1alpha2.MiniCluster{}
		mc.CreationTimestamp = metav1.NewTime(noon)
		mc.Status.Admission = &v1alpha2.Admission{Attempt: 2, Size: 2, Nodes: nodes, Vacated: vacated, Time: metav1.NewTime(at(20))}
		mc.Status.Attempts = []v1alpha2.Attempt{{Attempt: 1, Size: 2, Admitted: metav1.NewTime(at(1)), Ended: metav1.NewTime(at(15))}}
		var events []*corev1.Event
		for _, begins := range []float64{1, 20} {
			events = append(events, event(begins, "Admitted", placed))
			for i := range 40 {
				events = append(events, event(begins+float64(i)/4, []string{"Grew", "Moved", "Vacated", "Moved"}[i%4], []string{moved, moved, left, strings.ToUpper(moved)}[i%4]))
			}
		}
		s := Of(mc, events...)
		for _, a := range s.Attempts {
			if len(a.Stays) > 2*mostBrokers {
				t.Errorf("an attempt has %d stays", len(a.Stays))
			}
			for _, stay := range a.Stays {
				if stay.Rank < 0 || stay.Rank >= 2*mostBrokers || stay.Node == "" {
					t.Fatalf("%+v", stay)
				}
			}
			a.HostageTime()
		}
		s.Since(at(5))
		s.Phases(at(100).Add(time.Hour))
	})
}
