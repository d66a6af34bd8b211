# Copyright The flux-elastic Authors
# SPDX-License-Identifier: Apache-2.0
#
# "make generate" writes this file from api/v1alpha2.
"""The objects of flux-framework.org/v1alpha2 as dataclasses.

A field has the name of the API with underscores: min_size is minSize. A field that is None is not sent. Objects of
Kubernetes, such as metadata and resources, are dictionaries with the names of the API.
"""
from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Dict, List, Optional, Union

from ._model import Model, field


@dataclass
class MiniCluster(Model):
    """MiniCluster is one Flux instance in pods. It has a lead broker, which runs the user's command, and followers, on which
    the command can run too. It starts at the size that fits, between minSize and size, and holds no node before it
    can start."""

    kind: Optional[str] = field("kind")
    """Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint
    the client submits requests to. Cannot be updated. In CamelCase. More info:
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"""

    api_version: Optional[str] = field("apiVersion")
    """APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas
    to the latest internal value, and may reject unrecognized values. More info:
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"""

    metadata: Optional[Dict[str, Any]] = field("metadata")

    spec: Optional[MiniClusterSpec] = field("spec", "MiniClusterSpec")
    """spec is what the user wants."""

    status: Optional[MiniClusterStatus] = field("status", "MiniClusterStatus")
    """status is the observed state."""


@dataclass
class MiniClusterSpec(Model):
    """MiniClusterSpec is what the user wants."""

    containers: Optional[List[MiniClusterContainer]] = field("containers", "MiniClusterContainer")
    """containers are the containers of every pod. One of them runs Flux and the user's command: the only container, or the
    one with runFlux: true. (1 to 16 items)"""

    services: Optional[List[MiniClusterContainer]] = field("services", "MiniClusterContainer")
    """services are the containers of one more pod beside the brokers, for example a database. The host name of this services
    pod is `<name>-services`, in the domain of the brokers. The services pod is no broker, and is not counted in size.
    The cluster's scheduler chooses its node after the brokers have their nodes. The services pod ends with the lead,
    and its failures do not fail the MiniCluster. The settings of `pod` apply to it, except hostIPC, hostPID and
    resources; its restartPolicy is OnFailure by default. Fields for the Flux container have no effect there: runFlux,
    launcher, batch, batchRaw, logs, pre, brokerPre, workerPre, prefix. (at most 16 items)"""

    size: Optional[int] = field("size")
    """size is the number of brokers wanted, one per pod. Default 1. If size does not fit, the MiniCluster starts with fewer
    brokers, but at least minSize. Users, `kubectl scale` and HPA may change size. A MiniCluster is malleable if its
    Flux container is a launcher, if it is interactive, or with elastic.resize: Restart. A malleable MiniCluster that
    runs follows size. It shrinks at once, below minSize too, and grows up to size when there are nodes that nobody
    waits for, above size only with elastic.grow. For a rigid MiniCluster a new size counts from the next start. The
    controller never changes size. (default 1; 1 to 100000)"""

    min_size: Optional[int] = field("minSize")
    """minSize is the smallest number of brokers with which the MiniCluster may start. When the scheduler drains brokers of a
    malleable MiniCluster (see size) for others, at least minSize brokers stay. Default size: all or nothing. (0 to
    100000)"""

    max_size: Optional[int] = field("maxSize")
    """maxSize is the largest size that may be set, and the number of brokers up to which a malleable MiniCluster (see size)
    may grow with elastic.grow. There is a pod for each of them, but no more pods than the cluster could hold, or 256
    if that is more. Pods that are not placed wait behind a scheduling gate and hold no resources. A rigid MiniCluster
    has pods for size only; maxSize limits its size, and the hosts that it has for flux.bursting. A change of maxSize
    has an effect when pods are made again. Default size. (0 to 100000)"""

    tasks: Optional[int] = field("tasks")
    """tasks is the number of tasks (MPI ranks) of the whole command at the `size` that the spec has when tasks is set. At
    another size this number is scaled as elastic.tasks says, also if `size` alone is changed later (kubectl scale).
    With 0, Flux chooses: one task per node. Default 1. (default 1; 0 to 100000000)"""

    queue: Optional[str] = field("queue")
    """queue is the MiniClusterQueue in which the MiniCluster waits for nodes. Default: the queue that the namespace's label
    flux-framework.org/queue names, or else "default". If the queue does not exist, the MiniCluster waits until
    somebody creates it (Admitted=False, reason NoSuchQueue). (1 to 253 characters; pattern
    ^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$)"""

    after: Optional[List[Dependency]] = field("after", "Dependency")
    """after are MiniClusters of the namespace for which the MiniCluster waits before it is queued. It waits while one of
    them does not exist (Admitted=False, reason Dependency). What was met stays so, also if that MiniCluster is
    deleted later. Default: none. (at most 64 items)"""

    not_before: Optional[datetime] = field("notBefore", datetime)
    """notBefore is the time before which the MiniCluster is not queued (Admitted=False, reason Later). Default: it is queued
    at once. (pattern ^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}([.][0-9]{1,9})?(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$)"""

    singleton: Optional[str] = field("singleton")
    """singleton is a key. Of the MiniClusters of a namespace with the same key, one at a time has nodes. The others wait
    (Admitted=False, reason Singleton), and go in the order of the queue. Default: no key. (1 to 63 characters)"""

    placement: Optional[PlacementSpec] = field("placement", "PlacementSpec")
    """placement says which nodes the MiniCluster gets, of those that have room."""

    priority_class_name: Optional[str] = field("priorityClassName")
    """priorityClassName names the PriorityClass of the pods. In a queue, MiniClusters of higher priority are served first,
    and may preempt MiniClusters of lower priority, unless the preemptionPolicy of the class is Never. Default: the
    cluster's default class. (at most 253 characters)"""

    managed_by: Optional[str] = field("managedBy")
    """managedBy names the controller that carries out the MiniCluster, for example kueue.x-k8s.io/multikueue. If managedBy
    is set to another value than flux-framework.org/minicluster, this controller does nothing for the MiniCluster.
    managedBy cannot be changed. (1 to 63 characters)"""

    suspend: Optional[bool] = field("suspend")
    """suspend: true takes the MiniCluster out of the queue. If the MiniCluster has nodes, its pods end and its nodes become
    free; a command with elastic.checkpoint may write a checkpoint first. When suspend is false again, the MiniCluster
    is queued, and has all of its attempts again; their numbers go on. The command runs again, also if it ended with 0
    while its pods ended. Default false."""

    elastic: Optional[ElasticSpec] = field("elastic", "ElasticSpec")
    """elastic are the time limits of a start, the allowed sizes, how the number of tasks follows the size, and how the
    command follows a change of the size while it runs."""

    deadline_seconds: Optional[int] = field("deadlineSeconds")
    """deadlineSeconds is how long the command may run, in seconds from the moment the quorum is reached. Time in the queue
    and during the start does not count. After the deadline the MiniCluster fails, or goes on later
    (elastic.onDeadline). 0 and the default set no deadline: that of the queue counts (defaultDeadline, or else
    maxDeadline). If the queue has none either, 0 means no limit. status.admission.deadlineSeconds has the deadline
    that counts. Default 31500000 (about a year). (default 31500000; 0 to 9000000000)"""

    backoff_limit: Optional[int] = field("backoffLimit")
    """backoffLimit is how often a command that failed is run again before the MiniCluster fails: each time in a new attempt,
    with new pods, after a pause of elastic.recreate. A lead that was lost counts as a failure, unless elastic.onLoss
    is Recreate. Default 0: a failure of the command is the result. (0 to 1000000)"""

    cleanup: Optional[bool] = field("cleanup")
    """cleanup: true deletes the MiniCluster when the command has ended and none of its pods runs any more. The lead's pod
    and its log are deleted too. cleanup excludes ttlSecondsAfterFinished. Default false."""

    ttl_seconds_after_finished: Optional[int] = field("ttlSecondsAfterFinished")
    """ttlSecondsAfterFinished is how long the MiniCluster stays after it has finished, in seconds. Then it is deleted, with
    the lead's pod and its log. 0 is the same as cleanup. Default: the MiniCluster stays until somebody deletes it. (0
    to 1000000000)"""

    interactive: Optional[bool] = field("interactive")
    """interactive: true starts Flux without a command. Users can use the Flux instance until the MiniCluster is deleted.
    Default false, but a MiniCluster without a command is interactive, too."""

    flux: Optional[FluxSpec] = field("flux", "FluxSpec")
    """flux are the settings of the Flux instance."""

    logging: Optional[LoggingSpec] = field("logging", "LoggingSpec")
    """logging says what is printed besides the output of the command."""

    archive: Optional[MiniClusterArchive] = field("archive", "MiniClusterArchive")
    """archive is a saved state of Flux from which the instance starts."""

    network: Optional[Network] = field("network", "Network")
    """network are the settings by which brokers find each other."""

    job_labels: Optional[Dict[str, str]] = field("jobLabels")
    """jobLabels are labels of the JobSet and its Jobs. The API server refuses labels that the manager, Kubernetes or JobSet
    set there, and those of Kueue, which belong to the metadata of the MiniCluster. (at most 256 entries)"""

    share_process_namespace: Optional[bool] = field("shareProcessNamespace")
    """shareProcessNamespace: true lets the containers of a broker's pod see each other's processes. Default false."""

    pod: Optional[PodSpec] = field("pod", "PodSpec")
    """pod are settings of every pod, including the services pod (see services)."""


