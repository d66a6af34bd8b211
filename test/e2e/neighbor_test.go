// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

const (
	neighborWriters = 8
	neighborQPS     = 100
)

// setting is a number from the environment: NEIGHBORS says how many MiniClusters the neighbor has, and TURNS how many gangs
// are measured.
func setting(t *testing.T, name, usual string) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), usual))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// neighbor is a user with one node, and many MiniClusters that wait for the node and change all the time.
type neighbor struct {
	*site
	client client.Client
	// waiting are the MiniClusters that change, by the writer that changes them.
	waiting [neighborWriters][]*v1alpha2.MiniCluster
	changes [neighborWriters]int
}

// newNeighbor creates the MiniClusters. One of them has the node.
func newNeighbor(t *testing.T) *neighbor {
	t.Helper()
	n := &neighbor{site: newSite(t, 1)}
	config, err := env.cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = neighborQPS, neighborQPS
	if n.client, err = client.New(config, client.Options{Scheme: env.Scheme}); err != nil {
		t.Fatal(err)
	}
	s := n.site
	s.awaitState(s.create(s.miniCluster("holder").PodAnnotation(simulator.Runtime, untilTold)), v1alpha2.StateRunning)
	var group errgroup.Group
	for w := range n.waiting {
		for i := range setting(t, "NEIGHBORS", "80") / neighborWriters {
			n.waiting[w] = append(n.waiting[w], n.object(w, i))
		}
		group.Go(func() error {
			for _, mc := range n.waiting[w] {
				if err := env.client.Create(n.ctx, mc); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *neighbor) object(writer, i int) *v1alpha2.MiniCluster {
	return n.miniCluster(fmt.Sprintf("noise-%d-%d", writer, i)).New()
}

// flap edits, suspends, resumes and replaces MiniClusters at random, as fast as a user may, until the context ends.
func (n *neighbor) flap(ctx context.Context) func() error {
	var group errgroup.Group
	for w := range n.waiting {
		random := rand.New(rand.NewPCG(uint64(w), 1))
		group.Go(func() error {
			for ctx.Err() == nil {
				if err := n.change(w, random); err != nil {
					return err
				}
				n.changes[w]++
			}
			return nil
		})
	}
	return group.Wait
}

// change changes one of the MiniClusters of a writer.
func (n *neighbor) change(writer int, random *rand.Rand) error {
	all := n.waiting[writer]
	i := random.IntN(len(all))
	patches := []string{
		fmt.Sprintf(`{"spec":{"size":%d,"maxSize":%d}}`, 1+random.IntN(8), 8+random.IntN(8)),
		fmt.Sprintf(`{"spec":{"tasks":%d}}`, 1+random.IntN(100)),
		`{"spec":{"suspend":true}}`,
		`{"spec":{"suspend":false}}`,
	}
	if k := random.IntN(len(patches) + 1); k < len(patches) {
		return n.client.Patch(n.ctx, all[i], client.RawPatch(types.MergePatchType, []byte(patches[k])))
	}
	if err := n.client.Delete(n.ctx, all[i]); err != nil {
		return err
	}
	all[i] = n.object(writer, len(all)+n.changes[writer])
	return n.client.Create(n.ctx, all[i])
}

// A user has many MiniClusters that wait and change all the time. Gangs of another namespace start
// meanwhile. How long they take, and how long without the changes, is logged: docs/benchmarks.md has figures.
func TestNoisyNeighbor(t *testing.T) {
	s := newSite(t, 4)
	record := s.newRecord()
	n := newNeighbor(t)
	waits := map[string][]time.Duration{}
	for turn := range setting(t, "TURNS", "1") {
		for _, noise := range []string{"quiet", "noisy"} {
			ctx, stop := context.WithCancel(s.ctx)
			stopped := func() error { return nil }
			if noise == "noisy" {
				stopped = n.flap(ctx)
			}
			waits[noise] = append(waits[noise], s.startsAfter(record, fmt.Sprintf("%s-%d", noise, turn)))
			stop()
			if err := stopped(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for noise, all := range waits {
		slices.Sort(all)
		t.Logf("%s: a gang runs after %s (median), %s at most", noise, all[len(all)/2], all[len(all)-1])
	}
	t.Logf("%d changes meanwhile, by writer", n.changes)
}

// startsAfter returns after how long a gang ran that takes all nodes of the site.
func (s *site) startsAfter(record *record, name string) time.Duration {
	s.t.Helper()
	began := wallClock.Now()
	mc := s.create(s.miniCluster(name).Size(int32(len(s.nodes))))
	record.await(s, mc, "running", func(mc *v1alpha2.MiniCluster) bool { return state(mc) == v1alpha2.StateRunning })
	took := wallClock.Since(began)
	s.awaitSuccess(mc)
	return took
}
