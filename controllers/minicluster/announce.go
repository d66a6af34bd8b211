// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// announceWithin is how long a decision waits for its event. After that the next decision goes
// ahead without the event.
const announceWithin = 2 * time.Minute

// announceFor is how old a decision may be for a manager to send its event after a restart. It is
// less than the hour for which the API server keeps events by default, so that no event is sent
// twice.
const announceFor = 50 * time.Minute

// announce sends the event of the last decision exactly once: the decision is recorded first, the
// next decision waits for the event, and the event's name does not depend on the sender.
func (r *Reconciler) announce(ctx context.Context, mc *v1alpha2.MiniCluster, memory *memory) error {
	decision := mc.Status.LastDecision
	if decision == nil || !memory.announced.Before(&decision.Time) || r.Clock.Since(decision.Time.Time) > announceFor {
		return nil
	}
	host, _ := os.Hostname() // names the sender, for users
	err := r.Client.Create(ctx, &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: mc.Namespace, Name: fmt.Sprintf("%s.%x", mc.Name, decision.Time.UnixNano())},
		EventTime:           decision.Time,
		ReportingController: FieldOwner,
		ReportingInstance:   FieldOwner + "-" + host,
		Action:              "Decide",
		Type:                decision.Type,
		Reason:              decision.Reason,
		Note:                decision.Message,
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha2.GroupVersion.String(), Kind: v1alpha2.MiniClusterKind,
			Namespace: mc.Namespace, Name: mc.Name, UID: mc.UID, ResourceVersion: mc.ResourceVersion,
		},
	})
	switch {
	case refused(err): // for example by a quota: life goes on
		ctrl.LoggerFrom(ctx).Info("An event was refused", "reason", decision.Reason, "error", err.Error())
	case err != nil && !apierrors.IsAlreadyExists(err) && r.Clock.Since(decision.Time.Time) > announceWithin:
		ctrl.LoggerFrom(ctx).Error(err, "An event could not be written", "reason", decision.Reason)
	case err != nil && !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("telling of a decision about MiniCluster %q: %w", mc.Name, err)
	}
	memory.announced = decision.Time
	return nil
}
