// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"fmt"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices/restricted,verbs=create

// namer publishes the names of pods.
type namer struct{ client client.Client }

// name publishes names, before the step of a plan is carried out. It adds to the plan when to look
// again, and shows why the API server refuses the names.
func (n *namer) name(ctx context.Context, seen *observed, plan life.Plan) (life.Plan, error) {
	again, err := n.publishNames(ctx, seen)
	if refused(err) || isUnanswered(err) { // for example by a quota: tried again
		if _, waits := plan.Step.(life.Wait); waits {
			plan.Message = err.Error()
		}
		again, err = noteRefusal(seen, err), nil
	}
	plan.LookAgain = elastic.Earliest(plan.LookAgain, again)
	return plan, err
}

// publishNames makes the names of the pods in DNS follow their addresses. It returns when to look
// again; zero if only a change of the pods makes that necessary.
func (n *namer) publishNames(ctx context.Context, seen *observed) (time.Time, error) {
	mc := seen.view.MiniCluster
	var list discoveryv1.EndpointSliceList
	err := n.client.List(ctx, &list, client.InNamespace(mc.Namespace), index.PodsOf(mc.Name), client.UnsafeDisableDeepCopy)
	if err != nil {
		return time.Time{}, fmt.Errorf("listing EndpointSlices of MiniCluster %q: %w", mc.Name, err)
	}
	names := state.Names{Want: jobset.Slices(mc, seen.view.Hosts(seen.observation)), Written: seen.memory.named}
	for i := range list.Items {
		names.Have = append(names.Have, &list.Items[i])
	}
	write, remove, again := names.Changes(mc.Name, seen.now)
	if len(write)+len(remove) == 0 {
		return again, nil
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Publishing names", "write", len(write), "delete", len(remove))
	seen.memory.named = seen.now
	for _, slice := range write {
		if err := n.writeSlice(ctx, slice); err != nil {
			return time.Time{}, needed(fmt.Errorf("writing EndpointSlice %q: %w", slice.Name, err))
		}
	}
	for _, slice := range remove {
		if err := deleteObject(ctx, n.client, "EndpointSlice", slice.DeepCopy(), metav1.DeletePropagationBackground); err != nil {
			return time.Time{}, err
		}
	}
	return time.Time{}, nil
}

// writeSlice creates a slice, or replaces the version of it that was read.
func (n *namer) writeSlice(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	if slice.ResourceVersion == "" {
		return n.client.Create(ctx, slice)
	}
	return n.client.Update(ctx, slice)
}
