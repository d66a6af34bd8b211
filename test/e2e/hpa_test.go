// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

const externalMetrics = "external.metrics.k8s.io/v1beta1"

// serveMetric serves one external metric of a site to the cluster, as an adapter does, for
// as long as the test runs. It is what is stored in the number.
func (s *site) serveMetric() *atomic.Int64 {
	s.t.Helper()
	value := &atomic.Int64{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer map[string]any
		switch path := strings.TrimSuffix(r.URL.Path, "/"); {
		case path == "/apis/"+externalMetrics:
			answer = map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": externalMetrics, "resources": []any{}}
		case strings.HasPrefix(path, "/apis/"+externalMetrics+"/namespaces/"+s.namespace+"/"):
			answer = map[string]any{"kind": "ExternalMetricValueList", "apiVersion": externalMetrics, "metadata": map[string]any{}, "items": []any{map[string]any{
				"metricName": "backlog", "metricLabels": map[string]any{}, "timestamp": metav1.Now(), "value": fmt.Sprint(value.Load()),
			}}}
		default:
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	s.t.Cleanup(server.Close)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "metrics"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	if err := env.client.Create(s.ctx, service); err != nil {
		s.t.Fatal(err)
	}
	group, version, _ := strings.Cut(externalMetrics, "/")
	api := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": version + "." + group},
		"spec": map[string]any{
			"group": group, "version": version, "groupPriorityMinimum": int64(100), "versionPriority": int64(100), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": s.namespace, "name": "metrics", "port": int64(server.Listener.Addr().(*net.TCPAddr).Port)},
		},
	}}
	if err := env.client.Create(s.ctx, api); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.delete(api) })
	eventually(s.t, func() error {
		if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(api), api); err != nil {
			return final{err}
		}
		conditions, _, _ := unstructured.NestedSlice(api.Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "Available" && c["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("the metrics are not available: %v", conditions)
	})
	return value
}

// A HorizontalPodAutoscaler scales a MiniCluster as it does a Deployment, by a metric of
// its own choice: ten of the backlog for each broker.
func TestHorizontalPodAutoscaler(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	backlog := s.serveMetric()
	backlog.Store(30) // its size: it is left alone
	mc := s.launcher("scales")
	s.awaitState(mc, v1alpha2.StateRunning)
	rules := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(0))}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "scales"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: v1alpha2.GroupVersion.String(), Kind: v1alpha2.MiniClusterKind, Name: mc.Name},
			MinReplicas:    new(int32(1)), MaxReplicas: 4,
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules, ScaleDown: rules},
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "backlog"},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(10, resource.DecimalSI)},
			}}},
		},
	}
	if err := env.client.Create(s.ctx, hpa); err != nil {
		t.Fatal(err)
	}
	departures := s.watchDepartures(mc)
	for _, brokers := range []int32{2, 3, 4, 1} {
		backlog.Store(10 * int64(brokers))
		s.awaitBrokers(mc, brokers)
		if mc.Spec.Size != brokers {
			t.Errorf("with %d brokers its size is %d", brokers, mc.Spec.Size)
		}
	}
	eventually(t, func() error {
		if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(hpa), hpa); err != nil {
			return final{err}
		}
		if hpa.Status.CurrentReplicas != 1 || hpa.Status.DesiredReplicas != 1 {
			return fmt.Errorf("the autoscaler says %+v", hpa.Status)
		}
		return nil
	})
	if n := s.leadsOf(mc); n != 1 {
		t.Errorf("%d leads have run", n)
	}
	departures.mutex.Lock()
	defer departures.mutex.Unlock()
	for _, wrong := range departures.wrong {
		t.Error(wrong)
	}
}
