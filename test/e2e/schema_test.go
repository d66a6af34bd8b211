// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// kind is one of the API: its candidates are what a manifest makes of a plain one.
type kind struct {
	name, plural, namespace string
	// spec is that of a plain one.
	spec map[string]any
	// refused are manifests that a rule of the API refuses, accepted some that are as far
	// as the rules go.
	refused  []refusal
	accepted []string
	// bounds is how many bounds of fields there are at least, rules how many rules.
	bounds, rules int
}

// refusal is a manifest and the sentence that the user reads.
type refusal struct{ manifest, message string }

var kinds = []kind{
	{
		name: "MiniCluster", plural: "miniclusters", namespace: "default",
		spec:    map[string]any{"containers": []any{map[string]any{"image": "app", "command": "run"}}},
		refused: refused, accepted: accepted, bounds: 100, rules: 20,
	},
	{
		name: "MiniClusterQueue", plural: "miniclusterqueues", spec: map[string]any{},
		refused: refusedQueues, accepted: acceptedQueues, bounds: 15, rules: 7,
	},
	{
		name: "MiniClusterReservation", plural: "miniclusterreservations",
		spec:    map[string]any{"from": "2026-11-21T12:00:00Z", "until": "2026-11-21T14:00:00Z", "nodeSelector": map[string]any{}},
		refused: refusedReservations, accepted: acceptedReservations, bounds: 10, rules: 3,
	},
}

