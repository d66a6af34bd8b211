// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import corev1 "k8s.io/api/core/v1"

// PodSpec are settings of every pod of the MiniCluster.
type PodSpec struct {
	// annotations of the pods.
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(self[name]) <= 262144)",message="a value of annotations may have 262144 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(name, !name.startsWith('flux-framework.org/'))",message="annotations of pods must not begin with flux-framework.org/: the manager sets these"
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// labels of the pods. The API server refuses labels that the manager, Kubernetes or JobSet set on pods, and those of
	// Kueue, which belong to the metadata of the MiniCluster. Labels app, app.kubernetes.io/name and namespace stay as
	// they are here.
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(self[name]) <= 63)",message="a value of labels may have 63 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(name, !(name in ['job-index', 'job-name', 'hpa-selector', 'controller-uid']) && !name.startsWith('flux-framework.org/') && !name.startsWith('sidecar.flux-framework.org/') && !name.startsWith('batch.kubernetes.io/') && !name.startsWith('jobset.sigs.k8s.io/'))",message="labels of pods must not be job-index, job-name, hpa-selector or controller-uid, or begin with flux-framework.org/, sidecar.flux-framework.org/, batch.kubernetes.io/ or jobset.sigs.k8s.io/: the manager and Kubernetes set these"
	// +kubebuilder:validation:XValidation:rule="self.all(name, !name.startsWith('kueue.x-k8s.io/'))",message="labels of pods must not begin with kueue.x-k8s.io/: labels of Kueue belong to the metadata of the MiniCluster"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// restartPolicy of the services pod: Never or OnFailure. Default OnFailure. It has no effect on
	// brokers: a follower that failed gets a new pod, and a command that failed is run again as
	// backoffLimit says.
	// +kubebuilder:validation:Enum="";Never;OnFailure
	// +optional
	RestartPolicy corev1.RestartPolicy `json:"restartPolicy,omitempty"`

	// serviceAccountName of the pods. Default: the namespace's default.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// automountServiceAccountToken: true gives the pods the service account's
	// token. Default false.
	// +optional
	AutomountServiceAccountToken bool `json:"automountServiceAccountToken,omitempty"`

	// runtimeClassName of the pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	RuntimeClassName string `json:"runtimeClassName,omitempty"`

	// schedulerName is the scheduler that binds the pods to the nodes that were
	// chosen for them. Default: the cluster's default scheduler.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self != 'flux-elastic'",message="schedulerName must not be flux-elastic: this name is reserved"
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// nodeSelector are labels that the nodes must have.
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(self[name]) <= 63)",message="a value of nodeSelector may have 63 characters"
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// nodeAffinity are labels that the nodes must have, each with one of its values.
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(self[name]) <= 256)",message="a label of nodeAffinity may have 256 values"
	// +optional
	NodeAffinity map[string][]string `json:"nodeAffinity,omitempty"`

	// tolerations are taints of nodes that the pods tolerate.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// dnsPolicy of the pods. Default ClusterFirst, which is ClusterFirstWithHostNet
	// for brokers with hostNetwork.
	// +kubebuilder:validation:Enum="";ClusterFirst;ClusterFirstWithHostNet;Default;None
	// +optional
	DNSPolicy corev1.DNSPolicy `json:"dnsPolicy,omitempty"`

	// hostNetwork: true gives the brokers the network of their nodes, for example for EFA, RDMA or Slingshot. It
	// needs placement.exclusive, since two brokers of one node would need the same port. network.interface has to be
	// the interface with the internal IP of the nodes, and not that of the fabric. $HOSTNAME is the node's then.
	// Default false.
	// +optional
	HostNetwork bool `json:"hostNetwork,omitempty"`

	// hostIPC: true shares the node's IPC namespace. Default false.
	// +optional
	HostIPC bool `json:"hostIPC,omitempty"`

	// hostPID: true shares the node's process namespace. Default false.
	// +optional
	HostPID bool `json:"hostPID,omitempty"`

	// resources are the requests and the limits of the Flux container, if it has none itself.
	// +kubebuilder:validation:XValidation:rule="size(self) <= 64",message="a container may have 64 resources"
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// securityContext is the security context of the pods.
	// +kubebuilder:validation:XValidation:rule="(!has(self.supplementalGroups) || size(self.supplementalGroups) <= 256) && (!has(self.sysctls) || size(self.sysctls) <= 64)",message="a pod may have 256 supplemental groups, and 64 sysctls"
	// +optional
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`
}

// Toleration is a taint that the pods tolerate.
type Toleration struct {
	// key of the taint. "" with operator Exists tolerates every taint.
	// +kubebuilder:validation:MaxLength=316
	// +optional
	Key string `json:"key,omitempty"`

	// operator is Equal or Exists. Default Equal.
	// +kubebuilder:validation:Enum="";Equal;Exists
	// +optional
	Operator corev1.TolerationOperator `json:"operator,omitempty"`

	// value of the taint, for operator Equal.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Value string `json:"value,omitempty"`

	// effect is NoSchedule, PreferNoSchedule or NoExecute. Default: all.
	// +kubebuilder:validation:Enum="";NoSchedule;PreferNoSchedule;NoExecute
	// +optional
	Effect corev1.TaintEffect `json:"effect,omitempty"`
}
