// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
)

// errStillThere says that an object of an earlier MiniCluster of the same name is
// still being removed.
var errStillThere = errors.New("an object of an earlier MiniCluster of the name is still there")

// check is what the check of one generation of a spec came to.
type check struct {
	status.Check
	uid        types.UID
	generation int64
	// pod is one of its pods, as the API server would make it.
	pod *corev1.Pod
	// until is when to check again; zero where only a new spec changes the result.
	until time.Time
}

// shapeInterval is how long what the API server says of one MiniCluster goes for all
// that are alike. Hundreds of them come at once.
const shapeInterval = 5 * time.Second

// checks are the results that are known. They are made again after a restart.
type checks struct {
	mutex   sync.Mutex
	byName  map[types.NamespacedName]*check
	byShape map[string]*shapeCheck
}

// shapeCheck is one of MiniClusters that are alike. Who comes while it is made waits.
type shapeCheck struct {
	once   sync.Once
	at     time.Time
	result *check
	err    error
}

// ofShape is the result for a MiniCluster, without its defaults (some hold its name),
// that differs from others in its name alone. Only one that passed goes for others:
// messages name names.
func (c *checks) ofShape(mc *v1alpha2.MiniCluster, now time.Time, dryRun func() (*check, error)) (*check, error) {
	text, err := json.Marshal(mc.Spec)
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%s %d %s", mc.Namespace, len(mc.Name), text)
	c.mutex.Lock()
	if c.byShape == nil {
		c.byShape = map[string]*shapeCheck{}
	}
	maps.DeleteFunc(c.byShape, func(_ string, s *shapeCheck) bool { return now.Sub(s.at) >= shapeInterval })
	s := c.byShape[key]
	if s == nil {
		s = &shapeCheck{at: now}
		c.byShape[key] = s
	}
	c.mutex.Unlock()
	mine := false
	s.once.Do(func() {
		mine = true
		s.result, s.err = dryRun()
	})
	switch {
	case s.err == nil && s.result.pod != nil:
		result := *s.result // each is of a MiniCluster of its own
		return &result, nil
	case mine:
		return s.result, s.err
	}
	return dryRun()
}

func (c *checks) get(mc *v1alpha2.MiniCluster, now time.Time) *check {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	known := c.byName[client.ObjectKeyFromObject(mc)]
	if known == nil || known.uid != mc.UID || known.generation != mc.Generation ||
		(!known.until.IsZero() && !now.Before(known.until)) {
		return nil
	}
	return known
}

func (c *checks) put(mc *v1alpha2.MiniCluster, result *check) {
	result.uid, result.generation = mc.UID, mc.Generation
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.byName == nil {
		c.byName = map[types.NamespacedName]*check{}
	}
	c.byName[client.ObjectKeyFromObject(mc)] = result
}

func (c *checks) forget(name types.NamespacedName) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.byName, name)
}

// check finds out whether a spec can be carried out: whether all it asks for is
// there, whether the API server would take its pods and objects (dry runs, which make
// nothing), and whether the names are free. The answer is kept for the generation.
func (r *MiniClusterReconciler) check(ctx context.Context, seen *observed) (*check, error) {
	mc := seen.view.MiniCluster
	if known := r.checks.get(mc, r.Clock.Now()); known != nil {
		return known, nil
	}
	result, err := r.newCheck(ctx, mc, seen.stored)
	if err != nil {
		return nil, err
	}
	r.checks.put(mc, result)
	return result, nil
}

func (r *MiniClusterReconciler) newCheck(ctx context.Context, mc, stored *v1alpha2.MiniCluster) (*check, error) {
	if missing := state.UnknownTopology(mc, r.Scheduler.Topology); missing != "" {
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
	objects, err := jobset.Objects(mc, 1, noCertificate)
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
	return r.checks.ofShape(stored, r.Clock.Now(), func() (*check, error) { return r.dryRun(ctx, pod, services, objects) })
}

// dryRun asks the API server whether it would take these: a broker's pod, the services
// pod if there is one, and objects.
func (r *MiniClusterReconciler) dryRun(ctx context.Context, pod, services *corev1.Pod, objects []client.Object) (*check, error) {
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
func (r *MiniClusterReconciler) sortOut(reason string, err error) (*check, error) {
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
func (r *MiniClusterReconciler) temporary(result *check, holds time.Duration) *check {
	result.until = r.Clock.Now().Add(holds)
	return result
}

func noCertificate() (string, error) { return "", nil }

// nameClashError says that a name is taken by somebody else's object.
type nameClashError struct{ kind, name, owner string }

func (c *nameClashError) Error() string {
	owner := "is not of this MiniCluster"
	if c.owner != "" {
		owner = "belongs to " + c.owner
	}
	return fmt.Sprintf("%s %q exists and %s; it is left alone", c.kind, c.name, owner)
}

// existing reads, from the API server and not from the cache, the object that is
// there under the name of one that is to be made: nil if there is none. One that
// is not the MiniCluster's is an error.
func (r *MiniClusterReconciler) existing(ctx context.Context, mc *v1alpha2.MiniCluster, object client.Object) (*metav1.PartialObjectMetadata, error) {
	gvk := object.GetObjectKind().GroupVersionKind()
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(gvk)
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(object), found); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading %s %q: %w", gvk.Kind, object.GetName(), err)
	}
	owner := metav1.GetControllerOf(found)
	switch {
	case metav1.IsControlledBy(found, mc):
		return found, nil
	case owner == nil:
		return nil, &nameClashError{kind: gvk.Kind, name: object.GetName()}
	case owner.Kind == v1alpha2.MiniClusterKind && owner.Name == mc.Name:
		return nil, fmt.Errorf("%s %q: %w", gvk.Kind, object.GetName(), errStillThere)
	}
	return nil, &nameClashError{kind: gvk.Kind, name: object.GetName(), owner: owner.Kind + " " + owner.Name}
}
