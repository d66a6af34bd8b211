// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// fieldsBase is the spec that every entry of the table changes. It has all kinds of containers,
// wrapped or not.
const fieldsBase = `
size: 4
containers:
- {image: app, command: lmp, runFlux: true, resources: {requests: {cpu: 1}}}
- {image: side, name: side, command: serve}
- {image: plain, name: plain}
services:
- {image: db, name: db, command: serve}
- {image: cache, name: cache}
`

// field says which effect a field has. The change is laid over fieldsBase. Then each wanted line
// must be among the lines of observe, and must not be among those of the base. A line that begins
// with "-" must disappear instead.
type field struct {
	change string
	want   []string
}

func seen(change string, want ...string) field { return field{change, want} }

// doesNothing marks a field without effect: no line may change, and the field's description must
// say so.
const doesNothing = "does nothing"

// fields has an entry for every field of a MiniCluster's spec.
var fields = map[string]field{
	"size":                    seen("{size: 6}", "workers.parallelism: 5", "setting.SIZE: 6", "policy.Sizing.Size: 6"),
	"minSize":                 seen("{minSize: 2}", "setting.MIN_SIZE: 2", "policy.Sizing.Min: 2"),
	"maxSize":                 seen("{maxSize: 8, interactive: true}", "workers.parallelism: 7"),
	"tasks":                   seen("{tasks: 3}", "setting.TASKS_AT_SIZE: 3", "policy.Sizing.Tasks.AtSize: 3"),
	"queue":                   seen("{queue: night}", "gang.Queue: night"),
	"after[].name":            seen("{after: [{name: first}]}", "held.Message ~ until MiniCluster first has"),
	"after[].condition":       seen("{after: [{name: first, condition: Started}]}", "held.Message: waits until MiniCluster first has started"),
	"notBefore":               seen("{notBefore: '2026-12-01T08:00:00Z'}", "held.Verdict: Later"),
	"singleton":               seen("{singleton: key}", "gang.Singleton: default/key"),
	"priorityClassName":       seen("{priorityClassName: high}", "lead.spec.priorityClassName: high", "services.spec.priorityClassName: high"),
	"managedBy":               seen("{managedBy: kueue.x-k8s.io/multikueue}", "ours: false"),
	"suspend":                 seen("{suspend: true}", "policy.Suspend: true"),
	"deadlineSeconds":         seen("{deadlineSeconds: 60}", "policy.Deadline: 60000000000"),
	"backoffLimit":            seen("{backoffLimit: 3}", "policy.Retries: 3"),
	"ttlSecondsAfterFinished": seen("{ttlSecondsAfterFinished: 60}", "policy.TTL: 60000000000"),
	"cleanup":                 seen("{cleanup: true}", "policy.TTL: 0"),
	"interactive":             seen("{interactive: true}", "setting.MODE: interactive"),
	"jobLabels":               seen("{jobLabels: {k: v, flux-framework.org/minicluster: mine, kueue.x-k8s.io/queue-name: mine, job-name: mine}}", "labels.k: v", "leadLabels.k: v"),

	"placement.policy":      seen("{placement: {policy: Spread}}", "ask.Policy: 1"),
	"placement.topologyKey": seen("{placement: {topologyKey: rack}}", "ask.Topology.Level: rack"),
	"placement.exclusive":   seen("{placement: {exclusive: true}}", "lead.metadata.labels.flux-framework.org/exclusive: true", "follower.metadata.labels.flux-framework.org/exclusive: true", "gang.Exclusive: true"),
	"placement.topology":    seen("{placement: {topologyKey: rack, topology: Required}}", "ask.Topology.Required: true"),

	"elastic.expectedRuntime":           seen("{elastic: {expectedRuntime: 5s}}", "gang.Expected: 5000000000"),
	"elastic.waitForSize":               seen("{elastic: {waitForSize: 5s}}", "gang.WaitForSize: 5000000000"),
	"elastic.quorumTimeout":             seen("{elastic: {quorumTimeout: 5s}}", "setting.QUORUM_TIMEOUT: 5", "policy.QuorumTimeout: 5000000000"),
	"elastic.startTimeout":              seen("{elastic: {startTimeout: 5m}}", "policy.StartTimeout: 300000000000"),
	"elastic.grow":                      seen("{maxSize: 8, interactive: true, elastic: {grow: true}}", "policy.Max: 8"),
	"elastic.sizes.operator":            seen("{minSize: 2, elastic: {sizes: {operator: '*', operand: 2}}}", "setting.OPERATOR: *", "policy.Sizing.Operator: *"),
	"elastic.sizes.operand":             seen("{minSize: 2, elastic: {sizes: {operand: 2}}}", "setting.OPERAND: 2", "policy.Sizing.Operand: 2"),
	"elastic.tasks.scaling":             seen("{elastic: {tasks: {scaling: Fixed}}}", "setting.SCALING: Fixed", "policy.Sizing.Tasks.Fixed: true"),
	"elastic.tasks.constraint":          seen("{elastic: {tasks: {constraint: Cube}}}", "setting.CONSTRAINT: Cube", "policy.Sizing.Tasks.Constraint: Cube"),
	"elastic.tasks.multipleOf":          seen("{elastic: {tasks: {constraint: MultipleOf, multipleOf: 4}}}", "setting.MULTIPLE_OF: 4", "policy.Sizing.Tasks.MultipleOf: 4"),
	"elastic.recreate.limit":            seen("{elastic: {recreate: {limit: 2}}}", "policy.RecreateLimit: 2"),
	"elastic.recreate.backoffBase":      seen("{elastic: {recreate: {backoffBase: 5s}}}", "policy.BackoffBase: 5000000000"),
	"elastic.recreate.sizePolicy":       seen("{elastic: {recreate: {sizePolicy: Shrink}}}", "policy.Shrink: true"),
	"elastic.resize":                    seen("{elastic: {resize: Restart}}", "setting.RESIZE: Restart", "policy.Restarts: true"),
	"elastic.checkpoint.signal":         seen("{elastic: {checkpoint: {signal: SIGUSR1}}}", "setting.CHECKPOINT_SIGNAL: SIGUSR1", "policy.AsksForCheckpoint: true"),
	"elastic.checkpoint.command":        seen("{elastic: {checkpoint: {command: save}}}", "policy.AsksForCheckpoint: true", "file.checkpoint-command.sh: save\n"),
	"elastic.checkpoint.wait":           seen("{elastic: {checkpoint: {wait: 90s}}}", "setting.CHECKPOINT_WAIT: 90", "policy.CheckpointWait: 90000000000"),
	"elastic.checkpoint.interval":       seen("{elastic: {checkpoint: {signal: SIGUSR1, interval: 5m}}}", "setting.CHECKPOINT_INTERVAL: 300", "policy.TellsCheckpoints: true"),
	"elastic.checkpoint.path":           seen("{elastic: {checkpoint: {path: /ckpt}}}", "setting.CHECKPOINT_PATH: /ckpt"),
	"elastic.checkpoint.restartCommand": seen("{elastic: {checkpoint: {restartCommand: again}}}", "file.restart-command.sh: again\n"),
	"elastic.onLoss":                    seen("{elastic: {onLoss: Recreate}}", "policy.OnLoss: Recreate"),
	"elastic.onDeadline":                seen("{elastic: {onDeadline: Requeue, checkpoint: {}}}", "policy.Requeues: 10"),
	"elastic.requeueLimit":              seen("{elastic: {onDeadline: Requeue, requeueLimit: 3, checkpoint: {}}}", "policy.Requeues: 3"),
	"elastic.recreate.backoffMax":       seen("{elastic: {recreate: {backoffMax: 5m}}}", "policy.BackoffMax: 300000000000"),

	"containers[].name":                          seen("{containers: [{}, {name: web}]}", "lead.spec.initContainers.1.name: web"),
	"containers[].image":                         seen("{containers: [{image: new}, {image: newer}]}", "lead.spec.containers.0.image: new", "follower.spec.containers.0.image: new", "lead.spec.initContainers.1.image: newer"),
	"containers[].imagePullSecret":               seen("{containers: [{imagePullSecret: key}]}", "lead.spec.imagePullSecrets.0.name: key", "services.spec.imagePullSecrets.0.name: key"),
	"containers[].pullAlways":                    seen("{containers: [{pullAlways: true, imagePullPolicy: Never}]}", "lead.spec.containers.0.imagePullPolicy: Always"),
	"containers[].imagePullPolicy":               seen("{containers: [{imagePullPolicy: Never}]}", "lead.spec.containers.0.imagePullPolicy: Never"),
	"containers[].workingDir":                    seen("{containers: [{workingDir: /w}]}", "lead.spec.containers.0.workingDir: /w"),
	"containers[].command":                       seen("{containers: [{command: namd}, {}, {command: x}]}", "file.command.sh: namd\n", "lead.spec.initContainers.2.command.1: /flux_operator/start-2.sh", "file.start-2-command.sh: x\n\n"),
	"containers[].commands.init":                 seen("{containers: [{commands: {init: x}}]}", "file.hook-init.sh: x\n"),
	"containers[].commands.pre":                  seen("{containers: [{commands: {pre: x}}]}", "file.hook-pre.sh: x\n"),
	"containers[].commands.brokerPre":            seen("{containers: [{commands: {brokerPre: x}}]}", "file.hook-broker-pre.sh: x\n"),
	"containers[].commands.workerPre":            seen("{containers: [{commands: {workerPre: x}}]}", "file.hook-worker-pre.sh: x\n"),
	"containers[].commands.prefix":               seen("{containers: [{commands: {prefix: x}}]}", "setting.PREFIX: x"),
	"containers[].commands.script":               seen("{containers: [{command: '', commands: {script: x}}]}", "file.command.sh: x\n"),
	"containers[].commands.post":                 seen("{containers: [{commands: {post: x}}]}", "file.hook-post.sh: x\n"),
	"containers[].commands.servicePre":           seen("{containers: [{}, {}, {commands: {servicePre: x}}]}", "lead.spec.initContainers.2.command.1: /flux_operator/start-2.sh", "lead.spec.initContainers.2.volumeMounts.1.mountPath: /mnt/flux"),
	"containers[].runFlux":                       seen("{containers: [{runFlux: false, name: zero, noWrapEntrypoint: true}, {runFlux: true}]}", "lead.spec.containers.0.image: side", "lead.spec.initContainers.1.image: app"),
	"containers[].launcher":                      seen("{containers: [{launcher: true}]}", "setting.MODE: launcher", "policy.Malleable: true"),
	"containers[].batch":                         seen("{containers: [{batch: true}]}", "setting.MODE: batch"),
	"containers[].batchRaw":                      seen("{containers: [{batch: true, batchRaw: true}]}", "setting.BATCH_RAW: true"),
	"containers[].logs":                          seen("{containers: [{logs: /out}]}", "setting.FLUX_OUTPUT_DIR: /out"),
	"containers[].noWrapEntrypoint":              seen("{containers: [{}, {noWrapEntrypoint: true}]}", "-lead.spec.initContainers.1.command.1: /flux_operator/start-1.sh"),
	"containers[].ports":                         seen("{containers: [{ports: [1]}, {ports: [80]}]}", "lead.spec.containers.0.ports.0.containerPort: 1", "lead.spec.initContainers.1.ports.0.containerPort: 80", "service.side.ports.0.port: 80", "service.side.selector.sidecar.flux-framework.org/side: true"),
	"containers[].environment":                   seen("{containers: [{environment: {B: b, A: a}}]}", "lead.spec.containers.0.env.1.value: a", "lead.spec.containers.0.env.2.name: B"),
	"containers[].secrets{}.name":                seen("{containers: [{secrets: {S: {name: s, key: k}}}]}", "lead.spec.containers.0.env.1.valueFrom.secretKeyRef.name: s"),
	"containers[].secrets{}.key":                 seen("{containers: [{secrets: {S: {name: s, key: k}}}]}", "lead.spec.containers.0.env.1.valueFrom.secretKeyRef.key: k", "lead.spec.containers.0.env.1.name: S"),
	"containers[].volumes{}.path":                seen("{containers: [{volumes: {v: {path: /p}}}]}", "lead.spec.containers.0.volumeMounts.4.mountPath: /p", "lead.spec.volumes.4.name: v"),
	"containers[].volumes{}.readOnly":            seen("{containers: [{volumes: {v: {claimName: c, path: /p, readOnly: true}}}]}", "lead.spec.containers.0.volumeMounts.4.readOnly: true", "lead.spec.volumes.4.persistentVolumeClaim.readOnly: true"),
	"containers[].volumes{}.hostPath":            seen("{containers: [{volumes: {v: {hostPath: /h, path: /p}}}]}", "lead.spec.volumes.4.hostPath.path: /h"),
	"containers[].volumes{}.configMapName":       seen("{containers: [{volumes: {v: {configMapName: c}}}]}", "lead.spec.volumes.4.configMap.name: c"),
	"containers[].volumes{}.items":               seen("{containers: [{volumes: {v: {configMapName: c, items: {k: f}}}}]}", "lead.spec.volumes.4.configMap.items.0.key: k", "lead.spec.volumes.4.configMap.items.0.path: f"),
	"containers[].volumes{}.claimName":           seen("{containers: [{volumes: {v: {claimName: c, path: /p}}}]}", "lead.spec.volumes.4.persistentVolumeClaim.claimName: c"),
	"containers[].volumes{}.secretName":          seen("{containers: [{volumes: {v: {secretName: c}}}]}", "lead.spec.volumes.4.secret.secretName: c"),
	"containers[].volumes{}.emptyDir":            seen("{containers: [{volumes: {v: {emptyDir: true}}}]}", "lead.spec.containers.0.volumeMounts.4.mountPath: /dev/shm"),
	"containers[].volumes{}.emptyDirMedium":      seen("{containers: [{volumes: {v: {emptyDir: true, emptyDirMedium: memory}}}]}", "lead.spec.volumes.4.emptyDir.medium: Memory"),
	"containers[].volumes{}.emptyDirSizeLimit":   seen("{containers: [{volumes: {v: {emptyDir: true, emptyDirSizeLimit: 1Gi}}}]}", "lead.spec.volumes.4.emptyDir.sizeLimit: 1Gi"),
	"containers[].volumes{}.csiDriver":           seen("{containers: [{volumes: {v: {csiDriver: d}}}]}", "lead.spec.volumes.4.csi.driver: d"),
	"containers[].volumes{}.csiDriverAttributes": seen("{containers: [{volumes: {v: {csiDriver: d, csiDriverAttributes: {k: w}}}}]}", "lead.spec.volumes.4.csi.volumeAttributes.k: w"),
	"containers[].lifeCycle.postStartExec":       seen("{containers: [{lifeCycle: {postStartExec: echo a}}]}", "lead.spec.containers.0.lifecycle.postStart.exec.command.1: -c", "lead.spec.containers.0.lifecycle.postStart.exec.command.2: echo a"),
	"containers[].lifeCycle.preStopExec":         seen("{containers: [{}, {lifeCycle: {preStopExec: sync; sync}}]}", "lead.spec.initContainers.1.lifecycle.preStop.exec.command.2: sync; sync"),
	"containers[].resources":                     seen("{containers: [{resources: {limits: {cpu: 2}}}, {resources: {requests: {cpu: 1}}}]}", "lead.spec.containers.0.resources.limits.cpu: 2", "lead.spec.initContainers.1.resources.requests.cpu: 1"),
	"containers[].securityContext":               seen("{containers: [{securityContext: {runAsUser: 5}}]}", "lead.spec.containers.0.securityContext.runAsUser: 5"),

	"services[].name":                          seen("{services: [{name: store}]}", "services.spec.containers.0.name: store"),
	"services[].image":                         seen("{services: [{image: new}]}", "services.spec.containers.0.image: new"),
	"services[].imagePullSecret":               seen("{services: [{imagePullSecret: key}]}", "services.spec.imagePullSecrets.0.name: key"),
	"services[].pullAlways":                    seen("{services: [{pullAlways: true}]}", "services.spec.containers.0.imagePullPolicy: Always"),
	"services[].imagePullPolicy":               seen("{services: [{imagePullPolicy: Never}]}", "services.spec.containers.0.imagePullPolicy: Never"),
	"services[].workingDir":                    seen("{services: [{workingDir: /w}]}", "services.spec.containers.0.workingDir: /w"),
	"services[].command":                       seen("{services: [{}, {command: x}]}", "services.spec.containers.1.command.1: /flux_operator/service-1.sh", "services.spec.containers.1.volumeMounts.0.mountPath: /flux_operator"),
	"services[].commands.init":                 seen("{services: [{}, {command: y, commands: {init: x}}]}", "file.service-1-init.sh: x\n"),
	"services[].commands.pre":                  seen("{services: [{commands: {pre: x}}]}", doesNothing),
	"services[].commands.brokerPre":            seen("{services: [{commands: {brokerPre: x}}]}", doesNothing),
	"services[].commands.workerPre":            seen("{services: [{commands: {workerPre: x}}]}", doesNothing),
	"services[].commands.prefix":               seen("{services: [{commands: {prefix: x}}]}", doesNothing),
	"services[].commands.script":               seen("{services: [{}, {commands: {script: x}}]}", "services.spec.containers.1.command.1: /flux_operator/service-1.sh"),
	"services[].commands.post":                 seen("{services: [{}, {command: y, commands: {post: x}}]}", "file.service-1-post.sh: x\n"),
	"services[].commands.servicePre":           seen("{services: [{}, {command: y, commands: {servicePre: x}}]}", "file.service-1-pre.sh: x\n"),
	"services[].runFlux":                       seen("{services: [{runFlux: true}]}", doesNothing),
	"services[].launcher":                      seen("{services: [{launcher: true}]}", doesNothing),
	"services[].batch":                         seen("{services: [{batch: true}]}", doesNothing),
	"services[].batchRaw":                      seen("{services: [{batch: true, batchRaw: true}]}", doesNothing),
	"services[].logs":                          seen("{services: [{logs: /out}]}", doesNothing),
	"services[].noWrapEntrypoint":              seen("{services: [{noWrapEntrypoint: true}]}", "-services.spec.containers.0.command.1: /flux_operator/service-0.sh"),
	"services[].ports":                         seen("{services: [{ports: [80]}]}", "services.spec.containers.0.ports.0.containerPort: 80"),
	"services[].environment":                   seen("{services: [{environment: {A: a}}]}", "services.spec.containers.0.env.0.value: a"),
	"services[].secrets{}.name":                seen("{services: [{secrets: {S: {name: s, key: k}}}]}", "services.spec.containers.0.env.0.valueFrom.secretKeyRef.name: s"),
	"services[].secrets{}.key":                 seen("{services: [{secrets: {S: {name: s, key: k}}}]}", "services.spec.containers.0.env.0.valueFrom.secretKeyRef.key: k"),
	"services[].volumes{}.path":                seen("{services: [{volumes: {v: {path: /p}}}]}", "services.spec.containers.0.volumeMounts.1.mountPath: /p", "services.spec.volumes.1.name: v"),
	"services[].volumes{}.readOnly":            seen("{services: [{volumes: {v: {readOnly: true}}}]}", "services.spec.containers.0.volumeMounts.1.readOnly: true"),
	"services[].volumes{}.hostPath":            seen("{services: [{volumes: {v: {hostPath: /h, path: /p}}}]}", "services.spec.volumes.1.hostPath.path: /h"),
	"services[].volumes{}.configMapName":       seen("{services: [{volumes: {v: {configMapName: c}}}]}", "services.spec.volumes.1.configMap.name: c"),
	"services[].volumes{}.items":               seen("{services: [{volumes: {v: {secretName: c, items: {k: f}}}}]}", "services.spec.volumes.1.secret.items.0.path: f"),
	"services[].volumes{}.claimName":           seen("{services: [{volumes: {v: {claimName: c, path: /p}}}]}", "services.spec.volumes.1.persistentVolumeClaim.claimName: c"),
	"services[].volumes{}.secretName":          seen("{services: [{volumes: {v: {secretName: c}}}]}", "services.spec.volumes.1.secret.secretName: c"),
	"services[].volumes{}.emptyDir":            seen("{services: [{volumes: {v: {emptyDir: true}}}]}", "services.spec.containers.0.volumeMounts.1.mountPath: /dev/shm"),
	"services[].volumes{}.emptyDirMedium":      seen("{services: [{volumes: {v: {emptyDirMedium: Memory}}}]}", "services.spec.volumes.1.emptyDir.medium: Memory"),
	"services[].volumes{}.emptyDirSizeLimit":   seen("{services: [{volumes: {v: {emptyDirSizeLimit: 1Gi}}}]}", "services.spec.volumes.1.emptyDir.sizeLimit: 1Gi"),
	"services[].volumes{}.csiDriver":           seen("{services: [{volumes: {v: {csiDriver: d}}}]}", "services.spec.volumes.1.csi.driver: d"),
	"services[].volumes{}.csiDriverAttributes": seen("{services: [{volumes: {v: {csiDriver: d, csiDriverAttributes: {k: w}}}}]}", "services.spec.volumes.1.csi.volumeAttributes.k: w"),
	"services[].lifeCycle.postStartExec":       seen("{services: [{lifeCycle: {postStartExec: echo a}}]}", "services.spec.containers.0.lifecycle.postStart.exec.command.2: echo a"),
	"services[].lifeCycle.preStopExec":         seen("{services: [{lifeCycle: {preStopExec: sync}}]}", "services.spec.containers.0.lifecycle.preStop.exec.command.2: sync"),
	"services[].resources":                     seen("{services: [{resources: {limits: {cpu: 2}}}]}", "services.spec.containers.0.resources.limits.cpu: 2"),
	"services[].securityContext":               seen("{services: [{securityContext: {runAsUser: 5}}]}", "services.spec.containers.0.securityContext.runAsUser: 5"),

	"flux.submitCommand":           seen("{flux: {submitCommand: flux run}}", "setting.SUBMIT: flux run"),
	"flux.optionFlags":             seen("{flux: {optionFlags: -ompi=pmix}}", "setting.OPTION_FLAGS: -ompi=pmix"),
	"flux.wrap":                    seen("{flux: {wrap: strace}}", "setting.WRAP: strace"),
	"flux.connectTimeout":          seen("{flux: {connectTimeout: 9s}}", "setting.CONNECT_TIMEOUT: 9s"),
	"flux.topology":                seen("{flux: {topology: binomial}}", "setting.TOPOLOGY: binomial"),
	"flux.logLevel":                seen("{flux: {logLevel: 7}}", "setting.LOG_LEVEL: 7"),
	"flux.minimalService":          seen("{flux: {minimalService: true}}", "hosts: 1"),
	"flux.disableSocket":           seen("{flux: {disableSocket: true}}", "setting.DISABLE_SOCKET: true"),
	"flux.noWaitSocket":            seen("{flux: {noWaitSocket: true}}", "setting.NO_WAIT_SOCKET: true"),
	"flux.completeWorkers":         seen("{flux: {completeWorkers: true}}", "setting.COMPLETE_WORKERS: true"),
	"flux.curveCert":               seen("{flux: {curveCert: mine}}", "certificate: mine"),
	"flux.curveCertSecretRef.name": seen("{flux: {curveCertSecretRef: {name: mine, key: c}}}", "lead.spec.volumes.0.projected.sources.2.secret.name: mine", "-certificate: new"),
	"flux.curveCertSecretRef.key":  seen("{flux: {curveCertSecretRef: {name: mine, key: c}}}", "lead.spec.volumes.0.projected.sources.2.secret.items.0.key: c"),
	"flux.brokerConfig":            seen("{flux: {brokerConfig: mine}}", "file.broker.toml: mine"),
	"flux.environment":             seen("{flux: {environment: {A: a}}}", "file.view-environment.sh: export A='a'\n"),
	"flux.arch":                    seen("{flux: {arch: arm}}", doesNothing),
	"flux.mungeSecret":             seen("{flux: {mungeSecret: m}}", doesNothing),

	"flux.scheduler.simple":         seen("{flux: {scheduler: {simple: true}}}", "setting.SCHEDULER_SIMPLE: true"),
	"flux.scheduler.queuePolicy":    seen("{flux: {scheduler: {queuePolicy: hybrid}}}", `file.broker.toml ~ queue-policy = "hybrid"`),
	"flux.bursting.hostlist":        seen("{flux: {bursting: {hostlist: 'lmp-0-0-0,lmp-w-0-[0-2],other'}}}", "file.hostlist: lmp-0-0-0,lmp-w-0-[0-2],other"),
	"flux.bursting.clusters[].name": seen("{flux: {bursting: {clusters: [{name: two}]}}}", "file.hostlist ~ two-0"),
	"flux.bursting.clusters[].size": seen("{flux: {bursting: {clusters: [{name: two, size: 7}]}}}", "file.hostlist ~ two-[1-6]"),

	"flux.bursting.leadBroker.address": seen("{flux: {bursting: {leadBroker: {address: lead.example.com, name: one, size: 3, port: 9}}}}", "file.broker.toml ~ lead.example.com"),
	"flux.bursting.leadBroker.name":    seen("{flux: {bursting: {leadBroker: {address: lead.example.com, name: one, size: 3, port: 9}}}}", "file.hostlist ~ one-0"),
	"flux.bursting.leadBroker.size":    seen("{flux: {bursting: {leadBroker: {address: lead.example.com, name: one, size: 3, port: 9}}}}", "file.hostlist ~ one-[1-2]"),
	"flux.bursting.leadBroker.port":    seen("{flux: {bursting: {leadBroker: {address: lead.example.com, name: one, size: 3, port: 9}}}}", "file.broker.toml ~ lead.example.com:9"),

	"flux.gpuResources": seen(`{flux: {gpuResources: [cpu]}}`, `file.R ~ "gpu":"0"`),

	"flux.resources": seen("{flux: {resources: Local}}", "-file.R ~ R_lite"),

	"flux.container.disable":         seen("{flux: {container: {disable: true}}}", "setting.VIEW_DISABLED: true", "-lead.spec.containers.0.volumeMounts.2.mountPath: /opt/software"),
	"flux.container.name":            seen("{flux: {container: {name: v}}}", "lead.spec.initContainers.0.name: v", "lead.spec.volumes.2.name: v", "lead.spec.initContainers.1.volumeMounts.1.name: v"),
	"flux.container.image":           seen("{flux: {container: {image: v}}}", "lead.spec.initContainers.0.image: v"),
	"flux.container.imagePullSecret": seen("{flux: {container: {imagePullSecret: key}}}", "lead.spec.imagePullSecrets.0.name: key"),
	"flux.container.pullAlways":      seen("{flux: {container: {pullAlways: true}}}", "lead.spec.initContainers.0.imagePullPolicy: Always"),
	"flux.container.workingDir":      seen("{flux: {container: {workingDir: /w}}}", "lead.spec.initContainers.0.workingDir: /w"),
	"flux.container.mountPath":       seen("{flux: {container: {mountPath: /f}}}", "setting.VIEW_BASE: /f", "lead.spec.initContainers.0.volumeMounts.1.mountPath: /f", "lead.spec.initContainers.1.volumeMounts.1.mountPath: /f", "lead.spec.containers.0.volumeMounts.1.mountPath: /f"),
	"flux.container.pythonPath":      seen("{flux: {container: {pythonPath: /p}}}", "setting.PYTHON_PATH: /p"),
	"flux.container.resources":       seen("{flux: {container: {resources: {limits: {cpu: 2}}}}}", "lead.spec.initContainers.0.resources.limits.cpu: 2"),
	"flux.container.securityContext": seen("{flux: {container: {securityContext: {runAsUser: 5}}}}", "lead.spec.initContainers.0.securityContext.runAsUser: 5"),

	"logging.quiet":   seen("{logging: {quiet: true}}", "setting.QUIET: true"),
	"logging.strict":  seen("{logging: {strict: true}}", "setting.STRICT: true"),
	"logging.debug":   seen("{logging: {debug: true}}", "setting.DEBUG: true"),
	"logging.zeromq":  seen("{logging: {zeromq: true}}", "setting.ZEROMQ: true"),
	"logging.timed":   seen("{logging: {timed: true}}", "setting.TIMED: true"),
	"logging.labelIO": seen("{logging: {labelIO: true}}", "setting.LABEL: true"),
	"archive.path":    seen("{archive: {path: /a}}", "setting.ARCHIVE: /a"),

	"network.headlessName":    seen("{network: {headlessName: net}}", "service.net.clusterIP: None", "lead.spec.subdomain: net", "services.spec.subdomain: net", `file.broker.toml ~ %h.net.default.svc`),
	"network.port":            seen("{network: {port: 9}}", "file.broker.toml ~ default_port = 9"),
	"network.interface":       seen("{network: {interface: ib0}}", "file.broker.toml ~ tcp://ib0:%p"),
	"network.clusterDomain":   seen("{network: {clusterDomain: here.example}}", "file.broker.toml ~ .svc.here.example:"),
	"network.disableAffinity": seen("{network: {disableAffinity: true}}", "ask.Distinct: false"),
	"shareProcessNamespace":   seen("{shareProcessNamespace: true}", "lead.spec.shareProcessNamespace: true"),

	"pod.annotations":                  seen("{pod: {annotations: {k: v, flux-framework.org/quorum: '1'}}}", "lead.metadata.annotations.k: v", "services.metadata.annotations.k: v"),
	"pod.labels":                       seen("{pod: {labels: {k: v, app: mine, job-index: '7', hpa-selector: mine, kueue.x-k8s.io/queue-name: mine, batch.kubernetes.io/job-name: mine, controller-uid: mine}}}", "lead.metadata.labels.k: v", "services.metadata.labels.k: v"),
	"pod.restartPolicy":                seen("{pod: {restartPolicy: Never}}", "services.spec.restartPolicy: Never"),
	"pod.serviceAccountName":           seen("{pod: {serviceAccountName: s}}", "lead.spec.serviceAccountName: s", "services.spec.serviceAccountName: s"),
	"pod.automountServiceAccountToken": seen("{pod: {automountServiceAccountToken: true}}", "lead.spec.automountServiceAccountToken: true", "services.spec.automountServiceAccountToken: true"),
	"pod.runtimeClassName":             seen("{pod: {runtimeClassName: r}}", "lead.spec.runtimeClassName: r", "services.spec.runtimeClassName: r"),
	"pod.schedulerName":                seen("{pod: {schedulerName: s}}", "lead.spec.schedulerName: s", "services.spec.schedulerName: s"),
	"pod.nodeSelector":                 seen("{pod: {nodeSelector: {k: v}}}", "lead.spec.nodeSelector.k: v", "services.spec.nodeSelector.k: v"),
	"pod.nodeAffinity":                 seen("{pod: {nodeAffinity: {k: [a, b]}}}", "lead.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.0.matchExpressions.0.values.1: b"),
	"pod.tolerations[].key":            seen("{pod: {tolerations: [{key: k}]}}", "lead.spec.tolerations.0.key: k", "services.spec.tolerations.0.key: k"),
	"pod.tolerations[].operator":       seen("{pod: {tolerations: [{operator: Exists}]}}", "lead.spec.tolerations.0.operator: Exists"),
	"pod.tolerations[].value":          seen("{pod: {tolerations: [{key: k, value: v}]}}", "lead.spec.tolerations.0.value: v"),
	"pod.tolerations[].effect":         seen("{pod: {tolerations: [{key: k, effect: NoExecute}]}}", "lead.spec.tolerations.0.effect: NoExecute"),
	"pod.dnsPolicy":                    seen("{pod: {dnsPolicy: Default}}", "lead.spec.dnsPolicy: Default", "services.spec.dnsPolicy: Default"),
	"pod.hostNetwork":                  seen("{placement: {exclusive: true}, pod: {hostNetwork: true, dnsPolicy: ClusterFirst}}", "lead.spec.hostNetwork: true", "lead.spec.dnsPolicy: ClusterFirstWithHostNet", "services.spec.dnsPolicy: ClusterFirst"),
	"pod.hostIPC":                      seen("{pod: {hostIPC: true}}", "lead.spec.hostIPC: true"),
	"pod.hostPID":                      seen("{pod: {hostPID: true}}", "lead.spec.hostPID: true"),
	"pod.resources":                    seen("{pod: {resources: {cpu: 2}}, containers: [{resources: null}]}", "lead.spec.containers.0.resources.limits.cpu: 2", "lead.spec.containers.0.resources.requests.cpu: 2"),
	"pod.securityContext":              seen("{pod: {securityContext: {fsGroup: 5, runAsUser: 6}}}", "lead.spec.securityContext.fsGroup: 5", "lead.spec.securityContext.runAsUser: 6", "services.spec.securityContext.fsGroup: 5"),
}