@dataclass
class MiniClusterContainer(Model):
    """MiniClusterContainer is one container of every pod (or of the services pod)."""

    name: Optional[str] = field("name")
    """name is the container's name. The Flux container is always named after the MiniCluster; every other container needs a
    name. (at most 63 characters)"""

    image: Optional[str] = field("image")
    """image is the container image. Default ghcr.io/rse-ops/accounting:app-latest. (default
    ghcr.io/rse-ops/accounting:app-latest; at most 1024 characters)"""

    image_pull_secret: Optional[str] = field("imagePullSecret")
    """imagePullSecret names a Secret of the namespace to pull the image with. (at most 253 characters)"""

    pull_always: Optional[bool] = field("pullAlways")
    """pullAlways: true pulls the image at every start; it wins over imagePullPolicy. Default false."""

    image_pull_policy: Optional[str] = field("imagePullPolicy")
    """imagePullPolicy is Always, IfNotPresent or Never. Default IfNotPresent. (Always, IfNotPresent, Never)"""

    working_dir: Optional[str] = field("workingDir")
    """workingDir is the directory in which the command runs. Default: the image's. (at most 4096 characters)"""

    command: Optional[str] = field("command")
    """command is the shell command that Flux runs: quotes, $, && and pipes mean what they mean in a shell. Without a
    command, Flux starts and waits for users. In a container beside Flux, command is what that container runs. It may
    have 208 KiB. A longer one belongs into a ConfigMap, which the container mounts and the command reads. (at most
    212992 characters)"""

    commands: Optional[Commands] = field("commands", "Commands")
    """commands are pieces of shell that run before, around and after the command."""

    run_flux: Optional[bool] = field("runFlux")
    """runFlux: true marks the container in which Flux and the command run. Exactly one container has this mark. A single
    container needs no mark."""

    launcher: Optional[bool] = field("launcher")
    """launcher: true runs the command once, on the lead broker, and the command submits its own jobs. Default false: the
    command is submitted as one job."""

    batch: Optional[bool] = field("batch")
    """batch: true submits every line of the command as a job of its own. The jobs run in one batch job, which has the nodes
    and tasks of the MiniCluster and waits for all of them. The exit code is the highest one of the jobs. A line has
    the arguments of `flux submit`, as a shell reads them: the options of the job, then its command. So `a && b`
    submits a, and runs b at once without a job; `sh -c "a && b"` is one job. Empty lines and lines that begin with #
    are skipped. Job <i>, counted from 0, writes to job-<i>.out and job-<i>.err in `logs`. Default false."""

    batch_raw: Optional[bool] = field("batchRaw")
    """batchRaw: true runs the lines of a batch as a script that submits its own jobs. The batch job waits for these jobs.
    The exit code is the highest one of the jobs and the script. Default false."""

    logs: Optional[str] = field("logs")
    """logs is the directory for the output of batch jobs, FLUX_OUTPUT_DIR in the Flux container. Default /tmp/fluxout. (at
    most 4096 characters)"""

    no_wrap_entrypoint: Optional[bool] = field("noWrapEntrypoint")
    """noWrapEntrypoint: true runs the image's own entry point in a container beside Flux, rather than `command` with Flux on
    its path. Default false. A container with neither command nor commands runs the entry point in any case. So does a
    service without a command."""

    ports: Optional[List[int]] = field("ports")
    """ports are TCP ports of the container. A container beside Flux that has ports gets a Service with the container's name.
    (at most 64 items)"""

    environment: Optional[Dict[str, str]] = field("environment")
    """environment are environment variables. (at most 1024 entries)"""

    secrets: Optional[Dict[str, Secret]] = field("secrets", "Secret")
    """secrets are environment variables that are read from Secrets, by variable. (at most 1024 entries)"""

    volumes: Optional[Dict[str, ContainerVolume]] = field("volumes", "ContainerVolume")
    """volumes are mounted into this container, by name. (at most 128 entries)"""

    life_cycle: Optional[LifeCycle] = field("lifeCycle", "LifeCycle")
    """lifeCycle are commands after start and before stop."""

    resources: Optional[Dict[str, Any]] = field("resources")
    """resources are the container's requests and limits. They decide which nodes have room."""

    security_context: Optional[Dict[str, Any]] = field("securityContext")
    """securityContext is the security context of the container."""


@dataclass
class Commands(Model):
    """Commands are pieces of shell around the command. In the Flux container they run in this order: init, pre, then
    brokerPre on the lead or workerPre on a follower, the command, post. A container beside Flux, and a service that
    has a command, runs init, servicePre, the command and post. All of these pieces see FLUX_MINICLUSTER_SIZE,
    FLUX_MINICLUSTER_MIN_SIZE and FLUX_MINICLUSTER_ATTEMPT. The command that Flux runs sees FLUX_MINICLUSTER_NODES and
    FLUX_MINICLUSTER_TASKS too, which are not known before the brokers are up."""

    init: Optional[str] = field("init")
    """init runs first, before Flux is on the path. (at most 65536 characters)"""

    pre: Optional[str] = field("pre")
    """pre runs in every pod, before the broker starts. (at most 65536 characters)"""

    broker_pre: Optional[str] = field("brokerPre")
    """brokerPre runs on the lead, before its broker starts. (at most 65536 characters)"""

    worker_pre: Optional[str] = field("workerPre")
    """workerPre runs on a follower, before its broker starts. (at most 65536 characters)"""

    prefix: Optional[str] = field("prefix")
    """prefix is a wrapper: it is put before the command line that submits the command. (at most 4096 characters)"""

    script: Optional[str] = field("script")
    """script is a command of several lines, in place of `command`. A backslash before `$`, a backquote, a backslash or the
    end of a line is removed first, as in the Flux Operator. It may have 208 KiB. (at most 212992 characters)"""

    post: Optional[str] = field("post")
    """post runs in every pod after the broker has ended. In a container beside Flux it runs after the command of that
    container. (at most 65536 characters)"""

    service_pre: Optional[str] = field("servicePre")
    """servicePre runs before the command of a container beside Flux, or of a service. (at most 65536 characters)"""


@dataclass
class Secret(Model):
    """Secret is a key of a Secret."""

    name: Optional[str] = field("name")
    """name of the Secret. (1 to 253 characters)"""

    key: Optional[str] = field("key")
    """key in the Secret. (1 to 253 characters)"""


@dataclass
class ContainerVolume(Model):
    """ContainerVolume is a volume, and the path at which it is mounted. Its source is the first one that is set of
    csiDriver, secretName, emptyDir, hostPath, configMapName and claimName. A volume without a source is an empty
    directory."""

    path: Optional[str] = field("path")
    """path is where the volume is mounted. Default: /dev/shm for an emptyDir, and /<name of the volume> for any other
    volume. (at most 4096 characters)"""

    read_only: Optional[bool] = field("readOnly")
    """readOnly: true mounts the volume read-only. Default false."""

    host_path: Optional[str] = field("hostPath")
    """hostPath is a directory of the node. (at most 4096 characters)"""

    config_map_name: Optional[str] = field("configMapName")
    """configMapName names a ConfigMap. (at most 253 characters)"""

    items: Optional[Dict[str, str]] = field("items")
    """items are the keys of the ConfigMap or Secret to mount, with the paths of their files. Default: all keys. (at most
    1024 entries)"""

    claim_name: Optional[str] = field("claimName")
    """claimName names a PersistentVolumeClaim. (at most 253 characters)"""

    secret_name: Optional[str] = field("secretName")
    """secretName names a Secret. (at most 253 characters)"""

    empty_dir: Optional[bool] = field("emptyDir")
    """emptyDir: true mounts an empty directory that exists as long as the pod."""

    empty_dir_medium: Optional[str] = field("emptyDirMedium")
    """emptyDirMedium is "" (the node's disk) or "Memory", in upper or lower case. (at most 64 characters)"""

    empty_dir_size_limit: Optional[str] = field("emptyDirSizeLimit")
    """emptyDirSizeLimit is how much may be written to the empty directory, e.g. 64Gi. (at most 32 characters; pattern
    ^([0-9]{1,30}(\\.[0-9]{0,30})?([KMGTPE]i|[mkMGTPE]|[eE][0-9]{1,2})?)?$)"""

    csi_driver: Optional[str] = field("csiDriver")
    """csiDriver is the driver of an inline CSI volume. (at most 253 characters)"""

    csi_driver_attributes: Optional[Dict[str, str]] = field("csiDriverAttributes")
    """csiDriverAttributes are the attributes of the CSI volume. (at most 256 entries)"""


@dataclass
class LifeCycle(Model):
    """LifeCycle are commands that run in a container after it has started and before it is stopped."""

    post_start_exec: Optional[str] = field("postStartExec")
    """postStartExec runs after the container has started, in a shell. (at most 65536 characters)"""

    pre_stop_exec: Optional[str] = field("preStopExec")
    """preStopExec runs before the container is stopped, in a shell. (at most 65536 characters)"""


@dataclass
class Dependency(Model):
    """Dependency is a MiniCluster of the same namespace for which another waits."""

    name: Optional[str] = field("name")
    """name names a MiniCluster of the namespace. The MiniCluster may not exist yet. (1 to 52 characters; pattern
    ^[a-z]([-a-z0-9]*[a-z0-9])?$)"""

    condition: Optional[str] = field("condition")
    """condition says what has to be so of that MiniCluster: Started (its command has begun), Succeeded, Failed (it has
    finished without success) or Finished. Default Succeeded. (default Succeeded; Started, Succeeded, Failed,
    Finished)"""


@dataclass
class PlacementSpec(Model):
    """PlacementSpec says which nodes a MiniCluster gets, of those that have room."""

    policy: Optional[str] = field("policy")
    """policy is Pack (the fewest racks, and in these the fullest nodes that have room) or Spread (as many racks and nodes as
    possible). Default Pack. (Pack, Spread)"""

    topology_key: Optional[str] = field("topologyKey")
    """topologyKey is a label of nodes. Nodes with the same value are a domain: they are near to each other. The label must
    be one of the manager's --topology-labels. These are by default topology.kubernetes.io/zone,
    cloud.provider.com/topology-block and cloud.provider.com/topology-rack. Default: none. (1 to 317 characters;
    pattern ^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$)"""

    topology: Optional[str] = field("topology")
    """topology is Required or Preferred. Required: all pods are in one domain of topologyKey. Until a domain has room, the
    MiniCluster waits, or starts at a smaller size. Preferred: the pods are in as few domains as possible. Default
    Preferred. (Required, Preferred)"""

    exclusive: Optional[bool] = field("exclusive")
    """exclusive gives each broker a whole node: no other broker is placed on that node, whatever the pods request. The
    broker only gets a node on which no pods run but those of DaemonSets and static pods. The node counts as a whole
    for the queue. Pods that are no brokers may come to the node later, unless a taint keeps them off. A change has an
    effect when the MiniCluster is admitted again. Default false."""


