// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// KarpenterName is the name of Karpenter's program and process.
const KarpenterName = "karpenter"

// KarpenterConfig describes Karpenter beside a cluster: it makes simulated nodes for pods and CapacityBuffers.
type KarpenterConfig struct {
	// Types are the kinds of nodes that it can make; two kinds by default (UsualTypes).
	Types []InstanceType
	// Pools are its NodePools; nil: one of each kind.
	Pools []NodePool
	// Boot is how long a node takes to come, in whole seconds.
	Boot time.Duration
}

// InstanceType is a kind of nodes.
type InstanceType struct {
	Name        string
	CPU, Memory string
	// Price is that of an hour. Karpenter prefers the cheapest that suits.
	Price float64
}

// NodePool lets Karpenter make nodes of some kinds.
type NodePool struct {
	Name string
	// Types are the names of the kinds.
	Types []string
	// Labels and Taints are those of the nodes, and StartupTaints are on them until somebody removes them.
	Labels                map[string]string
	Taints, StartupTaints []corev1.Taint
	// Limits bound what the nodes have together. Without limits they are empty.
	Limits map[string]string
	// Idle is after how many seconds an empty node is removed. Default 5.
	Idle int
}

// UsualTypes are nodes of 8 and of 48 CPUs. Karpenter leaves 100m of them to the system.
var UsualTypes = []InstanceType{{"standard-8", "8", "32Gi", 0.4}, {"standard-48", "48", "192Gi", 2.4}}

// Types of objects that Karpenter reads.
var (
	NodePools       = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
	kwokNodeClasses = schema.GroupVersionResource{Group: "karpenter.kwok.sh", Version: "v1alpha1", Resource: "kwoknodeclasses"}
)

// zone is that of all nodes that Karpenter makes.
const zone = "zone-a"

func (config *KarpenterConfig) setDefaults() {
	if len(config.Types) == 0 {
		config.Types = UsualTypes
	}
	if config.Pools == nil {
		for _, kind := range config.Types {
			config.Pools = append(config.Pools, NodePool{Name: kind.Name, Types: []string{kind.Name}})
		}
	}
}

// StartKarpenter starts Karpenter beside the cluster, with its API from Go's module cache, and returns when it is ready.
// It first ends a Karpenter that runs.
func (c *Cluster) StartKarpenter(ctx context.Context, binaries Binaries, config KarpenterConfig) error {
	if old, err := c.process(KarpenterName); err == nil {
		if err := old.stop(ctx); err != nil {
			return err
		}
	}
	config.setDefaults()
	if err := c.installKarpenter(ctx, binaries[KarpenterName]); err != nil {
		return fmt.Errorf("installing Karpenter: %w", err)
	}
	types, err := instanceTypes(config.Types)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.config("instance-types.json"), types, 0o644); err != nil {
		return err
	}
	if err := c.makeNodeClass(ctx, config.Boot); err != nil {
		return fmt.Errorf("making a node class: %w", err)
	}
	for _, pool := range config.Pools {
		if err := c.MakeNodePool(ctx, pool); err != nil {
			return err
		}
	}
	// Started by env, the process has its variables also when it is started again.
	env, err := exec.LookPath("env")
	if err != nil {
		return err
	}
	args := []string{
		"KUBECONFIG=" + c.Kubeconfig(), "SYSTEM_NAMESPACE=kube-system", binaries[KarpenterName],
		"--disable-leader-election=true", "--feature-gates=CapacityBuffer=true", "--karpenter-service=" + KarpenterName,
		"--metrics-port=" + strconv.Itoa(c.Port+portKarpenterMetrics), "--health-probe-port=" + strconv.Itoa(c.Port+portKarpenterHealth),
		"--instance-types-file-path=" + c.config("instance-types.json"), "--kube-client-qps=" + clientQPS, "--kube-client-burst=" + clientBurst,
	}
	started, err := launch{name: KarpenterName, path: env, args: args, again: true}.start(c.Dir)
	if err != nil {
		return err
	}
	return c.await(ctx, "Karpenter", func() (bool, error) { return isReady(ctx, c.Address(portKarpenterHealth)), nil }, started)
}