// Every field of the API has the effect that the table says.
func TestEveryField(t *testing.T) {
	before := observe(t, "{}")
	paths := leaves(reflect.TypeFor[v1alpha2.MiniClusterSpec](), "")
	for _, path := range paths {
		entry, ok := fields[path]
		if !ok {
			t.Errorf("spec.%s is not in the table: which difference does it make?", path)
			continue
		}
		t.Run(path, func(t *testing.T) {
			if !names(parse(t, entry.change), strings.FieldsFunc(path, func(r rune) bool { return r == '.' })) {
				t.Fatalf("%s does not set it", entry.change)
			}
			switch entry.want[0] {
			case doesNothing:
				after := observe(t, entry.change)
				if !maps.Equal(before, after) {
					t.Errorf("it does something: %v", slices.DeleteFunc(slices.Sorted(maps.Keys(after)), func(line string) bool { return before[line] }))
				}
				if !saysNothing(t, path) {
					t.Error("its comment does not say that it does nothing")
				}
			default:
				after := observe(t, entry.change)
				for _, line := range entry.want {
					if line, gone := strings.CutPrefix(line, "-"); gone {
						checkLine(t, line, after, before)
					} else {
						checkLine(t, line, before, after)
					}
				}
			}
		})
	}
	for path := range fields {
		if !slices.Contains(paths, path) {
			t.Errorf("there is no field spec.%s", path)
		}
	}
}