@dataclass
class ElasticSpec(Model):
    """ElasticSpec are the time limits of a start, the allowed sizes, how the number of tasks follows the size, and how the
    command follows a change of the size while it runs."""

    wait_for_size: Optional[str] = field("waitForSize")
    """waitForSize is how long the MiniCluster waits in the queue for `size`, before it starts at the largest allowed size
    that fits. Default 0s: the MiniCluster starts at once at a size that fits, or up to two seconds later while nodes
    are being freed. (default 0s)"""

    expected_runtime: Optional[str] = field("expectedRuntime")
    """expectedRuntime is how long the command is expected to run with `size` brokers. Unlike deadlineSeconds, it ends
    nothing: the scheduler uses it to tell which nodes become free first, and whether the MiniCluster ends sooner if
    it waits for more brokers. Default: how long others of the same user and a similar size took, if these times are
    known and similar."""

    quorum_timeout: Optional[str] = field("quorumTimeout")
    """quorumTimeout is how long the MiniCluster waits for all placed brokers, from its admission. After that it starts with
    the brokers that are up, if these are at least minSize. At least 1s. Default 2m. (default 2m)"""

    start_timeout: Optional[str] = field("startTimeout")
    """startTimeout is how long the MiniCluster waits for minSize brokers, from its admission. After that the attempt is
    given up: its pods are removed, and its nodes are freed. The MiniCluster is queued again after a pause. Of a
    MiniCluster with a deadline, the start may take as long as the deadline, or 10m if that is longer: a longer
    startTimeout is cut. At least 1s. Default 10m. (default 10m)"""

    grow: Optional[bool] = field("grow")
    """grow lets the scheduler grow a malleable MiniCluster (see size) that runs above size, up to maxSize, on nodes that
    nobody waits for. The scheduler never changes size. If somebody sets another size while the MiniCluster has nodes,
    that size is the limit until the next start. With false, the MiniCluster gets no more than size, and brokers above
    size leave. A change counts at once. Default false."""

    sizes: Optional[Sizes] = field("sizes", "Sizes")
    """sizes are the allowed sizes between minSize and size. Default: any size."""

    tasks: Optional[TaskPolicy] = field("tasks", "TaskPolicy")
    """tasks says how the number of tasks follows the size."""

    recreate: Optional[Recreate] = field("recreate", "Recreate")
    """recreate says how often, and after which pause, a MiniCluster that did not start is tried again."""

    resize: Optional[str] = field("resize")
    """resize says how the command follows when brokers join or leave while it runs. None: the command keeps its brokers
    until it ends. Flux: the command goes on, because it submits jobs of its own, or users do. Restart: the command
    writes a checkpoint (see checkpoint), ends, and runs again with the other brokers; the Flux instance stays up.
    Flux is for launchers and interactive MiniClusters, Restart for launchers and commands that are one job. A change
    counts from the next admission. Default: Flux for launchers and interactive MiniClusters, else None. (None, Flux,
    Restart)"""

    checkpoint: Optional[Checkpoint] = field("checkpoint", "Checkpoint")
    """checkpoint says how the command writes checkpoints, and how it goes on from one. Commands that are one job, and
    launchers, can have checkpoints. A change counts from the next admission."""

    on_loss: Optional[str] = field("onLoss")
    """onLoss says what happens when the MiniCluster loses a broker while its command runs. Fail: the command has half a
    minute to end by itself, and then the MiniCluster fails. Continue: the command goes on with the other brokers, and
    the lost broker joins again when it has a new pod. Recreate: all pods are removed, and the command runs again as
    recreate says; with resize: Restart and at least minSize brokers left, these stay, and the command runs again at
    once. The loss of the lead always ends the MiniCluster, or with Recreate the attempt. Default: Recreate with a
    checkpoint, Continue for launchers, batches and interactive MiniClusters, else Fail. (Fail, Continue, Recreate)"""

    on_deadline: Optional[str] = field("onDeadline")
    """onDeadline says what happens at the deadline of the command (deadlineSeconds, or that of the queue). Fail: the
    MiniCluster fails. Requeue: the command is asked for a checkpoint so long before the deadline as writing it may
    take (checkpoint.wait, and 15 s), at most half of the deadline. Then the MiniCluster is queued again, and the
    command goes on in a further attempt, with the whole deadline again. Requeue needs checkpoint, and a deadline
    above 30 s. Interactive MiniClusters fail. A change counts until the command is asked. Default Fail. (Fail,
    Requeue)"""

    requeue_limit: Optional[int] = field("requeueLimit")
    """requeueLimit is how often onDeadline: Requeue does that before the MiniCluster fails. Default 10. (default 10; 0 to
    1000)"""


@dataclass
class Sizes(Model):
    """Sizes are the allowed sizes: minSize, minSize op operand, (minSize op operand) op operand, ... up to size. A count
    range of Flux's jobspec (RFC 14) is defined in the same way. The size itself is always allowed."""

    operator: Optional[str] = field("operator")
    """operator is the operation that gives the next allowed size: "+", "*" or "^". Default "+". (default +; +, *, ^)"""

    operand: Optional[int] = field("operand")
    """operand is the right operand of the operator. Default 1. (default 1; 1 to 100000)"""


@dataclass
class TaskPolicy(Model):
    """TaskPolicy says how the number of tasks follows the size. At the size for which `tasks` was set the number of tasks is
    always `tasks`."""

    scaling: Optional[str] = field("scaling")
    """scaling is PerNode (tasks in proportion to the brokers) or Fixed (always `tasks`). With Fixed, a size with fewer cores
    than tasks is not allowed, unless `size` has fewer too. Default PerNode. (default PerNode; PerNode, Fixed)"""

    constraint: Optional[str] = field("constraint")
    """constraint says which numbers of tasks the application can run with: Any, PowerOfTwo, Cube or MultipleOf. A scaled
    number is lowered to the next such number. A size for which there is no such number is not allowed. Default Any.
    (default Any; Any, PowerOfTwo, Cube, MultipleOf)"""

    multiple_of: Optional[int] = field("multipleOf")
    """multipleOf is the number for constraint: MultipleOf. (1 to 100000000)"""


@dataclass
class Recreate(Model):
    """Recreate says how often, and after which pause, a MiniCluster that did not start is tried again. The pause before
    attempt n+1 is backoffBase * 2^(n-1), at most backoffMax. Up to a tenth is added at random, so that MiniClusters
    do not all return at the same moment. Nodes on which single brokers did not start are avoided for ten minutes, as
    long as other nodes have room."""

    limit: Optional[int] = field("limit")
    """limit is how often a MiniCluster that did not start is tried again before it fails. Default 5. (default 5; 0 to 1000)"""

    backoff_base: Optional[str] = field("backoffBase")
    """backoffBase is the pause after the first attempt, at least 1s. Default 30s. (default 30s)"""

    backoff_max: Optional[str] = field("backoffMax")
    """backoffMax is the longest pause, at least 1s. Default 30m. (default 30m)"""

    size_policy: Optional[str] = field("sizePolicy")
    """sizePolicy is Same or Shrink. With Same, the next attempt may have any allowed size. With Shrink, the next attempt has
    a smaller size than the one that did not start, if there is a smaller one. Default Same. (default Same; Same,
    Shrink)"""


@dataclass
class Checkpoint(Model):
    """Checkpoint says how the command writes checkpoints, and how it goes on from one. With signal or command, the command
    is asked for a checkpoint before it has to end: when it is run again with other brokers, when the scheduler evicts
    it, and when it is suspended. With neither, the program writes checkpoints by itself. Then the command gets
    SIGTERM, and may still write one."""

    signal: Optional[str] = field("signal")
    """signal asks for a checkpoint. All tasks of the command get the signal; a launcher needs command instead. The
    checkpoint is written when the program ends by itself, or when it makes the file that the variable
    FLUX_MINICLUSTER_CHECKPOINT_WRITTEN names (see path). Otherwise nobody knows, and the program is ended after wait.
    (SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGURG, SIGXCPU)"""

    command: Optional[str] = field("command")
    """command asks for a checkpoint: shell that runs on the lead, in the Flux instance. The checkpoint is written when it
    ends with exit code 0. If it fails, it runs once more. (1 to 16384 characters)"""

    wait: Optional[str] = field("wait")
    """wait is how long writing a checkpoint may take, from when the command is asked for it. Then the command gets SIGTERM
    if it still runs, and SIGKILL after 15 s more. Without signal and command it is the time from SIGTERM to SIGKILL.
    At least 1s. Default 2m. (default 2m)"""

    interval: Optional[str] = field("interval")
    """interval asks for a checkpoint every so often while the command runs, so that a lost node costs at most that. At least
    1m. Default: never."""

    path: Optional[str] = field("path")
    """path is the directory with the checkpoints, on a volume that all brokers have. The command finds it in
    FLUX_MINICLUSTER_CHECKPOINT. FLUX_MINICLUSTER_CHECKPOINT_WRITTEN names a file in it by which the program tells
    that it has written a checkpoint. Default: none. (1 to 1024 characters; pattern ^/)"""

    restart_command: Optional[str] = field("restartCommand")
    """restartCommand is run in place of the command once there may be a checkpoint: the command was begun before, in this
    attempt or an earlier one, and path, if it is set, is not empty. Default: the command, which finds out by itself
    (FLUX_MINICLUSTER_RESTART). (1 to 65536 characters)"""


@dataclass
class FluxSpec(Model):
    """FluxSpec are the settings of the Flux instance."""

    container: Optional[FluxContainer] = field("container", "FluxContainer")
    """container is the image from which Flux is copied into every pod."""

    submit_command: Optional[str] = field("submitCommand")
    """submitCommand is used in place of `flux submit`, e.g. `flux run`. (at most 4096 characters)"""

    option_flags: Optional[str] = field("optionFlags")
    """optionFlags are further options of the submit command, e.g. `-ompi=openmpi@5`. (at most 4096 characters)"""

    wrap: Optional[str] = field("wrap")
    """wrap is a command under which the lead broker is started, e.g. `strace,-f`. (at most 4096 characters)"""

    connect_timeout: Optional[str] = field("connectTimeout")
    """connectTimeout is how long a follower tries to connect to the lead before it starts over, as a Flux duration (RFC 23).
    Default 5s if `flux` is given. With "", Flux's own default applies. (default 5s; at most 32 characters; pattern
    ^([0-9]+(\\.[0-9]+)?(ms|s|m|h|d)?)?$)"""

    topology: Optional[str] = field("topology")
    """topology is the shape of the tree of brokers: kary:K, binomial or mincrit. Default kary:256, or kary:0 with bursting.
    (at most 256 characters)"""

    log_level: Optional[int] = field("logLevel")
    """logLevel is how much the broker logs: 0 (only emergencies) to 7 (all). Default 6. (default 6; 0 to 7)"""

    minimal_service: Optional[bool] = field("minimalService")
    """minimalService: true gives only the lead a name in DNS. Default false."""

    disable_socket: Optional[bool] = field("disableSocket")
    """disableSocket: true leaves the path of the broker's socket to Flux. Default false."""

    no_wait_socket: Optional[bool] = field("noWaitSocket")
    """noWaitSocket: true starts containers beside Flux at once. Default false: a container that has a command waits for the
    broker of its pod."""

    complete_workers: Optional[bool] = field("completeWorkers")
    """completeWorkers: true ends the pod of a follower when its broker ends, for any reason. Default false: the broker is
    started again until the lead is gone."""

    curve_cert: Optional[str] = field("curveCert")
    """curveCert is the text of a CURVE certificate for the brokers. All who may read the MiniCluster can read this text:
    better give curveCertSecretRef. Default: a new certificate for every attempt. (at most 16384 characters)"""

    curve_cert_secret_ref: Optional[Secret] = field("curveCertSecretRef", "Secret")
    """curveCertSecretRef is the Secret with the CURVE certificate for the brokers, in the namespace of the MiniCluster. The
    pods do not start before it exists. Default: see curveCert."""

    broker_config: Optional[str] = field("brokerConfig")
    """brokerConfig is the text of a broker configuration (TOML) to use in place of the generated one. (at most 262144
    characters)"""

    environment: Optional[Dict[str, str]] = field("environment")
    """environment are variables that flux-view.sh sets, for users who connect to the instance. (at most 256 entries)"""

    scheduler: Optional[FluxScheduler] = field("scheduler", "FluxScheduler")
    """scheduler is the scheduler inside the instance."""

    resources: Optional[str] = field("resources")
    """resources says which cores and GPUs Flux schedules. Pod: those that the Flux container of a pod is given; less than
    one core counts as one. Local: those that each broker sees on its node, as in the Flux Operator, for pods that
    have whole nodes. Default Pod, or Local if the Flux container has no CPU limit or request. A command with more
    tasks than these cores can hold is refused. (default Pod; Pod, Local)"""

    gpu_resources: Optional[List[str]] = field("gpuResources")
    """gpuResources are extended resources of which a unit is a GPU to Flux, beside nvidia.com/gpu, nvidia.com/gpu.shared,
    nvidia.com/mig-*, amd.com/gpu, gpu.intel.com/i915, gpu.intel.com/xe and habana.ai/gaudi. (at most 16 items)"""

    bursting: Optional[Bursting] = field("bursting", "Bursting")
    """bursting joins this MiniCluster with others in one Flux instance."""

    arch: Optional[str] = field("arch")
    """arch does nothing; the Flux Operator has the field. (at most 64 characters)"""

    munge_secret: Optional[str] = field("mungeSecret")
    """mungeSecret does nothing; the Flux Operator has the field. (at most 253 characters)"""


