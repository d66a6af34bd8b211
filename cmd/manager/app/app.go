// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package app makes the manager: one process with all controllers.
package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
	"github.com/flux-elastic/flux-elastic/controllers/metrics"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/version"
	"github.com/flux-elastic/flux-elastic/internal/weight"
)

// leaseDuration is how long the lease of the manager that leads is valid.
const leaseDuration = 20 * time.Second

// Run runs a manager with the options in the cluster of a config until the context ends. A process may run several
// managers, one after the other. The matcher chooses the nodes of gangs; nil is the embedded matcher. Run reads the time from a
// clock, and logs to the logger of the context, if there is one.
func Run(ctx context.Context, config *rest.Config, o *options.Options, matcher ledger.Matcher, clock clock.WithTicker) error {
	warn(ctrl.LoggerFrom(ctx), o)
	endpoint, err := metricsOptions(o)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = o.QPS(), o.KubeAPIBurst
	config.UserAgent = v1alpha2.FieldOwner + "/" + version.String()
	config.Wrap(metrics.CountWrites)
	if o.LeaderElect {
		config.Wrap(fenced(version.ManagerLease, leaseDuration))
	}
	if err := checkBeside(ctx, config, o); err != nil {
		return err
	}
	if o.JobSet == options.JobSetEmbedded {
		if err := installJobSet(ctx, config); err != nil {
			return err
		}
	}
	mgr, err := ctrl.NewManager(config, managerOptions(o, endpoint, ctrl.LoggerFrom(ctx)))
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if err := setup(ctx, mgr, o, matcher, clock); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// managerOptions are those of a manager that serves its metrics at an endpoint.
func managerOptions(o *options.Options, endpoint metricsserver.Options, log logr.Logger) ctrl.Options {
	return ctrl.Options{
		Scheme:                  scheme(),
		Logger:                  log,
		Metrics:                 endpoint,
		HealthProbeBindAddress:  o.HealthAddress,
		PprofBindAddress:        o.PprofAddress,
		LeaderElection:          o.LeaderElect,
		LeaderElectionID:        version.ManagerLease,
		LeaderElectionLabels:    map[string]string{version.LeaseLabel: version.Label()},
		LeaderElectionNamespace: o.LeaderElectionNamespace,
		// A manager that ends gives the lease back. One that is cut off tries that, too, for up to 5 s, before it ends.
		// So it has ended 17 s after it last renewed the lease: 2 s until the next renewal, for which it tries 10 s.
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(leaseDuration),
		Controller: ctrlconfig.Controller{
			GroupKindConcurrency: map[string]int{
				"JobSet." + jobsetapi.GroupVersion.Group:                o.Workers,
				"MiniClusterQueue." + v1alpha2.GroupVersion.Group:       o.Workers,
				"MiniClusterReservation." + v1alpha2.GroupVersion.Group: o.Workers,
			},
			SkipNameValidation: new(true), // the names were used by an earlier manager of this process
		},
		Cache: cacheOptions(),
	}
}

// cacheOptions are of the cache of all controllers. Pods, JobSets and Jobs without our label are not in the cache. So the
// embedded JobSet controller does not know of these, and the ledger alone keeps what their pods hold. Of claims, volumes and
// DaemonSets the cache has what the scheduler reads, and of other objects that tenants make no more than package weight allows.
func cacheOptions() cache.Options {
	label, err := labels.NewRequirement(v1alpha2.MiniClusterLabel, selection.Exists, nil)
	utilruntime.Must(err)
	ours := cache.ByObject{Transform: weight.Object, Label: labels.NewSelector().Add(*label)}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha2.MiniCluster{}:         {Transform: weight.MiniCluster},
			&corev1.Pod{}:                   {Transform: weight.Pod, Label: ours.Label},
			&jobsetapi.JobSet{}:             ours,
			&corev1.PersistentVolumeClaim{}: {Transform: state.StripStorage},
			&corev1.PersistentVolume{}:      {Transform: state.StripStorage},
			&batchv1.Job{}:                  ours,
			&appsv1.DaemonSet{}:             {Transform: weight.Named},
			&discoveryv1.EndpointSlice{}:    {Transform: weight.Object, Label: labels.SelectorFromSet(labels.Set{discoveryv1.LabelManagedBy: jobset.SliceManager})},
		},
	}
}

// scheme has the kinds of all controllers. It is only read once it is made, so all managers of a process share it.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, jobsetapi.AddToScheme, kueueapi.AddToScheme, v1alpha2.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
})
