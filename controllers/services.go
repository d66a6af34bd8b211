// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// servicesInterval is how often one looks whether the brokers have their nodes. That a
// pod was bound wakes nobody.
const servicesInterval = time.Second

// releaseServices lets the services pod go once it may. It is looked for in every pass:
// its Job may have made it again.
func (r *MiniClusterReconciler) releaseServices(ctx context.Context, seen *observed, result *ctrl.Result) error {
	pod := state.WaitingServices(seen.view)
	if pod == nil || seen.observation.Admission == nil || r.placed.has(seen.name(), pod) {
		return nil
	}
	if !state.MayServe(seen.view, seen.observation) {
		if result.RequeueAfter == 0 || result.RequeueAfter > servicesInterval {
			result.RequeueAfter = servicesInterval
		}
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Letting the services pod go", "pod", pod.Name)
	patch, err := jobset.UngatePatch(pod)
	if err != nil {
		return err
	}
	err = r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(FieldOwner))
	if err != nil {
		return fmt.Errorf("letting pod %q go: %w", pod.Name, err)
	}
	r.placed.add(seen.name(), pod, seen.view.Pods)
	return nil
}
