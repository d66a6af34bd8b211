// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// forger is a user who may only create pods, in a namespace of its own.
type forger struct {
	*site
	client client.Client
	// job has the name of the followers' Job of the victim. The garbage collector leaves its pods alone.
	job *batchv1.Job
}

func newForger(t *testing.T, victim string) *forger {
	t.Helper()
	f := &forger{site: newSite(t, 0)}
	f.removeJobs()
	config, err := env.cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate.UserName = "forger"
	if f.client, err = client.New(config, client.Options{Scheme: env.Scheme}); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: f.namespace, Name: "forger"}
	f.shared.Create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}}}})
	f.shared.Create(&rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "forger"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "forger"}},
	})
	f.job = f.site.job(victim+"-w-0", false)
	f.job.Spec.ManagedBy = new("example.com/nobody") // or else the Job controller deletes pods that it has not made
	f.shared.Create(f.job)
	return f
}

// create creates a pod as the forger.
func (f *forger) create(w *fixture.PodWrapper, change func(*corev1.Pod)) {
	f.t.Helper()
	pod := w.In(f.namespace).Spec(func(s *corev1.PodSpec) { s.Containers[0].Name, s.Containers[0].Image = "x", "x" }).Obj()
	pod.UID, pod.CreationTimestamp, pod.Status = "", metav1.Time{}, corev1.PodStatus{}
	if change != nil {
		change(pod)
	}
	eventually(f.t, func() error { // the API server learns of the role
		err := f.client.Create(f.ctx, pod)
		if err != nil && !apierrors.IsForbidden(err) {
			return final(err)
		}
		return err
	})
}

// broker is a pod that looks like one of the victim's.
func (f *forger) broker(victim *v1alpha2.MiniCluster, name string, rank int) *fixture.PodWrapper {
	w := fixture.BrokerPod(victim.Name, rank).Named(name).Label(v1alpha2.UIDLabel, string(victim.UID)).Label(v1alpha2.ExclusiveLabel, "true")
	return w.Label(v1alpha2.RankLabel, strconv.Itoa(rank)).Annotation(v1alpha2.QuorumAnnotation, "1")
}

// isOf sets the UID of the controller.
func isOf(uid types.UID) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = uid }
}

// A user who may only create pods writes labels, pins and owners into them. They take no nodes from a gang
// of another namespace, and are none of its brokers.
func TestForgedPods(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	victim := s.create(s.miniCluster("victim").Size(4).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Suspend = true }))
	s.awaitState(victim, v1alpha2.StateSuspended)
	f := newForger(t, victim.Name)
	for i, name := range s.nodes {
		var node corev1.Node
		if err := env.client.Get(s.ctx, client.ObjectKey{Name: name}, &node); err != nil {
			t.Fatal(err)
		}
		n := strconv.Itoa(i)
		f.create(fixture.Pod("pin-"+n).CPU("1000").Pinned(name), nil)
		f.create(fixture.Pod("daemon-"+n).CPU("1000").Pinned(name).OfDaemonSet("forged"), nil)
		f.create(fixture.Pod("static-"+n).CPU("1000").Pinned(name).Controller("v1", "Node", name), isOf(node.UID))
		f.create(f.broker(victim, "broker-"+n, i+1).CPU("1000").Pinned(name), isOf(f.job.UID))
		f.create(f.broker(victim, "high-"+n, 131071-i).CPU("1000").Pinned(name), isOf(f.job.UID))
	}
	// These two really hold their nodes. Once the manager knows that, it knows of the others.
	f.create(fixture.Pod("holder").On(s.nodes[0]), nil)
	f.create(f.broker(victim, "holder-with-labels", 3).On(s.nodes[1]), isOf(f.job.UID))

	s.patch(victim, `{"spec":{"suspend":false}}`)
	s.await(victim, "queued for two nodes", func(mc *v1alpha2.MiniCluster) bool {
		// Other tests delete and make nodes.
		message := condition(mc, v1alpha2.ConditionAdmitted).Message
		return strings.Contains(message, "2 of ") && strings.Contains(message, " nodes have room now for 2: ")
	})
	for _, name := range []string{"holder", "holder-with-labels"} {
		f.delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}, client.GracePeriodSeconds(0))
	}
	s.awaitSuccess(victim)
	f.stillThere()
}

// stillThere checks that the forged pods that the garbage collector leaves have been there all the time.
func (f *forger) stillThere() {
	f.t.Helper()
	var pods corev1.PodList
	if err := env.client.List(f.ctx, &pods, client.InNamespace(f.namespace)); err != nil {
		f.t.Fatal(err)
	}
	kinds := map[string]int{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		kind, _, _ := strings.Cut(pod.Name, "-")
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
			kinds[kind]++
		}
	}
	delete(kinds, "daemon")
	if got := fmt.Sprint(kinds); got != "map[broker:4 high:4 pin:4 static:4]" {
		f.t.Errorf("of its pods there are %s", got)
	}
}
