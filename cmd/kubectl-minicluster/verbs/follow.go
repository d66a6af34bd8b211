// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// follow calls each for the MiniClusters that match, now and whenever one has changed or is gone (isGone), until each
// returns true or an error. Watches that end, as all do after some time, begin again, also after trouble of the API
// server that passes. One that is known to have existed, if not nil, is reported as gone if it is not there any more.
func follow(ctx context.Context, s *access.Session, c client.WithWatch, known *v1alpha2.MiniCluster, each func(mc *v1alpha2.MiniCluster) (done bool, err error), options ...client.ListOption) error {
	seen := map[types.UID]*v1alpha2.MiniCluster{}
	if known != nil {
		seen[known.UID] = known.DeepCopy()
		seen[known.UID].ResourceVersion = "" // so that each hears of it
	}
	look := func(mc *v1alpha2.MiniCluster) (bool, error) {
		seen[mc.UID] = mc
		if isGone(mc) {
			delete(seen, mc.UID)
		}
		return each(mc)
	}
	for {
		var list v1alpha2.MiniClusterList
		if err := s.Insist(ctx, s.TellTrouble, func() error { return c.List(ctx, &list, options...) }); err != nil {
			return err
		}
		for _, mc := range changed(seen, list.Items) {
			if done, err := look(mc); done || err != nil {
				return err
			}
		}
		if done, err := watchFrom(ctx, s, c, list.ResourceVersion, look, options...); done || err != nil {
			return err
		}
	}
}

// changed are the items that differ from those that were seen, and those that are gone.
func changed(seen map[types.UID]*v1alpha2.MiniCluster, items []v1alpha2.MiniCluster) (out []*v1alpha2.MiniCluster) {
	there := map[types.UID]bool{}
	for i := range items {
		mc := &items[i]
		there[mc.UID] = true
		if last := seen[mc.UID]; last == nil || last.ResourceVersion != mc.ResourceVersion {
			out = append(out, mc)
		}
	}
	for uid, mc := range seen {
		if !there[uid] {
			out = append(out, gone(mc))
		}
	}
	return out
}

// gone marks a MiniCluster that does not exist any more. It was last seen with finalizers if nobody saw its end.
func gone(mc *v1alpha2.MiniCluster) *v1alpha2.MiniCluster {
	mc = mc.DeepCopy()
	mc.DeletionTimestamp, mc.Finalizers = cmp.Or(mc.DeletionTimestamp, &mc.CreationTimestamp), nil
	return mc
}

// isGone reports whether a MiniCluster does not exist any more.
func isGone(mc *v1alpha2.MiniCluster) bool {
	return mc.DeletionTimestamp != nil && len(mc.Finalizers) == 0
}

// watchFrom calls each for changes since a resource version, until the watch ends.
func watchFrom(ctx context.Context, s *access.Session, c client.WithWatch, version string, each func(mc *v1alpha2.MiniCluster) (bool, error), options ...client.ListOption) (done bool, err error) {
	var watcher watch.Interface
	if err := s.Insist(ctx, s.TellTrouble, func() (err error) {
		watcher, err = c.Watch(ctx, &v1alpha2.MiniClusterList{}, append(options, startFrom(version))...)
		return err
	}); err != nil {
		return false, err
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case event, open := <-watcher.ResultChan():
			mc, ok := event.Object.(*v1alpha2.MiniCluster)
			if !open || !ok { // ended, or the version is too old
				return false, nil
			}
			if event.Type == watch.Deleted {
				mc = gone(mc)
			}
			if done, err := each(mc); done || err != nil {
				return done, err
			}
		}
	}
}

// startFrom is the option of a watch that begins at a resource version.
type startFrom string

// ApplyToList sets the version.
func (v startFrom) ApplyToList(o *client.ListOptions) {
	raw := *o.AsListOptions()
	raw.ResourceVersion = string(v)
	o.Raw = &raw
}