// checkLine checks that a line appeared: the line itself, or for "name ~ text" a line of the file
// with this name that contains the text.
func checkLine(t *testing.T, line string, before, after map[string]bool) {
	t.Helper()
	has := func(lines map[string]bool) bool { return lines[line] }
	if name, text, ok := strings.Cut(line, " ~ "); ok {
		has = func(lines map[string]bool) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(lines)), func(l string) bool {
				return strings.HasPrefix(l, name+": ") && strings.Contains(l, text)
			})
		}
	}
	if has(before) {
		t.Errorf("it makes no difference: %q is so anyway", line)
	}
	if !has(after) {
		name, _, _ := strings.Cut(line, ": ")
		t.Errorf("%q is not so: %v", line, slices.DeleteFunc(slices.Sorted(maps.Keys(after)), func(l string) bool { return !strings.HasPrefix(l, name) }))
	}
}

// Every script that a container runs is among the files.
func TestScriptsAreThere(t *testing.T) {
	runs := regexp.MustCompile(`command\.1: /flux_operator/(.*)$`)
	made, scripts := observe(t, "{}"), map[string]bool{}
	for line := range made {
		if match := runs.FindStringSubmatch(line); match != nil {
			scripts[match[1]] = true
		}
	}
	if len(scripts) != 4 {
		t.Errorf("the scripts are %v", scripts)
	}
	for name := range scripts {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(made)), func(line string) bool {
			return strings.HasPrefix(line, "file."+name+": #!/bin/bash") || strings.HasPrefix(line, "script."+name+": #!/bin/bash")
		}) {
			t.Errorf("%s is not there", name)
		}
	}
}

