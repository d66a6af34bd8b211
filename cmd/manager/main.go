// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command manager runs the controllers of flux-elastic, in a cluster or outside of it.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/controllers/kueue"
	"github.com/flux-elastic/flux-elastic/controllers/metrics"
	"github.com/flux-elastic/flux-elastic/controllers/minicluster"
	"github.com/flux-elastic/flux-elastic/controllers/scheduler"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// Values of --jobset.
const (
	jobSetEmbedded = "embedded"
	jobSetExternal = "external"
)

// options are the flags of the manager.
type options struct {
	jobSet         string
	metricsAddress string
	healthAddress  string
	leaderElect    bool
	namespace      string
	qps            float64
	burst          int
	workers        int
	binder         string
	topology       string
	aheadPods      int
	maxBrokers     int
	defaultTTL     time.Duration
	kueue          string
	nodes          string
	pprofAddress   string
	matcher        matcherOptions
	beside         besideOptions
}

func main() {
	var o options
	flag.StringVar(&o.jobSet, "jobset", jobSetExternal, "who runs the JobSet controller: embedded (this program, which also installs the JobSet API if it is missing) or external (the cluster)")
	flag.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "address of the metrics; 0 for none")
	flag.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flag.BoolVar(&o.leaderElect, "leader-elect", false, "elect a leader, so that only one of several managers is active")
	flag.StringVar(&o.namespace, "leader-election-namespace", "", "namespace of the lock; default: the manager's own")
	flag.Float64Var(&o.qps, "kube-api-qps", 500, "requests per second to the API server; -1 without a limit")
	flag.IntVar(&o.burst, "kube-api-burst", 1000, "largest burst of requests to the API server")
	flag.IntVar(&o.workers, "workers", 16, "MiniClusters that are reconciled in parallel")
	flag.StringVar(&o.binder, "binder", string(minicluster.BinderAuto), "who binds pods to the nodes that were chosen for them: auto (the API server when it creates the pods, without a further write, where it has the policy of config/admission; else as gate), gate (kube-scheduler, after the pods are pinned) or direct (this program, with one write per pod instead of two). A scheduler still binds pods with unbound volumes, resource claims or a schedulerName")
	flag.StringVar(&o.topology, "topology-labels", topologyLabels(state.TopologyLevels), "node labels that define the topology, outermost first; the allowed values of placement.topologyKey")
	flag.IntVar(&o.aheadPods, "ahead-pods", 256, "largest number of pods that are made for the next MiniClusters before there is room for them; such pods hold nothing; 0 for none")
	flag.IntVar(&o.maxBrokers, "max-brokers", 10000, "largest number of brokers of a MiniCluster, up to its maxSize; larger MiniClusters are not accepted; 0: any number")
	flag.DurationVar(&o.defaultTTL, "default-ttl", 0, "how long a finished MiniCluster stays whose spec has no ttlSecondsAfterFinished; 0: for ever")
	flag.StringVar(&o.nodes, "batch-node-selector", "", "selector of the nodes that brokers may use; all by default")
	flag.StringVar(&o.kueue, "kueue-namespaces", "kubernetes.io/metadata.name notin (kube-system,kueue-system)", "selector of namespaces in which Kueue, if it is there, grants quota to MiniClusters with the label "+v1alpha2.KueueQueueLabel+": as managedJobsNamespaceSelector of Kueue")
	flag.StringVar(&o.pprofAddress, "pprof-bind-address", "", "address of the profiles of net/http/pprof; default: none")
	o.matcher.bind(flag.CommandLine)
	o.beside.bind(flag.CommandLine)
	logging := zap.Options{}
	logging.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))

	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

// check returns an error for a flag that has no meaning.
func (o *options) check() error {
	if o.jobSet != jobSetEmbedded && o.jobSet != jobSetExternal {
		return fmt.Errorf("--jobset is %q: it can be %s or %s", o.jobSet, jobSetEmbedded, jobSetExternal)
	}
	if o.defaultTTL < 0 {
		return fmt.Errorf("--default-ttl is %s: it must not be negative", o.defaultTTL)
	}
	if o.maxBrokers < 0 {
		return fmt.Errorf("--max-brokers is %d: it must not be negative", o.maxBrokers)
	}
	return nil
}

