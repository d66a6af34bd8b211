// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	ctrl "sigs.k8s.io/controller-runtime"
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

// repairInterval is how often the objects that brokers need are made again while brokers come up.
const repairInterval, rarestRepair = 5 * time.Second, 10 * time.Second

// goneError says that files of the brokers are gone, and that nobody else has them.
type goneError struct{ what, other string }

func (g *goneError) Error() string {
	return g.what + "; brokers that start now cannot join; to begin with " + g.other + ", suspend the MiniCluster and resume it"
}

// noInput is the error about an attempt whose spec is not known any more, since its certificate is not.
func noInput(err error) error {
	return &goneError{what: "the certificate of the brokers is gone: " + err.Error(), other: "another certificate"}
}

// maker makes the objects of an attempt, and makes them again while brokers need them.
type maker struct {
	client client.Client
	live   live
	binder *binder
}

// makeObjects makes what the attempt needs. The JobSet owns the files that its pods mount, so they
// come last; a dry run says before whether they would be refused. The scripts, which no JobSet owns, come first: another
// version could not make them. Foreign objects are left alone.
func (m *maker) makeObjects(ctx context.Context, seen *observed) error {
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
	asks := index.Named[v1alpha2.MiniClusterQueue](ctx, m.client, state.QueueOf(mc))
	jobset.Annotate(set, scaleup.Consumption(mc.Name, asks))
	if err := m.binder.chooseBinder(ctx, seen, set); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, object := range objects[:last] {
		group.Go(func() error { return m.makeService(groupCtx, mc, object.(*corev1.Service)) })
	}
	group.Go(func() error { return m.createScripts(groupCtx, set) })
	group.Go(func() error { return m.createFiles(groupCtx, mc, set, false, client.DryRunAll) })
	if err := group.Wait(); err != nil {
		return err
	}
	if made, err := m.makeJobSet(ctx, mc, set); !made || err != nil {
		return err
	}
	return m.makeFiles(ctx, seen, set)
}

// makeJobSet makes the JobSet, and reports whether it did: it may have done so before.
func (m *maker) makeJobSet(ctx context.Context, mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet) (made bool, err error) {
	attempt, generation, admitted := jobset.Attempt(set), jobset.Generation(set), jobset.Admitted(set)
	err = m.client.Create(ctx, set)
	switch {
	case err == nil:
		return true, nil
	case !apierrors.IsAlreadyExists(err):
		return false, fmt.Errorf("creating JobSet %q: %w", set.Name, err)
	}
	there, err := m.live.existing(ctx, mc, set)
	if err == nil && there != nil && jobset.Attempt(there) == attempt && jobset.Generation(there) == generation && jobset.Admitted(there) == admitted {
		return false, nil // made, but not in the cache yet
	}
	return false, cmp.Or(err, errStillThere) // made for another attempt, and not in the cache yet
}

// makeFiles makes the files that the pods of a JobSet mount, once. It is called before any pod may
// start: a manager may have ended before it had made them, and the scripts may be gone, or those of somebody else.
func (m *maker) makeFiles(ctx context.Context, seen *observed, set *jobsetapi.JobSet) error {
	if seen.memory.files == set.UID {
		return m.createScripts(ctx, set)
	}
	if err := m.createMounted(ctx, seen, set); err != nil {
		return err
	}
	seen.memory.files, seen.memory.repaired = set.UID, seen.now
	return nil
}

// createMounted creates all that the pods of a JobSet mount, and that is not there.
func (m *maker) createMounted(ctx context.Context, seen *observed, set *jobsetapi.JobSet) error {
	if err := m.createScripts(ctx, set); err != nil {
		return err
	}
	return m.createFiles(ctx, seen.view.MiniCluster, set, m.isMounted(ctx, seen, set))
}

// repair makes again what somebody has deleted of an attempt whose brokers still come up: they need the files and the
// Services. It returns when to do that again; zero if no broker comes up. It also makes the files of pods that the API
// server binds when they are created: no step places these pods.
func (m *maker) repair(ctx context.Context, seen *observed) (again time.Time, err error) {
	set, o := seen.view.JobSet, seen.observation
	if o.Workload != life.Active || o.Outcome != "" {
		return time.Time{}, nil
	}
	if jobset.Admitted(set) != "" && o.Started.IsZero() && seen.memory.files != set.UID {
		if err := m.makeFiles(ctx, seen, set); err != nil {
			return time.Time{}, err
		}
	}
	if !slices.ContainsFunc(o.Brokers, func(b life.Broker) bool { return b.State == life.Coming && !b.Idle }) {
		return time.Time{}, nil
	}
	interval := seen.pause(repairInterval, rarestRepair)
	if again = seen.memory.repaired.Add(interval); seen.now.Before(again) {
		return again, nil
	}
	was, err := jobset.Remembered(seen.view.MiniCluster, set)
	if err != nil {
		return time.Time{}, noInput(err)
	}
	if err := m.makeServices(ctx, was); err != nil {
		return time.Time{}, err
	}
	seen.memory.repaired = seen.now
	return seen.now.Add(interval), m.createMounted(ctx, seen, set)
}

// makeServices makes the Services of a MiniCluster that are not there.
func (m *maker) makeServices(ctx context.Context, mc *v1alpha2.MiniCluster) error {
	services, err := jobset.Services(mc)
	if err != nil {
		return fmt.Errorf("building the Services of MiniCluster %q: %w", mc.Name, err)
	}
	for _, service := range services {
		if err := m.makeService(ctx, mc, service); err != nil {
			return err
		}
	}
	return nil
}

