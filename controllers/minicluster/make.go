// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/scaleup"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// errStillThere says that an object of an earlier MiniCluster of the same name is still being
// deleted.
var errStillThere = errors.New("an object of an earlier MiniCluster of the name is still there")

// nameClashError says that an object of another owner has the name.
type nameClashError struct{ kind, name, owner, why string }

// repairInterval is how often the objects that brokers need are made again while brokers come up.
const repairInterval = 5 * time.Second

// goneError says that files of the brokers are gone, and that nobody else has them.
type goneError struct{ what, other string }

func (g *goneError) Error() string {
	return g.what + "; brokers that start now cannot join; to begin with " + g.other + ", suspend the MiniCluster and resume it"
}

// noInput is the error about an attempt whose spec is not known any more, since its certificate is not.
func noInput(err error) error {
	return &goneError{what: "the certificate of the brokers is gone: " + err.Error(), other: "another certificate"}
}

// fluxOperator is the owner of an object that the Flux Operator made for the MiniCluster.
const fluxOperator = "Flux Operator"

func (c *nameClashError) Error() string {
	if c.owner == fluxOperator {
		return fmt.Sprintf("%s %q is of a run by the Flux Operator; delete the MiniCluster, and create it again", c.kind, c.name)
	}
	why := cmp.Or(c.why, "is not of this MiniCluster")
	if c.owner != "" {
		why = "belongs to " + c.owner
	}
	return fmt.Sprintf("%s %q exists and %s; it is left alone", c.kind, c.name, why)
}

// makeObjects makes what the attempt needs. The JobSet owns the files that its pods mount, so they
// come last; a dry run says before whether they would be refused. The scripts, which no JobSet owns, come first: another
// version could not make them. Foreign objects are left alone.
func (r *Reconciler) makeObjects(ctx context.Context, seen *observed) error {
	mc, attempt := seen.view.MiniCluster, int32(seen.observation.Attempt())
	objects, err := jobset.Objects(mc, attempt)
	if err != nil {
		return fmt.Errorf("building the objects of MiniCluster %q: %w", mc.Name, err)
	}
	last := len(objects) - 1 // the JobSet comes last: its pods need the others
	set := objects[last].(*jobsetapi.JobSet)
	jobset.NameFiles(mc, set, fmt.Sprintf("%d-%s", attempt, utilrand.String(5)))
	if err := jobset.Remember(mc, set); err != nil {
		return err
	}
	asks := index.Named[v1alpha2.MiniClusterQueue](ctx, r.Client, state.QueueOf(mc))
	jobset.Annotate(set, scaleup.Consumption(mc.Name, asks))
	if err := r.chooseBinder(ctx, seen, set); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, object := range objects[:last] {
		group.Go(func() error { return r.makeService(groupCtx, mc, object.(*corev1.Service)) })
	}
	group.Go(func() error { return r.createScripts(groupCtx, set) })
	group.Go(func() error { return r.createFiles(groupCtx, mc, set, false, client.DryRunAll) })
	if err := group.Wait(); err != nil {
		return err
	}
	if made, err := r.makeJobSet(ctx, mc, set); !made || err != nil {
		return err
	}
	return r.makeFiles(ctx, seen, set)
}

// makeJobSet makes the JobSet, and reports whether it did: it may have done so before.
func (r *Reconciler) makeJobSet(ctx context.Context, mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet) (made bool, err error) {
	attempt, generation, admitted := jobset.Attempt(set), jobset.Generation(set), jobset.Admitted(set)
	err = r.Client.Create(ctx, set, client.FieldOwner(v1alpha2.FieldOwner))
	switch {
	case err == nil:
		return true, nil
	case !apierrors.IsAlreadyExists(err):
		return false, fmt.Errorf("creating JobSet %q: %w", set.Name, err)
	}
	there, err := r.existing(ctx, mc, set)
	if err == nil && there != nil && jobset.Attempt(there) == attempt && jobset.Generation(there) == generation && jobset.Admitted(there) == admitted {
		return false, nil // made, but not in the cache yet
	}
	return false, cmp.Or(err, errStillThere) // made for another attempt, and not in the cache yet
}

