// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"strconv"
	"strings"
)

// CountWrites counts the requests of a client that change objects. Dry runs and reads do not count.
func CountWrites(next http.RoundTripper) http.RoundTripper { return writes{next} }

type writes struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w writes) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(request)
	verb, resource := written(request)
	if verb == "" {
		return response, err
	}
	code := "none" // no answer came
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
	}
	apiWrites.WithLabelValues(verb, resource, code).Inc()
	return response, err
}

var verbs = map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}

// written is the verb of a request that changes objects, and their resource, with the subresource; "" for other requests.
func written(request *http.Request) (verb, resource string) {
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	verb = verbs[request.Method]
	switch {
	case verb == "" || request.URL.Query().Has("dryRun"):
		return "", ""
	case len(path) > 2 && path[0] == "api":
		path = path[2:] // version
	case len(path) > 3 && path[0] == "apis":
		path = path[3:] // group and version
	default:
		return "", ""
	}
	if len(path) > 2 && path[0] == "namespaces" {
		path = path[2:]
	}
	if len(path) > 2 {
		return verb, path[0] + "/" + path[2]
	}
	if verb == "delete" && len(path) == 1 {
		verb = "deletecollection"
	}
	return verb, path[0]
}
