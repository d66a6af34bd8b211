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
	// recheckInterval is after which time a spec that was refused for what is in
	// the cluster (a quota, a foreign object) is checked again.
	recheckInterval = 5 * time.Second
	// refusedInterval is the same where the check was passed, and its objects were
	// refused nevertheless when it had nodes.
	refusedInterval = 30 * time.Second
	// shapeInterval is how long what the API server says of one MiniCluster goes for all
	// that are alike. Hundreds of them come at once.
	shapeInterval = 5 * time.Second
)

// check is what the check of one generation of a spec came to.
type check struct {
	status.Check
	generation int64
	// pod is one of its pods, as the API server would make it.
	pod *corev1.Pod
	// until is when to check again; zero where only a new spec changes the result.
	until time.Time
}

// holds reports whether a check is still true.
func (c *check) holds(mc *v1alpha2.MiniCluster, now time.Time) bool {
	return c != nil && c.generation == mc.Generation && (c.until.IsZero() || now.Before(c.until))
}

// check finds out whether the spec of a MiniCluster that has no pods yet can be carried out:
// whether all it asks for is there, whether the API server would take its pods and objects
// (dry runs, which make nothing), and whether the names are free. The answer is kept for the
// generation.
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
		_, isJobSet := object.(*jobsetapi.JobSet) // which never changes
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

// dryRun asks the API server whether it would take these: a broker's pod, the services
// pod if there is one, and objects.
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

// sortOut tells why an object would not be taken.
func (r *Reconciler) sortOut(reason string, err error) (*check, error) {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		return rejection(reason, err.Error()), nil
	case refused(err), apierrors.IsNotFound(err), apierrors.IsInternalError(err):
		// A quota, a policy, a namespace that ends, a webhook that does not answer.
		return r.temporary(rejection(reason, err.Error()), recheckInterval), nil
	}
	return nil, err
}

func rejection(reason, message string) *check {
	return &check{Check: status.Check{Reason: reason, Message: message}}
}

// temporary is a result that may change without the spec, and holds for a while.
func (r *Reconciler) temporary(result *check, holds time.Duration) *check {
	result.until = r.Clock.Now().Add(holds)
	return result
}

// shapes are the checks of MiniClusters that differ in their names alone.
type shapes struct {
	mutex  sync.Mutex
	byText map[string]*shape
}

// shape is the check of one of them. Who comes while it is made waits.
type shape struct {
	once   sync.Once
	at     time.Time
	result *check
	err    error
}

// check is the result for a MiniCluster, without its defaults (some hold its name), that
// differs from others in its name alone. Only a check that passed goes for others: messages
// name names.
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
		result := *one.result // each is of a MiniCluster of its own
		return &result, nil
	case mine:
		return one.result, one.err
	}
	return dryRun()
}

// of is the shape of a text, and forgets shapes that were checked too long ago.
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
