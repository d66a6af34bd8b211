// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// meddler is somebody else who writes to what MiniClusters are made of.
type meddler struct {
	*site
	random *rand.Rand
	done   map[string]int // how often what was done
	err    error
}

// meddleInterval is the time between two writes.
const meddleInterval = 10 * time.Millisecond

// meddle does so until the context ends, or something goes wrong.
func (m *meddler) meddle(ctx context.Context) {
	ticker := time.NewTicker(meddleInterval)
	defer ticker.Stop()
	for {
		err := m.once()
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsTooManyRequests(err): // it came too late
		case err != nil:
			m.err = fmt.Errorf("meddling: %w", err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (m *meddler) once() error {
	objects, err := m.objects()
	if err != nil || len(objects) == 0 {
		return err
	}
	object := objects[m.random.IntN(len(objects))]
	pod, isPod := object.(*corev1.Pod)
	_, isMiniCluster := object.(*v1alpha2.MiniCluster)
	switch n := m.random.IntN(20); {
	case isPod && n < 2 && protocol.IsGated(pod):
		m.done["delete a gated pod"]++
		return env.client.Delete(m.ctx, pod, as(pod))
	case isPod && n == 2 && (protocol.IsGated(pod) || m.bearsLoss(pod)):
		m.done["evict a pod"]++
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		eviction.DeleteOptions = &metav1.DeleteOptions{Preconditions: (*metav1.Preconditions)(as(pod))}
		return env.client.SubResource("eviction").Create(m.ctx, pod, eviction)
	case isPod && n < 7:
		m.done["write a pod's status"]++
		return m.patchStatus(object, `{"status":{"conditions":[{"type":"Meddled","status":"True","message":"%d"}]}}`, m.random.Int())
	case isMiniCluster && n < 6:
		m.done["write a MiniCluster's status"]++
		return m.patchStatus(object, `{"status":{"jobid":"%d"}}`, m.random.Int())
	case n < 12:
		m.done["label"]++
		return m.patchIt(object, `{"metadata":{"labels":{"meddled":"%d"}}}`, m.random.IntN(1000))
	}
	m.done["annotate"]++
	return m.patchIt(object, `{"metadata":{"annotations":{"meddled":"%d"}}}`, m.random.IntN(1000))
}

// as lets an object be deleted only as it was seen.
func as(object client.Object) *client.Preconditions {
	return &client.Preconditions{UID: ptr.To(object.GetUID()), ResourceVersion: ptr.To(object.GetResourceVersion())}
}

func (m *meddler) patchIt(object client.Object, format string, args ...any) error {
	return env.client.Patch(m.ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...)))
}

// patchStatus writes what is nobody's.
func (m *meddler) patchStatus(object client.Object, format string, args ...any) error {
	kind := types.MergePatchType
	if _, ok := object.(*corev1.Pod); ok {
		kind = types.StrategicMergePatchType
	}
	return env.client.Status().Patch(m.ctx, object, client.RawPatch(kind, fmt.Appendf(nil, format, args...)))
}

// objects are those of one kind.
func (m *meddler) objects() ([]client.Object, error) {
	lists := []client.ObjectList{&v1alpha2.MiniClusterList{}, &jobsetapi.JobSetList{}, &batchv1.JobList{}, &corev1.PodList{}, &corev1.PodList{}}
	list := lists[m.random.IntN(len(lists))]
	if err := env.client.List(m.ctx, list, client.InNamespace(m.namespace)); err != nil {
		return nil, err
	}
	var out []client.Object
	err := meta.EachListItem(list, func(object runtime.Object) error {
		out = append(out, object.(client.Object))
		return nil
	})
	return out, err
}

// bearsLoss reports whether a pod is a follower's of a command that goes on without it.
func (m *meddler) bearsLoss(pod *corev1.Pod) bool {
	rank, ok := protocol.Rank(pod)
	var mc v1alpha2.MiniCluster
	err := env.client.Get(m.ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[v1alpha2.MiniClusterLabel]}, &mc)
	return ok && rank > 0 && err == nil && mc.Spec.Containers[0].Launcher
}
