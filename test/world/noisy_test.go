// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/story"
)

// uproar is a world in which one tenant makes noise.
type uproar struct {
	*World
	noise []*life
	quiet *life
	// changes are those of the noisy tenant.
	changes int
}

// noiseEach is how long the noisy tenant rests between two changes.
const noiseEach = 200 * time.Millisecond

// newUproar plans the noise of a tenant with so many MiniClusters that never start, and the life of another tenant.
func newUproar(n int, result *Result) *uproar {
	u := &uproar{World: newWorld(Options{Seed: 1}, result), quiet: &life{name: "quiet", namespace: namespaces[1]}}
	u.quiet.wrapper = fixture.MiniCluster(u.quiet.name).In(u.quiet.namespace).Size(2).CPU("8").PodAnnotation(simulator.Runtime, "20s")
	for i := range n {
		l := &life{name: fmt.Sprintf("noise-%d", i), namespace: namespaces[0]}
		l.wrapper = fixture.MiniCluster(l.name).In(l.namespace).Size(int32(u.nodes + 1 + i)).CPU("8")
		u.noise = append(u.noise, l)
		u.later(0, "create "+l.name, func() { u.makeLife(l) })
	}
	u.later(time.Second, "make noise", u.change)
	u.later(5*time.Second, "create quiet", func() { u.makeLife(u.quiet) })
	u.later(6*time.Second, "lie", u.lie)
	return u
}

// change is one change of the noisy tenant, and plans the next one.
func (u *uproar) change() {
	l := u.noise[u.changes/4%len(u.noise)]
	switch u.changes % 4 {
	case 0:
		u.patchLife(l, fmt.Sprintf(`{"spec":{"pod":{"labels":{"change":"c%d"}}}}`, u.changes))
	case 1:
		u.patchLife(l, fmt.Sprintf(`{"metadata":{"annotations":{"change":"c%d"}}}`, u.changes))
	case 2:
		u.removeLife(l, metav1.DeletePropagationBackground)
	case 3:
		u.makeLife(l)
	}
	u.changes++
	u.later(noiseEach, "change "+l.name, u.change)
}

// lie makes pods and events in the namespace of the noisy tenant that name the MiniCluster of the other tenant.
func (u *uproar) lie() {
	mc := u.theQuiet()
	for i := range 20 {
		pod := fixture.BrokerPod(u.quiet.name, i).In(namespaces[0]).Named(fmt.Sprint("lie-", i)).Label(v1alpha2.UIDLabel, string(mc.UID)).Obj()
		pod.UID = ""
		pod.Spec.Containers[0].Image = "app"
		for _, object := range []client.Object{pod, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespaces[0], Name: fmt.Sprint("lie-", i)},
			InvolvedObject: corev1.ObjectReference{Kind: "JobSet", Namespace: namespaces[0], Name: u.quiet.name, UID: types.UID("uid")},
			Reason:         "FailedCreate", Message: "Error creating: pods is forbidden: a lie", LastTimestamp: metav1.Now(),
		}} {
			u.mayRefuse("a lie", u.user.Create(u.ctx, object))
			u.changes++
		}
	}
}

func (u *uproar) theQuiet() *v1alpha2.MiniCluster {
	mc := &v1alpha2.MiniCluster{}
	must(u.user.Get(u.ctx, types.NamespacedName{Namespace: u.quiet.namespace, Name: u.quiet.name}, mc))
	return mc
}

// outcome is what became of the quiet tenant: how long its MiniCluster waited, and what the manager did for each change of
// the noisy tenant, in passes and requests.
type outcome struct {
	waited   time.Duration
	did, all int
}

// amid lets the MiniCluster of the quiet tenant live amid noise.
func amid(t *testing.T, n int) (out outcome) {
	t.Helper()
	result := &Result{}
	utilruntime.ErrorHandlers = nil
	synctest.Test(t, func(t *testing.T) {
		u := newUproar(n, result)
		defer u.end()
		u.start()
		until, mc := u.began.Add(2*time.Minute), &v1alpha2.MiniCluster{}
		for time.Now().Before(until) && u.violation == nil && story.StateOf(mc) != v1alpha2.StateSucceeded {
			u.step(until)
			mc = u.theQuiet()
		}
		if u.violation != nil || story.StateOf(mc) != v1alpha2.StateSucceeded || mc.Status.Admission.Size != 2 || len(mc.Status.Attempts) > 0 {
			t.Errorf("%v: %+v\n%s", u.violation, mc.Status, strings.Join(result.Trace[max(0, len(result.Trace)-60):], "\n"))
			return
		}
		for _, event := range u.objects(&corev1.EventList{}, client.InNamespace(u.quiet.namespace)) {
			if note := event.(*corev1.Event).Message; strings.Contains(note, "noise") || strings.Contains(note, "lie") {
				t.Errorf("an event of the quiet tenant says %q", note)
			}
		}
		out = outcome{mc.Status.Admission.Time.Sub(mc.CreationTimestamp.Time), u.turnstile.number, u.changes + n}
	})
	return out
}

// A tenant makes, edits and deletes MiniClusters without pause, which never start, and lies about the MiniCluster of another
// tenant, which starts and ends as it would alone. What the manager does for each change does not depend on how many there are.
func TestNoisyTenant(t *testing.T) {
	const few, many = 10, 40
	less, more := amid(t, few), amid(t, many)
	t.Logf("%d MiniClusters: %+v; %d: %+v", few, less, many, more)
	if less.all == 0 || more.all == 0 {
		return // it has failed
	}
	if each, then := less.did/less.all, more.did/more.all; then > each+each/2 {
		t.Errorf("the manager does %d for each change of %d MiniClusters, and %d of %d", each, few, then, many)
	}
	if most := 10 * time.Second; less.waited > most || more.waited > most {
		t.Errorf("the quiet MiniCluster waited for %s and %s", less.waited, more.waited)
	}
}
