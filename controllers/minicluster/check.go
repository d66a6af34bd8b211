// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
)

const (
	// recheckInterval is when a spec that conflicts with the cluster (a quota, a foreign object)
	// is checked again.
	recheckInterval = 5 * time.Second
	// refusedInterval is when a spec is checked again whose check passed, but whose objects were
	// refused later.
	refusedInterval = 30 * time.Second
	// shapeInterval is how long one check is valid for all MiniClusters of the same shape. Users
	// submit hundreds of them at once.
	shapeInterval = 5 * time.Second
)

// check is the result of checking one generation of a spec.
type check struct {
	status.Check
	generation int64
	// pod is one of its pods after admission by the API server.
	pod *corev1.Pod
	// until is when to check again; zero if only a new spec changes the result.
	until time.Time
}

// holds reports whether a check is still valid.
func (c *check) holds(mc *v1alpha2.MiniCluster, now time.Time) bool {
	return c != nil && c.generation == mc.Generation && (c.until.IsZero() || now.Before(c.until))
}

// check finds out whether the spec of a MiniCluster without pods can be carried out: whether the
// API server would accept its pods and objects (by dry runs, which make nothing), and whether the
// names are free. The result is kept for the generation.
func (r *Reconciler) check(ctx context.Context, seen *observed) error {
	mc, memory := seen.view.MiniCluster, seen.memory
	if !seen.observation.Unplaced() || mc.Spec.Suspend {
		return nil
	}
	if !memory.check.holds(mc, seen.now) {
		result, err := r.newCheck(ctx, mc, seen.stored)
		if err != nil {
			return err
		}
		result.generation, memory.check = mc.Generation, result
	}
	seen.check, seen.observation.Rejected = memory.check, memory.check.Message
	return nil
}

func (r *Reconciler) newCheck(ctx context.Context, mc, stored *v1alpha2.MiniCluster) (*check, error) {
	if missing := state.UnknownTopology(mc, r.Topology); missing != "" {
		return rejection(v1alpha2.ReasonUnsupported, missing), nil
	}
	pod, err := jobset.Pod(mc)
	if err != nil {
		return rejection(v1alpha2.ReasonPodRejected, err.Error()), nil
	}
	services, err := jobset.ServicesPod(mc)
	if err != nil {
		return rejection(v1alpha2.ReasonPodRejected, err.Error()), nil
	}
	objects, err := jobset.Objects(mc, 1, func() (string, error) { return "", nil })
	if err != nil {
		return rejection(v1alpha2.ReasonPodRejected, err.Error()), nil
	}
	var unmade []client.Object
	for _, object := range objects {
		there, err := r.existing(ctx, mc, object)
		_, isJobSet := object.(*jobsetapi.JobSet) // an existing JobSet is never changed
		var clash *nameClashError
		switch {
		case errors.As(err, &clash):
			return r.temporary(rejection(v1alpha2.ReasonNameClash, clash.Error()), recheckInterval), nil
		case err != nil && !errors.Is(err, errStillThere):
			return r.sortOut(v1alpha2.ReasonObjectRejected, err)
		case err == nil && (there == nil || !isJobSet):
			unmade = append(unmade, object)
		}
	}
	if len(unmade) < len(objects) {
		return r.dryRun(ctx, pod, services, unmade)
	}
	return r.shapes.check(stored, r.Clock.Now(), func() (*check, error) { return r.dryRun(ctx, pod, services, objects) })
}

// dryRun asks the API server whether it would accept a broker's pod, the services pod if there is
// one, and objects.
func (r *Reconciler) dryRun(ctx context.Context, pod, services *corev1.Pod, objects []client.Object) (*check, error) {
	if err := r.Client.Create(ctx, pod, client.DryRunAll); err != nil {
		return r.sortOut(v1alpha2.ReasonPodRejected, fmt.Errorf("the pods would be refused: %w", err))
	}
	if services != nil {
		if err := r.Client.Create(ctx, services, client.DryRunAll); err != nil {
			return r.sortOut(v1alpha2.ReasonPodRejected, fmt.Errorf("the services pod would be refused: %w", err))
		}
	}
	for _, object := range objects {
		if err := r.apply(ctx, object, client.DryRunAll); err != nil {
			return r.sortOut(v1alpha2.ReasonObjectRejected, err)
		}
	}
	return &check{Check: status.Check{Reason: v1alpha2.ReasonValid}, pod: pod}, nil
}

// sortOut returns the check for an error of a dry run.
func (r *Reconciler) sortOut(reason string, err error) (*check, error) {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		return rejection(reason, err.Error()), nil
	case refused(err), apierrors.IsNotFound(err), apierrors.IsInternalError(err):
		// For example a quota, a policy, a terminating namespace, or a webhook that does not
		// answer.
		return r.temporary(rejection(reason, err.Error()), recheckInterval), nil
	}
	return nil, err
}

func rejection(reason, message string) *check {
	return &check{Check: status.Check{Reason: reason, Message: message}}
}

// temporary lets a result expire: it may change without the spec.
func (r *Reconciler) temporary(result *check, holds time.Duration) *check {
	result.until = r.Clock.Now().Add(holds)
	return result
}

// shapes are the checks of MiniClusters that differ in their names alone.
type shapes struct {
	mutex  sync.Mutex
	byText map[string]*shape
}

// shape is one such check. Others wait while it is made.
type shape struct {
	once   sync.Once
	at     time.Time
	result *check
	err    error
}

// check returns the check of a MiniCluster, without its defaults (some contain its name), by its
// shape. Only a check that passed is shared: messages contain names.
func (s *shapes) check(mc *v1alpha2.MiniCluster, now time.Time, dryRun func() (*check, error)) (*check, error) {
	text, err := json.Marshal(mc.Spec)
	if err != nil {
		return nil, err
	}
	one := s.of(fmt.Sprintf("%s %d %s", mc.Namespace, len(mc.Name), text), now)
	mine := false
	one.once.Do(func() {
		mine = true
		one.result, one.err = dryRun()
	})
	switch {
	case one.err == nil && one.result.pod != nil:
		result := *one.result // a copy for this MiniCluster
		return &result, nil
	case mine:
		return one.result, one.err
	}
	return dryRun()
}

// of returns the shape of a text, and forgets expired shapes.
func (s *shapes) of(text string, now time.Time) *shape {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	maps.DeleteFunc(s.byText, func(_ string, s *shape) bool { return now.Sub(s.at) >= shapeInterval })
	if s.byText == nil {
		s.byText = map[string]*shape{}
	}
	if s.byText[text] == nil {
		s.byText[text] = &shape{at: now}
	}
	return s.byText[text]
}
