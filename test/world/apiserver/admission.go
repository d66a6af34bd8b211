// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mutate is what admission changes in a new object: the plug-ins Priority, DefaultTolerationSeconds and ServiceAccount for
// pods, and the policies that mutate. It refuses an object for a namespace that is not there, or that goes
// (NamespaceLifecycle).
func (w *write) mutate(object client.Object) (client.Object, error) {
	if err := w.checkNamespace(object); err != nil {
		return nil, err
	}
	if pod, ok := object.(*corev1.Pod); ok {
		if err := w.mutatePod(pod); err != nil {
			return nil, err
		}
	}
	return w.mutateByPolicy(object)
}

func (w *write) checkNamespace(object client.Object) error {
	if !w.table.Namespaced {
		return nil
	}
	v, err := w.server.find(w.server.builtinTable("namespaces"), key{Name: w.key.Namespace})
	if err != nil {
		return err
	}
	if v.object.GetDeletionTimestamp() != nil {
		refusal := apierrors.NewForbidden(w.table.GroupResource(), object.GetName(),
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", w.key.Namespace))
		refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", w.key.Namespace), Field: "metadata.namespace",
		})
		return refusal
	}
	return nil
}

func (w *write) mutatePod(pod *corev1.Pod) error {
	if pod.Spec.Priority == nil {
		priority, policy, err := w.server.priority(pod)
		if err != nil {
			return err
		}
		pod.Spec.Priority = &priority
		if pod.Spec.PreemptionPolicy == nil {
			pod.Spec.PreemptionPolicy = &policy
		}
	}
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerates := func(t corev1.Toleration) bool {
			return (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		}
		if !slices.ContainsFunc(pod.Spec.Tolerations, tolerates) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300)),
			})
		}
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = "default"
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	return nil
}

// admit asks the policies that validate, and then, for a new object, the quotas.
func (w *write) admit(object, old client.Object) error {
	if err := w.validateByPolicy(object, old); err != nil || old != nil {
		return err
	}
	return w.charge(object)
}

// priority is that of a pod's class, or of the class that is the default.
func (s *Server) priority(pod *corev1.Pod) (int32, corev1.PreemptionPolicy, error) {
	policyOf := func(c *schedulingv1.PriorityClass) corev1.PreemptionPolicy {
		if c.PreemptionPolicy == nil {
			return corev1.PreemptLowerPriority
		}
		return *c.PreemptionPolicy
	}
	t := s.builtinTable("priorityclasses")
	if pod.Spec.PriorityClassName != "" {
		v := t.objects[key{Name: pod.Spec.PriorityClassName}]
		if v == nil {
			return 0, "", apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, fmt.Errorf("no PriorityClass with name %v was found", pod.Spec.PriorityClassName))
		}
		class := v.object.(*schedulingv1.PriorityClass)
		return class.Value, policyOf(class), nil
	}
	for _, k := range t.sorted {
		if class := t.objects[k].object.(*schedulingv1.PriorityClass); class.GlobalDefault {
			pod.Spec.PriorityClassName = class.Name
			return class.Value, policyOf(class), nil
		}
	}
	return 0, corev1.PreemptLowerPriority, nil
}