var refused = []refusal{
	{"spec: {notBefore: '1969-12-31T23:59:59Z'}", "notBefore must be a time after 1970"},
	{"metadata: {name: 1st}", "metadata.name must start with a letter"},
	{"metadata: {name: a.b}", "metadata.name must start with a letter"},
	{"metadata: {name: " + strings.Repeat("x", 52) + "}", "metadata.name is too long: it and the digits of the largest size may have 52 characters in all"},
	{"metadata: {name: " + strings.Repeat("x", 50) + "}\nspec: {size: 4, maxSize: 100}", "metadata.name is too long"},
	{"metadata: {name: " + strings.Repeat("x", 47) + "}\nspec: {services: [{name: db}]}", "metadata.name is too long: with services it may have 46 characters"},

	{"spec: {size: 4, maxSize: 3}", "maxSize must be at least size"},
	{"spec: {pod: {schedulerName: flux-elastic}}", "schedulerName must not be flux-elastic"},
	{"spec: {size: 4, minSize: 5}", "minSize must be at most size"},
	{"spec: {cleanup: true, ttlSecondsAfterFinished: 60}", "cleanup and ttlSecondsAfterFinished exclude each other"},
	{"spec: {size: 4, elastic: {sizes: {operator: '*', operand: 2}}}", "elastic.sizes needs minSize"},
	{"spec: {minSize: 1, elastic: {sizes: {operator: '^', operand: 1}}}", "operand must be at least 2 for the operators * and ^"},
	{"spec: {jobLabels: {a: " + strings.Repeat("x", 64) + "}}", "a value of jobLabels may have 63 characters"},
	{"spec: {pod: {labels: {a: " + strings.Repeat("x", 64) + "}}}", "a value of labels may have 63 characters"},
	{"spec: {pod: {labels: {job-index: '7'}}}", "labels of pods must not be job-index, job-name, hpa-selector or controller-uid, or begin with flux-framework.org/"},
	{"spec: {pod: {labels: {kueue.x-k8s.io/queue-name: team}}}", "labels of pods must not begin with kueue.x-k8s.io/: labels of Kueue belong to the metadata of the MiniCluster"},
	{"spec: {jobLabels: {job-name: mine}}", "jobLabels must not be job-name or controller-uid, or begin with flux-framework.org/"},
	{"spec: {jobLabels: {kueue.x-k8s.io/queue-name: team}}", "jobLabels must not begin with kueue.x-k8s.io/: labels of Kueue belong to the metadata of the MiniCluster"},
	{"spec: {pod: {nodeSelector: {a: " + strings.Repeat("x", 64) + "}}}", "a value of nodeSelector may have 63 characters"},
	{"spec: {pod: {nodeAffinity: {a: [b" + strings.Repeat(", b", 256) + "]}}}", "a label of nodeAffinity may have 256 values"},
	{"spec: {pod: {annotations: {a: " + strings.Repeat("x", 262145) + "}}}", "a value of annotations may have 262144 characters"},
	{"spec: {pod: {annotations: {flux-framework.org/nodes: a}}}", "annotations of pods must not begin with flux-framework.org/: the manager sets these"},
	{"spec: {flux: {gpuResources: [a.example/" + strings.Repeat("x", 308) + "]}}", "a name of gpuResources may have 317 characters"},
	{"spec: {pod: {resources: {" + tooManyResources() + "}}}", "a container may have 64 resources"},
	{"spec: {containers: [{resources: {limits: {" + tooManyResources() + "}}}]}", "a container may have 64 resources"},
	{"spec: {containers: [{resources: {requests: {" + tooManyResources() + "}}}]}", "a container may have 64 resources"},
	{"spec: {flux: {container: {resources: {limits: {" + tooManyResources() + "}}}}}", "a container may have 64 resources"},
	{"spec: {containers: [{securityContext: {capabilities: {add: [A" + strings.Repeat(", A", 64) + "]}}}]}", "a container may add 64 capabilities, and drop 64"},
	{"spec: {services: [{name: db, securityContext: {capabilities: {drop: [A" + strings.Repeat(", A", 64) + "]}}}]}", "a container may add 64 capabilities, and drop 64"},
	{"spec: {flux: {container: {securityContext: {capabilities: {add: [A" + strings.Repeat(", A", 64) + "]}}}}}", "a container may add 64 capabilities, and drop 64"},
	{"spec: {pod: {securityContext: {supplementalGroups: [1" + strings.Repeat(", 1", 256) + "]}}}", "a pod may have 256 supplemental groups, and 64 sysctls"},
	{"spec: {pod: {securityContext: {sysctls: [{name: a, value: b}" + strings.Repeat(", {name: a, value: b}", 64) + "]}}}", "a pod may have 256 supplemental groups, and 64 sysctls"},
	{"spec: {pod: {resources: {cpu: '1E2147483647'}}}", "spec.pod.resources.cpu: Invalid value"},
	{"spec: {containers: [{resources: {limits: {cpu: '9999999999999999999E99999999999999'}}}]}", "resources.limits.cpu: Invalid value"},
	{"spec: {containers: [{resources: {requests: {cpu: '1e-100'}}}]}", "resources.requests.cpu: Invalid value"},
	{"spec: {flux: {container: {resources: {limits: {memory: '1" + strings.Repeat("0", 30) + "'}}}}}", "resources.limits.memory: Invalid value"},
	{"spec: {containers: [{environment: {A: " + strings.Repeat("x", 32769) + "}}]}", "a value of environment may have 32768 characters"},
	{"spec: {flux: {environment: {A: " + strings.Repeat("x", 32769) + "}}}", "a value of environment may have 32768 characters"},
	{"spec: {elastic: {quorumTimeout: 999ms}}", "quorumTimeout must be at least 1s"},
	{"spec: {elastic: {startTimeout: 0m0s}}", "startTimeout must be at least 1s"},
	{"spec: {elastic: {quorumTimeout: 2m, startTimeout: 1m}}", "quorumTimeout must not be longer than startTimeout"},
	{"spec: {elastic: {quorumTimeout: 1h}}", "quorumTimeout must not be longer than startTimeout (default 10m)"},
	{"spec: {elastic: {recreate: {backoffBase: 1ms}}}", "backoffBase must be at least 1s"},
	{"spec: {elastic: {recreate: {backoffMax: 0s}}}", "backoffMax must be at least 1s"},
	{"spec: {elastic: {recreate: {backoffBase: 2m, backoffMax: 1m}}}", "backoffBase must not be longer than backoffMax"},
	{"spec: {elastic: {tasks: {multipleOf: 4}}}", "multipleOf belongs to constraint: MultipleOf"},
	{"spec: {elastic: {tasks: {constraint: MultipleOf}}}", "multipleOf belongs to constraint: MultipleOf"},
	{"spec: {elastic: {waitForSize: -5s}}", "should match"},
	{"spec: {elastic: {expectedRuntime: 0m}}", "expectedRuntime must be longer than 0s"},
	{"spec: {elastic: {waitForSize: soon}}", "should match"},
	{"spec: {elastic: {resize: Kill}}", `supported values: "None", "Flux", "Restart"`},
	{"spec: {elastic: {checkpoint: {signal: SIGKILL}}}", "Unsupported value"},
	{"spec: {elastic: {checkpoint: {signal: SIGUSR1, command: save}}}", "signal and command exclude each other: both ask for a checkpoint"},
	{"spec: {elastic: {checkpoint: {interval: 5m}}}", "interval needs signal or command: without them nobody can ask for a checkpoint"},
	{"spec: {elastic: {checkpoint: {signal: SIGUSR1, interval: 59s}}}", "interval must be at least 1m"},
	{"spec: {elastic: {checkpoint: {command: save, wait: 999ms}}}", "wait must be at least 1s"},
	{"spec: {elastic: {onDeadline: Requeue}}", "onDeadline: Requeue needs checkpoint"},
	{"spec: {elastic: {onDeadline: Wait}}", `supported values: "Fail", "Requeue"`},

	{"spec: {placement: {topology: Required}}", "topology needs topologyKey"},
	{"spec: {placement: {topology: Preferred, policy: Spread}}", "topology needs topologyKey"},
	{"spec: {placement: {topologyKey: 'a rack'}}", "should match"},
	{"spec: {placement: {policy: Random}}", `supported values: "Pack", "Spread"`},
	{"spec: {placement: {exclusive: user}}", "must be of type boolean"},
	{"spec: {pod: {hostNetwork: true}}", "pod.hostNetwork needs placement.exclusive"},
	{"spec: {pod: {hostNetwork: true}, placement: {exclusive: false}}", "pod.hostNetwork needs placement.exclusive"},
	{"spec: {queue: Night}", "should match"},

	{"spec: {containers: []}", "should have at least 1 items"},
	{"spec: {containers: [{image: a}, {image: b, name: b}]}", "exactly one container must have runFlux: true"},
	{"spec: {containers: [{image: a, runFlux: true}, {image: b, runFlux: true}]}", "exactly one container must have runFlux: true"},
	{"spec: {containers: [{image: a, runFlux: true}, {image: b}]}", "every container without runFlux: true needs a name"},
	{"spec: {containers: [{image: a, runFlux: true}, {image: b, name: x}, {image: c, name: x}]}", "two containers cannot have the same name"},
	{"spec: {containers: [{image: a, launcher: true, batch: true}]}", "launcher and batch exclude each other"},
	{"spec: {containers: [{image: a, batchRaw: true}]}", "batchRaw needs batch: true"},
	{"spec: {containers: [{image: a, command: b, commands: {script: c}}]}", "command and commands.script exclude each other"},
	{"spec: {containers: [{image: a, volumes: {data: {claimName: data}}}]}", "a volume with claimName or hostPath needs path"},
	{"spec: {containers: [{image: a, resources: {claims: [{name: gpu}]}}]}", "resource claims (DRA) cannot be used yet"},
	{"spec: {services: [{image: a}]}", "every service needs a name"},
	{"spec: {services: [{image: a, name: b, commands: {pre: c}}]}", "services run beside Flux"},
	{"spec: {flux: {environment: {a-b: c}}}", "names of environment variables hold letters, digits and _"},
	{"spec: {flux: {bursting: {hostlist: 'a[0-3]', clusters: [{name: b, size: 1}]}}}", "bursting.hostlist and bursting.clusters exclude each other"},
	{"spec: {flux: {bursting: {leadBroker: {address: a, name: b, size: 1}}}}", "bursting.leadBroker needs curveCert or curveCertSecretRef"},
	{"spec: {flux: {curveCertSecretRef: {name: s, key: k}, bursting: {leadBroker: {address: a, name: b, size: 0}}}}", "bursting.leadBroker needs the name and the size"},
	{"spec: {flux: {curveCert: c, curveCertSecretRef: {name: s, key: k}}}", "curveCert and curveCertSecretRef exclude each other"},
	{"spec: {flux: {curveCertSecretRef: {name: '', key: k}}}", "curveCertSecretRef.name"},
	{"spec: {flux: {curveCert: c, bursting: {leadBroker: {address: a, name: b, size: 0}}}}", "bursting.leadBroker needs the name and the size"},
	{"spec: {flux: {curveCert: c, bursting: {leadBroker: {address: a, name: '', size: 1}}}}", "bursting.leadBroker needs the name and the size"},
	{"spec: {flux: {resources: Node}}", `supported values: "Pod", "Local"`},
	{"spec: {network: {port: 65536}}", "should be less than or equal to 65535"},
	{"spec: {network: {interface: 'a b'}}", "should match"},
	{"spec: {network: {clusterDomain: Cluster.}}", "should match"},
}

