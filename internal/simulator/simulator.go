// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

const (
	// workers is how many instances are played at once, patchesAtOnce how many of
	// the pods of one end at once.
	workers       = 8
	patchesAtOnce = 8
)

// Run plays Flux in the pods of the cluster until the context is done.
func Run(ctx context.Context, config *rest.Config) error {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  clientgoscheme.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		// Several may run in one process, each for a cluster of its own.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return fmt.Errorf("making the simulator: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, instanceIndex, instanceOf); err != nil {
		return err
	}
	s := &simulator{client: mgr.GetClient(), live: mgr.GetAPIReader(), clock: clock.RealClock{}, runs: map[types.UID]*run{}, ended: map[types.UID]bool{}}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("flux").
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(requestOf)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(s.instancesOn)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(s)
	if err != nil {
		return err
	}
	nodes := &vanisher{client: mgr.GetClient(), clock: clock.RealClock{}}
	if err := ctrl.NewControllerManagedBy(mgr).Named("nodes").For(&corev1.Node{}).Complete(nodes); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// instanceIndex finds the pods of one Flux instance: those of one JobSet.
const instanceIndex = "instance"

func instanceOf(pod client.Object) []string {
	if _, ok := jobset.Rank(pod.(*corev1.Pod)); !ok {
		return nil // the services pod, say
	}
	if uid := pod.GetLabels()[jobsetapi.JobSetUIDKey]; uid != "" && pod.GetLabels()[v1alpha2.MiniClusterLabel] != "" {
		return []string{uid}
	}
	return nil
}

func requestOf(_ context.Context, pod client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, uid := range instanceOf(pod) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: uid}})
	}
	return requests
}

// instancesOn are the instances that have a pod on a node.
func (s *simulator) instancesOn(ctx context.Context, node client.Object) []reconcile.Request {
	var pods corev1.PodList
	if err := s.client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node.GetName() {
			requests = append(requests, requestOf(ctx, &pods.Items[i])...)
		}
	}
	return requests
}

// simulator plays Flux instances.
type simulator struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock

	mutex sync.Mutex
	runs  map[types.UID]*run // by the UID of the lead's pod
	ended map[types.UID]bool // pods of which the cache does not show it yet
}

// run is what the lead's container remembers. Only the look at its instance reads
// and changes it.
type run struct {
	since time.Time // the lead is up
	// end is when the command ends; zero before it runs.
	end time.Time
	// brokers are the pods that the command runs on.
	brokers map[types.UID]bool
	// malleable: the command bears that brokers come and go.
	malleable bool
	// left is the work of a malleable command that was left at a time, and hands are the
	// brokers at it since. All of the brokers have all of it done in the runtime.
	left  time.Duration
	at    time.Time
	hands int
}

// Reconcile looks at one instance.
func (s *simulator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var list corev1.PodList
	err := s.client.List(ctx, &list, client.InNamespace(req.Namespace), client.MatchingFields{instanceIndex: req.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return ctrl.Result{}, err
	}
	var lead *corev1.Pod
	var online []*corev1.Pod
	for i := range list.Items {
		pod := &list.Items[i]
		if rank, ok := jobset.Rank(pod); ok && rank == 0 && (lead == nil || lead.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			lead = pod
		}
		if s.isOnline(ctx, pod) {
			online = append(online, pod)
		} else {
			s.forgetEnd(pod.UID)
		}
	}
	switch {
	case lead == nil:
		return ctrl.Result{}, nil
	case lead.Status.Phase == corev1.PodSucceeded || lead.Status.Phase == corev1.PodFailed:
		return ctrl.Result{}, s.shutDown(ctx, lead, online)
	case !s.isOnline(ctx, lead):
		return ctrl.Result{}, nil
	}
	return s.playLead(ctx, lead, online)
}

// shutDown ends the followers of a lead that has ended, unless it may be started
// again.
func (s *simulator) shutDown(ctx context.Context, lead *corev1.Pod, online []*corev1.Pod) error {
	s.forget(lead.UID)
	if len(online) == 0 {
		return nil
	}
	// The cache may show those that were ended a moment ago as running still.
	s.mutex.Lock()
	online = slices.DeleteFunc(online, func(pod *corev1.Pod) bool { return s.ended[pod.UID] })
	s.mutex.Unlock()
	if lead.Status.Phase == corev1.PodFailed {
		settings, err := s.settings(ctx, lead)
		if err != nil || settings.retries > 0 {
			return client.IgnoreNotFound(err)
		}
	}
	return s.endAll(ctx, online)
}

// isOnline reports whether a pod's broker is: it runs, on a node that is there.
func (s *simulator) isOnline(ctx context.Context, pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil &&
		s.client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &corev1.Node{}) == nil
}

