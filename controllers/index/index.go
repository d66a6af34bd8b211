// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package index has the indexes of the manager's cache. The controllers share them.
package index

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

const (
	podsOf = "miniCluster"
	live   = "live"
)

// Live selects the MiniClusters that have not finished, or still hold nodes. Finished
// MiniClusters pile up.
var Live = client.MatchingFields{live: "true"}

// PodsOf selects the pods, or the EndpointSlices, of the MiniClusters of a name.
func PodsOf(name string) client.MatchingFields { return client.MatchingFields{podsOf: name} }

// Setup registers the indexes.
func Setup(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha2.MiniCluster{}, live, isLive); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &discoveryv1.EndpointSlice{}, podsOf, nameOf); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &corev1.Pod{}, podsOf, nameOf)
}

func isLive(object client.Object) []string {
	mc := object.(*v1alpha2.MiniCluster)
	if mc.Status.Nodes == 0 && meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished) {
		return nil
	}
	return []string{"true"}
}

func nameOf(object client.Object) []string {
	if name := object.GetLabels()[v1alpha2.MiniClusterLabel]; name != "" {
		return []string{name}
	}
	return nil
}
