// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// denied is what kube-apiserver logs of a request that no role allows.
var denied = regexp.MustCompile(`RBAC: no rules authorize user "([^"]+)" with groups .* to "(\w+)" resource "([^"./]+)\.?([^"/]*)/?([^"]*)"(?: named "([^"]*)")? (?:in namespace "([^"]*)"|cluster-wide)`)

// Denied returns the requests of a service account, "NAMESPACE:NAME", that no role allows, each once. An API
// server that has just started may deny what a role allows, so requests that are allowed by now do not count.
// The cluster needs Config.LogDenied. Denied fails if the API server does not log what it denies.
func (c *Cluster) Denied(ctx context.Context, account string) ([]string, error) {
	const nobody = "nobody-at-all"
	requests, err := c.logged(ctx, nobody)
	if err != nil {
		return nil, err
	}
	user := "system:serviceaccount:" + account
	if len(requests[nobody]) == 0 {
		return nil, errors.New("the API server does not log what it denies")
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	var still []string
	for request := range requests[user] {
		allowed, err := isAllowed(ctx, client, user, &request)
		if err != nil {
			return nil, err
		}
		if !allowed {
			still = append(still, fmt.Sprintf("%s %s.%s/%s %q in namespace %q", request.Verb, request.Resource, request.Group, request.Subresource, request.Name, request.Namespace))
		}
	}
	slices.Sort(still)
	return still, nil
}

// logged returns the requests that were denied, by user, after one by a user who may nothing.
func (c *Cluster) logged(ctx context.Context, nobody string) (map[string]map[authorizationv1.ResourceAttributes]bool, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	if _, err := isAllowed(ctx, client, nobody, &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}); err != nil {
		return nil, err
	}
	apiServer, err := c.process("kube-apiserver")
	if err != nil {
		return nil, err
	}
	log, err := os.ReadFile(apiServer.Log)
	if err != nil {
		return nil, err
	}
	requests := map[string]map[authorizationv1.ResourceAttributes]bool{}
	for _, m := range denied.FindAllStringSubmatch(string(log), -1) {
		if requests[m[1]] == nil {
			requests[m[1]] = map[authorizationv1.ResourceAttributes]bool{}
		}
		requests[m[1]][authorizationv1.ResourceAttributes{Verb: m[2], Resource: m[3], Group: m[4], Subresource: m[5], Name: m[6], Namespace: m[7]}] = true
	}
	return requests, nil
}

// isAllowed reports whether a user may make a request.
func isAllowed(ctx context.Context, client kubernetes.Interface, user string, request *authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: request}}
	review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}
