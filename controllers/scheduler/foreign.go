// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
)

// foreignPods passes the pods of others to the ledger. A cluster may have hundreds of thousands of
// them, so only the ledger keeps them, as what they request, their node and their owner. It is a
// source of the scheduler's controller, and the store of a reflector.
type foreignPods struct {
	scheduler *Scheduler
	pods      toolscache.ListerWatcher
	// isDaemon reports whether a pod belongs to a DaemonSet that exists.
	isDaemon func(*corev1.Pod) bool
	queue    requests
	synced   chan struct{} // closed after the first list
	once     sync.Once
}

// foreignPod is a pod of a list, until the list is complete.
type foreignPod struct {
	metav1.ObjectMeta
	pod *ledger.Pod
}

func newForeignPods(s *Scheduler, mgr ctrl.Manager) (*foreignPods, error) {
	config := rest.CopyConfig(mgr.GetConfig())
	config.ContentType = runtime.ContentTypeProtobuf
	core, err := typedcorev1.NewForConfigAndClient(config, mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	pods := toolscache.NewFilteredListWatchFromClient(core.RESTClient(), "pods", "", func(options *metav1.ListOptions) {
		options.LabelSelector = "!" + v1alpha2.MiniClusterLabel // the cache has the others
	})
	return &foreignPods{scheduler: s, pods: pods, synced: make(chan struct{})}, nil
}

// Start implements source.Source.
func (f *foreignPods) Start(ctx context.Context, queue requests) error {
	f.queue = queue
	f.isDaemon = func(pod *corev1.Pod) bool { return isDaemon(ctx, f.scheduler.Cache, pod) }
	reflector := toolscache.NewReflectorWithOptions(f.pods, &corev1.Pod{}, f, toolscache.ReflectorOptions{Name: "foreign pods"})
	go reflector.RunWithContext(ctx)
	return nil
}

// WaitForSync implements source.SyncingSource: no cycle runs before all pods are known.
func (f *foreignPods) WaitForSync(ctx context.Context) error {
	select {
	case <-f.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Transformer implements toolscache.TransformingStore: a list in progress has no whole pods.
func (f *foreignPods) Transformer() toolscache.TransformFunc {
	return func(object any) (any, error) {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return object, nil
		}
		return f.newForeignPod(pod), nil
	}
}

func (f *foreignPods) newForeignPod(pod *corev1.Pod) *foreignPod {
	return &foreignPod{metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, ledger.PodOf(pod, f.isDaemon(pod))}
}

// daemonSet is a DaemonSet of which the cache has the metadata alone.
func daemonSet() *metav1.PartialObjectMetadata {
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	return set
}

// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=list;watch

// isDaemon reports whether a pod belongs to a DaemonSet that the cache has. The first call waits for the
// cache. Owner references alone prove nothing: anybody may write them.
func isDaemon(ctx context.Context, cache client.Reader, pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "DaemonSet" || owner.APIVersion != appsv1.SchemeGroupVersion.String() {
		return false
	}
	set := daemonSet()
	err := cache.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}, set, client.UnsafeDisableDeepCopy)
	return err == nil && set.UID == owner.UID
}

// Add implements toolscache.ReflectorStore.
func (f *foreignPods) Add(object any) error { return f.Update(object) }

// Update implements toolscache.ReflectorStore.
func (f *foreignPods) Update(object any) error {
	pod := object.(*corev1.Pod)
	held := ledger.PodOf(pod, f.isDaemon(pod))
	f.scheduler.tell(f.queue, idleBatch, func() { f.scheduler.ledger.Set(pod.UID, held) })
	return nil
}

// Delete implements toolscache.ReflectorStore.
func (f *foreignPods) Delete(object any) error {
	f.scheduler.tell(f.queue, idleBatch, func() { f.scheduler.ledger.Gone(object.(*corev1.Pod)) })
	return nil
}

// Replace implements toolscache.ReflectorStore: a new list replaces what was known.
func (f *foreignPods) Replace(list []any, _ string) error {
	pods := make([]*foreignPod, len(list))
	for i, object := range list {
		var ok bool
		if pods[i], ok = object.(*foreignPod); !ok { // of an API server that does not stream lists
			pods[i] = f.newForeignPod(object.(*corev1.Pod))
		}
	}
	f.scheduler.tell(f.queue, idleBatch, func() {
		there := make(map[types.UID]bool, len(pods))
		for _, listed := range pods {
			there[listed.UID] = true
			f.scheduler.ledger.Set(listed.UID, listed.pod)
		}
		f.scheduler.ledger.KeepForeign(there)
	})
	f.once.Do(func() { close(f.synced) })
	return nil
}

// Resync implements toolscache.ReflectorStore.
func (*foreignPods) Resync() error { return nil }
