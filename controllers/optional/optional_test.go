// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package optional

import (
	"net/http"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"
)

// hangs is an API that never answers.
type hangs struct{}

// RoundTrip implements http.RoundTripper.
func (hangs) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// Who asks whether an API is served goes on, also if the API hangs.
func TestServesOfAnAPIThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := Discovery(&rest.Config{Host: "http://api"}, &http.Client{Transport: hangs{}})
		if err != nil {
			t.Fatal(err)
		}
		if served, err := Serves(api, "visibility.kueue.x-k8s.io/v1beta2", "localqueues/pendingworkloads"); err == nil {
			t.Errorf("it is served: %t", served)
		}
	})
}