// tooManyResources are amounts of 65 resources.
func tooManyResources() string {
	amounts := make([]string, 65)
	for i := range amounts {
		amounts[i] = fmt.Sprintf("resource-%d: 1", i)
	}
	return strings.Join(amounts, ", ")
}

var accepted = []string{
	"spec: {queue: night.science, placement: {}}",
	"spec: {placement: {policy: Spread, topologyKey: cloud.provider.com/topology-rack, topology: Required, exclusive: true}}",
	"spec: {placement: {exclusive: true}, pod: {hostNetwork: true}}", "spec: {pod: {hostNetwork: false}}",
	"metadata: {name: " + strings.Repeat("x", 51) + "}",
	"metadata: {name: a-0-b}",
	"spec: {size: 4, minSize: 4, maxSize: 4}",
	"spec: {cleanup: true, ttlSecondsAfterFinished: 0}",
	"spec: {cleanup: false, ttlSecondsAfterFinished: 60}",
	"spec: {size: 4, minSize: 0, maxSize: 0}",
	"spec: {size: 4, maxSize: 8, elastic: {grow: true}}",
	"spec: {size: 8, minSize: 1, elastic: {sizes: {operator: '+', operand: 1}}}",
	"spec: {elastic: {quorumTimeout: 1m, startTimeout: 1m, waitForSize: 0s, recreate: {limit: 0, backoffBase: 1s, backoffMax: 1s}}}",
	"spec: {elastic: {quorumTimeout: 1h2m3.004s, startTimeout: 2h}}",
	"spec: {elastic: {tasks: {constraint: MultipleOf, multipleOf: 4}}}",
	"spec: {elastic: {resize: Restart, checkpoint: {signal: SIGUSR1, interval: 1m, wait: 1s, path: /data, restartCommand: again}}}",
	"spec: {elastic: {resize: None, checkpoint: {command: save}}}",
	"spec: {deadlineSeconds: 60, elastic: {onDeadline: Requeue, requeueLimit: 0, checkpoint: {command: save}}}",
	"spec: {elastic: {onDeadline: Fail}}",
	"spec: {tasks: 0}",
	// what the Flux Operator's clients in Python and Go send for fields that nobody has set
	"spec: {size: 1, minSize: 0, maxSize: 0, tasks: 1, backoffLimit: 0, deadlineSeconds: 0, cleanup: false, logging: {strict: true}}",
	"spec: {flux: {bursting: {leadBroker: {address: '', name: '', size: 0, port: 8050}}}}",
	"spec: {containers: [{image: a, runFlux: true, name: x}, {image: b, name: x2}]}",
	"spec: {containers: [{image: a, volumes: {data: {claimName: data, path: /data}}}]}",
}

