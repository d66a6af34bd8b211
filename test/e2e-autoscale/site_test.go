// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2eautoscale

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/scaleup"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// site is a part of a cluster that a test has for itself: a namespace, and the nodes that come with the site's label.
// Cluster-scoped objects of the site have the namespace before their names.
type site struct {
	*harness.Site
	of    *cluster
	label bool            // the nodes of the site have its label
	made  []client.Object // cluster-scoped
	pools []string
}

// newSite begins a site of the shared cluster.
func newSite(t *testing.T) *site {
	t.Helper()
	s := env.cluster.newSite(t)
	s.label = true
	return s
}

// newSite begins a site. What the test made is removed when the test ends.
func (c *cluster) newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Site: c.NewSite(t, 0), of: c}
	t.Cleanup(s.close)
	return s
}

func (s *site) close() {
	if s.T.Failed() {
		s.Describe("mc,podtemplates,capacitybuffers,provisioningrequests,pods,events")
		s.Describe("nodes,nodeclaims,miniclusterqueues")
	}
	s.Clear()
	if err := harness.Poll(s.nothingAsked); err != nil {
		s.T.Error(err)
	}
	s.CheckHistory(s.broken)
	for _, object := range s.made {
		if err := client.IgnoreNotFound(s.Cluster.Client.Delete(s.Ctx, object)); err != nil {
			s.T.Error(err)
		}
	}
	for _, pool := range s.pools { // and with it its nodes
		if out, err := s.Cluster.Kubectl(s.Ctx, "delete", "nodepool", pool, "--wait=false"); err != nil {
			s.T.Errorf("%v\n%s", err, out)
		}
	}
	s.Close()
}

// nothingAsked checks that no object by which an autoscaler is asked is there.
func (s *site) nothingAsked() error {
	var templates corev1.PodTemplateList
	err := s.Cluster.Client.List(s.Ctx, &templates, client.InNamespace(s.Namespace))
	for i := range templates.Items {
		err = errors.Join(err, fmt.Errorf("PodTemplate %s is still there", templates.Items[i].Name))
	}
	for _, kind := range []schema.GroupVersionKind{bufferKind, requestKind} {
		requests, failed := s.requests(kind)
		err = errors.Join(err, failed)
		for _, r := range requests {
			err = errors.Join(err, fmt.Errorf("%s %s is still there", kind.Kind, r.Name))
		}
	}
	return err
}

