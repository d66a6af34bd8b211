// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// vanisher deletes nodes at the time of their annotation VanishAt.
type vanisher struct {
	client client.Client
	clock  clock.PassiveClock
}

// Reconcile deletes one node if its time has come.
func (v *vanisher) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var node corev1.Node
	if err := v.client.Get(ctx, req.NamespacedName, &node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	text, ok := node.Annotations[VanishAt]
	if !ok {
		return ctrl.Result{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(fmt.Errorf("annotation %s: %w", VanishAt, err), "Leaving the node alone")
		return ctrl.Result{}, nil
	}
	if wait := at.Sub(v.clock.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(v.client.Delete(ctx, &node))
}