var refusedQueues = []refusal{
	{"spec: {weight: 0}", "spec.weight in body should be greater than or equal to 1"},
	{"spec: {capacity: {cpu: -1}}", "capacity must not be negative; leave out a resource that has no limit"},
	{"spec: {capacity: {cpu: 8, memory: -1Gi}}", "capacity must not be negative"},
	{"spec: {capacity: {cpu: lots}}", "should match"},
	{"spec: {capacity: {cpu: '1E2147483647'}}", "should match"},
	{"spec: {capacity: {cpus: 8}}", "capacity is by resource of nodes: cpu, memory, ephemeral-storage, pods, hugepages-*, or one with a domain, such as nvidia.com/gpu"},
	{"spec: {guarantee: {memory: -1m}}", "guarantee must not be negative"},
	{"spec: {guarantee: {nodes: 4}}", "guarantee is by resource of nodes"},
	{"spec: {capacity: {cpu: 8}, guarantee: {cpu: 8001m}}", "guarantee must not be more than capacity"},
	{"spec: {capacity: {memory: 1G}, guarantee: {cpu: 1, memory: 1Gi}}", "guarantee must not be more than capacity"},
	{"spec: {patience: soon}", "should match"},
	{"spec: {patience: -1m}", "should match"},
	{"spec: {patience: 1d}", "should match"},
	{"spec: {minRuntime: -1m}", "should match"},
	{"spec: {grace: -1s}", "should match"},
	{"spec: {patience: 5}", "must be of type string"},
	{"spec: {defaultDeadline: 0s}", "defaultDeadline must be longer than 0s; leave it out for none"},
	{"spec: {maxGrace: 0s}", "maxGrace must be longer than 0s"},
	{"spec: {maxDeadline: 0h0m}", "maxDeadline must be longer than 0s; leave it out for none"},
	{"spec: {maxDeadline: -1h}", "should match"},
	{"spec: {maxDeadline: 1.5s}", "should match"},
	{"spec: {defaultDeadline: 500ms}", "should match"},
	{"spec: {defaultDeadline: 3600}", "must be of type string"},
	{"spec: {defaultDeadline: 61m, maxDeadline: 1h}", "defaultDeadline must not be longer than maxDeadline"},
	{"spec: {ordering: Random}", `supported values: "Priority", "FIFO", "FairShare"`},
	{"spec: {users: {halfLife: 0h0m}}", "halfLife must be longer than 0s"},
	{"spec: {users: {halfLife: 7d}}", "should match"},
	{"spec: {users: {maxRunning: 0}}", "should be greater than or equal to 1"},
	{"spec: {users: {label: a b}}", "should match"},
	{"metadata: {name: kueue}\nspec: {ordering: FairShare}", "the queue kueue has no users and no ordering FairShare or Slowdown"},
	{"metadata: {name: kueue}\nspec: {ordering: Slowdown}", "the queue kueue has no users and no ordering FairShare or Slowdown"},
	{"metadata: {name: kueue}\nspec: {users: {maxNodes: 4}}", "the queue kueue has no users and no ordering FairShare"},
	{"spec: {backfill: Easy}", `supported values: "None", "EASY", "Conservative"`},
	{"spec: {requeue: First}", `supported values: "Original", "Last"`},
	{"spec: {scaleUp: {provider: Karpenter, maxNodes: 4}}", `supported values: "ProvisioningRequest", "CapacityBuffer"`},
	{"spec: {scaleUp: {maxNodes: 4}}", "spec.scaleUp.provider"},
	{"spec: {scaleUp: {provider: CapacityBuffer}}", "spec.scaleUp.maxNodes"},
	{"spec: {scaleUp: {provider: CapacityBuffer, maxNodes: 0}}", "should be greater than or equal to 1"},
	{"spec: {scaleUp: {provider: CapacityBuffer, maxNodes: 4, class: a.example.com}}", "class and parameters are those of a ProvisioningRequest: leave them out with the provider CapacityBuffer"},
	{"spec: {scaleUp: {provider: CapacityBuffer, maxNodes: 4, parameters: {a: b}}}", "class and parameters are those of a ProvisioningRequest"},
	{"spec: {scaleUp: {provider: ProvisioningRequest, maxNodes: 4, parameters: {a: " + strings.Repeat("x", 256) + "}}}", "names and values of parameters have at most 255 characters"},
	{"spec: {scaleUp: {provider: CapacityBuffer, maxNodes: 4, shapes: [{name: a, labels: {b: " + strings.Repeat("x", 64) + "}}]}}", "a value of labels may have 63 characters"},
	{"spec: {scaleUp: {provider: CapacityBuffer, maxNodes: 4, timeout: 0s}}", "timeout must be longer than 0s"},
	{"spec: {scaleUp: {provider: CapacityBuffer, maxNodes: 4, shapes: [{name: a}, {name: a}]}}", "Duplicate value"},
}

