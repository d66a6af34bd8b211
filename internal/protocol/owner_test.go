// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"testing"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// Labels alone make no pod one of a MiniCluster.
func TestMiniClusterOf(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *fixture.PodWrapper
		want string
	}{
		"the lead's":             {fixture.BrokerPod("lmp", 0), "lmp"},
		"a follower's":           {fixture.BrokerPod("lmp", 7), "lmp"},
		"of the services":        {fixture.ServicesPod("lmp"), "lmp"},
		"without an owner":       {fixture.BrokerPod("lmp", 0).Controller("", "", ""), ""},
		"without labels":         {fixture.Pod("lmp").OfJob("lmp-0-0"), ""},
		"of another Job":         {fixture.BrokerPod("lmp", 0).OfJob("lmp-w-0"), ""},
		"of another MiniCluster": {fixture.BrokerPod("lmp", 0).Label(v1alpha2.MiniClusterLabel, "x"), ""},
		"of another kind":        {fixture.BrokerPod("lmp", 0).Controller("batch/v1", "CronJob", "lmp-0-0"), ""},
		"of another API":         {fixture.BrokerPod("lmp", 0).Controller("example.com/v1", "Job", "lmp-0-0"), ""},
	} {
		if got := MiniClusterOf(tc.pod.Obj()); got != tc.want {
			t.Errorf("a pod %s is of %q, want %q", name, got, tc.want)
		}
	}
	other := fixture.BrokerPod("lmp", 0).Obj()
	other.OwnerReferences[0].Controller = nil
	if got := MiniClusterOf(other); got != "" {
		t.Errorf("a pod of which the Job is no controller is of %q", got)
	}
}
