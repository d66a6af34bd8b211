// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/dev/simulator/flux"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

func TestReadPlay(t *testing.T) {
	ordinary := flux.Play{Runtime: 10 * time.Second, FailsAfter: time.Second, LoseAfter: time.Second}
	with := func(change func(*flux.Play)) flux.Play {
		p := ordinary
		change(&p)
		return p
	}
	ranks, err := idset.Parse("1,3")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        flux.Play
		complaint   string
	}{
		"nothing said": {nil, ordinary, ""},
		"all said": {map[string]string{
			Runtime: "90s", ExitCode: "3", Busy: "2s", LeadFails: PhaseRunning, FailsAfter: "5s",
			LoseRanks: "1,3", LoseAfter: "0s", HangsOnLoss: "true",
		}, flux.Play{
			Runtime: 90 * time.Second, ExitCode: 3, Busy: 2 * time.Second, Fails: PhaseRunning, FailsAfter: 5 * time.Second,
			Lose: ranks, Hangs: true,
		}, ""},
		"over at once":         {map[string]string{Runtime: "0s"}, with(func(p *flux.Play) { p.Runtime = 0 }), ""},
		"hangs not":            {map[string]string{HangsOnLoss: "false"}, ordinary, ""},
		"no duration":          {map[string]string{Runtime: "soon"}, flux.Play{}, `annotation sim.flux-framework.org/runtime of pod lead: "soon" is not a valid duration`},
		"a negative duration":  {map[string]string{Runtime: "-1s"}, flux.Play{}, "is not a valid duration"},
		"no number":            {map[string]string{ExitCode: "bad"}, flux.Play{}, `annotation sim.flux-framework.org/exit-code of pod lead: "bad" is not a valid number`},
		"too large for a code": {map[string]string{ExitCode: "99999999999"}, flux.Play{}, "is not a valid number"},
		"no phase":             {map[string]string{LeadFails: "later"}, flux.Play{}, `annotation sim.flux-framework.org/lead-fails of pod lead: "later" is not a valid phase`},
		"no ranks":             {map[string]string{LoseRanks: "*"}, flux.Play{}, "is not a valid set of ranks"},
		"no truth":             {map[string]string{HangsOnLoss: "often"}, flux.Play{}, "is not a valid truth value"},
		"two mistakes":         {map[string]string{Runtime: "soon", HangsOnLoss: "often"}, flux.Play{}, `runtime of pod lead: "soon"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadPlay(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lead", Annotations: tc.annotations}})
			if (err == nil) != (tc.complaint == "") || (err != nil && !strings.Contains(err.Error(), tc.complaint)) {
				t.Fatalf("error %v, want %q", err, tc.complaint)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