var acceptedQueues = []string{
	"{}",
	"metadata: {name: default}",
	"metadata: {name: night.science}",
	"spec: {weight: 1000000, priority: -5, reclaimable: false, ordering: FIFO, backfill: Conservative, requeue: Last, suspended: true}",
	"spec: {capacity: {}, guarantee: {}}",
	"spec: {capacity: {cpu: 0, pods: 0}, guarantee: {cpu: '0'}}",
	"spec: {capacity: {cpu: 8, memory: 1Gi, pods: 1e3, nvidia.com/gpu: 4, hugepages-2Mi: 1Gi}, guarantee: {cpu: 8000m, memory: 1024Mi, ephemeral-storage: 1}}",
	"spec: {patience: 0s}",
	"spec: {ordering: FairShare, users: {label: example.com/user, halfLife: 24h, maxRunning: 4, maxNodes: 64}}",
	"spec: {users: {}}",
	"metadata: {name: kueue}\nspec: {ordering: FIFO}",
	"spec: {patience: 1h30m0.5s}",
	"spec: {defaultDeadline: 60m, maxDeadline: 1h0m0s}",
	"spec: {defaultDeadline: 1s}",
	"spec: {maxDeadline: 999999h999999m999999s}",
	"spec: {scaleUp: {provider: CapacityBuffer, maxNodes: 1}}",
	"spec: {scaleUp: {provider: ProvisioningRequest, class: a.example.com, parameters: {a: b}, maxNodes: 1000000, timeout: 1s, cooldown: 0s}}",
	"spec: {scaleUp: {provider: CapacityBuffer, maxNodes: 4, shapes: [{name: a, labels: {b: c}, taints: [{key: d, effect: NoSchedule}], capacity: {cpu: 8}, maxNodes: 2}]}}",
}

