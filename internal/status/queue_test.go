// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// The status of a queue lists the users with the most usage, and those who have none yet.
func TestQueueListsUsers(t *testing.T) {
	report := QueueReport{
		Usage: map[string]float64{"alice": 1.23456, "bob": 20}, UsageTime: fixture.Noon.Add(time.Microsecond),
		Use: queue.Use{Users: []queue.UserUse{{User: "alice", Gangs: 2, Pods: 7, Pending: 3, Share: 0.5}, {User: "carol", Pending: 1}}},
	}
	got := Queue(fixture.Queue("q").Obj(), report)
	want := []v1alpha2.QueueUser{
		{Name: "bob", Usage: "20.000"}, {Name: "alice", Usage: "1.235", Running: 2, Nodes: 7, Pending: 3}, {Name: "carol", Usage: "0.000", Pending: 1},
	}
	if diff := cmp.Diff(want, got.Users); diff != "" || !got.UsageTime.Time.Equal(report.UsageTime) {
		t.Errorf("at %s (-want +got):\n%s", got.UsageTime, diff)
	}
	for i := range 300 {
		report.Usage[fmt.Sprint("user", i)] = 2
	}
	if got = Queue(fixture.Queue("q").Obj(), report); len(got.Users) != v1alpha2.MostUsers || got.Users[0].Name != "bob" || got.Users[1].Name != "user0" {
		t.Errorf("%d users are listed, first %+v", len(got.Users), got.Users[:2])
	}
	if got = Queue(fixture.Queue("q").Obj(), QueueReport{}); got.Users != nil || got.UsageTime != nil {
		t.Errorf("a queue whose users do not count lists %v at %s", got.Users, got.UsageTime)
	}
}