@dataclass
class FluxContainer(Model):
    """FluxContainer is the init container that copies Flux into the pod."""

    disable: Optional[bool] = field("disable")
    """disable: true takes Flux from the application's own image. Default false."""

    name: Optional[str] = field("name")
    """name is the name of the init container and of the volume. Default flux-view. (default flux-view; at most 63
    characters)"""

    image: Optional[str] = field("image")
    """image has to be built for the operating system of the application's image. Default
    ghcr.io/converged-computing/flux-view-ubuntu:tag-noble. (default
    ghcr.io/converged-computing/flux-view-ubuntu:tag-noble; at most 1024 characters)"""

    image_pull_secret: Optional[str] = field("imagePullSecret")
    """imagePullSecret names a Secret of the namespace to pull the image with. (at most 253 characters)"""

    pull_always: Optional[bool] = field("pullAlways")
    """pullAlways: true pulls the image at every start. Default false."""

    working_dir: Optional[str] = field("workingDir")
    """workingDir is the directory in which the init container runs. (at most 4096 characters)"""

    mount_path: Optional[str] = field("mountPath")
    """mountPath is where Flux is mounted in the Flux container. Default /mnt/flux. (default /mnt/flux; at most 4096
    characters; pattern ^(/.*)?$)"""

    python_path: Optional[str] = field("pythonPath")
    """pythonPath is added to PYTHONPATH. Default: the site-packages of the view. (at most 4096 characters)"""

    resources: Optional[Dict[str, Any]] = field("resources")
    """resources are the init container's requests and limits."""

    security_context: Optional[Dict[str, Any]] = field("securityContext")
    """securityContext is the security context of the init container."""


@dataclass
class FluxScheduler(Model):
    """FluxScheduler is the scheduler inside the instance."""

    simple: Optional[bool] = field("simple")
    """simple: true selects sched-simple, the scheduler that is a part of Flux. Default false: Fluxion, if the view (or the
    image that Flux is in) has Fluxion."""

    queue_policy: Optional[str] = field("queuePolicy")
    """queuePolicy is the policy of Fluxion's queue: fcfs, easy, conservative or hybrid. With fcfs, Fluxion refuses a job
    that needs more brokers than are up, where the others let the job wait. Default easy. (at most 64 characters)"""


@dataclass
class Bursting(Model):
    """Bursting joins MiniClusters in one Flux instance. The MiniClusters may be in several Kubernetes clusters. The instance
    is that of the first MiniCluster, which has no leadBroker. All brokers share one list of hosts, in which a rank
    never changes its place: - the hosts of the first MiniCluster, - the hosts of the MiniClusters in clusters, in
    their order, - the hosts of a MiniCluster that joins and is not named in clusters. All MiniClusters must have the
    same list, or a list that is only longer. All must have the same certificate, too (curveCertSecretRef). Each
    MiniCluster has its own size, quorum and tasks. The command of the first MiniCluster gets only nodes of that
    MiniCluster. Jobs that the command submits itself can run on all nodes."""

    lead_broker: Optional[FluxBroker] = field("leadBroker", "FluxBroker")
    """leadBroker is the lead broker of the MiniCluster to join. It is unset, or its address is empty, on the first
    MiniCluster. If it is set, all brokers of this MiniCluster are followers. The command of this MiniCluster does not
    run, and the MiniCluster ends with the instance."""

    hostlist: Optional[str] = field("hostlist")
    """hostlist is a list of all hosts (Flux RFC 29), in place of the generated list. It must have the hosts of this
    MiniCluster: <name>-<rank> for ranks from 0 to maxSize-1, or those of its pods: <name>-0-0-0, and <name>-w-0-<i>
    for i from 0 to maxSize-2. Without leadBroker, these hosts must be the first ones, in this order. (at most 65536
    characters)"""

    clusters: Optional[List[BurstedCluster]] = field("clusters", "BurstedCluster")
    """clusters are the MiniClusters that join. Their hosts are named like those of this MiniCluster: <name>-<rank>. Hosts
    with other names need hostlist. (at most 64 items)"""


@dataclass
class FluxBroker(Model):
    """FluxBroker is the lead broker of another MiniCluster. A FluxBroker without an address is unset: Go clients with the
    types of the Flux Operator always send one."""

    address: Optional[str] = field("address")
    """address is the host name or IP address at which this MiniCluster can reach the broker. (at most 253 characters)"""

    name: Optional[str] = field("name")
    """name is the name of the broker's MiniCluster. (at most 63 characters)"""

    size: Optional[int] = field("size")
    """size is the number of brokers that the broker's MiniCluster can have, its maxSize. (0 to 100000)"""

    port: Optional[int] = field("port")
    """port is the port of the broker. Default 8050. (default 8050; 1 to 65535)"""


@dataclass
class BurstedCluster(Model):
    """BurstedCluster is a MiniCluster that joins the instance."""

    name: Optional[str] = field("name")
    """name is the name of the MiniCluster. Default burst-<index>. (at most 63 characters)"""

    size: Optional[int] = field("size")
    """size is the number of brokers that the joining MiniCluster can have, its maxSize. Default: the maxSize of this
    MiniCluster. (0 to 100000)"""


@dataclass
class LoggingSpec(Model):
    """LoggingSpec says what is printed besides the output of the command."""

    quiet: Optional[bool] = field("quiet")
    """quiet: true prints the output of the command alone. Default false."""

    strict: Optional[bool] = field("strict")
    """strict: true ends a container at the first line of init, pre, brokerPre, workerPre or servicePre that fails. Default
    false. The exit code of post is ignored in either case: the exit code of the command is the result."""

    debug: Optional[bool] = field("debug")
    """debug: true submits the command with -vvv. Default false."""

    zeromq: Optional[bool] = field("zeromq")
    """zeromq: true logs the events of the brokers' sockets. Default false."""

    timed: Optional[bool] = field("timed")
    """timed: true prints how long the broker and the submitted command ran. Default false."""

    label_io: Optional[bool] = field("labelIO")
    """labelIO: true begins each line of the command's output with the task that printed the line, as `flux run --label-io`
    does ("3: ..."). With batch this holds for the lines in the files of the jobs; with batchRaw, a launcher or an
    interactive MiniCluster it does nothing. Default false."""


@dataclass
class MiniClusterArchive(Model):
    """MiniClusterArchive is a saved state of Flux from which the instance starts."""

    path: Optional[str] = field("path")
    """path is a file on a volume that `flux dump` wrote. Flux restores it if it exists. (at most 4096 characters)"""


@dataclass
class Network(Model):
    """Network are the settings by which brokers find each other."""

    headless_name: Optional[str] = field("headlessName")
    """headlessName is the name of the headless Service, which is a part of the brokers' DNS domain. MiniClusters of a
    namespace may share a Service. Default: the MiniCluster's name. (at most 63 characters; pattern
    ^([a-z]([-a-z0-9]*[a-z0-9])?)?$)"""

    disable_affinity: Optional[bool] = field("disableAffinity")
    """disableAffinity: true packs several brokers of the MiniCluster onto a node if they fit. Default false: one broker per
    node as long as enough nodes have room."""

    port: Optional[int] = field("port")
    """port is the TCP port on which the brokers listen. Default 8050. (default 8050; 1 to 65535)"""

    interface: Optional[str] = field("interface")
    """interface is the network interface of a pod on which the broker listens, or that of the nodes with pod.hostNetwork.
    Default eth0. (default eth0; at most 15 characters; pattern ^[A-Za-z0-9_.-]+$)"""

    cluster_domain: Optional[str] = field("clusterDomain")
    """clusterDomain is the DNS domain of the Kubernetes cluster. Default cluster.local. (default cluster.local; at most 253
    characters; pattern ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$)"""


@dataclass
class PodSpec(Model):
    """PodSpec are settings of every pod of the MiniCluster."""

    annotations: Optional[Dict[str, str]] = field("annotations")
    """annotations of the pods. (at most 256 entries)"""

    labels: Optional[Dict[str, str]] = field("labels")
    """labels of the pods. The API server refuses labels that the manager, Kubernetes or JobSet set on pods, and those of
    Kueue, which belong to the metadata of the MiniCluster. Labels app, app.kubernetes.io/name and namespace stay as
    they are here. (at most 256 entries)"""

    restart_policy: Optional[str] = field("restartPolicy")
    """restartPolicy of the services pod: Never or OnFailure. Default OnFailure. It has no effect on brokers: a follower that
    failed gets a new pod, and a command that failed is run again as backoffLimit says. (Never, OnFailure)"""

    service_account_name: Optional[str] = field("serviceAccountName")
    """serviceAccountName of the pods. Default: the namespace's default. (at most 253 characters)"""

    automount_service_account_token: Optional[bool] = field("automountServiceAccountToken")
    """automountServiceAccountToken: true gives the pods the service account's token. Default false."""

    runtime_class_name: Optional[str] = field("runtimeClassName")
    """runtimeClassName of the pods. (at most 253 characters)"""

    scheduler_name: Optional[str] = field("schedulerName")
    """schedulerName is the scheduler that binds the pods to the nodes that were chosen for them. Default: the cluster's
    default scheduler. (at most 253 characters)"""

    node_selector: Optional[Dict[str, str]] = field("nodeSelector")
    """nodeSelector are labels that the nodes must have. (at most 256 entries)"""

    node_affinity: Optional[Dict[str, List[str]]] = field("nodeAffinity")
    """nodeAffinity are labels that the nodes must have, each with one of its values. (at most 256 entries)"""

    tolerations: Optional[List[Toleration]] = field("tolerations", "Toleration")
    """tolerations are taints of nodes that the pods tolerate. (at most 64 items)"""

    dns_policy: Optional[str] = field("dnsPolicy")
    """dnsPolicy of the pods. Default ClusterFirst, which is ClusterFirstWithHostNet for brokers with hostNetwork.
    (ClusterFirst, ClusterFirstWithHostNet, Default, None)"""

    host_network: Optional[bool] = field("hostNetwork")
    """hostNetwork: true gives the brokers the network of their nodes, for example for EFA, RDMA or Slingshot. It needs
    placement.exclusive, since two brokers of one node would need the same port. network.interface has to be the
    interface with the internal IP of the nodes, and not that of the fabric. $HOSTNAME is the node's then. Default
    false."""

    host_ipc: Optional[bool] = field("hostIPC")
    """hostIPC: true shares the node's IPC namespace. Default false."""

    host_pid: Optional[bool] = field("hostPID")
    """hostPID: true shares the node's process namespace. Default false."""

    resources: Optional[Dict[str, Union[int, str]]] = field("resources")
    """resources are the requests and the limits of the Flux container, if it has none itself."""

    security_context: Optional[Dict[str, Any]] = field("securityContext")
    """securityContext is the security context of the pods."""