// Labels and annotations of users cannot replace ours, but for labels by which nobody selects.
func TestLabelsThatAreOurs(t *testing.T) {
	got := observe(t, fields["pod.labels"].change)
	maps.Copy(got, observe(t, fields["pod.annotations"].change))
	maps.Copy(got, observe(t, fields["jobLabels"].change))
	for line := range got {
		if strings.HasSuffix(line, ": mine") && !strings.HasSuffix(line, ".labels.app: mine") || (strings.Contains(line, "labels.job-index: ") && line != "services.metadata.labels.job-index: services") || strings.Contains(line, "labels.hpa-selector") ||
			strings.Contains(line, "annotations.flux-framework.org/quorum") {
			t.Error(line)
		}
	}
}

// leaves returns the paths of all fields of a type of the API that are not structs of the API.
func leaves(t reflect.Type, path string) []string {
	switch {
	case t.Kind() == reflect.Pointer:
		return leaves(t.Elem(), path)
	case t.Kind() == reflect.Slice && isOurs(t.Elem()):
		return leaves(t.Elem(), path+"[]")
	case t.Kind() == reflect.Map && isOurs(t.Elem()):
		return leaves(t.Elem(), path+"{}")
	case !isOurs(t):
		return []string{path}
	}
	var out []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, leaves(t.Field(i).Type, strings.TrimPrefix(path+"."+name, "."))...)
	}
	return out
}

