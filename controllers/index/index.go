// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package index has the indexes of the manager's cache, and reads by name. The controllers share them.
package index

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

const (
	podsOf = "miniCluster"
	live   = "live"
	after  = "after"
	key    = "key"
)

// Live selects the MiniClusters that have not finished, or still hold nodes. Finished
// MiniClusters pile up.
var Live = client.MatchingFields{live: "true"}

// PodsOf selects the pods, or the EndpointSlices, of the MiniClusters of a name. A pod that only its
// labels claim for a MiniCluster is none of them.
func PodsOf(name string) client.MatchingFields { return client.MatchingFields{podsOf: name} }

// After selects the unfinished MiniClusters that wait for one of a name (spec.after).
func After(name string) client.MatchingFields { return client.MatchingFields{after: name} }

// HasKey selects the MiniClusters with nodes that have a singleton key.
func HasKey(name string) client.MatchingFields { return client.MatchingFields{key: name} }

// Setup registers the indexes.
func Setup(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha2.MiniCluster{}, live, isLive); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &v1alpha2.MiniCluster{}, after, waitsFor); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &v1alpha2.MiniCluster{}, key, keyOf); err != nil {
		return err
	}
	err := indexer.IndexField(ctx, &discoveryv1.EndpointSlice{}, podsOf, func(object client.Object) []string {
		return some(object.GetLabels()[v1alpha2.MiniClusterLabel])
	})
	if err != nil {
		return err
	}
	return indexer.IndexField(ctx, &corev1.Pod{}, podsOf, func(object client.Object) []string {
		return some(protocol.MiniClusterOf(object.(*corev1.Pod)))
	})
}

func isLive(object client.Object) []string {
	mc := object.(*v1alpha2.MiniCluster)
	if mc.Status.Nodes == 0 && meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished) {
		return nil
	}
	return []string{"true"}
}

func waitsFor(object client.Object) (names []string) {
	if mc := object.(*v1alpha2.MiniCluster); isLive(mc) != nil {
		for _, d := range mc.Spec.After {
			names = append(names, d.Name)
		}
	}
	return names
}

func keyOf(object client.Object) []string {
	if mc := object.(*v1alpha2.MiniCluster); state.HoldsKey(mc) {
		return []string{mc.Spec.Singleton}
	}
	return nil
}

// some is a list of a name; empty for "".
func some(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// Named is the object of a name, which is in no namespace; nil if there is none.
func Named[T any, P interface {
	*T
	client.Object
}](ctx context.Context, reader client.Reader, name string, options ...client.GetOption) P {
	return Get[T, P](ctx, reader, types.NamespacedName{Name: name}, options...)
}

// Get is the object of a name; nil if there is none.
func Get[T any, P interface {
	*T
	client.Object
}](ctx context.Context, reader client.Reader, name types.NamespacedName, options ...client.GetOption) P {
	object := P(new(T))
	if reader.Get(ctx, name, object, options...) != nil {
		return nil
	}
	return object
}