func run(ctx context.Context, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	binder, err := binderOf(o.binder)
	if err != nil {
		return err
	}
	topology, err := state.ParseTopologyLevels(o.topology)
	if err != nil {
		return fmt.Errorf("--topology-labels: %w", err)
	}
	matcher, err := o.matcher.open()
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	config.QPS, config.Burst = float32(o.qps), o.burst
	config.UserAgent = minicluster.FieldOwner
	config.Wrap(metrics.CountWrites)
	if err := o.beside.check(ctx, config, o.jobSet); err != nil {
		return err
	}
	if o.jobSet == jobSetEmbedded {
		if err := installJobSet(ctx, config); err != nil {
			return err
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  newScheme(),
		Metrics:                 metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:  o.healthAddress,
		PprofBindAddress:        o.pprofAddress,
		LeaderElection:          o.leaderElect,
		LeaderElectionID:        "manager." + v1alpha2.Group,
		LeaderElectionNamespace: o.namespace,
		// A manager that ends gives the lease back. One that is cut off tries that, too, for up to 5 s, before it ends.
		// So it has ended 17 s after it last renewed the lease: 2 s until the next renewal, for which it tries 10 s.
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(20 * time.Second),
		Controller:                    ctrlconfig.Controller{GroupKindConcurrency: map[string]int{"JobSet." + jobsetapi.GroupVersion.Group: o.workers}},
		Cache:                         cacheOptions(),
	})
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if err := setup(ctx, mgr, o, matcher, binder, topology); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// cacheOptions are of the cache of all controllers. Pods, JobSets and Jobs of others are not in it.
// So the embedded JobSet controller does not know of them, and the ledger alone keeps what their
// pods hold. Of claims and volumes the cache has what the scheduler reads.
func cacheOptions() cache.Options {
	label, err := labels.NewRequirement(v1alpha2.MiniClusterLabel, selection.Exists, nil)
	utilruntime.Must(err)
	ours := cache.ByObject{Label: labels.NewSelector().Add(*label)}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                   {Transform: protocol.Strip, Label: ours.Label},
			&jobsetapi.JobSet{}:             ours,
			&corev1.PersistentVolumeClaim{}: {Transform: state.StripStorage},
			&corev1.PersistentVolume{}:      {Transform: state.StripStorage},
			&batchv1.Job{}:                  ours,
			&discoveryv1.EndpointSlice{}:    {Label: labels.SelectorFromSet(labels.Set{discoveryv1.LabelManagedBy: jobset.SliceManager})},
		},
	}
}

func topologyLabels(levels []state.TopologyLevel) string {
	labels := make([]string, len(levels))
	for i, level := range levels {
		labels[i] = level.Label
	}
	return strings.Join(labels, ",")
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, jobsetapi.AddToScheme, kueueapi.AddToScheme, v1alpha2.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

func setup(ctx context.Context, mgr ctrl.Manager, o options, matcher ledger.Matcher, binder minicluster.Binder, topology []state.TopologyLevel) error {
	if err := index.Setup(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("setting up indexes: %w", err)
	}
	queues := scheduler.New(mgr.GetClient(), clock.RealClock{}, topology, matcher)
	queues.AheadPods = o.aheadPods
	nodes, err := labels.Parse(o.nodes)
	if err != nil {
		return fmt.Errorf("--batch-node-selector: %w", err)
	}
	queues.UseNodes(nodes)
	if err := queues.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the scheduler: %w", err)
	}
	namespaces, err := labels.Parse(o.kueue)
	if err != nil {
		return fmt.Errorf("--kueue-namespaces: %w", err)
	}
	kueue, err := kueue.New(mgr, namespaces)
	if err != nil {
		return fmt.Errorf("setting up Kueue: %w", err)
	}
	reconciler := &minicluster.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(minicluster.FieldOwner),
		Scheduler: queues, Kueue: kueue, Clock: clock.RealClock{}, Topology: topology, Workers: o.workers,
		Binder: binder, DefaultTTL: o.defaultTTL, MaxBrokers: o.maxBrokers,
	}
	queues.Linger = reconciler.BoundLate
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the MiniCluster controller: %w", err)
	}
	reports := &scheduler.QueueReconciler{Client: mgr.GetClient(), Scheduler: queues, Clock: clock.RealClock{}}
	if err := reports.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the queue controller: %w", err)
	}
	reservations := &scheduler.ReservationReconciler{Client: mgr.GetClient(), Scheduler: queues, Clock: clock.RealClock{}}
	if err := reservations.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the reservation controller: %w", err)
	}
	if o.jobSet == jobSetEmbedded {
		if err := setupJobSet(ctx, mgr); err != nil {
			return fmt.Errorf("setting up JobSet: %w", err)
		}
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("setting up /healthz: %w", err)
	}
	if err := mgr.AddReadyzCheck("caches", cachesSynced(mgr)); err != nil {
		return fmt.Errorf("setting up /readyz: %w", err)
	}
	return nil
}

// cachesSynced returns a check that succeeds when the caches of all watched kinds are synced.
func cachesSynced(mgr ctrl.Manager) healthz.Checker {
	watched := []client.Object{
		&v1alpha2.MiniCluster{}, &v1alpha2.MiniClusterQueue{}, &v1alpha2.MiniClusterReservation{}, &jobsetapi.JobSet{}, &discoveryv1.EndpointSlice{},
		&corev1.Pod{}, &corev1.Node{}, &corev1.Namespace{}, &corev1.ResourceQuota{},
		&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{},
	}
	return func(req *http.Request) error {
		for _, object := range watched {
			informer, err := mgr.GetCache().GetInformer(req.Context(), object, cache.BlockUntilSynced(false))
			if err != nil {
				return err
			}
			if !informer.HasSynced() {
				return fmt.Errorf("the cache of %T is not synced yet", object)
			}
		}
		return nil
	}
}