// createFiles creates the files of a JobSet, its own ConfigMap last. Their names are the JobSet's own: files that exist are
// the right ones. A full quota refuses a file that exists, too. So a refusal counts only without the ConfigMap. mounted
// says that brokers have the certificate already. If its Secret is gone then, no other certificate is made: brokers with
// different certificates do not find each other.
func (m *maker) createFiles(ctx context.Context, mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet, mounted bool, options ...client.CreateOption) error {
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
		kind, name, how := file.GetObjectKind().GroupVersionKind().Kind, file.GetName(), slices.Clone(options)
		_, isSecret := file.(*corev1.Secret)
		onlyAsks := isSecret && mounted && was.Spec.Flux.CurveCert == ""
		if onlyAsks {
			how = append(how, client.DryRunAll)
		}
		switch err := m.client.Create(ctx, file, how...); {
		case err == nil && onlyAsks:
			gone = &goneError{what: fmt.Sprintf("Secret %q was deleted, which had the certificate of the brokers", name), other: "another certificate"}
		case err == nil, apierrors.IsAlreadyExists(err):
		case refused(err) && m.live.hasFiles(ctx, set):
			return gone
		default:
			return fmt.Errorf("creating %s %q: %w", kind, name, err)
		}
	}
	return gone
}

// createScripts creates the ConfigMap with the scripts that the pods of a JobSet mount, unless the namespace has it. Its name
// says which scripts it has: nobody else can put others there.
func (m *maker) createScripts(ctx context.Context, set *jobsetapi.JobSet) error {
	scripts := jobset.Scripts(set)
	if scripts == nil {
		return nil
	}
	err := m.live.findScripts(ctx, scripts)
	if !apierrors.IsNotFound(err) {
		return err
	}
	if !jobset.IsIntact(scripts) {
		what := fmt.Sprintf("ConfigMap %q was deleted, which had the scripts of brokers of another version of the manager", scripts.Name)
		return &goneError{what: what, other: "the scripts of this version"}
	}
	err = m.client.Create(ctx, scripts.DeepCopy())
	if apierrors.IsAlreadyExists(err) { // another MiniCluster starts as well, or somebody else took the name
		err = m.live.findScripts(ctx, scripts)
	}
	if err != nil {
		return fmt.Errorf("creating ConfigMap %q: %w", scripts.Name, err)
	}
	return nil
}

// isMounted reports whether brokers have the files of a JobSet: containers have begun, and the files are known to have been
// made. A container of a simulated node begins without its files.
func (m *maker) isMounted(ctx context.Context, seen *observed, set *jobsetapi.JobSet) bool {
	return seen.view.Mounted() && (seen.memory.files == set.UID || !seen.observation.Started.IsZero() || m.live.hasFiles(ctx, set))
}

// unforeseen handles an error that the check did not foresee: another owner took a name,
// or the API server refuses an object. Then the check is repeated, and the next pass reports it
// and gives the nodes back.
func unforeseen(seen *observed, err error) error {
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

// makeService makes a Service, or becomes one more owner of the Service that other MiniClusters
// have made under the name. The Service gets the ports that it lacks.
func (m *maker) makeService(ctx context.Context, mc *v1alpha2.MiniCluster, service *corev1.Service) error {
	refusal := m.client.Create(ctx, service)
	if refusal == nil {
		return nil
	}
	found, err := m.live.existingService(ctx, service)
	switch {
	case err != nil:
		return err
	case found == nil && apierrors.IsAlreadyExists(refusal):
		return errStillThere // it was being deleted
	case found == nil:
		return fmt.Errorf("creating Service %q: %w", service.Name, refusal)
	}
	if isOwner(found, mc) && !slices.ContainsFunc(service.Spec.Ports, func(port corev1.ServicePort) bool { return !hasPort(found, port) }) {
		return nil
	}
	return m.patchService(ctx, found, map[string]any{
		"metadata": map[string]any{"uid": found.UID, "ownerReferences": service.OwnerReferences},
		"spec":     map[string]any{"ports": service.Spec.Ports},
	})
}

// leaveServices gives up the ownership of Services that other MiniClusters own too. A MiniCluster
// that has ended may stay for ever, and the list of owners would grow with each. The last owner
// keeps the Service, which goes with that MiniCluster.
func (m *maker) leaveServices(ctx context.Context, mc *v1alpha2.MiniCluster) error {
	for _, service := range jobset.SharedServices(mc) {
		found := &corev1.Service{}
		err := m.live.Get(ctx, client.ObjectKeyFromObject(service), found)
		if err == nil && isOwner(found, mc) && len(found.OwnerReferences) > 1 {
			err = m.patchService(ctx, found, map[string]any{"metadata": map[string]any{
				"resourceVersion": found.ResourceVersion, // of two last owners one stays
				"ownerReferences": []any{map[string]any{"$patch": "delete", "uid": mc.UID}},
			}})
		}
		if refused(err) || isUnanswered(err) { // the end is told nevertheless
			ctrl.LoggerFrom(ctx).Info("A shared Service keeps an owner that has ended", "Service", service.Name, "error", err.Error())
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("leaving Service %q: %w", service.Name, err)
		}
	}
	return nil
}

func (m *maker) patchService(ctx context.Context, service *corev1.Service, content map[string]any) error {
	patch, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if err := m.client.Patch(ctx, service, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		return fmt.Errorf("sharing Service %q: %w", service.Name, err)
	}
	return nil
}

func isOwner(object metav1.Object, mc *v1alpha2.MiniCluster) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == mc.UID })
}

func isHeadless(service *corev1.Service) bool { return service.Spec.ClusterIP == corev1.ClusterIPNone }

func hasPort(service *corev1.Service, port corev1.ServicePort) bool {
	return slices.ContainsFunc(service.Spec.Ports, func(other corev1.ServicePort) bool { return other.Port == port.Port })
}