@dataclass
class Toleration(Model):
    """Toleration is a taint that the pods tolerate."""

    key: Optional[str] = field("key")
    """key of the taint. "" with operator Exists tolerates every taint. (at most 316 characters)"""

    operator: Optional[str] = field("operator")
    """operator is Equal or Exists. Default Equal. (Equal, Exists)"""

    value: Optional[str] = field("value")
    """value of the taint, for operator Equal. (at most 63 characters)"""

    effect: Optional[str] = field("effect")
    """effect is NoSchedule, PreferNoSchedule or NoExecute. Default: all. (NoSchedule, PreferNoSchedule, NoExecute)"""


@dataclass
class MiniClusterStatus(Model):
    """MiniClusterStatus is the observed state. Only the controller writes it."""

    size: Optional[int] = field("size")
    """size is the number of brokers that are up."""

    selector: Optional[str] = field("selector")
    """selector selects the placed pods of the brokers, for `kubectl scale` and HPA."""

    jobid: Optional[str] = field("jobid")
    """jobid is never set; the Flux Operator has the field."""

    maximum_size: Optional[int] = field("maximumSize")
    """maximumSize is the number of broker pods, including the gated ones: maxSize as far as the cluster could hold the pods
    (see maxSize), or size if the MiniCluster cannot grow."""

    tasks: Optional[int] = field("tasks")
    """tasks is the number of tasks with which the command is started; 0 if Flux chooses."""

    tasks_for: Optional[TasksFor] = field("tasksFor", "TasksFor")
    """tasksFor is the size for which spec.tasks was last set, and that number. If spec.size alone changes afterwards,
    elastic.tasks says how many tasks the new size has."""

    nodes: Optional[int] = field("nodes")
    """nodes is the number of nodes that the MiniCluster holds now. These are promised to the MiniCluster, or have pods of
    the MiniCluster that have not ended."""

    admission: Optional[Admission] = field("admission", "Admission")
    """admission says which nodes the MiniCluster was given. It is written before pods are placed, and is unset while the
    MiniCluster waits."""

    queue: Optional[str] = field("queue")
    """queue is the queue in which the MiniCluster waits or waited."""

    met_dependencies: Optional[List[Dependency]] = field("metDependencies", "Dependency")
    """metDependencies are the entries of spec.after that were met. (at most 64 items)"""

    blocked_since: Optional[datetime] = field("blockedSince", datetime)
    """blockedSince is when the MiniCluster was the first of its queue and found no room, for the first time since it was
    queued. What puts it off counts from then."""

    requeue_state: Optional[RequeueState] = field("requeueState", "RequeueState")
    """requeueState says how many attempts were given up, and when the next one may begin."""

    attempts: Optional[List[Attempt]] = field("attempts", "Attempt")
    """attempts are the last ten attempts that ended without success, the oldest first. (at most 10 items)"""

    runs: Optional[int] = field("runs")
    """runs is how often the command was begun, in all attempts, with the restarts while its MiniCluster kept its nodes
    (elastic.resize)."""

    restarts: Optional[List[Restart]] = field("restarts", "Restart")
    """restarts are the last ten restarts of the command with other brokers while its MiniCluster kept its nodes, the oldest
    first. (at most 10 items)"""

    checkpoint_time: Optional[datetime] = field("checkpointTime", datetime)
    """checkpointTime is when the command was last known to have written a checkpoint. A checkpoint that nobody asked for, or
    that was not confirmed, is not known."""

    usage: Optional[Usage] = field("usage", "Usage")
    """usage is what the attempts used that have ended. It is final when the MiniCluster has finished. Unset: nothing."""

    avoid: Optional[Avoid] = field("avoid", "Avoid")
    """avoid are nodes on which brokers did not start."""

    last_decision: Optional[Decision] = field("lastDecision", "Decision")
    """lastDecision is the last decision about the MiniCluster. Every decision is also an event with the same reason and
    message."""

    pending_events: Optional[List[Decision]] = field("pendingEvents", "Decision")
    """pendingEvents are the decisions before lastDecision whose events were not known to be written when this status was
    written, the oldest first. Their events are sent again after a restart of the controller. (at most 16 items)"""

    start_time: Optional[datetime] = field("startTime", datetime)
    """startTime is when the quorum was reached in the current attempt."""

    completion_time: Optional[datetime] = field("completionTime", datetime)
    """completionTime is when the controller saw the end of the command."""

    exit_code: Optional[int] = field("exitCode")
    """exitCode is the exit code of the lead broker, which is the command's. It is unset while the command runs, if the
    command never began, and if the lead's pod was gone before the controller could read it."""

    observed_generation: Optional[int] = field("observedGeneration")
    """observedGeneration is the generation of the spec to which the status belongs."""

    conditions: Optional[List[Condition]] = field("conditions", "Condition")
    """conditions: Accepted, Admitted, QuorumReached, JobRunning, Finished, and their summary JobMiniClusterReady."""


@dataclass
class TasksFor(Model):
    """TasksFor is a number of tasks, and the size for which it was set."""

    size: Optional[int] = field("size")

    tasks: Optional[int] = field("tasks")


@dataclass
class Admission(Model):
    """Admission says how many brokers the scheduler admitted, and on which nodes."""

    attempt: Optional[int] = field("attempt")
    """attempt is the number of the attempt. It rises with each admission, and never falls: a program can use it as a fence.
    (at least 1)"""

    generation: Optional[int] = field("generation")
    """generation is the generation of the spec that was admitted. The pods are made from that spec."""

    size: Optional[int] = field("size")
    """size is the number of brokers that were placed. (at least 1)"""

    wanted: Optional[int] = field("wanted")
    """wanted is the size in the spec at the admission. The number of tasks is in proportion to it."""

    resized: Optional[bool] = field("resized")
    """resized is true after the size in the spec has differed from wanted. From then on the MiniCluster follows the size in
    the spec, also with elastic.grow."""

    quorum: Optional[int] = field("quorum")
    """quorum is the number of brokers that the command waits for. At first it is size. After elastic.quorumTimeout it is
    lowered to a size for which enough brokers are up. (at least 1)"""

    nodes: Optional[str] = field("nodes")
    """nodes are the nodes by rank, as a hostlist (Flux RFC 29). The first node is the lead's. A node with several brokers
    appears several times. (at least 1 characters)"""

    lead: Optional[str] = field("lead")
    """lead is the UID of the lead's pod. It is set before the manager places the pod, or at the start of the command if the
    API server bound the pod. No other pod of rank 0 is the lead of this attempt."""

    vacated: Optional[str] = field("vacated")
    """vacated are the ranks that have given their node back since the admission, as an idset (Flux RFC 22): "5-7". They are
    still counted in size and listed in nodes, so that the other ranks do not change. The number of remaining brokers
    is size minus these ranks."""

    drain: Optional[Drain] = field("drain", "Drain")
    """drain are the ranks that are asked to leave. When they have left, they are vacated."""

    moved: Optional[str] = field("moved")
    """moved are the ranks that got another node since they did not start on their first one, as an idset."""

    loss: Optional[Loss] = field("loss", "Loss")
    """loss are the brokers that were lost while the command ran."""

    joining: Optional[str] = field("joining")
    """joining are the ranks that have no part in the command yet, as an idset: they got a node after its last start, and the
    command is run again with them (elastic.resize: Restart)."""

    restarts: Optional[int] = field("restarts")
    """restarts is how often the command was run again in this attempt, and losses how often since brokers were lost."""

    losses: Optional[int] = field("losses")

    restart: Optional[Restart] = field("restart", "Restart")
    """restart is the restart of the command that is under way."""

    eviction: Optional[Eviction] = field("eviction", "Eviction")
    """eviction is set while the command has time to end, because its MiniCluster has to give all nodes back."""

    ready_since: Optional[datetime] = field("readySince", datetime)
    """readySince is since when the lead's pod had been ready at the last decision about its command. A later time means that
    the command was run again, or has written a checkpoint."""

    requests: Optional[Dict[str, Union[int, str]]] = field("requests")
    """requests are the resources that one pod requests, with the defaults of the cluster."""

    exclusive: Optional[bool] = field("exclusive")
    """exclusive is true if each broker has its node alone."""

    priority: Optional[int] = field("priority")
    """priority is the priority of the pods, from their PriorityClass."""

    deadline_seconds: Optional[int] = field("deadlineSeconds")
    """deadlineSeconds is how long the command may run, in seconds from its start: deadlineSeconds of the spec, or else the
    deadline of the queue. Unset: neither sets one."""

    queue_deadlines: Optional[Deadlines] = field("queueDeadlines", "Deadlines")
    """queueDeadlines are the deadlines of the queue at the admission; unset if it had none. A later change of
    deadlineSeconds in the spec counts at once, up to max, but only a queue with extendDeadlines lets it become
    longer."""

    traits: Optional[Traits] = field("traits", "Traits")
    """traits are what the spec said at the admission about the command."""

    quota: Optional[Quota] = field("quota", "Quota")
    """quota is the quota under which the MiniCluster was admitted; unset if its queue is not one of Kueue."""

    usage: Optional[AttemptUsage] = field("usage", "AttemptUsage")
    """usage is what this attempt has used so far. Unset: no decision followed the admission yet."""

    time: Optional[datetime] = field("time", datetime)
    """time is when the scheduler's decision was written."""


