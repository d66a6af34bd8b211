// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	core "github.com/flux-elastic/flux-elastic/internal/experiment"
)

const (
	// logTries is how often a log is asked for, and logTimeout how long each time. While the API server or a kubelet does
	// not answer, logPatience is for how long, with pauses of at most logPause.
	logTries    = 4
	logTimeout  = time.Minute
	logPatience = 5 * time.Minute
	logPause    = 16 * time.Second
	// mostLog bounds what is kept of a log, in bytes. Kubelets begin a new file after 10 MiB, unless told otherwise.
	mostLog = 256 << 20
)

// cluster is what an experiment does in a cluster.
type cluster struct {
	client    client.WithWatch
	core      kubernetes.Interface
	session   *access.Session
	namespace string
	id        string // of the experiment
	mostLog   int64
}

func newCluster(s *access.Session, namespace, id string) (*cluster, error) {
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	set, err := s.Clientset()
	if err != nil {
		return nil, err
	}
	return &cluster{c, set, s, namespace, id, mostLog}, nil
}

// insist repeats a request while the API server or the way to it has trouble that passes.
func (c *cluster) insist(ctx context.Context, request func() error) error {
	return c.session.Insist(ctx, nil, request)
}

// make returns the MiniCluster of a run.
func (c *cluster) make(d *core.Definition, run core.Run) (*v1alpha2.MiniCluster, error) {
	mc, err := d.MiniCluster(run)
	if err == nil {
		mc.Namespace = c.namespace
		mc.Labels[core.IDLabel] = c.id
	}
	return mc, err
}

// check asks the API server whether it would take the MiniClusters of all cases.
func (c *cluster) check(ctx context.Context, d *core.Definition, runs []core.Run) error {
	refused := make([]error, len(runs)) // in the order of the runs
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	seen := map[int]bool{}
	for i, run := range runs {
		if seen[run.Case] {
			continue
		}
		seen[run.Case] = true
		group.Go(func() error {
			mc, err := c.make(d, run)
			if err != nil {
				return err
			}
			mc.Name += "-check" // there may be one of the run's name
			err = c.session.Insist(ctx, c.session.TellTrouble, func() error {
				err := c.client.Create(ctx, mc.DeepCopy(), client.DryRunAll)
				if access.ExceedsQuota(err) { // the API server checks the MiniCluster first
					return nil
				}
				return err
			})
			if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
				return err
			}
			refused[i] = fmt.Errorf("case %d (%s): %w", run.Case, core.Describe(run.Parameters), err)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return errors.Join(refused...)
}

// submit creates the MiniCluster of a run, unless it is there.
func (c *cluster) submit(ctx context.Context, d *core.Definition, run core.Run) (*v1alpha2.MiniCluster, error) {
	mc, err := c.make(d, run)
	if err != nil {
		return nil, err
	}
	err = c.insist(ctx, func() error { return c.client.Create(ctx, mc) })
	if apierrors.IsAlreadyExists(err) { // an earlier request may have succeeded without an answer
		err = c.insist(ctx, func() error { return c.client.Get(ctx, client.ObjectKeyFromObject(mc), mc) })
		if err == nil && mc.Labels[core.IDLabel] != c.id {
			err = fmt.Errorf("the namespace %s has a MiniCluster %s that is not of this experiment: delete it, or choose another name", c.namespace, mc.Name)
		}
	}
	return mc, err
}

// delete deletes a MiniCluster of the experiment.
func (c *cluster) delete(ctx context.Context, name string) error {
	mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	return client.IgnoreNotFound(c.insist(ctx, func() error { return c.client.Delete(ctx, mc) }))
}

// errNoLead says that a MiniCluster has no lead, and so no log.
var errNoLead = errors.New("the lead has no pod")

// hasNoLog reports whether no try to read a log can succeed.
func hasNoLog(err error) bool {
	return errors.Is(err, errNoLead) || errors.Is(err, access.ErrSimulated)
}

// log returns the log of the lead.
func (c *cluster) log(ctx context.Context, mc *v1alpha2.MiniCluster) ([]byte, error) {
	pause, waited := time.Second, time.Duration(0)
	for try := 1; ; try++ {
		text, err := c.readLog(ctx, mc)
		if err == nil || hasNoLog(err) || try >= logTries && (!access.Passes(err) || waited >= logPatience) {
			return text, err
		}
		pause = min(2*pause, logPause)
		waited += pause
		if err := c.session.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func (c *cluster) readLog(ctx context.Context, mc *v1alpha2.MiniCluster) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	lead, err := access.PodOf(ctx, c.client, mc, 0)
	if err != nil {
		return nil, err
	}
	if lead == nil {
		return nil, errNoLead
	}
	if err := access.CheckSimulated(lead, mc.Name); err != nil {
		return nil, err
	}
	stream, err := c.core.CoreV1().Pods(c.namespace).GetLogs(lead.Name, &corev1.PodLogOptions{Container: mc.Name, LimitBytes: &c.mostLog}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return io.ReadAll(io.LimitReader(stream, c.mostLog))
}

// options select the MiniClusters of the experiment.
func (c *cluster) options(more *metav1.ListOptions) []client.ListOption {
	return []client.ListOption{client.InNamespace(c.namespace), client.MatchingLabels{core.IDLabel: c.id}, &client.ListOptions{Raw: more}}
}

// informer returns what follows the MiniClusters of the experiment.
func (c *cluster) informer() cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &v1alpha2.MiniClusterList{}
			return list, c.client.List(ctx, list, c.options(&options)...)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.client.Watch(ctx, &v1alpha2.MiniClusterList{}, c.options(&options)...)
		},
	}, &v1alpha2.MiniCluster{}, 0, nil)
}

// list returns the MiniClusters of the experiment.
func (c *cluster) list(ctx context.Context) ([]v1alpha2.MiniCluster, error) {
	var list v1alpha2.MiniClusterList
	err := c.client.List(ctx, &list, c.options(nil)...)
	return list.Items, err
}