// playLead is one look of the lead at its instance.
func (s *simulator) playLead(ctx context.Context, lead *corev1.Pod, online []*corev1.Pod) (ctrl.Result, error) {
	play, err := readPlay(lead)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Ending the lead")
		return ctrl.Result{}, s.end(ctx, lead, 2)
	}
	now := s.clock.Now()
	r := s.runOf(lead.UID, now)
	if r.end.IsZero() {
		return s.await(ctx, lead, online, r, play, now)
	}
	if r.malleable {
		r.share(len(working(lead, online)), now)
	}
	left := 0
	for _, pod := range online {
		if r.brokers[pod.UID] {
			left++
		}
	}
	switch {
	case left < len(r.brokers) && !r.malleable: // a broker was lost, and the job with it
		return ctrl.Result{}, s.end(ctx, lead, 1)
	case now.Before(r.end):
		return ctrl.Result{RequeueAfter: r.end.Sub(now)}, nil
	}
	return ctrl.Result{}, s.end(ctx, lead, play.exitCode)
}

// await starts the command if there are brokers enough.
func (s *simulator) await(ctx context.Context, lead *corev1.Pod, online []*corev1.Pod, r *run, play play, now time.Time) (ctrl.Result, error) {
	settings, err := s.settings(ctx, lead)
	if err != nil {
		return ctrl.Result{}, err
	}
	target := jobset.Quorum(lead)
	if target == 0 {
		target = settings.sizing.Size
	}
	timeout := r.since.Add(settings.quorumTimeout)
	var nodes int
	switch {
	case len(online) >= target:
		nodes = target
	case now.Before(timeout):
		return ctrl.Result{RequeueAfter: timeout.Sub(now)}, nil
	default:
		nodes = settings.sizing.LargestWithin(len(online))
	}
	if nodes == 0 {
		return ctrl.Result{}, nil
	}
	if settings.malleable {
		r.malleable, r.left, r.at = true, play.runtime*time.Duration(settings.sizing.Size), now
		r.share(len(working(lead, online)), now)
		return ctrl.Result{RequeueAfter: r.end.Sub(now)}, nil
	}
	r.end = now.Add(settings.stretch(play.runtime, nodes))
	r.brokers = map[types.UID]bool{}
	slices.SortFunc(online, byRank)
	for _, pod := range online[:nodes] {
		r.brokers[pod.UID] = true
	}
	return ctrl.Result{RequeueAfter: r.end.Sub(now)}, nil
}

// share lets so many brokers work on what is left of a malleable command from now on.
func (r *run) share(hands int, now time.Time) {
	r.left = max(0, r.left-time.Duration(r.hands)*now.Sub(r.at))
	r.hands, r.at = hands, now
	n := time.Duration(hands)
	r.end = now.Add((r.left + n - 1) / n) // the lead at least is there
}

// working are the brokers that the lead gives work to: those that it was not told leave.
func working(lead *corev1.Pod, online []*corev1.Pod) []*corev1.Pod {
	leaving, _ := idset.Parse(jobset.Drain(lead))
	var out []*corev1.Pod
	for _, pod := range online {
		if rank, ok := jobset.Rank(pod); ok && !leaving.Has(int64(rank)) {
			out = append(out, pod)
		}
	}
	return out
}

func byRank(a, b *corev1.Pod) int {
	rankA, _ := jobset.Rank(a)
	rankB, _ := jobset.Rank(b)
	return rankA - rankB
}

