// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/guard"
	"github.com/flux-elastic/flux-elastic/internal/dashboard"
)

// mostQuestions is about how many namespaces a viewer's rights are asked at the first look, and mostLater at each look after
// that, a second later: no more than the guard lets a user ask.
const mostQuestions, mostLater = 100, 20

// viewer is who looks at one stream.
type viewer struct {
	server *Server
	door   door
	who    *guard.User
	// asked has what was asked about namespaces.
	asked map[string]answer
}

// answer says whether a viewer may list the MiniClusters of a namespace, and until when that counts.
type answer struct {
	yes   bool
	until time.Time
}

// again asks again who the viewer is.
func (v *viewer) again(r *http.Request) error {
	who, err := v.door.Who(r)
	if err == nil && who == nil {
		return errRevoked
	}
	if err == nil {
		v.who = who
	}
	return err
}

// rights returns what the viewer may see of some namespaces.
func (v *viewer) rights(ctx context.Context, namespaces map[string]bool) (*dashboard.Rights, error) {
	r := &dashboard.Rights{User: v.who.Username, Namespaces: map[string]bool{}}
	for _, one := range []struct {
		what  guard.Right
		right *bool
	}{{allMiniClusters, &r.All}, {allNodes, &r.Nodes}, {allQueues, &r.Queues}, {allReservations, &r.Reservations}} {
		var err error
		if *one.right, err = v.door.May(ctx, v.who, one.what); err != nil {
			return nil, err
		}
	}
	if r.All {
		return r, nil
	}
	now, questions := v.server.options.Clock.Now(), mostQuestions
	if len(v.asked) > 0 {
		questions = mostLater
	}
	// Those that were never asked come first, and then those whose answer is the oldest, so that each has its turn.
	names := slices.SortedFunc(maps.Keys(namespaces), func(a, b string) int {
		return cmp.Or(v.asked[a].until.Compare(v.asked[b].until), cmp.Compare(a, b))
	})
	for _, namespace := range names {
		known := v.asked[namespace]
		if now.After(known.until) && questions > 0 {
			questions--
			yes, err := v.door.May(ctx, v.who, toList(v1alpha2.Group, "miniclusters", namespace))
			if err != nil {
				return nil, err
			}
			known = answer{yes, now.Add(guard.Kept)}
			v.asked[namespace] = known
		}
		r.Namespaces[namespace] = known.yes && !now.After(known.until.Add(guard.Kept)) // its turn may come late
	}
	maps.DeleteFunc(v.asked, func(namespace string, _ answer) bool { return !namespaces[namespace] })
	return r, nil
}

// life returns a MiniCluster as the viewer may see it.
func (v *viewer) life(ctx context.Context, name types.NamespacedName) (*dashboard.Life, error) {
	if err := v.mayGet(ctx, name); err != nil {
		return nil, err
	}
	life, err := v.server.source.life(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case life == nil:
		return nil, errGone
	}
	pods, err := v.door.May(ctx, v.who, toList("", "pods", name.Namespace))
	if err != nil {
		return nil, err
	}
	if !pods {
		life = life.WithoutPods()
	}
	return life, nil
}

// mayGet returns errGone if the viewer may not read the MiniClusters of a namespace.
func (v *viewer) mayGet(ctx context.Context, name types.NamespacedName) error {
	yes, err := v.door.May(ctx, v.who, guard.Right{Verb: "get", Group: v1alpha2.Group, Resource: "miniclusters", Namespace: name.Namespace})
	if err == nil && !yes {
		return errGone
	}
	return err
}
