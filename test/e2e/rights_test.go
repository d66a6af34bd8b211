// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// tenant is a client of a user who may do everything with MiniClusters of the site, and nothing else.
func (s *site) tenant() client.Client {
	s.t.Helper()
	const name = "tenant"
	user := s.namespace + "-" + name
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: name}
	s.shared.Create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha2.Group}, Resources: []string{"miniclusters"}, Verbs: []string{"*"},
	}}})
	s.shared.Create(&rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	c := s.impersonate(user)
	eventually(s.t, func() error { return c.List(s.ctx, &v1alpha2.MiniClusterList{}, client.InNamespace(s.namespace)) })
	return c
}

// createAs creates a MiniCluster as another user.
func (s *site) createAs(c client.Client, w *fixture.MiniClusterWrapper) *v1alpha2.MiniCluster {
	s.t.Helper()
	mc := w.In(s.namespace).New()
	if err := c.Create(s.ctx, mc); err != nil {
		s.t.Fatal(err)
	}
	return mc
}

// A queue of others is of no use: not for a MiniCluster that names it, and not for one that ran there when the queue
// was for its namespace.
func TestBorrowedQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	theirs := fixture.Queue(s.namespace+"-theirs").Guarantee(corev1.ResourceCPU, "24").Weight(100).Priority(1000).New()
	theirs.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": s.namespace}}
	s.shared.Create(theirs)
	t.Cleanup(func() { s.delete(theirs) })
	tenant := s.tenant()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	label := func(team string) { s.patch(namespace, `{"metadata":{"labels":{"team":%q}}}`, team) }
	refused := func(mc *v1alpha2.MiniCluster) {
		t.Helper()
		s.await(mc, "told that the queue is not for it", func(mc *v1alpha2.MiniCluster) bool {
			admitted := condition(mc, v1alpha2.ConditionAdmitted)
			return admitted.Reason == v1alpha2.ReasonNotAllowed && strings.Contains(admitted.Message, theirs.Name+" is not for namespace "+s.namespace)
		})
	}
	waits := s.createAs(tenant, s.miniCluster("waits").Queue(theirs.Name))
	refused(waits)

	label(s.namespace)
	s.awaitSuccess(waits)
	runs := s.createAs(tenant, s.miniCluster("runs").Size(2).MinSize(1).MaxSize(3).Launcher().Queue(theirs.Name).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitBrokers(runs, 2)
	label("others")
	later := s.createAs(tenant, s.miniCluster("later").Queue(theirs.Name))
	refused(later) // so the scheduler has seen the label
	if err := tenant.Patch(s.ctx, runs, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"size":3}}`))); err != nil {
		t.Fatal(err)
	}
	own := s.createAs(tenant, s.miniCluster("own")) // in the queue of the site
	s.awaitSuccess(own)
	if s.get(runs); state(runs) != v1alpha2.StateRunning || runs.Status.Admission.Size != 2 {
		t.Errorf("it is %s with %d brokers", state(runs), runs.Status.Admission.Size)
	}
	label(s.namespace)
	s.awaitBrokers(runs, 3)
	s.awaitSuccess(later)
	s.endCommand(runs)
	s.awaitSuccess(runs)
}

// A class that never preempts goes first, and evicts nobody.
func TestBorrowedPriority(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-never"}, Value: 1000, PreemptionPolicy: new(corev1.PreemptNever)}
	s.shared.Create(class)
	t.Cleanup(func() { s.delete(class) })
	tenant := s.tenant()
	runs := s.create(s.miniCluster("runs").PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(runs, v1alpha2.StateRunning)
	never := s.createAs(tenant, s.miniCluster("never").Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.PriorityClassName = class.Name }))
	s.await(never, "waiting for room", func(mc *v1alpha2.MiniCluster) bool {
		return condition(mc, v1alpha2.ConditionAdmitted).Reason == v1alpha2.ReasonNoRoom
	})
	s.endCommand(runs)
	s.awaitSuccess(never)
	s.awaitSuccess(runs)
	if runs.Status.RequeueState != nil || s.leadsOf(runs) != 1 {
		t.Errorf("it was evicted: %+v, the command ran %d times", runs.Status.RequeueState, s.leadsOf(runs))
	}
}

// unprivileged makes a MiniCluster as the Pod Security Standard `restricted` demands it.
func unprivileged(spec *v1alpha2.MiniClusterSpec) {
	spec.Pod.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), FSGroup: new(int64(1000)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	container := &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	spec.Containers[0].SecurityContext, spec.Flux.Container.SecurityContext = container, container
}

// Pod Security holds for the pods of MiniClusters, although the user may create no pods: the API server's sentence is
// the MiniCluster's.
func TestBorrowedPods(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	tenant := s.tenant()
	for name, tc := range map[string]struct {
		change func(*v1alpha2.MiniClusterSpec)
		want   string
	}{
		"host-path": {func(spec *v1alpha2.MiniClusterSpec) {
			spec.Containers[0].Volumes = map[string]v1alpha2.ContainerVolume{"etc": {HostPath: "/etc", Path: "/host"}}
		}, "hostPath"},
		"privileged": {func(spec *v1alpha2.MiniClusterSpec) {
			spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		}, "privileged"},
		"privileged-view": {func(spec *v1alpha2.MiniClusterSpec) {
			spec.Flux.Container.SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		}, "privileged"},
		"privileged-beside": {func(spec *v1alpha2.MiniClusterSpec) {
			spec.Containers[0].RunFlux = true
			spec.Containers = append(spec.Containers, v1alpha2.MiniClusterContainer{Name: "beside", Image: "i", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}})
		}, "privileged"},
		"privileged-service": {func(spec *v1alpha2.MiniClusterSpec) {
			spec.Services = []v1alpha2.MiniClusterContainer{{Name: "db", Image: "i", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}
		}, "privileged"},
		"host-pid":     {func(spec *v1alpha2.MiniClusterSpec) { spec.Pod.HostPID = true }, "hostPID"},
		"host-network": {func(spec *v1alpha2.MiniClusterSpec) { spec.Pod.HostNetwork, spec.Placement.Exclusive = true, true }, "hostNetwork"},
		"host-ipc":     {func(spec *v1alpha2.MiniClusterSpec) { spec.Pod.HostIPC = true }, "hostIPC"},
		"root":         {func(spec *v1alpha2.MiniClusterSpec) { spec.Pod.SecurityContext.RunAsUser = new(int64(0)) }, "runAsUser=0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mc := s.createAs(tenant, s.miniCluster(name).Spec(unprivileged).Spec(tc.change))
			s.awaitState(mc, v1alpha2.StateRejected)
			accepted := condition(mc, v1alpha2.ConditionAccepted)
			if accepted.Reason != v1alpha2.ReasonPodRejected || !strings.Contains(accepted.Message, `violates PodSecurity "restricted`) || !strings.Contains(accepted.Message, tc.want) {
				t.Errorf("it was told %s: %s", accepted.Reason, accepted.Message)
			}
			if n := len(s.pods(mc)); n > 0 || mc.Status.Admission != nil {
				t.Errorf("it has %d pods, and the admission %+v", n, mc.Status.Admission)
			}
		})
	}
	s.awaitSuccess(s.createAs(tenant, s.miniCluster("harmless").Spec(unprivileged)))
}

