// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// Whatever is not as it must be at the end is seen.
func TestCheck(t *testing.T) {
	end := func(state, reason string, code int32) *fixture.MiniClusterWrapper {
		return fixture.MiniCluster("a").Status(func(s *v1alpha2.MiniClusterStatus) { s.ExitCode = &code }).
			Condition(v1alpha2.ConditionReady, metav1.ConditionTrue, state).Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, reason)
	}
	const failed, reason = v1alpha2.StateFailed, v1alpha2.ReasonCommandFailed
	told := []string{"Admitted", reason}
	lead, follower := *fixture.BrokerPod("a", 0).Ended(7).Obj(), *fixture.BrokerPod("a", 1).Ended(7).Obj()
	only := []corev1.Pod{lead}
	good := end(failed, reason, 7)
	stays, goes := Life{Told: told, End: ended(reason, 7)}, Life{Told: told}
	for name, tc := range map[string]struct {
		life  Life
		mc    *fixture.MiniClusterWrapper
		pods  []corev1.Pod
		told  []string
		right bool
	}{
		"an end":            {stays, good, only, told, true},
		"gone":              {goes, nil, nil, told, true},
		"not gone":          {goes, good, nil, told, false},
		"a pod of it stays": {goes, nil, only, told, false},
		"gone too soon":     {stays, nil, nil, told, false},
		"another state":     {stays, end(v1alpha2.StateRunning, reason, 7), only, told, false},
		"another reason":    {stays, end(failed, v1alpha2.ReasonLeadLost, 7), only, told, false},
		"another exit code": {stays, end(failed, reason, 1), only, told, false},
		"nodes are held":    {stays, end(failed, reason, 7).Status(func(s *v1alpha2.MiniClusterStatus) { s.Nodes = 1 }), only, told, false},
		"not told":          {stays, good, only, told[:1], false},
		"told out of order": {stays, good, only, []string{reason, "Admitted"}, false},
		"no log":            {stays, good, nil, told, false},
		"two pods":          {stays, good, []corev1.Pod{lead, follower}, told, false},
		"a follower":        {stays, good, []corev1.Pod{follower}, told, false},
		"a lead that goes":  {stays, good, []corev1.Pod{*fixture.BrokerPod("a", 0).Ended(7).Leaving().Obj()}, told, false},
		"a lead that runs":  {stays, good, []corev1.Pod{*fixture.BrokerPod("a", 0).Up().Obj()}, told, false},
		"its other code":    {stays, good, []corev1.Pod{*fixture.BrokerPod("a", 0).Ended(1).Obj()}, told, false},
		"a stopped command that succeeded": {
			Life{Told: told, End: End{Reason: reason, Log: true}}, end(failed, reason, 0).Status(func(s *v1alpha2.MiniClusterStatus) { s.ExitCode = nil }),
			[]corev1.Pod{*fixture.BrokerPod("a", 0).Ended(0).Obj()}, told, false,
		},
	} {
		now := &seen{pods: tc.pods, told: tc.told}
		if tc.mc != nil {
			now.mc = tc.mc.Obj()
		}
		if err := tc.life.check(now); (err == nil) != tc.right {
			t.Errorf("%s: %v", name, err)
		}
	}
}
