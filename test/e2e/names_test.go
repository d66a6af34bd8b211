// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// names returns the addresses that DNS has for the names in the domain of a Service, as CoreDNS
// reads them: from all EndpointSlices of the Service.
func (s *site) names(service string) (map[string]string, error) {
	var list discoveryv1.EndpointSliceList
	if err := env.client.List(s.ctx, &list, client.InNamespace(s.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
		return nil, err
	}
	names := map[string]string{}
	for i := range list.Items {
		for _, endpoint := range list.Items[i].Endpoints {
			if endpoint.Hostname == nil || (endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready) {
				continue
			}
			if known, twice := names[*endpoint.Hostname]; twice {
				return nil, fmt.Errorf("%s has the addresses %s and %s", *endpoint.Hostname, known, endpoint.Addresses[0])
			}
			names[*endpoint.Hostname] = endpoint.Addresses[0]
		}
	}
	return names, nil
}

// awaitNames waits until DNS has exactly the names of the running pods of some MiniClusters, at
// the addresses of these pods.
func (s *site) awaitNames(service string, of ...*v1alpha2.MiniCluster) {
	s.t.Helper()
	eventually(s.t, func() error {
		want := map[string]string{}
		for _, mc := range of {
			for _, pod := range s.pods(mc) {
				if pod.Status.PodIP == "" || pod.DeletionTimestamp != nil {
					continue
				}
				read := protocol.Read(&pod)
				switch {
				case read.Services:
					want[mc.Name+"-services"] = pod.Status.PodIP
				case read.Rank == 0:
					want[mc.Name+"-0-0-0"], want[mc.Name+"-0"] = pod.Status.PodIP, pod.Status.PodIP
				default:
					want[fmt.Sprintf("%s-w-0-%d", mc.Name, read.Rank-1)], want[fmt.Sprintf("%s-%d", mc.Name, read.Rank)] = pod.Status.PodIP, pod.Status.PodIP
				}
			}
		}
		got, err := s.names(service)
		if err == nil && !maps.Equal(got, want) {
			err = fmt.Errorf("DNS has %v, want %v", got, want)
		}
		return err
	})
}

// Every pod of a MiniCluster that runs has its names in DNS, with the address that it has now:
// brokers that are late, killed or moved, too. Nothing of it is left at the end.
func TestNames(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	mc := s.create(s.miniCluster("named").Launcher().Size(3).PodAnnotation(simulator.Runtime, untilTold).
		PodAnnotation(simulator.NeverStart, "2").Spec(withService("0")).
		Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.MinSize, spec.Elastic.QuorumTimeout = 2, duration("1s") }))
	s.awaitState(mc, v1alpha2.StateRunning)
	s.awaitService(mc)
	s.awaitNames("named", mc)
	names, err := s.names("named")
	if err != nil || names["named-0"] == "" || names["named-0-0-0"] != names["named-0"] || names["named-services"] == "" {
		t.Errorf("names %v, %v", names, err)
	}
	// A pod that is deleted is replaced, and its name goes with it.
	gone := s.podOfRank(mc, 1)
	s.delete(gone)
	s.awaitPod(mc, 1, "another pod", func(pod *corev1.Pod) bool { return pod.UID != gone.UID && pod.Status.PodIP != "" })
	s.awaitNames("named", mc)
	// A pod has another address when its sandbox was made anew.
	lead := s.podOfRank(mc, 0)
	status := `{"status":{"podIP":"10.9.9.9","podIPs":[{"ip":"10.9.9.9"}]}}`
	if err := env.client.Status().Patch(s.ctx, lead, client.RawPatch(types.MergePatchType, []byte(status))); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		names, err := s.names("named")
		if err == nil && names["named-0"] != "10.9.9.9" {
			err = fmt.Errorf("the lead is at %s", names["named-0"])
		}
		return err
	})
	// Slices that somebody deletes are written again.
	if err := env.client.DeleteAllOf(s.ctx, &discoveryv1.EndpointSlice{}, client.InNamespace(s.namespace)); err != nil {
		t.Fatal(err)
	}
	s.awaitNames("named", mc)
	s.endCommand(mc)
	s.awaitSuccess(mc)
	s.awaitNames("named") // nobody
}

// podOfRank returns the pod of a rank.
func (s *site) podOfRank(mc *v1alpha2.MiniCluster, rank int) *corev1.Pod {
	s.t.Helper()
	pods := s.pods(mc)
	i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return protocol.Read(&pod).Rank == rank && pod.DeletionTimestamp == nil })
	if i < 0 {
		s.t.Fatalf("rank %d of %s has no pod", rank, mc.Name)
	}
	return &pods[i]
}

