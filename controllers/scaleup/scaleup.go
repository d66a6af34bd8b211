// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scaleup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/optional"
	"github.com/flux-elastic/flux-elastic/internal/scaleup"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// lookInterval is how often the API server is asked which autoscalers' objects it has.
const lookInterval = 10 * time.Second

// Scheduler decides what is to be asked.
type Scheduler interface {
	// Wish is what is to be asked for a MiniCluster; nil if nothing. placed is true if it has been given nodes. known is
	// false if that is not decided.
	Wish(name types.NamespacedName, uid types.UID) (wish *scaleup.Wish, placed, known bool)
	// Asks sends the MiniClusters for which something else is to be asked.
	Asks() <-chan event.GenericEvent
	// Wake asks for a decision, because there is news. With again it also asks to send all MiniClusters for which something
	// is to be asked.
	Wake(again bool)
}

// ScaleUp asks autoscalers for nodes. It implements scheduler.Autoscaler.
type ScaleUp struct {
	cluster   client.Client // of the manager
	live      client.Reader
	config    *rest.Config
	discovery discovery.DiscoveryInterface
	scheduler Scheduler
	clock     clock.WithTicker
	// changed sends the MiniClusters whose objects have changed, and kick asks for a look at the API server.
	changed chan event.GenericEvent
	kick    chan struct{}
	// clean is true once no object was found by which an earlier manager has asked.
	clean bool

	mutex  sync.Mutex
	sought bool // the API server was asked
	served served
	cache  cache.Cache // nil while the API server has nothing by which an autoscaler can be asked
	// problems say why the last write for a MiniCluster failed.
	problems map[types.NamespacedName]problem
}

// problem is why a write for a MiniCluster failed.
type problem struct {
	uid types.UID
	why string
}

// served are the versions of the objects that the API server has, by provider, and whether it has NodePools.
type served struct {
	versions map[v1alpha2.ScaleUpProvider]string
	pools    bool
}

func (s served) equal(other served) bool {
	return s.pools == other.pools && maps.Equal(s.versions, other.versions)
}

// The rights for autoscalers' objects are a role of their own.
// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=autoscaling.x-k8s.io,resources=capacitybuffers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=autoscaling.x-k8s.io,resources=provisioningrequests,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=karpenter.sh,resources=nodepools,verbs=get;list;watch

// New returns a ScaleUp and adds it to the manager.
func New(mgr ctrl.Manager, scheduler Scheduler, clock clock.WithTicker) (*ScaleUp, error) {
	found, err := optional.Discovery(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	s := &ScaleUp{
		cluster: mgr.GetClient(), live: mgr.GetAPIReader(), config: mgr.GetConfig(), discovery: found, scheduler: scheduler, clock: clock,
		changed: make(chan event.GenericEvent, 1024), kick: make(chan struct{}, 1), problems: map[types.NamespacedName]problem{},
	}
	if err := mgr.Add(s); err != nil {
		return nil, err
	}
	if err := s.setup(mgr); err != nil {
		return nil, err
	}
	return s, nil
}

// Start follows the objects of autoscalers until the context is done.
func (s *ScaleUp) Start(ctx context.Context) error {
	stop := func() {}
	defer func() { stop() }()
	ticker := s.clock.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		stop = s.step(ctx, stop)
		select {
		case <-ticker.C():
		case <-s.kick:
		case <-ctx.Done():
			return nil
		}
	}
}

// step looks at the API server, and follows what it has. stop ends what was followed before.
func (s *ScaleUp) step(ctx context.Context, stop func()) func() {
	log := ctrl.LoggerFrom(ctx).WithName("scaleup")
	now, needed, err := s.look(ctx)
	if err != nil {
		log.V(1).Info("Looking for autoscalers", "reason", err.Error())
		return stop
	}
	before, reader := s.state()
	if followed := reader != nil; needed != s.isSought() || !now.equal(before) || !followed && len(now.versions) > 0 {
		stop()
		stop = func() {}
		s.set(now, needed, nil)
		if len(now.versions) > 0 {
			log.Info("Autoscalers can be asked", "versions", now.versions, "nodePools", now.pools)
			follow, err := s.follow(ctx, now)
			if err != nil {
				log.Error(err, "Following autoscalers")
			} else {
				stop = follow
			}
		}
		s.scheduler.Wake(true)
	}
	s.wakeAll(ctx)
	return stop
}

// look asks the API server what it has, if that is needed: a queue asks for nodes, or has asked.
func (s *ScaleUp) look(ctx context.Context) (out served, needed bool, err error) {
	out = served{versions: map[v1alpha2.ScaleUpProvider]string{}}
	_, followed := s.state()
	if needed, err = s.isNeeded(ctx); err != nil || !needed && followed == nil {
		return out, false, err
	}
	groups, err := s.discovery.ServerGroups()
	if err != nil {
		return out, true, err
	}
	for i := range groups.Groups {
		group := &groups.Groups[i]
		for _, version := range group.Versions {
			switch group.Name {
			case scaleup.Group:
				err = s.lookAt(version, &out)
			case scaleup.NodePools.Group:
				if version.Version == scaleup.NodePools.Version {
					out.pools, err = optional.Serves(s.discovery, version.GroupVersion, scaleup.NodePoolsResource)
				}
			}
			if err != nil {
				return out, true, err
			}
		}
	}
	return out, true, nil
}