@dataclass
class Drain(Model):
    """Drain asks ranks of a MiniCluster to leave: they get no new work, and are evicted at the deadline."""

    ranks: Optional[str] = field("ranks")
    """ranks are the ranks that are to leave, as an idset (Flux RFC 22). The lead, rank 0, is never among them. (at least 1
    characters)"""

    time: Optional[datetime] = field("time", datetime)
    """time is since when ranks are asked to leave, or when they got their time again."""

    deadline: Optional[datetime] = field("deadline", datetime)
    """deadline is when the pods of the ranks are evicted. It is unset before the command runs: then the ranks leave if the
    command begins without them, and otherwise stay. If it does not begin within the maxGrace of the queue, they
    leave."""

    reason: Optional[str] = field("reason")
    """reason says why the ranks are to leave, for example which MiniCluster gets their nodes."""

    again: Optional[bool] = field("again")
    """again is true if the ranks got their time a second time, because the lead had not been told in the first."""


@dataclass
class Loss(Model):
    """Loss are brokers that were lost while the command ran."""

    ranks: Optional[str] = field("ranks")
    """ranks are the ranks of the lost brokers, as an idset (Flux RFC 22)."""

    time: Optional[datetime] = field("time", datetime)
    """time is when the controller saw the loss."""


@dataclass
class Eviction(Model):
    """Eviction is why a MiniCluster has to give all of its nodes back, and until when its command has time to end."""

    reason: Optional[str] = field("reason")
    """reason is the reason that the condition Admitted gets."""

    message: Optional[str] = field("message")
    """message says who gets the nodes, or why they are given back."""

    deadline: Optional[datetime] = field("deadline", datetime)
    """deadline is when the pods are deleted."""

    again: Optional[bool] = field("again")
    """again is true if the command got its time a second time, because the lead had not been told in the first."""


@dataclass
class Deadlines(Model):
    """Deadlines are what a queue says about how long the commands of its MiniClusters may run."""

    default: Optional[str] = field("default")
    """default is the deadline of a MiniCluster that sets none; unset: max."""

    max: Optional[str] = field("max")
    """max is the longest deadline; unset: no limit."""

    extend: Optional[bool] = field("extend")
    """extend is true if a deadline may become longer after the admission."""


@dataclass
class Traits(Model):
    """Traits are the fields of the spec that say how the command runs and which changes it bears. A change of these fields
    in the spec has an effect when the MiniCluster is admitted again. An admission by an earlier manager has no
    traits; the fields of the spec count instead."""

    malleable: Optional[bool] = field("malleable")
    """malleable is true if brokers may join and leave while the command runs: resize is not None."""

    resize: Optional[str] = field("resize")
    """resize of the spec's elastic. (None, Flux, Restart)"""

    checkpoint_wait: Optional[str] = field("checkpointWait")
    """checkpointWait is elastic.checkpoint.wait of the spec; unset if the command writes no checkpoints."""

    asks_for_checkpoint: Optional[bool] = field("asksForCheckpoint")
    """asksForCheckpoint is true if elastic.checkpoint has a signal or a command, and tellsCheckpoints if it has a path or an
    interval."""

    tells_checkpoints: Optional[bool] = field("tellsCheckpoints")

    min_size: Optional[int] = field("minSize")
    """minSize of the spec."""

    quorum_timeout: Optional[str] = field("quorumTimeout")
    """quorumTimeout of the spec's elastic, by which the lead broker starts the command where no manager runs. A shorter one
    of the spec counts at once."""

    sizes: Optional[Sizes] = field("sizes", "Sizes")
    """sizes of the spec's elastic."""

    tasks: Optional[int] = field("tasks")
    """tasks of the spec, the number at the size `wanted`; 0 if Flux chooses the number."""

    task_policy: Optional[TaskPolicy] = field("taskPolicy", "TaskPolicy")
    """taskPolicy is `tasks` of the spec's elastic."""

    slots_per_node: Optional[int] = field("slotsPerNode")
    """slotsPerNode is the number of tasks for which a broker has cores; 0 if it is not known."""

    on_loss: Optional[str] = field("onLoss")
    """onLoss of the spec's elastic. (Fail, Continue, Recreate)"""

    backoff_limit: Optional[int] = field("backoffLimit")
    """backoffLimit of the spec."""


@dataclass
class Quota(Model):
    """Quota is what Kueue granted to a MiniCluster."""

    cluster_queue: Optional[str] = field("clusterQueue")
    """clusterQueue is the ClusterQueue of Kueue whose quota it is. (at least 1 characters)"""

    workload: Optional[str] = field("workload")
    """workload is the UID of the Workload that holds the quota."""

    size: Optional[int] = field("size")
    """size is the number of brokers for which there was quota. It may be smaller than the size of the spec. (at least 1)"""

    time: Optional[datetime] = field("time", datetime)
    """time is when Kueue reserved the quota."""

    node_selector: Optional[Dict[str, str]] = field("nodeSelector")
    """nodeSelector has the node labels of the flavors that Kueue chose."""

    tolerations: Optional[List[Dict[str, Any]]] = field("tolerations")
    """tolerations are those of the flavors. The pods get them when they are placed."""

    topology: Optional[QuotaTopology] = field("topology", "QuotaTopology")
    """topology says in which domains of the flavor's topology the brokers are, and how many in each."""


@dataclass
class QuotaTopology(Model):
    """QuotaTopology is where Kueue counts the brokers of a MiniCluster (PodSetAssignment.topologyAssignment in
    kueue.x-k8s.io/v1beta2), for all its pod sets together."""

    levels: Optional[List[str]] = field("levels")
    """levels are node labels, outermost first. Nodes with the same values of all these labels are a domain. (at least 1
    items)"""

    domains: Optional[List[QuotaDomains]] = field("domains", "QuotaDomains")
    """domains are the domains with brokers."""


@dataclass
class QuotaDomains(Model):
    """QuotaDomains are domains that differ in the innermost level alone, with equal numbers of brokers."""

    within: Optional[List[str]] = field("within")
    """within are the values of the outer levels, outermost first."""

    values: Optional[str] = field("values")
    """values are the values of the innermost level, as a hostlist: "rack[1-3,7]"."""

    brokers: Optional[int] = field("brokers")
    """brokers is how many brokers are in each of these domains at most. (at least 1)"""


@dataclass
class AttemptUsage(Model):
    """AttemptUsage is what an attempt has used so far, in node-seconds."""

    node_seconds: Optional[int] = field("nodeSeconds")
    """nodeSeconds are those until `until`."""

    starting_node_seconds: Optional[int] = field("startingNodeSeconds")
    """startingNodeSeconds is the part of nodeSeconds before the command began to run."""

    until: Optional[datetime] = field("until", datetime)
    """until is the time of the last decision about the attempt. What it has used since then is not part of nodeSeconds yet."""


@dataclass
class RequeueState(Model):
    """RequeueState says how many attempts were given up or go on in a further one, and when the next one may begin."""

    count: Optional[int] = field("count")
    """count is the number of attempts that were given up in a row; 0 after a suspension."""

    requeue_at: Optional[datetime] = field("requeueAt", datetime)
    """requeueAt is when the MiniCluster is queued again."""

    retries: Optional[int] = field("retries")
    """retries is the number of attempts whose command failed and was to be run again (backoffLimit); 0 after a suspension.
    They are not in count."""

    deadlines: Optional[int] = field("deadlines")
    """deadlines is the number of attempts that ended at their deadline and go on in a further attempt (elastic.onDeadline);
    0 after a suspension. They are not in count."""

    size: Optional[int] = field("size")
    """size is the largest size that elastic.recreate.sizePolicy allows for the next attempt; 0: any allowed size."""


@dataclass
class Attempt(Model):
    """Attempt is an attempt that ended without success."""

    attempt: Optional[int] = field("attempt")
    """attempt is the number of the attempt (admission.attempt)."""

    size: Optional[int] = field("size")
    """size is the number of brokers for which the attempt had nodes."""

    admitted: Optional[datetime] = field("admitted", datetime)
    """admitted is when the MiniCluster got these nodes."""

    started: Optional[datetime] = field("started", datetime)
    """started is when the command began to run; unset if the command did not run."""

    ended: Optional[datetime] = field("ended", datetime)
    """ended is when the attempt ended."""

    node_seconds: Optional[int] = field("nodeSeconds")
    """nodeSeconds is for how long the brokers of the attempt had nodes, added up."""

    reason: Optional[str] = field("reason")
    """reason is the reason of the event that reported the end of the attempt."""

    message: Optional[str] = field("message")
    """message says why the attempt ended."""


@dataclass
class Restart(Model):
    """Restart is a restart of the command with other brokers."""

    time: Optional[datetime] = field("time", datetime)
    """time is when the restart was decided, or when it got its time again."""

    from_: Optional[int] = field("from")
    """from is the number of brokers with which the command ran, and to with how many it runs then."""

    to: Optional[int] = field("to")

    reason: Optional[str] = field("reason")
    """reason says why."""

    seconds: Optional[int] = field("seconds")
    """seconds is how long it took from the decision until the command ran again; unset while the restart is under way.
    checkpointSeconds is how long it took until the command had ended, with its checkpoint; unset if nobody saw that."""

    checkpoint_seconds: Optional[int] = field("checkpointSeconds")

    again: Optional[bool] = field("again")
    """again is true if the restart got its time a second time, because the lead had not been told in the first."""


@dataclass
class Usage(Model):
    """Usage is for how long a MiniCluster had nodes. One broker that has its node for one second uses one node-second. Whole
    seconds count, from the admission of an attempt to its end."""

    useful_node_seconds: Optional[int] = field("usefulNodeSeconds")
    """usefulNodeSeconds are those of the attempt that succeeded, while the command ran."""

    lost_node_seconds: Optional[int] = field("lostNodeSeconds")
    """lostNodeSeconds are all others: those of attempts that ended without success, and those before the command of the
    successful attempt began."""


@dataclass
class Avoid(Model):
    """Avoid are nodes that the MiniCluster gets only if no other nodes have room for it."""

    nodes: Optional[str] = field("nodes")
    """nodes are the names of these nodes, as a hostlist (Flux RFC 29)."""

    until: Optional[datetime] = field("until", datetime)
    """until is the time until which these nodes are avoided."""


@dataclass
class Decision(Model):
    """Decision is one decision about a MiniCluster."""

    number: Optional[int] = field("number")
    """number counts the decisions about the MiniCluster, from 1. Clocks of managers differ, so the number, and not the time,
    says which decision came first. A decision that an older version made has none."""

    time: Optional[datetime] = field("time", datetime)
    """time is when the decision was made, by the clock of the manager that made it."""

    type: Optional[str] = field("type")
    """type is the type of the decision's event: Normal or Warning."""

    reason: Optional[str] = field("reason")
    """reason is the name of the decision, in one word."""

    message: Optional[str] = field("message")
    """message says what was decided, and why."""


