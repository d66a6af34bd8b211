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
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

const (
	externalMetrics = "external.metrics.k8s.io/v1beta1"
	resourceMetrics = "metrics.k8s.io/v1beta1"
)

// serveAPI serves a group of the API for as long as the test runs, as a metrics server or an
// adapter does. answer returns what a request asks for.
func (s *site) serveAPI(groupVersion string, answer func(r *http.Request) (map[string]any, error)) {
	s.t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		object := map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": groupVersion, "resources": []any{}}
		if path := strings.TrimSuffix(r.URL.Path, "/"); path != "/apis/"+groupVersion {
			var err error
			if object, err = answer(r); err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object)
	}))
	s.t.Cleanup(server.Close)
	group, version, _ := strings.Cut(groupVersion, "/")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: strings.ReplaceAll(group, ".", "-")},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	if err := env.client.Create(s.ctx, service); err != nil {
		s.t.Fatal(err)
	}
	api := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": version + "." + group},
		"spec": map[string]any{
			"group": group, "version": version, "groupPriorityMinimum": int64(100), "versionPriority": int64(100), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": s.namespace, "name": service.Name, "port": int64(server.Listener.Addr().(*net.TCPAddr).Port)},
		},
	}}
	if err := env.client.Create(s.ctx, api); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.delete(api) })
	eventually(s.t, func() error {
		if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(api), api); err != nil {
			return final(err)
		}
		conditions, _, _ := unstructured.NestedSlice(api.Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "Available" && c["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("%s is not available: %v", groupVersion, conditions)
	})
}

// serveMetric serves one external metric of a site. Its value is what is stored in the number.
func (s *site) serveMetric() *atomic.Int64 {
	s.t.Helper()
	value := &atomic.Int64{}
	s.serveAPI(externalMetrics, func(r *http.Request) (map[string]any, error) {
		if !strings.HasPrefix(r.URL.Path, "/apis/"+externalMetrics+"/namespaces/"+s.namespace+"/") {
			return nil, fmt.Errorf("no metric at %s", r.URL.Path)
		}
		return map[string]any{"kind": "ExternalMetricValueList", "apiVersion": externalMetrics, "metadata": map[string]any{}, "items": []any{map[string]any{
			"metricName": "backlog", "metricLabels": map[string]any{}, "timestamp": metav1.Now(), "value": fmt.Sprint(value.Load()),
		}}}, nil
	})
	return value
}

// serveUsage serves what the pods of a site that run use, as the metrics server does: as many
// percent of their requests as the number says.
func (s *site) serveUsage() *atomic.Int64 {
	s.t.Helper()
	percent := &atomic.Int64{}
	s.serveAPI(resourceMetrics, func(r *http.Request) (map[string]any, error) {
		if r.URL.Path != "/apis/"+resourceMetrics+"/namespaces/"+s.namespace+"/pods" {
			return nil, fmt.Errorf("no metrics at %s", r.URL.Path)
		}
		var pods corev1.PodList
		selector := &client.ListOptions{Raw: &metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector")}}
		if err := env.client.List(r.Context(), &pods, client.InNamespace(s.namespace), selector); err != nil {
			return nil, err
		}
		items := []any{}
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Status.Phase == corev1.PodRunning {
				items = append(items, usage(pod, percent.Load()))
			}
		}
		return map[string]any{"kind": "PodMetricsList", "apiVersion": resourceMetrics, "metadata": map[string]any{}, "items": items}, nil
	})
	return percent
}

// usage is a PodMetrics.
func usage(pod *corev1.Pod, percent int64) map[string]any {
	var containers []any
	for i := range pod.Spec.Containers {
		used := map[string]any{}
		for name, request := range pod.Spec.Containers[i].Resources.Requests {
			used[string(name)] = resource.NewMilliQuantity(request.MilliValue()*percent/100, request.Format)
		}
		containers = append(containers, map[string]any{"name": pod.Spec.Containers[i].Name, "usage": used})
	}
	return map[string]any{
		"metadata":  map[string]any{"name": pod.Name, "namespace": pod.Namespace, "labels": pod.Labels},
		"timestamp": metav1.Now(), "window": "1s", "containers": containers,
	}
}

// autoscale creates a HorizontalPodAutoscaler of a MiniCluster, from one to four brokers.
func (s *site) autoscale(mc *v1alpha2.MiniCluster, metric autoscalingv2.MetricSpec) *autoscalingv2.HorizontalPodAutoscaler {
	s.t.Helper()
	rules := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(0))}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: mc.Name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: v1alpha2.GroupVersion.String(), Kind: v1alpha2.MiniClusterKind, Name: mc.Name},
			MinReplicas:    new(int32(1)), MaxReplicas: 4,
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules, ScaleDown: rules},
			Metrics:  []autoscalingv2.MetricSpec{metric},
		},
	}
	if err := env.client.Create(s.ctx, hpa); err != nil {
		s.t.Fatal(err)
	}
	return hpa
}

