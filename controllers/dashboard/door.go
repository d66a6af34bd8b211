// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/guard"
)

// door says who a viewer is, and what the viewer may see. It is a guard, or unlocked.
type door interface {
	Who(r *http.Request) (*guard.User, error)
	May(ctx context.Context, who *guard.User, right guard.Right) (bool, error)
}

// Rights to objects of the cluster.
var (
	allMiniClusters = toList(v1alpha2.Group, "miniclusters", "")
	allNodes        = toList("", "nodes", "")
	allQueues       = toList(v1alpha2.Group, "miniclusterqueues", "")
	allReservations = toList(v1alpha2.Group, "miniclusterreservations", "")
)

func toList(group, resource, namespace string) guard.Right {
	return guard.Right{Verb: "list", Group: group, Resource: resource, Namespace: namespace}
}

// unlocked is a door for everybody.
type unlocked struct{}

func (unlocked) Who(*http.Request) (*guard.User, error) {
	return &guard.User{UserInfo: authenticationv1.UserInfo{Username: "everybody"}}, nil
}

func (unlocked) May(context.Context, *guard.User, guard.Right) (bool, error) { return true, nil }
