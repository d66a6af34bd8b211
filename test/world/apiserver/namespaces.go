// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespaceUser is the user of the namespace controller.
const namespaceUser = "system:serviceaccount:kube-system:namespace-controller"

// NamespaceController empties namespaces that are deleted, the pods first, and then lets the namespaces go:
// k8s.io/kubernetes/pkg/controller/namespace/deletion. It writes no conditions into the status of a namespace.
type NamespaceController struct {
	server *Server
	seen   uint64 // the version at which there was nothing to do
}

// NewNamespaceController makes the namespace controller of a server.
func NewNamespaceController(s *Server) *NamespaceController { return &NamespaceController{server: s} }

// Name implements models.Model.
func (n *NamespaceController) Name() string { return "namespace-controller" }

// Next implements models.Model: the controller waits for changes alone. (The real one looks again after an estimate.)
func (n *NamespaceController) Next() time.Time { return time.Time{} }

// Step implements models.Model: it deletes one object, or lets one namespace go.
func (n *NamespaceController) Step(context.Context) bool {
	s := n.server
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.emptying || n.seen == s.version {
		return false
	}
	t := s.builtinTable("namespaces")
	s.emptying = false
	for _, k := range t.sorted {
		if v := t.objects[k]; v.isDeleting() {
			s.emptying = true
			if n.empty(v) {
				return true
			}
		}
	}
	n.seen = s.version
	return false
}

// empty deletes one object of a namespace. Objects beside pods go once no pod is left.
func (n *NamespaceController) empty(namespace *version) bool {
	tables := slices.Clone(n.server.tables)
	isPods := func(t *table) bool { return t.definition == nil && t.GroupVersionResource.Resource == "pods" }
	slices.SortStableFunc(tables, func(a, b *table) int {
		switch {
		case isPods(a) == isPods(b):
			return 0
		case isPods(a):
			return -1
		}
		return 1
	})
	left := 0
	for _, t := range tables {
		if !t.Namespaced {
			continue
		}
		for _, k := range slices.Clone(t.sorted) {
			if k.Namespace != namespace.key.Name {
				continue
			}
			left++
			if n.remove(t.objects[k]) {
				return true
			}
		}
		if left > 0 && isPods(t) {
			return false
		}
	}
	if left > 0 {
		return false
	}
	object := shallow(namespace.object).(*corev1.Namespace)
	object.Spec.Finalizers = nil
	w := &write{server: n.server, user: namespaceUser, verb: "update", subresource: "finalize", table: namespace.table, key: namespace.key}
	w.keep(namespace, object)
	return true
}

// remove deletes an object in the background, unless that was done.
func (n *NamespaceController) remove(v *version) bool {
	if v.isDeleting() {
		return false
	}
	w := &write{server: n.server, user: namespaceUser, verb: "delete", table: v.table, key: v.key}
	_, _, err := w.delete(&metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	return err == nil
}
