// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/internal/dashboard"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// updateInterval is the time between two views while somebody looks.
const updateInterval = time.Second

// source makes views of the cluster. While nobody looks, it makes one for each sample.
type source struct {
	Options
	viewers atomic.Int64

	mutex   sync.Mutex
	latest  *dashboard.View // nil before the first one
	updated chan struct{}   // closed when there is another one
	samples []dashboard.Sample
}

func newSource(o Options) *source { return &source{Options: o, updated: make(chan struct{})} }

// run makes views until the context is done.
func (s *source) run(ctx context.Context) {
	ticker := s.Clock.NewTicker(updateInterval)
	defer ticker.Stop()
	var sampled time.Time
	for {
		now := s.Clock.Now()
		due := now.Sub(sampled) >= dashboard.SampleInterval
		if due || s.viewers.Load() > 0 {
			if err := s.update(ctx, due); err != nil && ctx.Err() == nil {
				ctrl.Log.WithName("dashboard").Error(err, "the dashboard shows what was")
			} else if due {
				sampled = now
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// update makes a view, and tells those who wait for it.
func (s *source) update(ctx context.Context, sample bool) error {
	objects, err := s.objects(ctx)
	if err != nil {
		return err
	}
	view := dashboard.New(objects)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if sample {
		s.samples = dashboard.Keep(s.samples, dashboard.SampleOf(view, s.Clock.Now()))
	}
	view.Samples = s.samples
	s.latest = view
	close(s.updated)
	s.updated = make(chan struct{})
	return nil
}

// look returns the latest view, which is nil before the first one, and a channel that is closed when there
// is another one.
func (s *source) look() (*dashboard.View, <-chan struct{}) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.latest, s.updated
}

// objects reads the cache. The objects are those of the cache: nobody may change them.
func (s *source) objects(ctx context.Context) (*dashboard.Objects, error) {
	var nodes corev1.NodeList
	var pods corev1.PodList
	var miniClusters v1alpha2.MiniClusterList
	var queues v1alpha2.MiniClusterQueueList
	var reservations v1alpha2.MiniClusterReservationList
	for _, list := range []client.ObjectList{&nodes, &pods, &miniClusters, &queues, &reservations} {
		if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	return &dashboard.Objects{
		Nodes: nodes.Items, Pods: pods.Items, MiniClusters: miniClusters.Items, Queues: queues.Items, Reservations: reservations.Items,
		Levels: s.Topology, Batch: s.Batch,
	}, nil
}

// life reads one MiniCluster. It is nil if there is none.
func (s *source) life(ctx context.Context, name types.NamespacedName) (*dashboard.Life, error) {
	view, err := s.miniCluster(ctx, name)
	if view == nil {
		return nil, err
	}
	var queue v1alpha2.MiniClusterQueue
	queueName := types.NamespacedName{Name: state.QueueOf(view.MiniCluster)}
	switch err := s.Client.Get(ctx, queueName, &queue); {
	case err == nil:
		return dashboard.NewLife(view, &queue)
	case apierrors.IsNotFound(err):
		return dashboard.NewLife(view, nil)
	default:
		return nil, fmt.Errorf("reading queue %q: %w", queueName.Name, err)
	}
}

// miniCluster reads the objects of one MiniCluster. It is nil if there is none.
func (s *source) miniCluster(ctx context.Context, name types.NamespacedName) (*state.View, error) {
	var mc v1alpha2.MiniCluster
	if err := s.Client.Get(ctx, name, &mc); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	mc.Default()
	view := &state.View{MiniCluster: &mc, Node: func(name string) *corev1.Node {
		var node corev1.Node
		if s.Client.Get(ctx, types.NamespacedName{Name: name}, &node, client.UnsafeDisableDeepCopy) != nil {
			return nil
		}
		return &node
	}}
	var set jobsetapi.JobSet
	err := s.Client.Get(ctx, types.NamespacedName{Namespace: mc.Namespace, Name: jobset.Name(&mc)}, &set, client.UnsafeDisableDeepCopy)
	if err == nil {
		view.JobSet = &set
	} else if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading JobSet %q: %w", jobset.Name(&mc), err)
	}
	var pods corev1.PodList
	if err := s.Client.List(ctx, &pods, client.InNamespace(mc.Namespace), index.PodsOf(mc.Name), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pods of %q: %w", name, err)
	}
	for i := range pods.Items {
		view.Pods = append(view.Pods, protocol.Read(&pods.Items[i]))
	}
	return view, nil
}
