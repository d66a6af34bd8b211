// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package optional follows objects of other projects, whose APIs the API server may have or not. They may come and go
// while the manager runs, so they are not in the manager's own cache.
package optional

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/weight"
)

// syncTimeout is how long a new cache may take.
const syncTimeout = time.Minute

// answerTimeout is how long the API server may take to say what it serves: an aggregated API may hang.
const answerTimeout = 5 * time.Second

// Discovery asks the API server what it serves, with the connections of a client.
func Discovery(config *rest.Config, connections *http.Client) (discovery.DiscoveryInterface, error) {
	limited := *connections
	limited.Timeout = answerTimeout
	api, err := discovery.NewDiscoveryClientForConfigAndClient(config, &limited)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	return api, nil
}

// Serves reports whether the API server has a resource of a group and version.
func Serves(api discovery.DiscoveryInterface, groupVersion, resource string) (bool, error) {
	list, err := api.ServerResourcesForGroupVersion(groupVersion)
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	return list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }), nil
}

// Follow fills a cache of objects, and passes their changes on. Of some kinds it has only the objects of MiniClusters. stop
// ends the cache.
func Follow(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, handlers map[client.Object]toolscache.ResourceEventHandler, ofMiniClusters ...client.Object) (c cache.Cache, stop func(), err error) {
	labelled, err := labels.NewRequirement(v1alpha2.MiniClusterLabel, selection.Exists, nil)
	if err != nil {
		return nil, nil, err
	}
	options := cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{}}
	for _, object := range ofMiniClusters {
		options.ByObject[object] = cache.ByObject{Transform: weight.Object, Label: labels.NewSelector().Add(*labelled)}
	}
	if c, err = cache.New(config, options); err != nil {
		return nil, nil, fmt.Errorf("making a cache: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	if err := fill(ctx, c, scheme, handlers); err != nil {
		cancel()
		return nil, nil, err
	}
	return c, cancel, nil
}

// fill starts a cache, and waits until it has all objects.
func fill(ctx context.Context, c cache.Cache, scheme *runtime.Scheme, handlers map[client.Object]toolscache.ResourceEventHandler) error {
	for object, handler := range handlers {
		kind, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			return err
		}
		informer, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %s: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watching %s: %w", kind, err)
		}
	}
	go func() { _ = c.Start(ctx) }() // ends with the context
	syncCtx, synced := context.WithTimeout(ctx, syncTimeout)
	defer synced()
	if !c.WaitForCacheSync(syncCtx) {
		return errors.New("the cache did not fill")
	}
	return nil
}

// Handler passes every change of an object on, as it is now or was last.
func Handler(changed func(object any)) toolscache.ResourceEventHandler {
	last := func(object any) {
		if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		changed(object)
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }, DeleteFunc: last}
}

// Wake sends a MiniCluster to its controller.
func Wake(ctx context.Context, to chan<- event.GenericEvent, namespace, name string) {
	mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	select {
	case to <- event.GenericEvent{Object: mc}:
	case <-ctx.Done():
	}
}