// makeFiles makes the files that the pods of a JobSet mount, once. It is called before any pod may
// start: a manager may have ended before it had made them, and the scripts may be gone, or those of somebody else.
func (r *Reconciler) makeFiles(ctx context.Context, seen *observed, set *jobsetapi.JobSet) error {
	if seen.memory.files == set.UID {
		return r.createScripts(ctx, set)
	}
	if err := r.createMounted(ctx, seen, set); err != nil {
		return err
	}
	seen.memory.files, seen.memory.repaired = set.UID, seen.now
	return nil
}

// createMounted creates all that the pods of a JobSet mount, and that is not there.
func (r *Reconciler) createMounted(ctx context.Context, seen *observed, set *jobsetapi.JobSet) error {
	if err := r.createScripts(ctx, set); err != nil {
		return err
	}
	return r.createFiles(ctx, seen.view.MiniCluster, set, r.isMounted(ctx, seen, set))
}

// repair makes again what somebody has deleted of an attempt whose brokers still come up: they need the files and the
// Services. It returns when to do that again; zero if no broker comes up. It also makes the files of pods that the API
// server binds when they are created: no step places these pods.
func (r *Reconciler) repair(ctx context.Context, seen *observed) (again time.Time, err error) {
	set, o := seen.view.JobSet, seen.observation
	if o.Workload != life.Active || o.Outcome != "" {
		return time.Time{}, nil
	}
	if jobset.Admitted(set) != "" && o.Started.IsZero() {
		if err := r.makeFiles(ctx, seen, set); err != nil {
			return time.Time{}, err
		}
	}
	if !slices.ContainsFunc(o.Brokers, func(b life.Broker) bool { return b.State == life.Coming && !b.Idle }) {
		return time.Time{}, nil
	}
	if again = seen.memory.repaired.Add(repairInterval); seen.now.Before(again) {
		return again, nil
	}
	was, err := jobset.Remembered(seen.view.MiniCluster, set)
	if err != nil {
		return time.Time{}, noInput(err)
	}
	services, err := jobset.Services(was)
	if err != nil {
		return time.Time{}, fmt.Errorf("building the Services of MiniCluster %q: %w", was.Name, err)
	}
	for _, service := range services {
		if err := r.makeService(ctx, was, service); err != nil {
			return time.Time{}, err
		}
	}
	seen.memory.repaired = seen.now
	return seen.now.Add(repairInterval), r.createMounted(ctx, seen, set)
}

// createFiles creates the files of a JobSet, its own ConfigMap last. Their names are the JobSet's own: files that exist are
// the right ones. A full quota refuses a file that exists, too. So a refusal counts only without the ConfigMap. mounted
// says that brokers have the certificate already. If its Secret is gone then, no other certificate is made: brokers with
// different certificates do not find each other.
func (r *Reconciler) createFiles(ctx context.Context, mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet, mounted bool, options ...client.CreateOption) error {
	was, err := jobset.Remembered(mc, set)
	if err != nil {
		return noInput(err)
	}
	files, err := jobset.Files(was, set, func() (string, error) { return broker.Certificate(mc.Name, rand.Reader) })
	if err != nil {
		return fmt.Errorf("building the files of MiniCluster %q: %w", mc.Name, err)
	}
	var gone error
	for _, file := range files {
		kind, name, how := file.GetObjectKind().GroupVersionKind().Kind, file.GetName(), append(slices.Clone(options), client.FieldOwner(v1alpha2.FieldOwner))
		_, isSecret := file.(*corev1.Secret)
		onlyAsks := isSecret && mounted && was.Spec.Flux.CurveCert == ""
		if onlyAsks {
			how = append(how, client.DryRunAll)
		}
		switch err := r.Client.Create(ctx, file, how...); {
		case err == nil && onlyAsks:
			gone = &goneError{what: fmt.Sprintf("Secret %q was deleted, which had the certificate of the brokers", name), other: "another certificate"}
		case err == nil, apierrors.IsAlreadyExists(err):
		case refused(err) && r.hasFiles(ctx, set):
			return gone
		default:
			return fmt.Errorf("creating %s %q: %w", kind, name, err)
		}
	}
	return gone
}

