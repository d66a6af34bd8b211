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
		Usage:     map[string]queue.Spent{"alice": {"cpu": 12345.6, "pods": 2}, "bob": {"cpu": 200000}},
		UsageTime: fixture.Noon.Add(time.Microsecond), Shared: queue.Resources{"cpu": 10000, "pods": 110},
		Use: queue.Use{Users: []queue.UserUse{{User: "alice", Gangs: 2, Pods: 7, Pending: 3}, {User: "carol", Pending: 1}}},
	}
	got := Queue(fixture.Queue("q").Obj(), report)
	want := []v1alpha2.QueueUser{
		{Name: "bob", Usage: "20.000", ResourceSeconds: map[string]string{"cpu": "200.000"}},
		{Name: "alice", Usage: "1.235", ResourceSeconds: map[string]string{"cpu": "12.346", "pods": "2.000"}, Running: 2, Nodes: 7, Pending: 3},
		{Name: "carol", Usage: "0.000", Pending: 1},
	}
	if diff := cmp.Diff(want, got.Users); diff != "" || !got.UsageTime.Time.Equal(report.UsageTime) {
		t.Errorf("at %s (-want +got):\n%s", got.UsageTime, diff)
	}
	for i := range 300 {
		report.Usage[fmt.Sprint("user", i)] = queue.Spent{"cpu": 20000}
	}
	if got = Queue(fixture.Queue("q").Obj(), report); len(got.Users) != v1alpha2.MostUsers || got.Users[0].Name != "bob" || got.Users[1].Name != "user0" {
		t.Errorf("%d users are listed, first %+v", len(got.Users), got.Users[:2])
	}
	if got = Queue(fixture.Queue("q").Obj(), QueueReport{}); got.Users != nil || got.UsageTime != nil {
		t.Errorf("a queue whose users do not count lists %v at %s", got.Users, got.UsageTime)
	}
}