@dataclass
class Condition(Model):
    """Condition contains details for one aspect of the current state of this API Resource."""

    type: Optional[str] = field("type")
    """type of condition in CamelCase or in foo.example.com/CamelCase. (at most 316 characters; pattern
    ^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$)"""

    status: Optional[str] = field("status")
    """status of the condition, one of True, False, Unknown. (True, False, Unknown)"""

    observed_generation: Optional[int] = field("observedGeneration")
    """observedGeneration represents the .metadata.generation that the condition was set based upon. For instance, if
    .metadata.generation is currently 12, but the .status.conditions[x].observedGeneration is 9, the condition is out
    of date with respect to the current state of the instance. (at least 0)"""

    last_transition_time: Optional[datetime] = field("lastTransitionTime", datetime)
    """lastTransitionTime is the last time the condition transitioned from one status to another. This should be when the
    underlying condition changed. If that is not known, then using the time when the API field changed is acceptable."""

    reason: Optional[str] = field("reason")
    """reason contains a programmatic identifier indicating the reason for the condition's last transition. Producers of
    specific condition types may define expected values and meanings for this field, and whether the values are
    considered a guaranteed API. The value should be a CamelCase string. This field may not be empty. (1 to 1024
    characters; pattern ^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$)"""

    message: Optional[str] = field("message")
    """message is a human readable message indicating details about the transition. This may be an empty string. (at most
    32768 characters)"""


@dataclass
class MiniClusterQueue(Model):
    """MiniClusterQueue is a queue in which MiniClusters wait for nodes. It also says which share of the cluster its
    MiniClusters have together. The queue "default" exists even if nobody has created it; create it to change its
    settings. A MiniCluster in another queue that does not exist waits until somebody creates that queue."""

    kind: Optional[str] = field("kind")
    """Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint
    the client submits requests to. Cannot be updated. In CamelCase. More info:
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"""

    api_version: Optional[str] = field("apiVersion")
    """APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas
    to the latest internal value, and may reject unrecognized values. More info:
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"""

    metadata: Optional[Dict[str, Any]] = field("metadata")

    spec: Optional[MiniClusterQueueSpec] = field("spec", "MiniClusterQueueSpec")
    """spec says how the queue is served."""

    status: Optional[MiniClusterQueueStatus] = field("status", "MiniClusterQueueStatus")
    """status says which MiniClusters of the queue wait, and what the others use."""


@dataclass
class MiniClusterQueueSpec(Model):
    """MiniClusterQueueSpec says how a queue is served."""

    weight: Optional[int] = field("weight")
    """weight is the queue's share of the cluster, relative to the other queues in which MiniClusters wait or run. A queue
    with weight 2 deserves twice as much as a queue with weight 1. Default 1. (default 1; 1 to 1000000)"""

    priority: Optional[int] = field("priority")
    """priority says which queues are served first: those of higher priority. MiniClusters never preempt MiniClusters of
    another queue, whatever its priority. Default 0. (-1000000000 to 1000000000)"""

    capacity: Optional[Dict[str, Union[int, str]]] = field("capacity")
    """capacity is a hard limit, by resource, for what the pods of the queue's MiniClusters request together. The resource
    "pods" is their number. A MiniCluster whose minSize needs more than the capacity is not allowed. A MiniCluster
    that needs more than is left of the capacity waits, or starts at a smaller size. Default: no limit. (at most 16
    entries)"""

    guarantee: Optional[Dict[str, Union[int, str]]] = field("guarantee")
    """guarantee is what is kept free for the queue while it uses less, by resource. MiniClusters of other queues do not get
    these resources. Default: nothing. (at most 6 entries)"""

    reclaimable: Optional[bool] = field("reclaimable")
    """reclaimable: false lets the queue's MiniClusters keep their nodes, even if the queue is above its share and a queue
    below its share wants these nodes. Default true. (default true)"""

    ordering: Optional[str] = field("ordering")
    """ordering is Priority (by the PriorityClass of the pods, then age), FIFO (by age alone), FairShare (by the
    PriorityClass, then users take turns, then age) or Slowdown (by the PriorityClass, then a score). With FairShare
    the user with the least usage is next. The usage of a user is the average part of the cluster that the user has
    had, and the part that the user has now. With Slowdown the score is 1 + wait / run time, by the time limit or what
    was learned, so short MiniClusters go first, and long ones once they have waited for long. If the queue has users,
    the score is halved for each even share of the usage of all users. Age counts from the MiniCluster's creation, and
    with Slowdown from when it was queued last. Default Priority. (default Priority; Priority, FIFO, FairShare,
    Slowdown)"""

    backfill: Optional[str] = field("backfill")
    """backfill says which MiniClusters may start before one that does not fit now. None: no MiniCluster (strict order).
    EASY: those that do not delay the head of the queue. Conservative: those that delay no other one before them. A
    MiniCluster that is backfilled needs deadlineSeconds, or nodes that the MiniClusters before it do not wait for.
    Default EASY. (default EASY; None, EASY, Conservative)"""

    patience: Optional[str] = field("patience")
    """patience is how long MiniClusters without a time limit may pass the head of the queue while others that passed it take
    longer than expected, once that has happened before. After that, free nodes are kept for the head. Default 5m.
    (default 5m)"""

    min_runtime: Optional[str] = field("minRuntime")
    """minRuntime is how long a MiniCluster of the queue keeps its nodes at least before the scheduler may evict it for
    another one (preempt, reclaim). It may still lose its surplus above minSize. Default 0s."""

    grace: Optional[str] = field("grace")
    """grace is how long a command of the queue may take to end when the scheduler evicts it for another MiniCluster. All of
    its tasks get SIGTERM at once, and SIGKILL after that time. elastic.checkpoint.wait of a MiniCluster with
    checkpoints counts instead. 0s: the pods are deleted at once. Default 30s. (default 30s)"""

    max_grace: Optional[str] = field("maxGrace")
    """maxGrace is the longest elastic.checkpoint.wait of the queue: so long a MiniCluster may keep nodes that others are to
    get, until it has its checkpoint. A MiniCluster with a longer one is not allowed. One that has nodes gets less
    time if maxGrace becomes shorter. Brokers that are to leave before the command has begun have as long. Default
    10m. (default 10m)"""

    default_deadline: Optional[str] = field("defaultDeadline")
    """defaultDeadline is the deadline of a MiniCluster of the queue that sets no deadlineSeconds, in whole seconds. It lets
    the scheduler backfill MiniClusters whose users set nothing. A change counts for MiniClusters that are admitted
    later. Default: maxDeadline."""

    max_deadline: Optional[str] = field("maxDeadline")
    """maxDeadline is the longest deadline of the queue, in whole seconds. A MiniCluster with a larger deadlineSeconds is not
    allowed. A change counts for MiniClusters that are admitted later. Default: no limit."""

    extend_deadlines: Optional[bool] = field("extendDeadlines")
    """extendDeadlines lets users raise deadlineSeconds of a MiniCluster that has nodes. Otherwise a raise counts from the
    next admission, as in Slurm: a short deadline may have let the MiniCluster start ahead of others. A change counts
    for MiniClusters that are admitted later. Default false."""

    requeue: Optional[str] = field("requeue")
    """requeue is the place of a MiniCluster that is queued again, since it did not start or was evicted. Original: the place
    by its creation. Last: the place by the time at which it is queued again. Default Original. (default Original;
    Original, Last)"""

    namespace_selector: Optional[Dict[str, Any]] = field("namespaceSelector")
    """namespaceSelector selects, by their labels, the namespaces whose MiniClusters may use the queue. A MiniCluster of
    another namespace is not allowed. One that has nodes keeps them, and grows no further. Default: all namespaces."""

    architecture: Optional[str] = field("architecture")
    """architecture is that of the nodes for the queue's MiniClusters whose pods name none: a value of the label
    kubernetes.io/arch, such as arm64. Nodes without this label may be of any. A MiniCluster that has nodes keeps its
    architecture. Default: one with room. (at most 63 characters; pattern ^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$)"""

    users: Optional[QueueUsers] = field("users", "QueueUsers")
    """users says who the users of the queue are, how long their usage counts, and what each may have at once. Default: each
    namespace is a user, without limits."""

    scale_up: Optional[ScaleUp] = field("scaleUp", "ScaleUp")
    """scaleUp lets the queue ask an autoscaler for nodes that do not exist. Default: it asks for none."""

    suspended: Optional[bool] = field("suspended")
    """suspended: true admits no MiniCluster from the queue. MiniClusters that run go on. Default false."""


@dataclass
class QueueUsers(Model):
    """QueueUsers are the users of a queue, and what each may have at once. The limits apply with every ordering."""

    label: Optional[str] = field("label")
    """label is the name of a label of MiniClusters, whose value is the user. A MiniCluster without this label, or with an
    empty value, belongs to the user with the name of its namespace. Who may create MiniClusters can set any label,
    unless an admission policy forbids it. Default: none, so the namespace is the user. (1 to 317 characters; pattern
    ^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$)"""

    half_life: Optional[str] = field("halfLife")
    """halfLife is the time after which usage counts half. Default 168h (7 days). (default 168h)"""

    max_running: Optional[int] = field("maxRunning")
    """maxRunning is how many MiniClusters of a user may have nodes at once. Others of the user wait, and block nobody.
    Default: no limit. (1 to 1000000)"""

    max_nodes: Optional[int] = field("maxNodes")
    """maxNodes is how many brokers of a user may have nodes at once. A MiniCluster whose minSize is larger is not allowed.
    One that needs more than is left waits and blocks nobody, or starts at a smaller size. Running MiniClusters do not
    grow beyond it. Default: no limit. (1 to 1000000)"""


@dataclass
class ScaleUp(Model):
    """ScaleUp says how a queue asks an autoscaler for nodes that do not exist. It asks for the MiniClusters that do not fit
    now, and would not soon: for all nodes of a MiniCluster, or for none."""

    provider: Optional[str] = field("provider")
    """provider is the kind of object by which nodes are asked for: ProvisioningRequest (Cluster Autoscaler) or
    CapacityBuffer (Karpenter, Cluster Autoscaler). The API server must have it. (ProvisioningRequest, CapacityBuffer)"""

    class_: Optional[str] = field("class")
    """class is the provisioningClassName of ProvisioningRequests, such as check-capacity.autoscaling.x-k8s.io, which only
    checks for room. Default best-effort-atomic-scale-up.autoscaling.x-k8s.io, which provides all nodes or none. (1 to
    253 characters; pattern ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$)"""

    parameters: Optional[Dict[str, str]] = field("parameters")
    """parameters of ProvisioningRequests; the class says which. Default: none. (at most 16 entries)"""

    max_nodes: Optional[int] = field("maxNodes")
    """maxNodes is how many nodes of the shapes there may be for the queue: nodes that are idle, that its MiniClusters have,
    or for which they wait, but not those that are about to go. A MiniCluster that needs more never fits. (1 to
    1000000)"""

    timeout: Optional[str] = field("timeout")
    """timeout is how long a MiniCluster waits for its nodes. After that an elastic one starts with what came, or asks for
    half as many brokers. Default 10m. (default 10m)"""

    cooldown: Optional[str] = field("cooldown")
    """cooldown is how long a MiniCluster asks for no nodes after it did not get them at its smallest size. It doubles each
    time, up to 1h. Default 2m. (default 2m)"""

    shapes: Optional[List[NodeShape]] = field("shapes", "NodeShape")
    """shapes are the kinds of nodes that could come, the preferred ones first. They say which MiniClusters could ever fit,
    and for how many nodes one has to ask. Default: those of Karpenter's NodePools if there are any, or else nodes of
    any kind, each for one broker. (at most 16 items)"""


