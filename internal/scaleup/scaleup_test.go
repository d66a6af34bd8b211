// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scaleup

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// wish is for nodes for a gang of four.
func wish(provider v1alpha2.ScaleUpProvider, change ...func(*Wish)) *Wish {
	w := &Wish{
		Ask: queue.Ask{Gang: "uid-lmp", Attempt: 1, Size: 4, Nodes: 4}, Pod: fixture.Pod("p").Spec(image).Obj(),
		Provider: provider, Version: "v1", Timeout: 10 * time.Minute, MaxNodes: 8,
	}
	if provider == v1alpha2.ProvideByRequest {
		w.Class = v1alpha2.DefaultProvisioningClass
	}
	for _, f := range change {
		f(w)
	}
	return w
}

func image(s *corev1.PodSpec) { s.Containers[0].Image = "app" }

func miniCluster() *v1alpha2.MiniCluster { return fixture.MiniCluster("lmp").Size(4).Defaulted() }

// The pods of a template are where brokers can be: with their selectors, tolerations and volumes, on nodes for brokers,
// and not on the node of a broker that has its node alone.
func TestPodTemplate(t *testing.T) {
	batch, err := labels.Parse("batch=flux,gen notin (1,2),!old")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		mc   func(*v1alpha2.MiniClusterSpec)
		wish func(*Wish)
		want string
	}{
		"nothing special": {want: `
affinity:
  podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
    {labelSelector: {matchLabels: {flux-framework.org/exclusive: "true"}}, namespaceSelector: {}, topologyKey: kubernetes.io/hostname}]}
containers: [{name: broker, image: app, resources: {requests: {cpu: "8"}}}]
restartPolicy: Never
`},
		"a node for each": {wish: func(w *Wish) { w.Apart = true }, want: `
affinity:
  podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
    {labelSelector: {matchLabels: {flux-framework.org/exclusive: "true"}}, namespaceSelector: {}, topologyKey: kubernetes.io/hostname},
    {labelSelector: {matchLabels: {flux-framework.org/minicluster-uid: uid-lmp}}, topologyKey: kubernetes.io/hostname}]}
containers: [{name: broker, image: app, resources: {requests: {cpu: "8"}}}]
restartPolicy: Never
`},
		"a whole node for each": {
			mc: func(s *v1alpha2.MiniClusterSpec) { s.Placement.Exclusive = true }, wish: func(w *Wish) { w.Apart = true }, want: `
affinity:
  podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
    {labelSelector: {matchExpressions: [{key: flux-framework.org/minicluster-uid, operator: Exists}]}, namespaceSelector: {}, topologyKey: kubernetes.io/hostname}]}
containers: [{name: broker, image: app, resources: {requests: {cpu: "8"}}}]
restartPolicy: Never
`},
		"all in one zone, with all that pods can say": {
			mc: func(s *v1alpha2.MiniClusterSpec) {
				s.Placement.TopologyKey, s.Placement.Topology = corev1.LabelTopologyZone, v1alpha2.TopologyRequired
			},
			wish: func(w *Wish) {
				w.Batch = batch
				w.Pod = fixture.Pod("p").Spec(func(s *corev1.PodSpec) {
					image(s)
					s.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("2")
					s.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}}}
					s.NodeSelector = map[string]string{"pool": "hpc"}
					s.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
					s.Volumes = []corev1.Volume{
						{Name: "home", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
						{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
					}
					s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
						NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}}},
					}}}
				}).Obj()
			}, want: `
affinity:
  nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [
    {key: disk, operator: Exists}, {key: batch, operator: In, values: [flux]}, {key: gen, operator: NotIn, values: ["1", "2"]}, {key: old, operator: DoesNotExist}]}]}}
  podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
    {labelSelector: {matchLabels: {flux-framework.org/minicluster-uid: uid-lmp}}, topologyKey: topology.kubernetes.io/zone}]}
  podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
    {labelSelector: {matchLabels: {flux-framework.org/exclusive: "true"}}, namespaceSelector: {}, topologyKey: kubernetes.io/hostname}]}
containers: [{name: broker, image: app, resources: {requests: {cpu: "8", memory: 1Gi, nvidia.com/gpu: "2"}, limits: {nvidia.com/gpu: "2"}}}]
nodeSelector: {pool: hpc}
restartPolicy: Never
tolerations: [{key: gpu, operator: Exists}]
volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`},
	} {
		t.Run(name, func(t *testing.T) {
			mc, w := miniCluster(), wish(v1alpha2.ProvideByBuffer)
			if tc.mc != nil {
				tc.mc(&mc.Spec)
			}
			if tc.wish != nil {
				tc.wish(w)
			}
			made := w.template(mc, fixture.Noon)
			var want corev1.PodSpec
			if err := yaml.UnmarshalStrict([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, made.Template.Spec, cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })); diff != "" {
				t.Errorf("the pods are others (-want +got):\n%s", diff)
			}
			if made.Name != "lmp-scale-up" || made.Namespace != "default" || !metav1.IsControlledBy(made, mc) || made.Template.Labels[v1alpha2.UIDLabel] != "uid-lmp" {
				t.Errorf("it is %+v", made.ObjectMeta)
			}
		})
	}
}

