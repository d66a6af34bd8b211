// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/internal/state"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims;persistentvolumes,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch

// storage is what was read about volumes.
type storage struct {
	// read are the names of the claims and volumes that were read, or looked for, since the last change.
	read map[types.NamespacedName]bool
	// changes counts the changes of what was read, from 1.
	changes uint64
}

// mostRead bounds what storage remembers: more than the volumes of all gangs.
const mostRead = 1 << 16

// change lets all be read anew.
func (st *storage) change() {
	st.changes++
	st.read = map[types.NamespacedName]bool{}
}

// step updates the requests of all gangs to where their volumes can be reached now.
func (st *storage) step(ctx context.Context, cache client.Reader, entries map[types.NamespacedName]*entry, promised iter.Seq2[types.UID, *known]) error {
	if len(st.read) > mostRead {
		st.change()
	}
	for _, e := range entries {
		if err := st.reach(ctx, cache, e.Namespace, e.pod, &e.ask, &e.reached); err != nil {
			return err
		}
	}
	for _, k := range promised {
		if err := st.reach(ctx, cache, k.miniCluster.Namespace, k.pod, &k.ask, &k.reached); err != nil {
			return err
		}
	}
	return nil
}

// reach is step for one gang. reached is the count of changes at the last update.
func (st *storage) reach(ctx context.Context, cache client.Reader, namespace string, pod *corev1.Pod, ask *state.Ask, reached *uint64) error {
	if *reached == st.changes {
		return nil
	}
	var failed error
	ask.Reach = state.ReachOf(pod, ask.Least, state.Storage{
		Claim: func(name string) *corev1.PersistentVolumeClaim {
			return lookUp(ctx, st, cache, types.NamespacedName{Namespace: namespace, Name: name}, &corev1.PersistentVolumeClaim{}, &failed)
		},
		Volume: func(name string) *corev1.PersistentVolume {
			return lookUp(ctx, st, cache, types.NamespacedName{Name: name}, &corev1.PersistentVolume{}, &failed)
		},
		Class: func(name string) *storagev1.StorageClass {
			return lookUp(ctx, st, cache, types.NamespacedName{Name: name}, &storagev1.StorageClass{}, &failed)
		},
		DefaultClass: func() *storagev1.StorageClass {
			var list storagev1.StorageClassList
			if err := cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
				failed = fmt.Errorf("listing StorageClasses: %w", err)
			}
			return state.DefaultClass(list.Items)
		},
	})
	if failed == nil {
		*reached = st.changes
	}
	return failed
}

// lookUp reads an object from the cache; nil if the object does not exist.
func lookUp[T client.Object](ctx context.Context, st *storage, cache client.Reader, name types.NamespacedName, object T, failed *error) T {
	st.read[name] = true
	err := cache.Get(ctx, name, object, client.UnsafeDisableDeepCopy)
	if err == nil {
		return object
	}
	if client.IgnoreNotFound(err) != nil {
		*failed = fmt.Errorf("reading %T %q: %w", object, name.Name, err)
	}
	var none T
	return none
}

// follow lets all be read anew if a claim or volume that was read has changed, or any class: there are few. Of two objects
// of one name, a volume and a class, both count.
func (st *storage) follow(object client.Object) bool {
	_, isClass := object.(*storagev1.StorageClass)
	if !isClass && !st.read[client.ObjectKeyFromObject(object)] {
		return false
	}
	st.change()
	return true
}
