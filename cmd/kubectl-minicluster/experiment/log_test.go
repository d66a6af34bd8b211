// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	core "github.com/flux-elastic/flux-elastic/internal/experiment"
)

// hurried is a clock whose pauses are over at once.
type hurried struct{ clock.WithTicker }

func (hurried) After(time.Duration) <-chan time.Time {
	now := make(chan time.Time, 1)
	now <- time.Time{}
	return now
}

// A log that the API server does not give at once is asked for again, for longer if the trouble passes. A MiniCluster
// without a log is kept, unless it would go on holding nodes.
func TestRecordsLogs(t *testing.T) {
	lead := fixture.BrokerPod("a", 0).Obj()
	lead.Namespace, lead.Labels[v1alpha2.UIDLabel] = "lab", "u"
	mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "a", UID: "u"}}
	for name, tc := range map[string]struct {
		codes     []int // of the answers, the last one again and again
		end       string
		least     int // requests
		has, kept bool
		cut       bool
	}{
		"longer than is kept":         {codes: []int{200}, least: 1, has: true, cut: true},
		"at once":                     {codes: []int{200}, least: 1, has: true},
		"after an outage":             {codes: append(slices.Repeat([]int{503}, 3*logTries), 200), least: 3*logTries + 1, has: true},
		"an outage without an end":    {codes: []int{503}, least: logTries + 1, kept: true},
		"refused":                     {codes: []int{400}, least: logTries, kept: true},
		"refused, and ended by limit": {codes: []int{400}, end: core.WaitLimit, least: logTries},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				code := tc.codes[min(requests, len(tc.codes)-1)]
				requests++
				w.WriteHeader(code)
				fmt.Fprint(w, "Loop time")
			}))
			defer server.Close()
			set, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			r := &runner{results: &results{dir: t.TempDir(), definition: &core.Definition{}}, cluster: &cluster{
				client: fake.NewClientBuilder().WithScheme(access.Scheme).WithObjects(lead.DeepCopy()).Build(), core: set,
				session: &access.Session{Clock: hurried{clock.RealClock{}}}, namespace: "lab", mostLog: map[bool]int64{true: 4, false: 1000}[tc.cut],
			}}
			if err := os.Mkdir(filepath.Join(r.dir, logsDir), 0o750); err != nil {
				t.Fatal(err)
			}
			record, err := r.record(t.Context(), core.Ending{Run: core.Run{Name: "a"}, MiniCluster: mc, End: tc.end})
			if err != nil || (record.Log != "") != tc.has || (record.LogError == "") != (tc.has && !tc.cut) || record.Kept != tc.kept || requests < tc.least {
				t.Errorf("after %d requests: %+v, %v", requests, record, err)
			}
		})
	}
}