// byBacklog is a metric of an autoscaler: ten of the backlog for each broker.
func byBacklog() autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "backlog"},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(10, resource.DecimalSI)},
	}}
}

// awaitAutoscaler waits until an autoscaler of a MiniCluster wants so many brokers, and the size is that.
func (s *site) awaitAutoscaler(hpa *autoscalingv2.HorizontalPodAutoscaler, brokers int32) {
	s.t.Helper()
	eventually(s.t, func() error {
		if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(hpa), hpa); err != nil {
			return final(err)
		}
		if hpa.Status.CurrentReplicas != brokers || hpa.Status.DesiredReplicas != brokers {
			return fmt.Errorf("the autoscaler says %+v", hpa.Status)
		}
		return nil
	})
}

// A HorizontalPodAutoscaler scales a MiniCluster as it does a Deployment, by a metric of
// its own choice. Then another MiniCluster grows until its autoscaler sets a size.
func TestHorizontalPodAutoscaler(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	backlog := s.serveMetric()
	backlog.Store(30) // its size: it is left alone
	mc := s.launcher("scales")
	s.awaitState(mc, v1alpha2.StateRunning)
	hpa := s.autoscale(mc, byBacklog())
	departures := s.watchDepartures(mc)
	for _, brokers := range []int32{2, 3, 4, 1} {
		backlog.Store(10 * int64(brokers))
		s.awaitBrokers(mc, brokers)
		if mc.Spec.Size != brokers {
			t.Errorf("with %d brokers its size is %d", brokers, mc.Spec.Size)
		}
	}
	s.awaitAutoscaler(hpa, 1)
	if n := s.leadsOf(mc); n != 1 {
		t.Errorf("%d leads have run", n)
	}
	departures.mutex.Lock()
	for _, wrong := range departures.wrong {
		t.Error(wrong)
	}
	departures.mutex.Unlock()
	s.delete(hpa)
	s.delete(mc)
	s.awaitGone(mc)
	s.growsUntilScaled(backlog)
}

// growsUntilScaled runs a MiniCluster that grows, under an autoscaler. While the autoscaler wants its
// size, it keeps what it has grown. Once the autoscaler sets another size, that size alone counts.
func (s *site) growsUntilScaled(backlog *atomic.Int64) {
	backlog.Store(30)
	mc := s.launcher("grows")
	s.patch(mc, `{"spec":{"elastic":{"grow":true}}}`)
	s.awaitBrokers(mc, 4)
	hpa := s.autoscale(mc, byBacklog())
	s.awaitAutoscaler(hpa, 3)
	s.awaitBrokers(mc, 4)
	for _, brokers := range []int32{2, 3} {
		backlog.Store(10 * int64(brokers))
		s.awaitBrokers(mc, brokers)
		s.awaitAutoscaler(hpa, brokers)
	}
	if mc = s.get(mc); mc.Spec.Size != 3 || mc.Status.Size != 3 {
		s.t.Errorf("its size is %d, and it has %d brokers", mc.Spec.Size, mc.Status.Size)
	}
	s.awaitDecisions(mc, map[string]int{"Admitted": 1, "Started": 1, "Grew": 2, "Draining": 1, "Vacated": 1})
}

// An autoscaler counts the CPU or the memory of the placed pods alone: the pods behind the gate
// use nothing, and as many idle pods would keep the MiniCluster from growing.
func TestHorizontalPodAutoscalerOfResources(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	percent := s.serveUsage()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		percent.Store(50) // the target: the size stays
		mc := s.launcher("scales-by-" + string(name))
		s.awaitState(mc, v1alpha2.StateRunning)
		s.scale(mc, 2)
		s.awaitBrokers(mc, 2)
		for _, rank := range []int{2, 3} { // their Job makes these pods again after a while
			s.awaitPod(mc, rank, "gated", protocol.HasGate)
		}
		hpa := s.autoscale(mc, autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: name, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))},
		}})
		s.awaitUtilization(hpa, 50)
		percent.Store(80)
		s.awaitBrokers(mc, 4)
		percent.Store(10)
		s.awaitBrokers(mc, 1)
		s.awaitUtilization(hpa, 10)
		if mc.Spec.Size != 1 {
			t.Errorf("at a tenth of the load its size is %d", mc.Spec.Size)
		}
		s.delete(hpa)
		s.delete(mc)
		s.awaitGone(mc)
	}
}

// awaitUtilization waits until an autoscaler has seen this utilization.
func (s *site) awaitUtilization(hpa *autoscalingv2.HorizontalPodAutoscaler, percent int32) {
	s.t.Helper()
	eventually(s.t, func() error {
		if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(hpa), hpa); err != nil {
			return final(err)
		}
		for _, metric := range hpa.Status.CurrentMetrics {
			if r := metric.Resource; r != nil && r.Current.AverageUtilization != nil && *r.Current.AverageUtilization == percent {
				return nil
			}
		}
		return fmt.Errorf("the autoscaler sees %+v, and says %+v", hpa.Status.CurrentMetrics, hpa.Status.Conditions)
	})
}