// What the API server gets.
func TestRequests(t *testing.T) {
	record := &Record{Attempt: 2, Size: 4, Asked: fixture.Noon}
	for name, tc := range map[string]struct {
		wish *Wish
		want string
	}{
		"a ProvisioningRequest for all or nothing": {wish(v1alpha2.ProvideByRequest), `
apiVersion: autoscaling.x-k8s.io/v1
kind: ProvisioningRequest
spec: {podSets: [{count: 4, podTemplateRef: {name: lmp-scale-up}}], provisioningClassName: best-effort-atomic-scale-up.autoscaling.x-k8s.io, parameters: {ValidUntilSeconds: "600"}}
`},
		"of another class": {wish(v1alpha2.ProvideByRequest, func(w *Wish) {
			w.Class, w.Parameters = "queued-provisioning.gke.io", map[string]string{"maxRunDurationSeconds": "60"}
		}), `
apiVersion: autoscaling.x-k8s.io/v1
kind: ProvisioningRequest
spec: {podSets: [{count: 4, podTemplateRef: {name: lmp-scale-up}}], provisioningClassName: queued-provisioning.gke.io, parameters: {maxRunDurationSeconds: "60"}}
`},
		"a CapacityBuffer": {wish(v1alpha2.ProvideByBuffer, func(w *Wish) { w.Version = "v1beta1" }), `
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
spec: {podTemplateRef: {name: lmp-scale-up}, replicas: 4}
`},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := tc.wish.request(miniCluster(), record).Unstructured()
			if err != nil {
				t.Fatal(err)
			}
			if made.GetLabels()[v1alpha2.ScaleUpLabel] != record.ID() || made.GetName() != "lmp-scale-up" || made.GetOwnerReferences()[0].UID != "uid-lmp" {
				t.Errorf("it is %v", made.Object["metadata"])
			}
			delete(made.Object, "metadata")
			got, err := json.Marshal(made.Object)
			if err != nil {
				t.Fatal(err)
			}
			want, err := yaml.YAMLToJSON([]byte(tc.want))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What the autoscaler says.
func TestAsked(t *testing.T) {
	type condition = metav1.Condition
	yes := func(kind, message string) condition {
		return condition{Type: kind, Status: metav1.ConditionTrue, Message: message, ObservedGeneration: 2}
	}
	for name, tc := range map[string]struct {
		provider   v1alpha2.ScaleUpProvider
		conditions []condition
		want       elastic.Verdict
		message    string
	}{
		"nothing yet":            {v1alpha2.ProvideByRequest, nil, elastic.NodesRequested, ""},
		"accepted":               {v1alpha2.ProvideByRequest, []condition{yes("Accepted", "")}, elastic.NodesAccepted, ""},
		"not found yet":          {v1alpha2.ProvideByRequest, []condition{yes("Accepted", ""), {Type: "Provisioned", Status: metav1.ConditionFalse}}, elastic.NodesAccepted, ""},
		"provisioned":            {v1alpha2.ProvideByRequest, []condition{yes("Accepted", ""), yes("Provisioned", "there")}, elastic.NodesProvisioned, "there"},
		"failed":                 {v1alpha2.ProvideByRequest, []condition{yes("Accepted", ""), yes("Failed", "no quota")}, elastic.NodesFailed, "no quota"},
		"expired":                {v1alpha2.ProvideByRequest, []condition{yes("Provisioned", ""), yes("BookingExpired", "too late")}, elastic.NodesExpired, "too late"},
		"revoked":                {v1alpha2.ProvideByRequest, []condition{yes("Provisioned", ""), yes("CapacityRevoked", "gone")}, elastic.NodesRevoked, "gone"},
		"a buffer that is known": {v1alpha2.ProvideByBuffer, []condition{yes("ReadyForProvisioning", "")}, elastic.NodesAccepted, ""},
		"one that is provided":   {v1alpha2.ProvideByBuffer, []condition{yes("ReadyForProvisioning", ""), yes("Provisioning", "all fit")}, elastic.NodesProvisioned, "all fit"},
		"one that was provided before it had more replicas": {
			v1alpha2.ProvideByBuffer, []condition{{Type: "Provisioning", Status: metav1.ConditionTrue, ObservedGeneration: 1}}, elastic.NodesRequested, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, mc := wish(tc.provider), miniCluster()
			o := &Objects{Template: w.template(mc, fixture.Noon)}
			if got := o.Asked(); got.Verdict != elastic.NodesRequested || got.Attempt != 1 || got.Size != 4 || !got.At.Equal(fixture.Noon) {
				t.Errorf("after the first write it is %+v", got)
			}
			r := w.request(mc, RecordOf(o.Template))
			r.Generation, r.Status.Conditions = 2, tc.conditions
			o.Requests = []*Request{r}
			if got := o.Asked(); got.Verdict != tc.want || got.Message != tc.message {
				t.Errorf("got %s %q, want %s %q", got.Verdict, got.Message, tc.want, tc.message)
			}
			r.Labels[v1alpha2.ScaleUpLabel] = "an earlier one"
			if got := o.Asked(); got.Verdict != elastic.NodesRequested {
				t.Errorf("of an earlier attempt it has %s", got.Verdict)
			}
		})
	}
	for _, text := range []string{"", "{}", "nonsense", `{"attempt": 0}`, `{"attempt": 1, "size": 1, "used": true}`} {
		template := &corev1.PodTemplate{}
		template.Annotations = map[string]string{v1alpha2.ScaleUpAnnotation: text}
		if got := (&Objects{Template: template}).Asked(); got != nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func TestConsumption(t *testing.T) {
	q := &v1alpha2.MiniClusterQueue{}
	if got := Consumption("lmp", q); got != nil {
		t.Errorf("a queue that does not ask: %v", got)
	}
	q.Spec.ScaleUp = &v1alpha2.ScaleUp{Provider: v1alpha2.ProvideByBuffer}
	if got := Consumption("lmp", q); got != nil {
		t.Errorf("a buffer is not consumed: %v", got)
	}
	q.Spec.ScaleUp.Provider = v1alpha2.ProvideByRequest
	want := map[string]string{
		"autoscaling.x-k8s.io/consume-provisioning-request": "lmp-scale-up",
		"autoscaling.x-k8s.io/provisioning-class-name":      v1alpha2.DefaultProvisioningClass,
	}
	if diff := cmp.Diff(want, Consumption("lmp", q)); diff != "" || q.Spec.ScaleUp.Class != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Karpenter's NodePools say which nodes could come.
func TestNodePools(t *testing.T) {
	var pools []*unstructured.Unstructured
	for _, text := range []string{`
metadata: {name: spot}
spec:
  template:
    metadata: {labels: {team: hpc}}
    spec:
      taints: [{key: spot, effect: NoSchedule}]
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [c7i.2xlarge]}
      - {key: topology.kubernetes.io/zone, operator: In, values: [a, b]}
      - {key: karpenter.k8s.aws/instance-cpu, operator: Gte, values: ["8"]}
  limits: {cpu: 100, nodes: 12}
status: {resources: {cpu: "36", memory: 1Gi}}
`, `
metadata: {name: large}
spec: {weight: 10, template: {spec: {}}, limits: {nodes: 0}}
`, `
metadata: {name: fixed}
spec: {replicas: 3, template: {spec: {}}}
`, `
metadata: {name: wrong}
spec: 7
`} {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		pools = append(pools, &unstructured.Unstructured{Object: object})
	}
	want := []state.Shape{
		{Name: "large", Labels: map[string]string{"karpenter.sh/nodepool": "large"}, Left: fluxion.Resources{"pods": 0}},
		{
			Name: "spot", Labels: map[string]string{"karpenter.sh/nodepool": "spot", "team": "hpc", "node.kubernetes.io/instance-type": "c7i.2xlarge"},
			Taints: []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}}, Most: 12, Left: fluxion.Resources{"cpu": 64000},
			Open: []corev1.NodeSelectorRequirement{
				{Key: "node.kubernetes.io/instance-type", Operator: corev1.NodeSelectorOpIn, Values: []string{"c7i.2xlarge"}},
				{Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"}},
				{Key: "karpenter.k8s.aws/instance-cpu", Operator: corev1.NodeSelectorOpExists},
			},
		},
	}
	if diff := cmp.Diff(want, Shapes(pools)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A buffer gets more replicas only if its autoscaler says for some time that all is there, and something is missing.
func TestReplicas(t *testing.T) {
	w := wish(v1alpha2.ProvideByBuffer, func(w *Wish) { w.Nodes = 3 })
	r := w.request(miniCluster(), &Record{Attempt: 1, Size: 4})
	r.Generation = 1
	at := func(after time.Duration) int32 {
		replicas, _ := w.replicas(r, fixture.Noon.Add(after))
		return *replicas
	}
	if got := at(time.Hour); got != 4 {
		t.Errorf("without an answer there are %d", got)
	}
	r.Status.Conditions = []metav1.Condition{{Type: "Provisioning", Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(fixture.Noon), ObservedGeneration: 1}}
	var got []int32
	for _, after := range []time.Duration{0, doubt - 1, doubt, 2 * doubt, 9 * doubt} {
		got = append(got, at(after))
	}
	if want := []int32{4, 4, 7, 10, 12}; !slices.Equal(got, want) {
		t.Errorf("there are %v, want %v", got, want)
	}
	if _, next := w.replicas(r, fixture.Noon.Add(doubt)); !next.Equal(fixture.Noon.Add(2 * doubt)) {
		t.Errorf("it looks again at %s", next)
	}
	w.Coming = 3
	if got := at(9 * doubt); got != 4 {
		t.Errorf("while the missing nodes are coming there are %d", got)
	}
	w.Coming = 2
	r.Generation = 2
	if got := at(9 * doubt); got != 4 {
		t.Errorf("after an answer about fewer there are %d", got)
	}
	if replicas, _ := w.replicas(wish(v1alpha2.ProvideByRequest).request(miniCluster(), &Record{}), fixture.Noon); replicas != nil {
		t.Errorf("a ProvisioningRequest has %d", *replicas)
	}
}