// Nobody names the scheduler under which the manager binds pods itself.
func TestBorrowedScheduler(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	mc := s.miniCluster("ours").Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Pod.SchedulerName = v1alpha2.SchedulerName }).New()
	if err := s.tenant().Create(s.ctx, mc); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "schedulerName must not be flux-elastic") {
		t.Errorf("got %v", err)
	}
}

// Who may create MiniClusters may not write what the manager has decided, change queues, or read and write what
// MiniClusters are made of.
func TestBorrowedObjects(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	tenant := s.tenant()
	mc := s.createAs(tenant, s.miniCluster("mine").PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(mc, v1alpha2.StateRunning)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"queue":"theirs","admission":{"nodes":"x"}}}`))
	pod := s.pods(mc)[0]
	for what, err := range map[string]error{
		"the status":       tenant.Status().Patch(s.ctx, mc.DeepCopy(), patch),
		"a queue":          tenant.Create(s.ctx, fixture.Queue(s.namespace+"-mine").New()),
		"the site's queue": tenant.Patch(s.ctx, queueOf(s), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"weight":100}}`))),
		"a pod":            tenant.Delete(s.ctx, &pod),
		"a JobSet":         tenant.Get(s.ctx, client.ObjectKeyFromObject(mc), &jobsetapi.JobSet{}),
		"Secrets":          tenant.List(s.ctx, &corev1.SecretList{}, client.InNamespace(s.namespace)),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	// The API server takes no status from those who may only write the spec.
	before := s.get(mc).Status
	if err := tenant.Patch(s.ctx, mc.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
	if s.get(mc); mc.Status.Queue != before.Queue || mc.Status.Admission.Nodes != before.Admission.Nodes {
		t.Errorf("its status is %+v", mc.Status)
	}
	s.endCommand(mc)
	s.awaitSuccess(mc)
}