// isOurs reports whether a type is a struct of the API.
func isOurs(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.PkgPath() == reflect.TypeFor[v1alpha2.MiniClusterSpec]().PkgPath()
}

// names reports whether a manifest sets a field.
func names(manifest any, path []string) bool {
	if list, ok := manifest.([]any); ok {
		return slices.ContainsFunc(list, func(item any) bool { return names(item, path) })
	}
	if len(path) == 0 {
		return true
	}
	fields, ok := manifest.(map[string]any)
	if !ok {
		return false
	}
	name, isMap := strings.CutSuffix(path[0], "{}")
	value, ok := fields[strings.TrimSuffix(name, "[]")]
	if !ok {
		return false
	}
	if isMap {
		return slices.ContainsFunc(slices.Collect(maps.Values(value.(map[string]any))), func(item any) bool { return names(item, path[1:]) })
	}
	return names(value, path[1:])
}

func parse(t *testing.T, text string) any {
	t.Helper()
	var out any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// overlay merges a manifest into another one, lists item by item.
func overlay(base, top any) any {
	switch top := top.(type) {
	case map[string]any:
		under, ok := base.(map[string]any)
		if !ok {
			return top
		}
		for name, value := range top {
			under[name] = overlay(under[name], value)
		}
		return under
	case []any:
		under, _ := base.([]any)
		for i, value := range top {
			if i < len(under) {
				under[i] = overlay(under[i], value)
			} else {
				under = append(under, value)
			}
		}
		return under
	}
	return top
}

func miniCluster(t *testing.T, change string) *v1alpha2.MiniCluster {
	t.Helper()
	text, err := yaml.Marshal(overlay(parse(t, fieldsBase), parse(t, change)))
	if err != nil {
		t.Fatal(err)
	}
	mc := fixture.MiniCluster("lmp").Obj()
	mc.Spec = v1alpha2.MiniClusterSpec{}
	if err := yaml.UnmarshalStrict(text, &mc.Spec); err != nil {
		t.Fatal(err)
	}
	mc.Default()
	return mc
}

// observe returns the objects that are made of the base with a change, and the values that other
// packages read from it. Each value is a line of its own.
func observe(t *testing.T, change string) map[string]bool {
	t.Helper()
	mc := miniCluster(t, change)
	objects, err := jobset.Objects(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	set := objects[len(objects)-1].(*jobsetapi.JobSet)
	files, err := jobset.Files(mc, set, func() (string, error) { return "new", nil })
	if err != nil {
		t.Fatal(err)
	}
	tree := map[string]any{"script": jobset.Scripts(set).Data}
	services := map[string]any{}
	for _, object := range slices.Concat(files, objects) {
		switch object := object.(type) {
		case *corev1.Secret:
			tree["certificate"] = string(object.Data[broker.CertificateFile])
		case *corev1.ConfigMap:
			tree["file"], tree["setting"] = maps.Clone(object.Data), broker.ParseSettings(object.Data)
			delete(tree["file"].(map[string]string), "settings.sh")
		case *corev1.Service:
			services[object.Name] = object.Spec
		case *jobsetapi.JobSet:
			tree["labels"] = object.Labels
			for i, names := range [][2]string{{"lead", "leadJob"}, {"follower", "workers"}, {"services", "servicesJob"}} {
				job := object.Spec.ReplicatedJobs[i].Template
				tree[names[0]] = job.Spec.Template
				job.Spec.Template = corev1.PodTemplateSpec{}
				tree[names[1]], tree[names[0]+"Labels"] = job.Spec, job.Labels
			}
		}
	}
	tree["service"] = services
	observation, err := state.Observe(state.View{MiniCluster: mc})
	if err != nil {
		t.Fatal(err)
	}
	tree["ours"] = strconv.FormatBool(mc.Spec.IsOurs())
	tree["hosts"] = strconv.Itoa(publishedHosts(mc))
	pod, err := jobset.Pod(mc)
	if err != nil {
		t.Fatal(err)
	}
	gang := state.Gang(mc, pod, nil)
	gang.Class = "" // it only says which gangs are alike
	tree["policy"], tree["gang"] = observation.Policy, gang
	tree["held"] = state.Held(mc, func(string) *v1alpha2.MiniCluster { return mc }, time.Unix(0, 0))
	ask := state.Request(mc, pod, nil, nil)
	tree["ask"] = map[string]any{"Policy": ask.Policy, "Topology": ask.Topology, "Distinct": ask.Distinct}
	return lines(t, tree)
}

// publishedHosts returns how many of two brokers have names in DNS.
func publishedHosts(mc *v1alpha2.MiniCluster) int {
	view := state.View{MiniCluster: mc, JobSet: fixture.JobSet(mc.Name, 1).Obj()}
	for rank := range 2 {
		pod := fixture.BrokerPod(mc.Name, rank).Obj()
		pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}}
		view.Pods = append(view.Pods, protocol.Read(pod))
	}
	admitted := life.Record{Admission: &life.Admission{Nodes: []string{"a", "b"}}}
	return len(view.Hosts(&life.Observation{Record: admitted, Workload: life.Active}))
}

