// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/internal/kueue"
)

const (
	resources = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"visibility.kueue.x-k8s.io/v1beta2","resources":[
		{"name":"localqueues/pendingworkloads","namespaced":true,"kind":"PendingWorkloadsSummary","verbs":["get"]}]}`
	summary = `{"kind":"PendingWorkloadsSummary","apiVersion":"visibility.kueue.x-k8s.io/v1beta2","items":[
		{"metadata":{"namespace":"ns","name":"first"}},
		{"metadata":{"namespace":"ns","name":"second"},"positionInLocalQueue":1,"positionInClusterQueue":4}]}`
)

// Kueue is asked once for each LocalQueue. Without an answer, there is no position, or the last one.
func TestAsk(t *testing.T) {
	queue, second := types.NamespacedName{Namespace: "ns", Name: "team"}, types.NamespacedName{Namespace: "ns", Name: "second"}
	last := kueue.Position{LocalQueue: 7, ClusterQueue: 7}
	for name, tc := range map[string]struct {
		serves, answers int // HTTP status
		want            kueue.Position
		asked           int
		fails           bool
	}{
		"it answers":              {http.StatusOK, http.StatusOK, kueue.Position{LocalQueue: 2, ClusterQueue: 5}, 1, false},
		"there is no such API":    {http.StatusNotFound, 0, kueue.Position{}, 0, false},
		"Kueue is down":           {http.StatusServiceUnavailable, 0, last, 0, true},
		"it is forbidden":         {http.StatusOK, http.StatusForbidden, kueue.Position{}, 1, false},
		"there is no such queue":  {http.StatusOK, http.StatusNotFound, kueue.Position{}, 1, false},
		"Kueue has just gone":     {http.StatusOK, http.StatusBadGateway, last, 1, true},
		"the answer is not whole": {http.StatusOK, http.StatusNoContent, last, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				code, text := tc.serves, resources
				if strings.HasSuffix(r.URL.Path, "/namespaces/ns/localqueues/team/pendingworkloads") {
					asked++
					code, text = tc.answers, summary
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				if code == http.StatusOK {
					_, _ = w.Write([]byte(text))
				}
			}))
			defer server.Close()
			client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			k := &Kueue{discovery: client, positions: positions{queue: {second: last}}}
			got, err := k.ask(t.Context(), map[types.NamespacedName][]*kueueapi.Workload{queue: nil})
			if got[queue][second] != tc.want || asked != tc.asked || (err != nil) != tc.fails {
				t.Errorf("position %+v after %d requests, %v", got[queue][second], asked, err)
			}
		})
	}
}
