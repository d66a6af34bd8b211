// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// SiteLabel is the label of the nodes of a site. Its value is the site's namespace.
const SiteLabel = "e2e-site"

// Site is a part of a cluster that a test has for itself: a namespace and some nodes.
type Site struct {
	T         *testing.T
	Ctx       context.Context // outlives the test, for what the test cleans up
	Cluster   *Cluster
	Namespace string
	Nodes     []string

	clears, closes []func()
}

// sites are those of a cluster.
type sites struct {
	sync.Mutex
	count int
	free  map[string]time.Time // when a node was or will be free, by its name; zero while a site has it
}

// lingers is how long the Jobs of a deleted namespace may still be there, which hold nodes for pods that come late.
const lingers = 10 * time.Second

// NewSite takes the nodes for a test that have been free for longest, and makes a namespace. Close gives
// the nodes back. If other tests have too many nodes, NewSite waits for some of these.
func (c *Cluster) NewSite(t *testing.T, nodes int) *Site {
	t.Helper()
	s := &Site{T: t, Ctx: context.WithoutCancel(t.Context()), Cluster: c}
	var free time.Time
	Eventually(t, func() (err error) { free, err = s.takeNodes(nodes); return err })
	WallClock.Sleep(free.Sub(WallClock.Now()))
	if err := c.Client.Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}); err != nil {
		t.Fatal(err)
	}
	// Until the controllers made the account, the API server refuses pods.
	account := client.ObjectKey{Namespace: s.Namespace, Name: "default"}
	Eventually(t, func() error { return c.Client.Get(s.Ctx, account, &corev1.ServiceAccount{}) })
	return s
}

// takeNodes names the site, and takes nodes that are free at a time.
func (s *Site) takeNodes(n int) (free time.Time, err error) {
	s.T.Helper()
	sites := &s.Cluster.sites
	sites.Lock()
	defer sites.Unlock()
	if sites.free == nil {
		sites.free = map[string]time.Time{}
	}
	var list corev1.NodeList
	if err := s.Cluster.Client.List(s.Ctx, &list); err != nil {
		return free, Final(err)
	}
	if len(list.Items) < n {
		return free, Final(fmt.Errorf("the cluster has %d nodes, the test needs %d", len(list.Items), n))
	}
	list.Items = slices.DeleteFunc(list.Items, func(node corev1.Node) bool {
		at, known := sites.free[node.Name]
		return known && at.IsZero()
	})
	if len(list.Items) < n {
		return free, fmt.Errorf("only %d nodes are free, the test needs %d", len(list.Items), n)
	}
	sites.count++
	s.Namespace = fmt.Sprintf("site-%d", sites.count)
	slices.SortStableFunc(list.Items, func(a, b corev1.Node) int { return sites.free[a.Name].Compare(sites.free[b.Name]) })
	for i := range list.Items[:n] {
		node := &list.Items[i]
		free = sites.free[node.Name] // the latest comes last
		sites.free[node.Name] = time.Time{}
		s.Patch(node, `{"metadata":{"labels":{%q:%q}}}`, SiteLabel, s.Namespace)
		s.Nodes = append(s.Nodes, node.Name)
	}
	slices.Sort(s.Nodes)
	return free, nil
}

// AtClear has something done before the site is cleared.
func (s *Site) AtClear(do func()) { s.clears = append(s.clears, do) }

// AtClose has something done before the site is closed.
func (s *Site) AtClose(do func()) { s.closes = append(s.closes, do) }

// Clear deletes all MiniClusters, and waits until nothing is left of them.
func (s *Site) Clear() {
	for _, do := range s.clears {
		do()
	}
	if err := Poll(s.deleteSome); err != nil {
		s.T.Error(err)
	}
	if err := Poll(s.NothingLeft); err != nil {
		s.T.Errorf("something is left over: %v", err)
	}
}