// lines returns the values of a tree with their paths.
func lines(t *testing.T, tree any) map[string]bool {
	t.Helper()
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var content any
	if err := json.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for name, v := range value {
				walk(path+"."+name, v)
			}
		case []any:
			for i, v := range value {
				walk(path+"."+strconv.Itoa(i), v)
			}
		case float64:
			out[fmt.Sprintf("%s: %d", path[1:], int64(value))] = true
		default:
			out[fmt.Sprintf("%s: %v", path[1:], value)] = true
		}
	}
	walk("", content)
	return out
}

// saysNothing reports whether the schema says that a field has no effect. For a field of a service
// the description of services says so, else the field's own description.
func saysNothing(t *testing.T, path string) bool {
	t.Helper()
	text, err := os.ReadFile("../../config/crd/flux-framework.org_miniclusters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var definition unstructured.Unstructured
	if err := yaml.Unmarshal(text, &definition.Object); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	properties, _, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties")
	parts := strings.Split(path, ".")
	if parts[0] == "services[]" {
		description, _, _ := unstructured.NestedString(properties, "services", "description")
		_, idle, _ := strings.Cut(description, "no effect there: ")
		return slices.Contains(strings.FieldsFunc(idle, func(r rune) bool { return strings.ContainsRune(", .\n", r) }), parts[len(parts)-1])
	}
	for _, part := range parts[:len(parts)-1] {
		properties, _, _ = unstructured.NestedMap(properties, part, "properties")
	}
	description, _, _ := unstructured.NestedString(properties, parts[len(parts)-1], "description")
	return strings.Contains(description, "does nothing") || strings.Contains(description, "changes nothing")
}