@dataclass
class NodeShape(Model):
    """NodeShape is a kind of nodes that could come."""

    name: Optional[str] = field("name")
    """name of the shape, such as that of a node group. (1 to 63 characters)"""

    labels: Optional[Dict[str, str]] = field("labels")
    """labels that such nodes have. Labels that Kubernetes and clouds set, such as the zone, may be left out: they may then
    have any value. Default: none. (at most 32 entries)"""

    taints: Optional[List[NodeTaint]] = field("taints", "NodeTaint")
    """taints that such nodes have, without those of the start. Default: none. (at most 16 items)"""

    capacity: Optional[Dict[str, Union[int, str]]] = field("capacity")
    """capacity is what such a node has for brokers: without what DaemonSets and the system take. Default: enough for one
    broker. (at most 16 entries)"""

    max_nodes: Optional[int] = field("maxNodes")
    """maxNodes is how many such nodes there can be in the cluster. Default: no limit. (1 to 1000000)"""


@dataclass
class NodeTaint(Model):
    """NodeTaint is a taint of nodes that could come."""

    key: Optional[str] = field("key")
    """key of the taint, such as nvidia.com/gpu. (1 to 317 characters)"""

    value: Optional[str] = field("value")
    """value of the taint. Default: none. (at most 63 characters)"""

    effect: Optional[str] = field("effect")
    """effect of the taint on pods that do not tolerate it. (NoSchedule, PreferNoSchedule, NoExecute)"""


@dataclass
class MiniClusterQueueStatus(Model):
    """MiniClusterQueueStatus says which MiniClusters of a queue wait, and what the others use."""

    pending: Optional[int] = field("pending")
    """pending is the number of MiniClusters that wait."""

    admitted: Optional[int] = field("admitted")
    """admitted is the number of MiniClusters that have nodes."""

    used: Optional[Dict[str, Union[int, str]]] = field("used")
    """used is what the pods of the admitted MiniClusters request together."""

    share: Optional[str] = field("share")
    """share is the part of the cluster that the queue has, from "0" to "1". It is the part of the resource of which the
    queue has most."""

    deserved: Optional[str] = field("deserved")
    """deserved is the part of the cluster that the queue may have while other queues want theirs, by weight. The scheduler
    reclaims nodes from a queue above this part for a queue below its own part."""

    waiting: Optional[List[WaitingMiniCluster]] = field("waiting", "WaitingMiniCluster")
    """waiting are the first 50 MiniClusters that wait, in the order in which they are served. The condition Admitted of
    every waiting MiniCluster says why it waits. (at most 50 items)"""

    users: Optional[List[QueueUser]] = field("users", "QueueUser")
    """users are the 200 users with the most usage, the most first. Only a queue with the ordering FairShare, or with users
    in its spec, has them. (at most 200 items)"""

    usage_time: Optional[datetime] = field("usageTime", datetime)
    """usageTime is until when the usage of the users was reckoned. What they have had since then is not part of it yet. It
    is at most about a minute old while a user has nodes."""

    accounting: Optional[Accounting] = field("accounting", "Accounting")
    """accounting is what the attempts of the queue's MiniClusters used that have ended. Unset: nothing."""

    scale_up: Optional[QueueScaleUp] = field("scaleUp", "QueueScaleUp")
    """scaleUp is what an autoscaler is asked for the queue. Unset: nothing."""

    observed_generation: Optional[int] = field("observedGeneration")
    """observedGeneration is the generation of the spec to which the status belongs."""


@dataclass
class WaitingMiniCluster(Model):
    """WaitingMiniCluster is a MiniCluster that waits, and the reason."""

    namespace: Optional[str] = field("namespace")
    """namespace of the MiniCluster."""

    name: Optional[str] = field("name")
    """name of the MiniCluster."""

    position: Optional[int] = field("position")
    """position in the queue, from 1."""

    reason: Optional[str] = field("reason")
    """reason is the reason of the condition Admitted of the MiniCluster, such as NoRoom or QueueFull."""

    message: Optional[str] = field("message")
    """message explains the reason in a sentence."""


@dataclass
class QueueUser(Model):
    """QueueUser is a user of a queue."""

    name: Optional[str] = field("name")
    """name is the value of the label of spec.users, or a namespace."""

    usage: Optional[str] = field("usage")
    """usage is resourceSeconds as a part of what the cluster holds now, by the dominant resource. An hour on the whole
    cluster is "3600.000"."""

    resource_seconds: Optional[Dict[str, str]] = field("resourceSeconds")
    """resourceSeconds is what the user had until usageTime: amounts times seconds, by resource, such as cores times seconds
    of cpu, and bytes times seconds of memory. It decays with spec.users.halfLife. Unset: nothing."""

    running: Optional[int] = field("running")
    """running is the number of the user's MiniClusters that have nodes."""

    nodes: Optional[int] = field("nodes")
    """nodes is the number of the user's brokers that have nodes."""

    pending: Optional[int] = field("pending")
    """pending is the number of the user's MiniClusters that wait."""


@dataclass
class Accounting(Model):
    """Accounting adds up the usage of MiniClusters, also of those that were deleted since."""

    useful_node_seconds: Optional[int] = field("usefulNodeSeconds")
    """usefulNodeSeconds are those of the attempt that succeeded, while the command ran."""

    lost_node_seconds: Optional[int] = field("lostNodeSeconds")
    """lostNodeSeconds are all others: those of attempts that ended without success, and those before the command of the
    successful attempt began."""

    until: Optional[datetime] = field("until", datetime)
    """until is when the last attempt ended that counts."""

    users: Optional[List[UserUsage]] = field("users", "UserUsage")
    """users are the 200 users who used most, the most first. (at most 200 items)"""


@dataclass
class UserUsage(Model):
    """UserUsage is the usage of one user."""

    name: Optional[str] = field("name")
    """name is the value of the label of spec.users, or a namespace."""

    useful_node_seconds: Optional[int] = field("usefulNodeSeconds")
    """usefulNodeSeconds are those of the attempt that succeeded, while the command ran."""

    lost_node_seconds: Optional[int] = field("lostNodeSeconds")
    """lostNodeSeconds are all others: those of attempts that ended without success, and those before the command of the
    successful attempt began."""


@dataclass
class QueueScaleUp(Model):
    """QueueScaleUp is what an autoscaler is asked for a queue."""

    mini_clusters: Optional[int] = field("miniClusters")
    """miniClusters is the number of MiniClusters that wait for nodes."""

    nodes: Optional[int] = field("nodes")
    """nodes is how many nodes they wait for."""


@dataclass
class MiniClusterReservation(Model):
    """MiniClusterReservation keeps nodes for the MiniClusters of one queue, or for nobody (maintenance), from a time until
    another. No other MiniCluster starts on these nodes if its command could still run at the beginning. MiniClusters
    that run there already go on."""

    kind: Optional[str] = field("kind")
    """Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint
    the client submits requests to. Cannot be updated. In CamelCase. More info:
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"""

    api_version: Optional[str] = field("apiVersion")
    """APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas
    to the latest internal value, and may reject unrecognized values. More info:
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"""

    metadata: Optional[Dict[str, Any]] = field("metadata")

    spec: Optional[MiniClusterReservationSpec] = field("spec", "MiniClusterReservationSpec")
    """spec says which nodes are reserved, when and for whom."""

    status: Optional[MiniClusterReservationStatus] = field("status", "MiniClusterReservationStatus")
    """status says which nodes these are, and which MiniClusters are in the way."""


@dataclass
class MiniClusterReservationSpec(Model):
    """MiniClusterReservationSpec says which nodes are reserved, when and for whom. The nodes are those of nodeNames, or
    those that nodeSelector selects, or count of these."""

    from_: Optional[datetime] = field("from", datetime)
    """from is when the reservation begins. It may be in the past: then the reservation begins at once."""

    until: Optional[datetime] = field("until", datetime)
    """until is when the reservation ends. After that all MiniClusters may use the nodes again."""

    queue: Optional[str] = field("queue")
    """queue is the MiniClusterQueue whose MiniClusters may use the nodes at any time, also beyond until. The queue need not
    exist. Default: no MiniCluster may use the nodes (maintenance). (1 to 253 characters; pattern
    ^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$)"""

    node_names: Optional[List[str]] = field("nodeNames")
    """nodeNames are the names of the nodes. (1 to 5000 items)"""

    node_selector: Optional[Dict[str, Any]] = field("nodeSelector")
    """nodeSelector selects the nodes by their labels, also nodes that come later. {} selects all nodes. Default, with count:
    all nodes."""

    count: Optional[int] = field("count")
    """count is how many nodes are reserved of those that nodeSelector selects. The scheduler chooses nodes that are free at
    the beginning, or else soonest after it, and records them in status.nodes. Default: all nodes that nodeSelector
    selects. (1 to 5000)"""


@dataclass
class MiniClusterReservationStatus(Model):
    """MiniClusterReservationStatus says which nodes are reserved, and which MiniClusters are in the way."""

    phase: Optional[str] = field("phase")
    """phase is Pending before the beginning, Active until the end, and then Over. (Pending, Active, Over)"""

    nodes: Optional[str] = field("nodes")
    """nodes are the names of the reserved nodes that exist, as a hostlist (Flux RFC 29). With count they are the nodes that
    the scheduler chose."""

    size: Optional[int] = field("size")
    """size is the number of these nodes."""

    staying: Optional[int] = field("staying")
    """staying is the number of MiniClusters of others that hold some of the nodes and may still run when the reservation
    begins. They go on: nobody evicts them."""

    staying_mini_clusters: Optional[List[StayingMiniCluster]] = field("stayingMiniClusters", "StayingMiniCluster")
    """stayingMiniClusters are the first 50 of these MiniClusters, by namespace and name. (at most 50 items)"""

    conditions: Optional[List[Condition]] = field("conditions", "Condition")
    """conditions are NodesFound (are there as many nodes as the spec asks for?) and Clear (are the nodes free of
    MiniClusters of others when the reservation begins?)."""

    observed_generation: Optional[int] = field("observedGeneration")
    """observedGeneration is the generation of the spec to which the status belongs."""


@dataclass
class StayingMiniCluster(Model):
    """StayingMiniCluster is a MiniCluster that may still run on reserved nodes when the reservation begins."""

    namespace: Optional[str] = field("namespace")
    """namespace of the MiniCluster."""

    name: Optional[str] = field("name")
    """name of the MiniCluster."""

    until: Optional[datetime] = field("until", datetime)
    """until is the latest time at which it gives its nodes back. Absent if it has no time limit, or has exceeded that limit."""