var refusedReservations = []refusal{
	{"spec: {nodeSelector: null}", "one of nodeNames, nodeSelector and count is needed; nodeSelector: {} selects all nodes"},
	{"spec: {nodeNames: [a]}", "nodeNames excludes nodeSelector and count"},
	{"spec: {nodeSelector: null, nodeNames: [a], count: 1}", "nodeNames excludes nodeSelector and count"},
	{"spec: {nodeSelector: null, nodeNames: []}", "should have at least 1 items"},
	{"spec: {nodeSelector: null, nodeNames: [a, a]}", "Duplicate value"},
	{"spec: {until: '2026-11-21T12:00:00Z'}", "until must be after from"},
	{"spec: {until: '2026-11-21T14:00:00+03:00'}", "until must be after from"},
	{"spec: {from: null}", "spec.from"},
	{"spec: {until: tomorrow}", "must be of type date-time"},
	{"spec: {queue: Night}", "should match"},
	{"spec: {count: 0}", "should be greater than or equal to 1"},
}

var acceptedReservations = []string{
	"{}",
	"spec: {queue: night.science, count: 5000}",
	"spec: {nodeSelector: null, count: 1}",
	"spec: {nodeSelector: null, nodeNames: [a, b.c]}",
	"spec: {until: '2026-11-21T12:00:01Z', nodeSelector: {matchLabels: {rack: r1}, matchExpressions: [{key: gpu, operator: DoesNotExist}]}}",
}

// candidate makes one of a manifest that says what differs from a plain one.
func (k *kind) candidate(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	var differs map[string]map[string]any
	if err := yaml.UnmarshalStrict([]byte(manifest), &differs); err != nil {
		t.Fatal(err)
	}
	metadata, spec := map[string]any{"name": "candidate"}, runtime.DeepCopyJSON(k.spec)
	if k.namespace != "" {
		metadata["namespace"] = k.namespace
	}
	maps.Copy(metadata, differs["metadata"])
	maps.Copy(spec, differs["spec"])
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "flux-framework.org/v1alpha2", "kind": k.name, "metadata": metadata, "spec": spec,
	}}
}