// requests are the objects of a kind by which an autoscaler is asked.
func (s *site) requests(kind schema.GroupVersionKind) ([]*scaleup.Request, error) {
	list := listOf(kind)
	if err := s.Cluster.Client.List(s.Ctx, list, client.InNamespace(s.Namespace)); err != nil {
		return nil, err
	}
	var out []*scaleup.Request
	for i := range list.Items {
		r, err := scaleup.Read(&list.Items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func objectOf(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

func listOf(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

// pool lets Karpenter make nodes of 8 CPUs for the site.
func (s *site) pool(change func(*localcluster.NodePool)) {
	s.T.Helper()
	pool := localcluster.NodePool{Name: s.name("pool"), Types: []string{"standard-8"}, Labels: map[string]string{harness.SiteLabel: s.Namespace}}
	if change != nil {
		change(&pool)
	}
	if err := s.Cluster.MakeNodePool(s.Ctx, pool); err != nil {
		s.T.Fatal(err)
	}
	s.pools = append(s.pools, pool.Name)
}

// queue makes a queue that asks for nodes by CapacityBuffers. In the shared cluster, it lists the site's nodes, because NodePools
// of other sites are no concern of the test.
func (s *site) queue(name string, maxNodes int32, change func(*v1alpha2.ScaleUp)) *v1alpha2.MiniClusterQueue {
	s.T.Helper()
	q := fixture.Queue(s.name(name)).New()
	q.Spec.ScaleUp = &v1alpha2.ScaleUp{Provider: v1alpha2.ProvideByBuffer, MaxNodes: maxNodes, Timeout: &metav1.Duration{Duration: time.Hour}}
	if s.label {
		q.Spec.ScaleUp.Shapes = []v1alpha2.NodeShape{{
			Name: "node", Labels: map[string]string{harness.SiteLabel: s.Namespace}, Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7900m")},
		}}
	}
	if change != nil {
		change(q.Spec.ScaleUp)
	}
	q.Labels = map[string]string{harness.SiteLabel: s.Namespace} // for the site's operator
	s.Create(q)
	s.made = append(s.made, q)
	return q
}

// name is the name of a cluster-scoped object of the site.
func (s *site) name(name string) string { return s.Namespace + "-" + name }

// untilTold is how long a command runs that a test ends by succeed.
const untilTold = "1h"

// miniCluster begins a MiniCluster of a queue, whose brokers take 7 CPUs each.
func (s *site) miniCluster(name, queue string) *fixture.MiniClusterWrapper {
	return fixture.MiniCluster(name).In(s.Namespace).Queue(s.name(queue)).PodAnnotation(simulator.Runtime, untilTold).CPU("7").Spec(func(spec *v1alpha2.MiniClusterSpec) {
		if s.label {
			spec.Pod.NodeSelector = map[string]string{harness.SiteLabel: s.Namespace}
		}
	})
}

// create creates a MiniCluster.
func (s *site) create(w *fixture.MiniClusterWrapper) *v1alpha2.MiniCluster {
	s.T.Helper()
	mc := w.New()
	s.Create(mc)
	return mc
}

// succeed ends the commands of MiniClusters, and waits until they hold no nodes. They ran once.
func (s *site) succeed(mcs ...*v1alpha2.MiniCluster) {
	s.T.Helper()
	for _, mc := range mcs {
		s.Await(mc, "done, with no node held", func(mc *v1alpha2.MiniCluster) bool {
			s.endCommand(mc)
			return harness.State(mc) == v1alpha2.StateSucceeded && mc.Status.Nodes == 0
		})
		s.checkAttempts(mc)
	}
}

// endCommand has the lead that is there end its command. Another lead may come: see checkAttempts.
func (s *site) endCommand(mc *v1alpha2.MiniCluster) {
	s.T.Helper()
	for _, pod := range s.Pods(mc) {
		if rank, ok := protocol.Rank(&pod); ok && rank == 0 {
			if err := simulator.Tell(s.Ctx, s.Cluster.Client, &pod, simulator.Runtime, "0s"); err != nil {
				s.T.Logf("ending the command of %s: %v", pod.Name, err)
			}
		}
	}
}

// checkAttempts checks that a MiniCluster had no attempt before its last one, but for those that were given nodes which
// Karpenter was about to remove, or has removed: it may have found a node to be empty just before the gang got the node.
func (s *site) checkAttempts(mc *v1alpha2.MiniCluster) {
	s.T.Helper()
	for _, a := range mc.Status.Attempts {
		if a.Reason != v1alpha2.ReasonNodesGo && a.Reason != v1alpha2.ReasonReleased {
			s.T.Errorf("%s has failed before: %+v", mc.Name, a)
		}
	}
}

// awaitVerdict waits until a MiniCluster waits for a reason, or for any with "", with words.
func (s *site) awaitVerdict(mc *v1alpha2.MiniCluster, reason, words string) {
	s.T.Helper()
	s.Await(mc, "waiting because of "+reason+" with the words "+words, func(mc *v1alpha2.MiniCluster) bool {
		c := harness.Condition(mc, v1alpha2.ConditionAdmitted)
		return (c.Reason == reason || reason == "") && strings.Contains(c.Message, words)
	})
}

// setTimeout changes how long the MiniClusters of a queue wait for nodes.
func (s *site) setTimeout(q *v1alpha2.MiniClusterQueue, timeout string) {
	s.T.Helper()
	s.Patch(q, `{"spec":{"scaleUp":{"timeout":%q}}}`, timeout)
}

// nodes are those of the site, also those that are not ready.
func (s *site) nodes(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	var options []client.ListOption
	if s.label {
		options = append(options, client.MatchingLabels{harness.SiteLabel: s.Namespace})
	}
	err := s.Cluster.Client.List(ctx, &list, options...)
	return list.Items, err
}

// awaitNodes waits until the site has so many nodes.
func (s *site) awaitNodes(n int) []corev1.Node {
	s.T.Helper()
	var nodes []corev1.Node
	harness.Eventually(s.T, func() (err error) {
		if nodes, err = s.nodes(s.Ctx); err == nil && len(nodes) != n {
			err = fmt.Errorf("there are %d nodes, want %d", len(nodes), n)
		}
		return err
	})
	return nodes
}