func (s *simulator) runOf(lead types.UID, now time.Time) *run {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.runs[lead] == nil {
		s.runs[lead] = &run{since: now}
	}
	return s.runs[lead]
}

func (s *simulator) forget(lead types.UID) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.runs, lead)
}

func (s *simulator) forgetEnd(pod types.UID) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.ended, pod)
}

// settings are what the lead's script reads from its files.
type settings struct {
	sizing        elastic.Sizing
	quorumTimeout time.Duration
	retries       int
	malleable     bool
}

// settings reads the ConfigMap that is mounted in the lead's pod.
func (s *simulator) settings(ctx context.Context, lead *corev1.Pod) (*settings, error) {
	for _, volume := range lead.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ConfigMap == nil {
				continue
			}
			var files corev1.ConfigMap
			name := types.NamespacedName{Namespace: lead.Namespace, Name: source.ConfigMap.Name}
			if err := s.live.Get(ctx, name, &files); err != nil {
				return nil, fmt.Errorf("reading the files of pod %s: %w", lead.Name, err)
			}
			return parseSettings(broker.ParseSettings(files.Data))
		}
	}
	return nil, fmt.Errorf("pod %s has no files", lead.Name)
}

func parseSettings(values map[string]string) (*settings, error) {
	numbers := map[string]int{}
	for _, name := range []string{"SIZE", "MIN_SIZE", "OPERAND", "TASKS_AT_SIZE", "MULTIPLE_OF", "QUORUM_TIMEOUT", "BACKOFF_LIMIT"} {
		n, err := strconv.Atoi(values[name])
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
		numbers[name] = n
	}
	return &settings{
		quorumTimeout: time.Duration(numbers["QUORUM_TIMEOUT"]) * time.Second,
		retries:       numbers["BACKOFF_LIMIT"],
		malleable:     values["MODE"] == "launcher" || values["MODE"] == "interactive",
		sizing: elastic.Sizing{
			Min: numbers["MIN_SIZE"], Size: numbers["SIZE"],
			Operator: elastic.Operator(values["OPERATOR"]), Operand: numbers["OPERAND"],
			Tasks: elastic.Tasks{
				AtSize: numbers["TASKS_AT_SIZE"], Fixed: values["SCALING"] == string(v1alpha2.TasksFixed),
				Constraint: elastic.Constraint(values["CONSTRAINT"]), MultipleOf: numbers["MULTIPLE_OF"],
			},
		},
	}, nil
}

// stretch is how long the command runs on some of the nodes.
func (s *settings) stretch(runtime time.Duration, nodes int) time.Duration {
	full, got := s.sizing.Tasks.AtSize, s.sizing.TasksAt(nodes)
	if full == 0 {
		full, got = s.sizing.Size, nodes
	}
	return time.Duration(float64(runtime) * float64(full) / float64(got))
}

// endAll ends followers, whose brokers shut down with the lead's.
func (s *simulator) endAll(ctx context.Context, pods []*corev1.Pod) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(patchesAtOnce)
	for _, pod := range pods {
		group.Go(func() error { return s.end(groupCtx, pod, 0) })
	}
	return group.Wait()
}

// end ends the containers of a pod, as the kubelet would report it.
func (s *simulator) end(ctx context.Context, pod *corev1.Pod, code int32) error {
	phase, reason := corev1.PodSucceeded, "Completed"
	if code != 0 {
		phase, reason = corev1.PodFailed, "Error"
	}
	now := metav1.NewTime(s.clock.Now())
	state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, FinishedAt: now}}
	var containers []map[string]any
	for _, container := range pod.Spec.Containers {
		containers = append(containers, map[string]any{"name": container.Name, "ready": false, "started": false, "state": map[string]any{
			"running": nil, "terminated": state.Terminated,
		}})
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{
			"phase":             phase,
			"containerStatuses": containers,
			"conditions": []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodCompleted", LastTransitionTime: now},
				{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: "PodCompleted", LastTransitionTime: now},
			},
		},
	})
	if err != nil {
		return err
	}
	err = s.client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
	if err == nil {
		s.mutex.Lock()
		s.ended[pod.UID] = true
		s.mutex.Unlock()
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone
		return nil
	}
	return err
}
