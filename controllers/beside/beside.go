// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package beside finds other controllers in a cluster that would do the manager's work, too.
package beside

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=14dde902.flux-framework.org,verbs=list
// +kubebuilder:rbac:groups=apps,resources=deployments,resourceNames=operator-controller-manager,verbs=list

// Controller is another controller, by the names of the objects that show that it runs.
type Controller struct {
	lease       string   // of its leader election, in any namespace
	deployments []string // in any namespace
	webhook     string   // its MutatingWebhookConfiguration; "" if it has none
	// group and resource are the objects whose statuses it writes in all namespaces. Tenants may make Deployments and Leases of
	// any name, and no pods with that right.
	group, resource string
}

// FluxOperator is the Flux Operator, as its manifests install it (main.go and config/default of
// github.com/flux-framework/flux-operator). With its chart, only the lease has a known name.
var FluxOperator = Controller{
	lease:       "14dde902.flux-framework.org",
	deployments: []string{"operator-controller-manager"},
	group:       v1alpha2.Group, resource: "miniclusters",
}

// JobSet is JobSet's own controller, as its manifests and its chart install it (config/default,
// charts and api/config/v1alpha1/defaults.go of sigs.k8s.io/jobset).
var JobSet = Controller{
	lease:       "6d4f6a47.jobset.x-k8s.io",
	deployments: []string{"jobset-controller-manager", "jobset-controller"},
	webhook:     "jobset-mutating-webhook-configuration",
	group:       jobsetapi.GroupVersion.Group, resource: "jobsets",
}

// leaseLasts is the age from which a lease that nobody renewed counts as left over. A leader renews
// its lease every two seconds, and clocks differ by less than the rest.
const leaseLasts = time.Minute

// Running returns the object that shows that a controller runs, for example "Deployment
// operator-system/operator-controller-manager"; "" if no object shows it. A Deployment without
// replicas does not run, nor one without the rights of the controller, nor does the last holder of an old lease. A controller
// outside of the cluster has no pod, so its lease shows nothing.
func (c Controller) Running(ctx context.Context, cluster client.Client, now time.Time) (string, error) {
	if sign, err := c.deployed(ctx, cluster); sign != "" || err != nil {
		return sign, err
	}
	var list coordinationv1.LeaseList
	if err := cluster.List(ctx, &list, client.MatchingFields{"metadata.name": c.lease}); err != nil {
		return "", fmt.Errorf("looking for Lease %q: %w", c.lease, err)
	}
	for i := range list.Items {
		if held, err := c.holds(ctx, cluster, &list.Items[i], now); err != nil {
			return "", err
		} else if held {
			return "Lease " + client.ObjectKeyFromObject(&list.Items[i]).String(), nil
		}
	}
	if c.webhook == "" {
		return "", nil
	}
	err := cluster.Get(ctx, client.ObjectKey{Name: c.webhook}, &admissionv1.MutatingWebhookConfiguration{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("looking for MutatingWebhookConfiguration %q: %w", c.webhook, err)
	}
	return "MutatingWebhookConfiguration " + c.webhook, nil
}

// deployed returns the Deployment of the controller; "" if there is none that runs.
func (c Controller) deployed(ctx context.Context, cluster client.Client) (string, error) {
	for _, name := range c.deployments {
		var list appsv1.DeploymentList
		if err := cluster.List(ctx, &list, client.MatchingFields{"metadata.name": name}); err != nil {
			return "", fmt.Errorf("looking for Deployment %q: %w", name, err)
		}
		for i := range list.Items {
			if works, err := c.works(ctx, cluster, &list.Items[i]); err != nil {
				return "", err
			} else if works {
				return "Deployment " + client.ObjectKeyFromObject(&list.Items[i]).String(), nil
			}
		}
	}
	return "", nil
}

// works reports whether a Deployment has pods that may do the work.
func (c Controller) works(ctx context.Context, cluster client.Writer, d *appsv1.Deployment) (bool, error) {
	if ptr.Deref(d.Spec.Replicas, 1) == 0 {
		return false, nil
	}
	return c.may(ctx, cluster, d.Namespace, d.Spec.Template.Spec.ServiceAccountName)
}

// holds reports whether a pod that may do the work holds a lease: client-go names the holder after the pod. Who may not read
// the pod believes the lease.
func (c Controller) holds(ctx context.Context, cluster client.Client, lease *coordinationv1.Lease, now time.Time) (bool, error) {
	holder, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	if len(validation.IsDNS1123Subdomain(holder)) > 0 || lease.Spec.RenewTime == nil || now.Sub(lease.Spec.RenewTime.Time) >= leaseLasts {
		return false, nil
	}
	var pod corev1.Pod
	switch err := cluster.Get(ctx, client.ObjectKey{Namespace: lease.Namespace, Name: holder}, &pod); {
	case apierrors.IsForbidden(err):
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking for the holder of Lease %q: %w", client.ObjectKeyFromObject(lease), err)
	}
	return c.may(ctx, cluster, pod.Namespace, pod.Spec.ServiceAccountName)
}

// may reports whether a service account may do the work. Who may not ask for that believes the name of what uses the account.
func (c Controller) may(ctx context.Context, cluster client.Writer, namespace, account string) (bool, error) {
	user := "system:serviceaccount:" + namespace + ":" + cmp.Or(account, "default")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               user,
		Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "update", Group: c.group, Resource: c.resource, Subresource: "status"},
	}}
	switch err := cluster.Create(ctx, review); {
	case apierrors.IsForbidden(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("asking what %s may do: %w", user, err)
	}
	return review.Status.Allowed, nil
}
