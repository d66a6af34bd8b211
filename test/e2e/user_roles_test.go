// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Kubernetes' roles for users of a namespace, and for administrators, include MiniClusters, queues and reservations.
func TestRoles(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	for _, role := range []string{"view", "edit", "admin"} {
		s.kubectl("create", "rolebinding", role, "--clusterrole="+role, "--user="+s.namespace+"-"+role)
	}
	for user, role := range map[string]string{"everywhere": "admin", "queues": "flux-elastic-queue-view"} {
		user = s.namespace + "-" + user
		s.kubectl("create", "clusterrolebinding", user, "--clusterrole="+role, "--user="+user)
		t.Cleanup(func() { s.kubectl("delete", "clusterrolebinding", user) })
	}
	for right, who := range map[string]string{
		"get miniclusters":                     "view edit admin everywhere",
		"watch miniclusters":                   "view edit admin everywhere",
		"get miniclusters/status":              "view edit admin everywhere",
		"get miniclusters/scale":               "view edit admin everywhere",
		"create miniclusters":                  "edit admin everywhere",
		"patch miniclusters":                   "edit admin everywhere",
		"delete miniclusters":                  "edit admin everywhere",
		"deletecollection miniclusters":        "edit admin everywhere",
		"patch miniclusters/scale":             "edit admin everywhere",
		"patch miniclusters/status":            "",
		"update miniclusters/status":           "",
		"update miniclusters/finalizers":       "",
		"list miniclusterqueues":               "everywhere queues",
		"create miniclusterqueues":             "everywhere",
		"patch miniclusterqueues":              "everywhere",
		"patch miniclusterqueues/status":       "",
		"list miniclusterreservations":         "everywhere queues",
		"create miniclusterreservations":       "everywhere",
		"delete miniclusterreservations":       "everywhere",
		"patch miniclusterreservations/status": "",
	} {
		verb, resource, _ := strings.Cut(right, " ")
		resource, subresource, _ := strings.Cut(resource, "/")
		namespace := ""
		if resource == "miniclusters" {
			namespace = s.namespace
		}
		right := strings.TrimSuffix(fmt.Sprintf("%s %s.flux-framework.org/%s", verb, resource, subresource), "/")
		for _, user := range []string{"view", "edit", "admin", "everywhere", "queues"} {
			s.expectMay(s.namespace+"-"+user, namespace, right, slices.Contains(strings.Fields(who), user))
		}
	}
}

// Who may forward the port of the web page may do nothing else with the manager.
func TestRoleOfThePage(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	user := s.namespace + "-viewer"
	s.kubectl("create", "rolebinding", user, "--role=flux-elastic-page", "--user="+user, "--namespace="+managerHome)
	t.Cleanup(func() { s.kubectl("delete", "rolebinding", user, "--namespace="+managerHome) })
	for right, want := range map[string]bool{
		"get deployments.apps flux-elastic":   true,
		"list pods":                           true,
		"create pods/portforward":             true,
		"get deployments.apps other":          false,
		"patch deployments.apps flux-elastic": false,
		"create pods":                         false,
		"create pods/exec":                    false,
		"get pods/log":                        false,
		"get secrets":                         false,
		"create serviceaccounts/token":        false,
	} {
		s.expectMay(user, managerHome, right, want)
	}
}