// deleteSome deletes MiniClusters; an error says that there are more. The API server deletes one after the other, and a
// request may not take longer than a minute.
func (s *Site) deleteSome() error {
	some := &client.DeleteAllOfOptions{ListOptions: client.ListOptions{Namespace: s.Namespace, Limit: 250}}
	if err := s.Cluster.Client.DeleteAllOf(s.Ctx, &v1alpha2.MiniCluster{}, some); err != nil {
		return err
	}
	var list v1alpha2.MiniClusterList
	if err := s.Cluster.Client.List(s.Ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			return fmt.Errorf("%s is not deleted", list.Items[i].Name)
		}
	}
	return nil
}

// Close deletes the namespace, and gives the nodes back.
func (s *Site) Close() {
	for _, do := range s.closes {
		do()
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	if err := Poll(func() error {
		err := s.Cluster.Client.Delete(s.Ctx, namespace)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // a request before, whose answer was lost, has deleted it
			return nil
		}
		return err
	}); err != nil {
		s.T.Error(err)
	}
	free := WallClock.Now().Add(lingers)
	s.Cluster.sites.Lock()
	defer s.Cluster.sites.Unlock()
	for _, node := range s.Nodes {
		s.Cluster.sites.free[node] = free
	}
}

// NothingLeft checks that no object of a MiniCluster is there.
func (s *Site) NothingLeft() error {
	for _, list := range []client.ObjectList{
		&v1alpha2.MiniClusterList{}, &jobsetapi.JobSetList{}, &batchv1.JobList{}, &corev1.PodList{},
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{},
	} {
		if err := s.Cluster.Client.List(s.Ctx, list, client.InNamespace(s.Namespace), client.HasLabels{v1alpha2.MiniClusterLabel}); err != nil {
			return err
		}
		if n := meta.LenList(list); n > 0 {
			return fmt.Errorf("%d in %T: %s", n, list, strings.Join(described(list), "; "))
		}
	}
	var list v1alpha2.MiniClusterList // these have no label of ours
	if err := s.Cluster.Client.List(s.Ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		return err
	}
	if len(list.Items) > 0 {
		return fmt.Errorf("%d MiniClusters", len(list.Items))
	}
	return nil
}

// described says of each object in a list what may keep it from being deleted.
func described(list client.ObjectList) []string {
	var all []string
	_ = meta.EachListItem(list, func(o runtime.Object) error { // it fails only for what is no list
		object := o.(client.Object)
		text := fmt.Sprintf("%s of %v, finalizers %v", object.GetName(), metav1.GetControllerOf(object), object.GetFinalizers())
		if at := object.GetDeletionTimestamp(); at != nil {
			text += fmt.Sprintf(", deleted at %s", at)
		}
		if pod, ok := object.(*corev1.Pod); ok {
			text += fmt.Sprintf(", %s on %q", pod.Status.Phase, pod.Spec.NodeName)
		}
		all = append(all, text)
		return nil
	})
	return all
}

// Create creates an object.
func (s *Site) Create(object client.Object) {
	s.T.Helper()
	if err := s.Cluster.Client.Create(s.Ctx, object); err != nil {
		s.T.Fatal(err)
	}
}

// Patch changes an object by a merge patch.
func (s *Site) Patch(object client.Object, format string, args ...any) {
	s.T.Helper()
	if err := s.Cluster.Client.Patch(s.Ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))); err != nil {
		s.T.Fatal(err)
	}
}

// Delete deletes an object.
func (s *Site) Delete(object client.Object, options ...client.DeleteOption) {
	s.T.Helper()
	if err := s.Cluster.Client.Delete(s.Ctx, object, options...); err != nil {
		s.T.Fatal(err)
	}
}