// dryRun is the API server's answer to an object. A busy API server that gives none in time is asked again.
func dryRun(t *testing.T, object client.Object) (answer error) {
	t.Helper()
	eventually(t, func() error {
		if answer = env.client.Create(t.Context(), object, client.DryRunAll); apierrors.IsTimeout(answer) {
			return answer
		}
		return nil
	})
	return answer
}

func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		for _, tc := range k.refused {
			if err := dryRun(t, k.candidate(t, tc.manifest)); err == nil || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("%s: %s\n\twas told: %v\n\twant: %s", k.name, tc.manifest, err, tc.message)
			}
		}
		for _, manifest := range k.accepted {
			if err := dryRun(t, k.candidate(t, manifest)); err != nil {
				t.Errorf("%s: %s\n\twas told: %v", k.name, manifest, err)
			}
		}
	}
}

// The defaults of the schema and those that the controller fills in are the same.
func TestDefaultsAgree(t *testing.T) {
	t.Parallel()
	for _, manifest := range []string{
		"{}",
		"spec: {elastic: {recreate: {}, tasks: {}}, flux: {container: {}, scheduler: {}, connectTimeout: 5s}, logging: {}, network: {}, pod: {}, archive: {}}",
		"spec: {size: 4, maxSize: 9, containers: [{}], services: [{name: db}], placement: {}}",
	} {
		own, served := defaulted[v1alpha2.MiniCluster](t, &kinds[0], manifest)
		if diff := cmp.Diff(own.Spec, served.Spec); diff != "" {
			t.Errorf("%s: the controller (-) and the schema (+) differ: %s", manifest, diff)
		}
	}
	for _, manifest := range []string{"{}", "spec: {weight: 2, patience: 0s, reclaimable: false}", "spec: {users: {maxRunning: 1}}"} {
		own, served := defaulted[v1alpha2.MiniClusterQueue](t, &kinds[1], manifest)
		if diff := cmp.Diff(own.Spec, served.Spec); diff != "" {
			t.Errorf("%s: the controller (-) and the schema (+) differ: %s", manifest, diff)
		}
	}
}

// The schema leaves out the queue of a MiniCluster, and the controller too: the label
// of its namespace may say it.
func TestQueueHasNoDefault(t *testing.T) {
	t.Parallel()
	if own, served := defaulted[v1alpha2.MiniCluster](t, &kinds[0], "{}"); own.Spec.Queue != "" || served.Spec.Queue != "" {
		t.Errorf("the queue is %q by the controller and %q by the schema", own.Spec.Queue, served.Spec.Queue)
	}
}

// defaulted is a candidate with the controller's defaults, without those of the schema
// and with them.
func defaulted[T any, P interface {
	*T
	Default()
}](t *testing.T, k *kind, manifest string) (own, served T) {
	t.Helper()
	object := k.candidate(t, manifest)
	decode := func(into *T) {
		t.Helper()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
			t.Fatal(err)
		}
		P(into).Default()
	}
	decode(&own)
	if err := dryRun(t, object); err != nil {
		t.Fatal(err)
	}
	decode(&served)
	return own, served
}

func (k *kind) schema(t *testing.T) (whole, spec *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := env.client.Get(t.Context(), client.ObjectKey{Name: k.plural + ".flux-framework.org"}, &crd); err != nil {
		t.Fatal(err)
	}
	whole = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	return whole, new(whole.Properties["spec"])
}

// unchangeable is the message of a rule about changes: see TestManagedByAnother.
const unchangeable = "managedBy cannot be changed"

// Every rule that is written in the API has a case above.
func TestSchemaRulesAreTested(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		whole, _ := k.schema(t)
		rules := 0
		walk(whole, nil, func(path []string, schema *apiextensionsv1.JSONSchemaProps) {
			for _, rule := range schema.XValidations {
				rules++
				if rule.Message == unchangeable {
					continue
				}
				if !slices.ContainsFunc(k.refused, func(r refusal) bool { return strings.HasPrefix(rule.Message, r.message) }) {
					t.Errorf("%s: no case for the rule at %s: %s", k.name, strings.Join(path, "."), rule.Message)
				}
			}
		})
		if rules < k.rules {
			t.Errorf("%s: only %d rules were found", k.name, rules)
		}
	}
}