// isReady reports whether a program says at an address that it is ready.
func isReady(ctx context.Context, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// installKarpenter creates what is missing of Karpenter's API.
func (c *Cluster) installKarpenter(ctx context.Context, program string) error {
	sources, err := Sources(ctx, program)
	if err != nil {
		return err
	}
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	definitions, err := apiextensionsclient.NewForConfig(config)
	if err != nil {
		return err
	}
	var names []string
	for _, dir := range []string{filepath.Join("pkg", "apis", "crds"), filepath.Join("kwok", "apis", "crds")} {
		files, err := filepath.Glob(filepath.Join(sources, dir, "*.yaml"))
		if err != nil || len(files) == 0 {
			return errors.Join(err, fmt.Errorf("there are no definitions in %s", filepath.Join(sources, dir)))
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			definition := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(data, definition); err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			names = append(names, definition.Name)
			_, err = definitions.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, definition, metav1.CreateOptions{})
			if ignoreAlreadyExists(err) != nil {
				return err
			}
		}
	}
	return c.await(ctx, "Karpenter's API", func() (bool, error) { return established(ctx, definitions, names) })
}

// instanceTypes is the file with the kinds of nodes.
func instanceTypes(types []InstanceType) ([]byte, error) {
	type requirement struct {
		Key      string   `json:"key"`
		Operator string   `json:"operator"`
		Values   []string `json:"values"`
	}
	type offering struct {
		Price        float64
		Available    bool
		Requirements []requirement
	}
	type instanceType struct {
		Name             string            `json:"name"`
		Offerings        []offering        `json:"offerings"`
		Architecture     string            `json:"architecture"`
		OperatingSystems []string          `json:"operatingSystems"`
		Resources        map[string]string `json:"resources"`
	}
	var out []instanceType
	for _, of := range types {
		out = append(out, instanceType{
			Name: of.Name, Architecture: runtime.GOARCH, OperatingSystems: []string{"linux"},
			Resources: map[string]string{"cpu": of.CPU, "memory": of.Memory, "ephemeral-storage": "100Gi", "pods": "110"},
			Offerings: []offering{{Price: of.Price, Available: true, Requirements: []requirement{
				{"karpenter.sh/capacity-type", "In", []string{"on-demand"}}, {corev1.LabelTopologyZone, "In", []string{zone}},
			}}},
		})
	}
	return json.Marshal(out)
}

func (c *Cluster) makeNodeClass(ctx context.Context, boot time.Duration) error {
	client, err := c.dynamic()
	if err != nil {
		return err
	}
	object := map[string]any{"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": map[string]any{"name": "default"}, "spec": map[string]any{}}
	if boot > 0 {
		object["spec"] = map[string]any{"nodeRegistrationDelay": strconv.Itoa(int(boot/time.Second)) + "s"}
	}
	_, err = client.Resource(kwokNodeClasses).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	return ignoreAlreadyExists(err)
}

// MakeNodePool lets Karpenter make nodes of a pool.
func (c *Cluster) MakeNodePool(ctx context.Context, pool NodePool) error {
	client, err := c.dynamic()
	if err != nil {
		return err
	}
	labels := map[string]string{simulatedLabel: simulatedValue}
	for name, value := range pool.Labels {
		labels[name] = value
	}
	idle := pool.Idle
	if idle == 0 {
		idle = 5
	}
	content, err := json.Marshal(map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": pool.Name},
		"spec": map[string]any{
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{
					"requirements": []map[string]any{
						{"key": corev1.LabelInstanceTypeStable, "operator": "In", "values": pool.Types},
						{"key": corev1.LabelArchStable, "operator": "In", "values": []string{runtime.GOARCH}},
						{"key": corev1.LabelOSStable, "operator": "In", "values": []string{"linux"}},
						{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []string{"on-demand"}},
					},
					"taints": pool.Taints, "startupTaints": pool.StartupTaints,
					"nodeClassRef": map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
				},
			},
			"limits": pool.Limits,
			"disruption": map[string]any{
				"consolidationPolicy": "WhenEmpty", "consolidateAfter": strconv.Itoa(idle) + "s", "budgets": []map[string]any{{"nodes": "100%"}},
			},
		},
	})
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(content); err != nil {
		return err
	}
	_, err = client.Resource(NodePools).Create(ctx, object, metav1.CreateOptions{})
	if err = ignoreAlreadyExists(err); err != nil {
		return fmt.Errorf("making NodePool %q: %w", pool.Name, err)
	}
	return nil
}

func (c *Cluster) dynamic() (dynamic.Interface, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	return dynamic.NewForConfig(config)
}
