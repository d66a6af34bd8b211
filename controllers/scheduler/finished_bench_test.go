// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// served is the manager's cache of what an API server lists. Nothing changes later.
func served(b *testing.B, lists map[string]apiruntime.Object) cache.Cache {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch list := lists[r.URL.Path]; {
		case list == nil:
			http.NotFound(w, r)
		case r.URL.Query().Get("sendInitialEvents") != "": // this server cannot stream a list
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
			})
		case r.URL.Query().Get("watch") != "":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_ = json.NewEncoder(w).Encode(list)
		}
	}))
	b.Cleanup(server.Close)
	scheme := apiruntime.NewScheme()
	for _, add := range []func(*apiruntime.Scheme) error{clientgoscheme.AddToScheme, v1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			b.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha2.GroupVersion.WithKind(v1alpha2.MiniClusterKind), meta.RESTScopeNamespace)
	mapper.Add(v1alpha2.GroupVersion.WithKind("MiniClusterQueue"), meta.RESTScopeRoot)
	mapper.Add(v1alpha2.GroupVersion.WithKind("MiniClusterReservation"), meta.RESTScopeRoot)
	for _, kind := range []string{"Pod", "ResourceQuota"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), meta.RESTScopeNamespace)
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	c, err := cache.New(config, cache.Options{Scheme: scheme, Mapper: mapper, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		b.Fatal(err)
	}
	if err := index.Setup(b.Context(), c); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(cancel)
	go func() { _ = c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		b.Fatal("the cache does not start")
	}
	return c
}

// BenchmarkFinished measures a cycle with one MiniCluster that waits and many that have finished,
// whose leads' pods still exist, in a namespace with a quota. It also reports how many the
// scheduler keeps in its memory.
func BenchmarkFinished(b *testing.B) {
	for _, n := range []int{0, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkFinished(b, n) })
	}
}

func benchmarkFinished(b *testing.B, n int) {
	b.Helper()
	miniClusters, pods := &v1alpha2.MiniClusterList{}, &corev1.PodList{}
	miniClusters.TypeMeta = metav1.TypeMeta{Kind: "MiniClusterList", APIVersion: v1alpha2.GroupVersion.String()}
	pods.TypeMeta = metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}
	done := fixture.MiniCluster("done").Size(2).CPU("8").Admitted(1, 2, "a,b").Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, v1alpha2.StateSucceeded)
	lead := fixture.BrokerPod("done", 0).On("a").Ended(0)
	for i := range n {
		mc, pod := done.Obj(), lead.Obj()
		mc.Name, mc.UID = fmt.Sprintf("done-%d", i), types.UID(fmt.Sprintf("uid-done-%d", i))
		pod.Name, pod.UID = mc.Name+"-0", mc.UID+"-0"
		pod.Labels[v1alpha2.MiniClusterLabel], pod.Labels[v1alpha2.UIDLabel] = mc.Name, string(mc.UID)
		pod.OwnerReferences[0].Name = mc.Name + "-0-0"
		miniClusters.Items, pods.Items = append(miniClusters.Items, *mc), append(pods.Items, *pod)
	}
	waits := fixture.MiniCluster("waits").Size(2).CPU("8")
	miniClusters.Items = append(miniClusters.Items, *waits.Obj())
	quotas := &corev1.ResourceQuotaList{TypeMeta: metav1.TypeMeta{Kind: "ResourceQuotaList", APIVersion: "v1"}}
	quotas.Items = []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "large", Namespace: fixture.Namespace}}}
	s := New(served(b, map[string]apiruntime.Object{
		"/apis/flux-framework.org/v1alpha2/miniclusters": miniClusters, "/api/v1/pods": pods, "/api/v1/resourcequotas": quotas,
		"/apis/flux-framework.org/v1alpha2/miniclusterqueues":       &v1alpha2.MiniClusterQueueList{},
		"/apis/flux-framework.org/v1alpha2/miniclusterreservations": &v1alpha2.MiniClusterReservationList{},
		"/api/v1/namespaces": &corev1.NamespaceList{}, "/apis/discovery.k8s.io/v1/endpointslices": &discoveryv1.EndpointSliceList{},
	}), clock.RealClock{}, nil, nil)
	s.Report(waits.Defaulted(), state.Wants{Want: state.NodesNow, Pod: wholeNode})
	cycle := func() {
		s.due.changed = true
		if _, err := s.decide(b.Context(), s.Clock.Now()); err != nil {
			b.Fatal(err)
		}
	}
	cycle() // fills the cache
	for b.Loop() {
		cycle()
	}
	b.ReportMetric(float64(len(s.catalog.known)), "known")
}