// A gang of many pods costs few writes of names.
func TestNamesAreWrittenTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	config, err := env.cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := c.Watch(s.ctx, &discoveryv1.EndpointSliceList{}, client.InNamespace(s.namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	mc := s.create(s.miniCluster("many").Size(64).CPU("10m").PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(mc, v1alpha2.StateRunning)
	s.awaitNames("many", mc)
	s.endCommand(mc)
	s.awaitSuccess(mc)
	var writes []string
	for event := range watch.ResultChan() {
		writes = append(writes, string(event.Type))
		if event.Type == "DELETED" {
			break
		}
	}
	t.Logf("names were written %d times: %v", len(writes), writes)
	if len(writes) > 32 { // half of what one write for each pod would be, on the busiest machine
		t.Errorf("names of 64 pods were written %d times: %v", len(writes), writes)
	}
}

// MiniClusters that name the same Service share it. The end and the deletion of one take nothing
// from the other, and the last takes the Service along.
func TestSharedHeadlessName(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	shared := func(spec *v1alpha2.MiniClusterSpec) { spec.Network.HeadlessName = "flux-service" }
	first := s.create(s.miniCluster("first").Size(1).PodAnnotation(simulator.Runtime, untilTold).Spec(shared))
	s.awaitState(first, v1alpha2.StateRunning)
	second := s.create(s.miniCluster("second").Size(1).PodAnnotation(simulator.Runtime, untilTold).Spec(shared))
	s.awaitState(second, v1alpha2.StateRunning)
	third := s.create(s.miniCluster("third").Size(1).PodAnnotation(simulator.Runtime, untilTold).Spec(shared))
	s.awaitState(third, v1alpha2.StateRunning)
	s.awaitNames("flux-service", first, second, third)
	s.ownersAre("flux-service", first, second, third)

	s.endCommand(first)
	s.awaitSuccess(first)
	s.awaitNames("flux-service", second, third)
	s.ownersAre("flux-service", second, third) // one that has ended is no owner any more
	s.delete(first)
	s.awaitGone(first)
	s.delete(second)
	s.awaitGone(second)
	s.ownersAre("flux-service", third)
	s.awaitNames("flux-service", third)
	s.endCommand(third)
	s.awaitSuccess(third)
	s.ownersAre("flux-service", third) // the last one keeps it
	s.delete(third)
	eventually(t, s.shared.NothingLeft)
}

// ownersAre waits until the owners of a Service are some MiniClusters.
func (s *site) ownersAre(service string, owners ...*v1alpha2.MiniCluster) {
	s.t.Helper()
	eventually(s.t, func() error {
		var found corev1.Service
		if err := env.client.Get(s.ctx, types.NamespacedName{Namespace: s.namespace, Name: service}, &found); err != nil {
			return err
		}
		got, want := map[types.UID]string{}, map[types.UID]string{}
		for _, owner := range found.OwnerReferences {
			got[owner.UID] = owner.Name
		}
		for _, mc := range owners {
			want[mc.UID] = mc.Name
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("Service %s has the owners %v, want %v", service, got, want)
		}
		return nil
	})
}

// MiniClusters of one template have containers with ports under the same name. They share the
// Service of that name, which has the pods and the ports of all.
func TestSiblingsWithPorts(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	beside := func(ports ...int32) func(spec *v1alpha2.MiniClusterSpec) {
		return func(spec *v1alpha2.MiniClusterSpec) {
			spec.Containers[0].RunFlux = true
			spec.Containers = append(spec.Containers, v1alpha2.MiniClusterContainer{Name: "web", Image: "web", Command: "serve", Ports: ports})
		}
	}
	first := s.create(s.miniCluster("first").PodAnnotation(simulator.Runtime, untilTold).Spec(beside(80)))
	s.awaitState(first, v1alpha2.StateRunning)
	second := s.create(s.miniCluster("second").PodAnnotation(simulator.Runtime, untilTold).Spec(beside(80, 443)))
	s.awaitState(second, v1alpha2.StateRunning)
	s.ownersAre("web", first, second)
	selects := func(of ...*v1alpha2.MiniCluster) {
		t.Helper()
		eventually(t, func() error {
			var web corev1.Service
			if err := env.client.Get(s.ctx, types.NamespacedName{Namespace: s.namespace, Name: "web"}, &web); err != nil {
				return err
			}
			var pods corev1.PodList
			if err := env.client.List(s.ctx, &pods, client.InNamespace(s.namespace), client.MatchingLabels(web.Spec.Selector)); err != nil {
				return err
			}
			if len(pods.Items) != len(of) || len(web.Spec.Ports) != 2 {
				return fmt.Errorf("%d pods, ports %v", len(pods.Items), web.Spec.Ports)
			}
			return nil
		})
	}
	selects(first, second)
	s.delete(first)
	s.awaitGone(first)
	selects(second)
	s.ownersAre("web", second)
	s.endCommand(second)
	s.awaitSuccess(second)
	s.delete(second)
	eventually(t, s.shared.NothingLeft)
}

// A Service of the name that serves something else is left alone, and named.
func TestHeadlessNameOfAContainer(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	first := s.create(s.miniCluster("first").PodAnnotation(simulator.Runtime, untilTold).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Containers[0].RunFlux = true
		spec.Containers = append(spec.Containers, v1alpha2.MiniClusterContainer{Name: "web", Image: "web", Command: "serve", Ports: []int32{80}})
	}))
	s.awaitState(first, v1alpha2.StateRunning)
	second := s.create(s.miniCluster("second").Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Network.HeadlessName = "web" }))
	s.awaitState(second, v1alpha2.StateRejected)
	if message := condition(second, v1alpha2.ConditionAccepted).Message; !strings.Contains(message, `Service "web" exists and is of another kind`) {
		t.Errorf("it was told %q", message)
	}
	s.delete(first)
	s.awaitSuccess(second)
	var service corev1.Service
	err := env.client.Get(s.ctx, types.NamespacedName{Namespace: s.namespace, Name: "web"}, &service)
	if apierrors.IsNotFound(err) || !metav1.HasLabel(service.ObjectMeta, v1alpha2.MiniClusterLabel) || service.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("%v, %+v", err, service)
	}
}
