// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/dev/simulator/flux"
)

// refusal is why the kubelet does not accept the pod; "" if it does. It counts the pods whose processes it has.
func (w *worker) refusal() (reason, message string) {
	node := w.node.node
	if node == nil {
		return "", ""
	}
	used := usages{}
	for _, other := range w.node.workers {
		if other != w && other.stage != ended && other.stage != arriving {
			used.add(node.Name, other.pod)
		}
	}
	sum := used[node.Name]
	matches, _ := nodeaffinity.GetRequiredNodeAffinity(w.pod).Match(node)
	switch lacking := sum.lacking(w.pod, node); {
	case sum.pods+1 > node.Status.Allocatable.Pods().Value():
		reason, message = "OutOfpods", "Node didn't have enough resource: pods"
	case len(lacking) > 0:
		reason = "OutOf" + string(lacking[0])
		message = fmt.Sprintf("Node didn't have enough resource: %s", lacking[0])
	case !matches:
		reason, message = "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
	case untolerated(w.pod, node, corev1.TaintEffectNoExecute) != nil:
		reason, message = "TaintToleration", "Predicate TaintToleration failed: node(s) had untolerated taint(s)"
	default:
		return "", ""
	}
	return reason, "Pod was rejected: " + message
}

// hasVolumes reports whether all ConfigMaps and Secrets exist that the volumes of the pod need.
func (w *worker) hasVolumes(ctx context.Context) bool {
	has := func(object client.Object, name string, optional *bool) bool {
		if ptr.Deref(optional, false) {
			return true
		}
		err := w.random().Client.Get(ctx, types.NamespacedName{Namespace: w.pod.Namespace, Name: name}, object, client.UnsafeDisableDeepCopy)
		return !apierrors.IsNotFound(err)
	}
	for _, volume := range w.pod.Spec.Volumes {
		ok := true
		switch {
		case volume.ConfigMap != nil:
			ok = has(&corev1.ConfigMap{}, volume.ConfigMap.Name, volume.ConfigMap.Optional)
		case volume.Secret != nil:
			ok = has(&corev1.Secret{}, volume.Secret.SecretName, volume.Secret.Optional)
		case volume.Projected != nil:
			for _, source := range volume.Projected.Sources {
				switch {
				case source.ConfigMap != nil:
					ok = ok && has(&corev1.ConfigMap{}, source.ConfigMap.Name, source.ConfigMap.Optional)
				case source.Secret != nil:
					ok = ok && has(&corev1.Secret{}, source.Secret.Name, source.Secret.Optional)
				}
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

// readSettings reads the files of a broker, as they are when its volumes are made.
func (w *worker) readSettings(ctx context.Context) bool {
	var files corev1.ConfigMap
	name := types.NamespacedName{Namespace: w.pod.Namespace, Name: simulator.FilesOf(w.pod)}
	if err := w.random().Client.Get(ctx, name, &files, client.UnsafeDisableDeepCopy); err != nil {
		return false
	}
	settings, err := flux.ReadSettings(files.Data)
	w.settings = settings
	return err == nil
}
