// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Config is that of a user who sees the site alone. With "" the user is the administrator.
func (s *Site) Config(user string) (*rest.Config, error) {
	config, err := s.Cluster.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.Impersonate.UserName = user
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return scoped{next, s.Namespace} })
	return config, nil
}

// scoped lets lists and watches of all namespaces have those of one, with the nodes, queues and reservations that have
// the label of the site.
type scoped struct {
	next      http.RoundTripper
	namespace string
}

var (
	inNamespace = []string{
		"miniclusters", "jobsets", "jobs", "pods", "endpointslices", "resourcequotas", "persistentvolumeclaims",
		"podtemplates", "capacitybuffers", "provisioningrequests", "workloads", "localqueues",
	}
	labelled = []string{"nodes", "miniclusterqueues", "miniclusterreservations"}
)

// RoundTrip implements http.RoundTripper.
func (s scoped) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet || strings.Contains(r.URL.Path, "/namespaces/") {
		return s.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	at := strings.LastIndexByte(r.URL.Path, '/') + 1
	resource, query := r.URL.Path[at:], r.URL.Query()
	switch {
	case slices.Contains(inNamespace, resource):
		r.URL.Path = r.URL.Path[:at] + "namespaces/" + s.namespace + "/" + resource
	case slices.Contains(labelled, resource):
		selector := SiteLabel + "=" + s.namespace
		if already := query.Get("labelSelector"); already != "" {
			selector += "," + already
		}
		query.Set("labelSelector", selector)
	case resource == "namespaces":
		query.Set("fieldSelector", metav1.ObjectNameField+"="+s.namespace)
	}
	r.URL.RawQuery = query.Encode()
	return s.next.RoundTrip(r)
}