// Condition returns a condition of a MiniCluster, or an empty one.
func Condition(mc *v1alpha2.MiniCluster, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(mc.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// State returns the state of a MiniCluster.
func State(mc *v1alpha2.MiniCluster) string { return Condition(mc, v1alpha2.ConditionReady).Reason }

// Await waits until a MiniCluster is as the test expects.
func (s *Site) Await(mc *v1alpha2.MiniCluster, what string, holds func(*v1alpha2.MiniCluster) bool) {
	s.T.Helper()
	Eventually(s.T, func() error {
		if err := s.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
			return Final(fmt.Errorf("waiting until %s is %s: %w", mc.Name, what, err))
		}
		if !holds(mc) {
			return fmt.Errorf("%s is not %s, but %s: %s", mc.Name, what, State(mc), Condition(mc, v1alpha2.ConditionReady).Message)
		}
		return nil
	})
}

// AwaitState waits until a MiniCluster has one of some states.
func (s *Site) AwaitState(mc *v1alpha2.MiniCluster, states ...string) {
	s.T.Helper()
	s.Await(mc, strings.Join(states, " or "), func(mc *v1alpha2.MiniCluster) bool { return slices.Contains(states, State(mc)) })
}

// AwaitSuccess waits until a MiniCluster has succeeded and holds no node any more.
func (s *Site) AwaitSuccess(mc *v1alpha2.MiniCluster) {
	s.T.Helper()
	s.Await(mc, "done, with no node held", func(mc *v1alpha2.MiniCluster) bool {
		return State(mc) == v1alpha2.StateSucceeded && mc.Status.Nodes == 0
	})
}

// AwaitGone waits until an object does not exist any more.
func (s *Site) AwaitGone(object client.Object) {
	s.T.Helper()
	Eventually(s.T, func() error {
		err := s.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
		switch {
		case err == nil:
			return fmt.Errorf("%s is still there", object.GetName())
		case client.IgnoreNotFound(err) != nil:
			return Final(err)
		}
		return nil
	})
}

// Pods returns the pods of a MiniCluster.
func (s *Site) Pods(mc *v1alpha2.MiniCluster) []corev1.Pod {
	s.T.Helper()
	var list corev1.PodList
	if err := s.Cluster.Client.List(s.Ctx, &list, client.InNamespace(s.Namespace), client.MatchingLabels{v1alpha2.MiniClusterLabel: mc.Name}); err != nil {
		s.T.Fatal(err)
	}
	return list.Items
}

// AwaitPod waits until a rank has a pod as the test expects.
func (s *Site) AwaitPod(mc *v1alpha2.MiniCluster, rank int, what string, holds func(*corev1.Pod) bool) *corev1.Pod {
	s.T.Helper()
	var found *corev1.Pod
	Eventually(s.T, func() error {
		pods := s.Pods(mc)
		for i := range pods {
			if got, ok := protocol.Rank(&pods[i]); ok && got == rank && holds(&pods[i]) {
				found = &pods[i]
				return nil
			}
		}
		return fmt.Errorf("the pod of rank %d of %s is not %s", rank, mc.Name, what)
	})
	return found
}

// Tell lets the pod of a rank play something else from now on.
func (s *Site) Tell(mc *v1alpha2.MiniCluster, rank int, annotation, value string) {
	s.T.Helper()
	pod := s.AwaitPod(mc, rank, "alive", func(pod *corev1.Pod) bool { return !protocol.Ended(pod) && pod.DeletionTimestamp == nil })
	if err := simulator.Tell(s.Ctx, s.Cluster.Client, pod, annotation, value); err != nil {
		s.T.Fatal(err)
	}
}

// Kubectl runs kubectl in the namespace.
func (s *Site) Kubectl(args ...string) string {
	s.T.Helper()
	out, err := s.Cluster.Kubectl(s.Ctx, append([]string{"-n", s.Namespace}, args...)...)
	if err != nil {
		s.T.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Describe logs what is there of some kinds.
func (s *Site) Describe(kinds string) {
	s.T.Helper()
	out, err := s.Cluster.Kubectl(s.Ctx, "-n", s.Namespace, "get", kinds, "-o", "wide")
	if err != nil {
		s.T.Log(err)
	}
	s.T.Logf("what is there:\n%s", out)
}