// createScripts creates the ConfigMap with the scripts that the pods of a JobSet mount, unless the namespace has it. Its name
// says which scripts it has: nobody else can put others there.
func (r *Reconciler) createScripts(ctx context.Context, set *jobsetapi.JobSet) error {
	scripts := jobset.Scripts(set)
	if scripts == nil {
		return nil
	}
	err := r.findScripts(ctx, scripts)
	if !apierrors.IsNotFound(err) {
		return err
	}
	if !jobset.IsIntact(scripts) {
		what := fmt.Sprintf("ConfigMap %q was deleted, which had the scripts of brokers of another version of the manager", scripts.Name)
		return &goneError{what: what, other: "the scripts of this version"}
	}
	err = r.Client.Create(ctx, scripts.DeepCopy(), client.FieldOwner(v1alpha2.FieldOwner))
	if apierrors.IsAlreadyExists(err) { // another MiniCluster starts as well, or somebody else took the name
		err = r.findScripts(ctx, scripts)
	}
	if err != nil {
		return fmt.Errorf("creating ConfigMap %q: %w", scripts.Name, err)
	}
	return nil
}

// findScripts returns the API server's error unless a namespace has the ConfigMap of some scripts, and a clash unless its name
// says what it has.
func (r *Reconciler) findScripts(ctx context.Context, scripts *corev1.ConfigMap) error {
	found := &corev1.ConfigMap{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(scripts), found); err != nil {
		return fmt.Errorf("reading ConfigMap %q: %w", scripts.Name, err)
	}
	if !jobset.IsIntact(found) {
		return &nameClashError{kind: "ConfigMap", name: found.Name, why: "has not the scripts of brokers that its name promises"}
	}
	return nil
}

// isMounted reports whether brokers have the files of a JobSet: containers have begun, and the files are known to have been
// made. A container of a simulated node begins without its files.
func (r *Reconciler) isMounted(ctx context.Context, seen *observed, set *jobsetapi.JobSet) bool {
	return seen.view.Mounted() && (seen.memory.files == set.UID || !seen.observation.Started.IsZero() || r.hasFiles(ctx, set))
}

// hasFiles reports whether the ConfigMap of a JobSet may exist.
func (r *Reconciler) hasFiles(ctx context.Context, set *jobsetapi.JobSet) bool {
	return !apierrors.IsNotFound(r.Live.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: jobset.FilesName(set)}, &corev1.ConfigMap{}))
}

// existing reads the object that has the name of one to be made from the API server, not from the
// cache; nil if there is none. It returns an error if the object has another owner.
func (r *Reconciler) existing(ctx context.Context, mc *v1alpha2.MiniCluster, object client.Object) (*metav1.PartialObjectMetadata, error) {
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
	case metav1.IsControlledBy(found, mc) && jobset.Attempt(found) == 0:
		// The command may run, or may have run. It must not run twice.
		return nil, &nameClashError{kind: gvk.Kind, name: object.GetName(), owner: fluxOperator}
	case metav1.IsControlledBy(found, mc):
		return found, nil
	case owner == nil:
		return nil, &nameClashError{kind: gvk.Kind, name: object.GetName()}
	case owner.Kind == v1alpha2.MiniClusterKind && owner.Name == mc.Name:
		return nil, fmt.Errorf("%s %q: %w", gvk.Kind, object.GetName(), errStillThere)
	}
	return nil, &nameClashError{kind: gvk.Kind, name: object.GetName(), owner: owner.Kind + " " + owner.Name}
}

// unforeseen handles an error that the check did not foresee: another owner took a name,
// or the API server refuses an object. Then the check is repeated, and the next pass reports it
// and gives the nodes back.
func (r *Reconciler) unforeseen(seen *observed, err error) error {
	var clash *nameClashError
	var result *check
	switch {
	case err == nil:
		return nil
	case errors.As(err, &clash):
		result = rejection(seen.now, v1alpha2.ReasonNameClash, clash.Error())
	case isQuotaRefusal(err):
		result = overQuota(seen, err.Error())
	case refused(err):
		result = rejection(seen.now, v1alpha2.ReasonObjectRejected, err.Error())
	default:
		return err
	}
	seen.memory.refuse(seen.view.MiniCluster, result)
	return errStillThere
}
