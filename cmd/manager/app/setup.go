// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
	"github.com/flux-elastic/flux-elastic/controllers/dashboard"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/controllers/kueue"
	"github.com/flux-elastic/flux-elastic/controllers/minicluster"
	"github.com/flux-elastic/flux-elastic/controllers/scaleup"
	"github.com/flux-elastic/flux-elastic/controllers/scheduler"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
)

// clusterDNS is the DNS of the cluster in which the manager runs. Without the file, its domain is not known.
func clusterDNS() *minicluster.DNS {
	resolvConf, _ := os.ReadFile("/etc/resolv.conf")
	return &minicluster.DNS{Domain: minicluster.ClusterDomain(string(resolvConf)), LookupHost: net.DefaultResolver.LookupHost}
}

// warn says which options are deprecated.
func warn(log logr.Logger, o *options.Options) {
	if o.AheadPods > 0 {
		log.Info("--ahead-pods is deprecated and does nothing: no pods are made before there is room for them")
	}
	if o.Binder == options.BinderDirect {
		log.Info("--binder=direct is deprecated and means auto: the manager binds only the pods of MiniClusters that an older manager made with this flag")
	}
}

// setup adds the controllers and the probes to a manager.
func setup(ctx context.Context, mgr ctrl.Manager, o *options.Options, matcher ledger.Matcher, clock clock.WithTicker) error {
	if err := index.Setup(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("setting up indexes: %w", err)
	}
	queues := scheduler.New(mgr.GetClient(), clock, o.TopologyLevels, matcher)
	queues.StartingPods = o.StartingPods
	queues.UseNodes(o.BatchNodes, o.Drain)
	if err := queues.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the scheduler: %w", err)
	}
	autoscaler, err := scaleup.New(mgr, queues, clock)
	if err != nil {
		return fmt.Errorf("setting up nodes on demand: %w", err)
	}
	queues.Autoscaler = autoscaler
	kueue, err := kueue.New(mgr, o.KueueNamespaces)
	if err != nil {
		return fmt.Errorf("setting up Kueue: %w", err)
	}
	reconciler := &minicluster.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(v1alpha2.FieldOwner),
		Scheduler: queues, Kueue: kueue, Clock: clock, Topology: o.TopologyLevels, Workers: o.Workers,
		KeepGates: o.Binder == options.BinderGate, DefaultTTL: o.DefaultTTL, MaxBrokers: o.MaxBrokers, DNS: clusterDNS(),
	}
	queues.MayBind = reconciler.MayBind
	if err := reconciler.SetupWithManager(ctx, mgr); err != nil {
		return fmt.Errorf("setting up the MiniCluster controller: %w", err)
	}
	reports := &scheduler.QueueReconciler{Client: mgr.GetClient(), Scheduler: queues, Clock: clock}
	if err := reports.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the queue controller: %w", err)
	}
	reservations := &scheduler.ReservationReconciler{Client: mgr.GetClient(), Scheduler: queues, Clock: clock}
	if err := reservations.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the reservation controller: %w", err)
	}
	if o.JobSet == options.JobSetEmbedded {
		if err := setupJobSet(ctx, mgr); err != nil {
			return fmt.Errorf("setting up JobSet: %w", err)
		}
	}
	if err := setupDashboard(mgr, o, clock); err != nil {
		return fmt.Errorf("setting up the web page: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("setting up /healthz: %w", err)
	}
	if err := mgr.AddReadyzCheck("caches", cachesSynced(mgr.GetCache())); err != nil {
		return fmt.Errorf("setting up /readyz: %w", err)
	}
	return nil
}

// setupDashboard adds the web page to the manager if it has an address.
func setupDashboard(mgr ctrl.Manager, o *options.Options, clock clock.WithTicker) error {
	if o.DashboardAddress == "" {
		return nil
	}
	server, err := dashboard.New(dashboard.Options{
		Address: o.DashboardAddress, Open: o.DashboardInsecureViewer, Client: mgr.GetClient(), Config: mgr.GetConfig(), Clock: clock,
		Topology: o.TopologyLevels, Batch: o.BatchNodes,
	})
	if err != nil {
		return fmt.Errorf("--dashboard-bind-address: %w", err)
	}
	return mgr.Add(server)
}

// cachesSynced returns a check that succeeds when the caches of all watched kinds are synced. In a manager that does not
// lead, the check starts them: all at once, so that it does not become ready one kind per probe.
func cachesSynced(c cache.Cache) healthz.Checker {
	watched := []client.Object{
		&v1alpha2.MiniCluster{}, &v1alpha2.MiniClusterQueue{}, &v1alpha2.MiniClusterReservation{}, &jobsetapi.JobSet{}, &discoveryv1.EndpointSlice{},
		&corev1.Pod{}, &corev1.Node{}, &corev1.Namespace{}, &corev1.ResourceQuota{},
		&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{},
	}
	return func(req *http.Request) error {
		var errs []error
		for _, object := range watched {
			informer, err := c.GetInformer(req.Context(), object, cache.BlockUntilSynced(false))
			if err != nil {
				return err
			}
			if !informer.HasSynced() {
				errs = append(errs, fmt.Errorf("the cache of %T is not synced yet", object))
			}
		}
		return errors.Join(errs...)
	}
}