// Every bound, pattern and enumeration of a field refuses a value beyond it, and the
// refusal names the field.
func TestSchemaBounds(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		_, spec := k.schema(t)
		bounds := 0
		walk(spec, nil, func(path []string, schema *apiextensionsv1.JSONSchemaProps) {
			for _, value := range beyond(schema) {
				bounds++
				object := k.candidate(t, "{}")
				object.Object["spec"] = put(object.Object["spec"], path, value)
				err := dryRun(t, object)
				if name := path[len(path)-1]; err == nil || (name != "[]" && name != "{}" && !strings.Contains(err.Error(), name)) {
					t.Errorf("%s: %s with %.40q was told: %v", k.name, strings.Join(path, "."), fmt.Sprint(value), err)
				}
			}
		})
		if bounds < k.bounds {
			t.Errorf("%s: only %d bounds were found", k.name, bounds)
		}
	}
}

// walk visits a schema and what is in it. Items of lists are [], values of maps {}.
func walk(schema *apiextensionsv1.JSONSchemaProps, path []string, visit func([]string, *apiextensionsv1.JSONSchemaProps)) {
	visit(path, schema)
	at := func(name string) []string { return append(slices.Clone(path), name) }
	for name, property := range schema.Properties {
		walk(&property, at(name), visit)
	}
	if schema.Items != nil {
		walk(schema.Items.Schema, at("[]"), visit)
	}
	if schema.AdditionalProperties != nil {
		walk(schema.AdditionalProperties.Schema, at("{}"), visit)
	}
}

// beyond are values that a schema refuses: one for each thing it demands.
func beyond(schema *apiextensionsv1.JSONSchemaProps) (values []any) {
	if schema.Minimum != nil {
		values = append(values, int64(*schema.Minimum)-1)
	}
	if schema.Maximum != nil {
		values = append(values, int64(*schema.Maximum)+1)
	}
	if schema.MinLength != nil {
		values = append(values, strings.Repeat("x", int(*schema.MinLength)-1))
	}
	if schema.MaxLength != nil {
		values = append(values, strings.Repeat("x", int(*schema.MaxLength)+1))
	}
	if schema.MaxItems != nil {
		many := make([]any, *schema.MaxItems+1) // items that the list may have: each refused one costs the API server time
		if schema.Items.Schema.Type == "string" {
			for i := range many {
				many[i] = fmt.Sprintf("x%d", i)
			}
		}
		values = append(values, many)
	}
	if schema.MaxProperties != nil {
		var value any = map[string]any{}
		if schema.AdditionalProperties.Schema.Type == "string" {
			value = "x"
		}
		many := map[string]any{}
		for i := range *schema.MaxProperties + 1 {
			many[fmt.Sprintf("x%d", i)] = value
		}
		values = append(values, many)
	}
	if schema.Pattern != "" || len(schema.Enum) > 0 {
		values = append(values, "?!")
	}
	if schema.Format == "date-time" { // which alone allows some that no manager can read, and then no other object, either
		values = append(values, "tomorrow", "2026-11-21t12:00:00z", "2026-11-21T12:00:00:5Z", "2026-11-21T12:00:00+99:00")
	}
	if schema.Type == "string" || schema.Type == "integer" || schema.Type == "boolean" {
		values = append(values, []any{})
	}
	return values
}

// put sets a value deep in an object.
func put(object any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	switch path[0] {
	case "[]":
		items, _ := object.([]any)
		if len(items) == 0 {
			items = []any{nil}
		}
		return append([]any{put(items[0], path[1:], value)}, items[1:]...)
	case "{}":
		return map[string]any{"x": put(nil, path[1:], value)}
	}
	fields, _ := object.(map[string]any)
	if fields == nil {
		fields = map[string]any{}
	}
	fields[path[0]] = put(fields[path[0]], path[1:], value)
	return fields
}
