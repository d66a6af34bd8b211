// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// answers is a transport that answers all requests with a code.
type answers int

func (code answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(code), Body: http.NoBody}, nil
}

func TestFence(t *testing.T) {
	const (
		lease = "/apis/coordination.k8s.io/v1/namespaces/ours/leases/manager"
		other = "/apis/coordination.k8s.io/v1/namespaces/ours/leases/other"
		job   = "/apis/batch/v1/namespaces/user/jobs/lmp"
	)
	type call struct {
		after        time.Duration // since the call before
		method, path string
		code         answers
		refused      bool
	}
	for name, calls := range map[string][]call{
		"a manager that never led may write": {
			{0, http.MethodPost, job, http.StatusCreated, false},
			{time.Hour, http.MethodDelete, job, http.StatusOK, false},
		},
		"one that leads may write until its lease is over": {
			{0, http.MethodPost, lease[:len(lease)-len("/manager")], http.StatusCreated, false},
			{0, http.MethodPut, lease, http.StatusOK, false},
			{19 * time.Second, http.MethodDelete, job, http.StatusOK, false},
			{time.Second, http.MethodDelete, job, http.StatusOK, true},
			{0, http.MethodPatch, job + "/status", http.StatusOK, true},
		},
		"it may always read, and write its lease": {
			{0, http.MethodPut, lease, http.StatusOK, false},
			{time.Minute, http.MethodGet, job, http.StatusOK, false},
			{0, http.MethodPut, lease, http.StatusConflict, false},
			{0, http.MethodDelete, job, http.StatusOK, true},
		},
		"once it has renewed the lease it goes on": {
			{0, http.MethodPut, lease, http.StatusOK, false},
			{time.Minute, http.MethodPut, lease, http.StatusOK, false},
			{0, http.MethodDelete, job, http.StatusOK, false},
		},
		"another lease says nothing": {
			{0, http.MethodPut, lease, http.StatusOK, false},
			{time.Minute, http.MethodPut, other, http.StatusOK, true},
			{0, http.MethodDelete, job, http.StatusOK, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			wrap := fenced("manager", 20*time.Second)
			for i, c := range calls {
				now = now.Add(c.after)
				f := wrap(c.code).(fence)
				f.now = func() time.Time { return now }
				response, err := f.RoundTrip(httptest.NewRequest(c.method, "https://server"+c.path, http.NoBody))
				if err == nil {
					err = response.Body.Close()
				}
				if refused := errors.Is(err, errNotLeading); refused != c.refused {
					t.Errorf("call %d: refused is %t, want %t (%v)", i, refused, c.refused, err)
				}
			}
		})
	}
}