// isNeeded reports whether a queue asks for nodes, or has asked before this manager began.
func (s *ScaleUp) isNeeded(ctx context.Context) (bool, error) {
	var queues v1alpha2.MiniClusterQueueList
	if err := s.cluster.List(ctx, &queues, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing queues: %w", err)
	}
	if slices.ContainsFunc(queues.Items, func(q v1alpha2.MiniClusterQueue) bool { return q.Spec.ScaleUp != nil }) {
		return true, nil
	}
	if s.clean {
		return false, nil
	}
	var left corev1.PodTemplateList
	if err := s.live.List(ctx, &left, client.HasLabels{v1alpha2.MiniClusterLabel}, client.Limit(1)); err != nil {
		return false, fmt.Errorf("listing PodTemplates: %w", err)
	}
	s.clean = len(left.Items) == 0
	return !s.clean, nil
}

// lookAt looks for the objects of each provider in a version, and keeps the best version.
func (s *ScaleUp) lookAt(version metav1.GroupVersionForDiscovery, out *served) error {
	for provider, resource := range scaleup.Resources {
		rank := slices.Index(resource.Versions, version.Version)
		if best := slices.Index(resource.Versions, out.versions[provider]); rank < 0 || best >= 0 && best < rank {
			continue
		}
		there, err := optional.Serves(s.discovery, version.GroupVersion, resource.Name)
		if err != nil {
			return err
		}
		if there {
			out.versions[provider] = version.Version
		}
	}
	return nil
}

// follow fills a cache of the objects that are served, and returns how to end it.
func (s *ScaleUp) follow(ctx context.Context, now served) (stop func(), err error) {
	handler := optional.Handler(func(object any) { s.follows(ctx, object) })
	ours := []client.Object{&corev1.PodTemplate{}}
	for provider, version := range now.versions {
		ours = append(ours, objectOf(scaleup.Kind(provider, version)))
	}
	handlers := map[client.Object]toolscache.ResourceEventHandler{}
	for _, object := range ours {
		handlers[object] = handler
	}
	if now.pools {
		handlers[objectOf(scaleup.NodePools)] = optional.Handler(func(any) { s.scheduler.Wake(false) })
	}
	c, stop, err := optional.Follow(ctx, s.config, s.cluster.Scheme(), handlers, ours...)
	if err != nil {
		return nil, err
	}
	s.set(now, true, c)
	return stop, nil
}

func objectOf(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

// follows wakes the MiniCluster of an object that has changed, and the scheduler, which decides by the object.
func (s *ScaleUp) follows(ctx context.Context, object any) {
	if object, ok := object.(client.Object); ok {
		s.wake(ctx, object.GetNamespace(), object.GetLabels()[v1alpha2.MiniClusterLabel])
		s.scheduler.Wake(false)
	}
}

// wakeAll wakes all MiniClusters for which something was asked. What is to be done about it may follow from what nobody
// tells, such as that a MiniCluster waits no longer.
func (s *ScaleUp) wakeAll(ctx context.Context) {
	_, reader := s.state()
	if reader == nil {
		return
	}
	var templates corev1.PodTemplateList
	if err := reader.List(ctx, &templates, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing PodTemplates")
	}
	for i := range templates.Items {
		s.wake(ctx, templates.Items[i].Namespace, templates.Items[i].Labels[v1alpha2.MiniClusterLabel])
	}
}

func (s *ScaleUp) wake(ctx context.Context, namespace, name string) {
	optional.Wake(ctx, s.changed, namespace, name)
}

// state is what the API server has, and a reader of it; nil while there is none.
func (s *ScaleUp) state() (served, client.Reader) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.cache == nil {
		return s.served, nil
	}
	return s.served, s.cache
}

func (s *ScaleUp) isSought() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.sought
}

func (s *ScaleUp) set(now served, sought bool, c cache.Cache) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.sought, s.served, s.cache = sought, now, c
}

// Barred is part of scheduler.Autoscaler. Until the API server was asked, a provider counts as there.
func (s *ScaleUp) Barred(provider v1alpha2.ScaleUpProvider) string {
	now, _ := s.state()
	if !s.isSought() {
		select {
		case s.kick <- struct{}{}:
		default:
		}
		return ""
	}
	if now.versions[provider] != "" {
		return ""
	}
	return fmt.Sprintf("the API server has no %ss", provider)
}

// Asked is part of scheduler.Autoscaler.
func (s *ScaleUp) Asked(name types.NamespacedName, uid types.UID) (asked *queue.Asked, problem string) {
	objects, err := s.objects(context.Background(), name, uid) // from a cache
	if err == nil {
		asked = objects.Asked()
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if p := s.problems[name]; p.uid == uid {
		problem = p.why
	}
	return asked, problem
}

// Shapes is part of scheduler.Autoscaler.
func (s *ScaleUp) Shapes() []state.Shape {
	now, reader := s.state()
	if reader == nil || !now.pools {
		return nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(scaleup.NodePools)
	if reader.List(context.Background(), list, client.UnsafeDisableDeepCopy) != nil { // the cache has them
		return nil
	}
	var pools []*unstructured.Unstructured
	for i := range list.Items {
		pools = append(pools, &list.Items[i])
	}
	return scaleup.Shapes(pools)
}
