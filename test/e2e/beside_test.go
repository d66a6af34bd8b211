// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// The embedded JobSet controller leaves JobSets alone that are not of a MiniCluster.
func TestForeignJobSet(t *testing.T) {
	s := newSite(t, 2)
	foreign := &jobsetapi.JobSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "foreign"},
		Spec: jobsetapi.JobSetSpec{
			Network:       &jobsetapi.Network{EnableDNSHostnames: new(false)}, // needs no rights that the manager lacks
			SuccessPolicy: &jobsetapi.SuccessPolicy{Operator: jobsetapi.OperatorAll},
			StartupPolicy: &jobsetapi.StartupPolicy{StartupPolicyOrder: jobsetapi.AnyOrder},
			ReplicatedJobs: []jobsetapi.ReplicatedJob{{
				Name: "a", Replicas: 1, GroupName: "default",
				Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "a"}},
				}}}},
			}},
		},
	}
	if err := env.client.Create(s.ctx, foreign); err != nil {
		t.Fatal(err)
	}
	defer s.delete(foreign)
	mc := s.create(s.miniCluster("ours").Size(2))
	s.awaitSuccess(mc) // the foreign one came first
	var jobs batchv1.JobList
	if err := env.client.List(s.ctx, &jobs, client.InNamespace(s.namespace), client.MatchingLabels{jobsetapi.JobSetNameKey: "foreign"}); err != nil {
		t.Fatal(err)
	}
	if len(jobs.Items) > 0 {
		t.Errorf("the foreign JobSet has %d Jobs", len(jobs.Items))
	}
	if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(foreign), foreign); err != nil {
		t.Fatal(err)
	}
	if len(foreign.Status.Conditions)+len(foreign.Status.ReplicatedJobsStatus) > 0 {
		t.Errorf("the foreign JobSet has a status: %v", foreign.Status)
	}
}

func lease(name string, renewed time.Time) client.Object {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("other-controller_1"), RenewTime: new(metav1.NewMicroTime(renewed))},
	}
}

func deployment(name string, replicas int32) client.Object {
	labels := map[string]string{"control-plane": "controller-manager"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Paused: true, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					ServiceAccountName: "other-controller", NodeSelector: map[string]string{"no": "node"}, Containers: []corev1.Container{{Name: "manager", Image: "m"}},
				},
			},
		},
	}
}

// grantOther makes a pod of another controller, with the rights that such controllers have, until the end of the test.
func grantOther(t *testing.T) {
	t.Helper()
	meta, local := metav1.ObjectMeta{Name: "other-controller"}, metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "other-controller"}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha2.Group, jobsetapi.GroupVersion.Group}, Resources: []string{"miniclusters/status", "jobsets/status"}, Verbs: []string{"update"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: metav1.NamespaceDefault, Name: meta.Name}},
		},
		&corev1.ServiceAccount{ObjectMeta: local},
		&corev1.Pod{ObjectMeta: local, Spec: corev1.PodSpec{
			ServiceAccountName: meta.Name, NodeSelector: map[string]string{"no": "node"}, Containers: []corev1.Container{{Name: "manager", Image: "m"}},
		}},
	} {
		if err := env.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := env.client.Delete(context.WithoutCancel(t.Context()), object); err != nil {
				t.Error(err)
			}
		})
	}
}

// A manager does not start beside a controller that would reconcile the same objects.
func TestRunsBesideNoOther(t *testing.T) {
	const operator, jobSet = "the Flux Operator runs in this cluster", "a JobSet controller runs in this cluster"
	now := wallClock.Now().Add(time.Hour) // a Lease stays fresh, however long the cases before take
	defer stopManager(t)()
	grantOther(t)
	tenants := deployment("operator-controller-manager", 1)
	tenants.(*appsv1.Deployment).Spec.Template.Spec.ServiceAccountName = "default"
	tenantsLease := lease("14dde902.flux-framework.org", now)
	tenantsLease.(*coordinationv1.Lease).Spec.HolderIdentity = new("tenant_1")
	for name, tc := range map[string]struct {
		object client.Object
		jobSet string
		args   []string
		want   string // of the error; "" if the manager starts
	}{
		"the operator's Deployment": {deployment("operator-controller-manager", 1), jobSetExternal, nil, operator + " (Deployment default/operator-controller-manager)"},
		"a tenant's Deployment":     {tenants, jobSetExternal, nil, ""},
		"it is scaled down":         {deployment("operator-controller-manager", 0), jobSetEmbedded, nil, ""},
		"the operator's Lease":      {lease("14dde902.flux-framework.org", now), jobSetEmbedded, nil, operator + " (Lease default/14dde902.flux-framework.org)"},
		"a tenant's Lease":          {tenantsLease, jobSetExternal, nil, ""},
		"an old Lease":              {lease("14dde902.flux-framework.org", now.Add(-3*time.Hour)), jobSetEmbedded, nil, ""},
		"it is allowed":             {lease("14dde902.flux-framework.org", now), jobSetEmbedded, []string{"--beside-flux-operator"}, ""},
		"JobSet's Deployment":       {deployment("jobset-controller-manager", 1), jobSetEmbedded, nil, jobSet + " (Deployment default/jobset-controller-manager)"},
		"JobSet's Lease":            {lease("6d4f6a47.jobset.x-k8s.io", now), jobSetEmbedded, nil, jobSet + " (Lease default/6d4f6a47.jobset.x-k8s.io)"},
		"JobSet's webhook": {
			&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "jobset-mutating-webhook-configuration"}},
			jobSetEmbedded, nil, jobSet + " (MutatingWebhookConfiguration jobset-mutating-webhook-configuration)",
		},
		"JobSet is the cluster's": {deployment("jobset-controller-manager", 1), jobSetExternal, nil, ""},
		"JobSet is allowed":       {deployment("jobset-controller-manager", 1), jobSetEmbedded, []string{"--beside-jobset"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := env.client.Create(t.Context(), tc.object); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := env.client.Delete(t.Context(), tc.object); err != nil {
					t.Error(err)
				}
			}()
			m, err := startManager(env.cluster.ManagerKubeconfig, tc.jobSet, tc.args...)
			if err == nil {
				m.Stop()
			}
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// A manager upgrades the JobSet API that a manager installed, and leaves that of others alone.
func TestUpgradesJobSet(t *testing.T) {
	defer stopManager(t)()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "jobsets.jobset.x-k8s.io"}}
	read := func() {
		t.Helper()
		if err := env.client.Get(t.Context(), client.ObjectKeyFromObject(definition), definition); err != nil {
			t.Fatal(err)
		}
	}
	read()
	whole := definition.DeepCopy()
	defer func() {
		read()
		definition.ManagedFields, definition.Spec = whole.ManagedFields, whole.Spec
		if err := env.client.Update(context.WithoutCancel(t.Context()), definition, client.FieldOwner(v1alpha2.FieldOwner)); err != nil {
			t.Error(err)
		}
	}()
	for _, tc := range []struct {
		owner client.FieldOwner
		want  int
	}{{v1alpha2.FieldOwner, len(whole.Spec.Versions[0].AdditionalPrinterColumns)}, {"kubectl", 0}} {
		read()
		definition.Spec.Versions[0].AdditionalPrinterColumns = nil // as that of another version
		if err := env.client.Update(t.Context(), definition, tc.owner); err != nil {
			t.Fatal(err)
		}
		m, err := startManager(env.cluster.ManagerKubeconfig, jobSetEmbedded)
		if err != nil {
			t.Fatal(err)
		}
		m.Stop()
		if read(); len(definition.Spec.Versions[0].AdditionalPrinterColumns) != tc.want {
			t.Errorf("changed by %s: the definition has the columns %v, want %d", tc.owner, definition.Spec.Versions[0].AdditionalPrinterColumns, tc.want)
		}
	}
}

// madeByOperator makes the objects that the Flux Operator makes for a MiniCluster.
func (s *site) madeByOperator(mc *v1alpha2.MiniCluster) *batchv1.Job {
	s.t.Helper()
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: s.namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(mc, v1alpha2.GroupVersion.WithKind(v1alpha2.MiniClusterKind))},
		}
	}
	selector := map[string]string{"job-name": mc.Name}
	job := &batchv1.Job{
		ObjectMeta: meta(mc.Name),
		Spec: batchv1.JobSpec{
			CompletionMode: new(batchv1.IndexedCompletion), Completions: new(int32(1)), Parallelism: new(int32(1)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyOnFailure, NodeSelector: map[string]string{"no": "node"},
				Containers: []corev1.Container{{Name: mc.Name, Image: "app"}},
			}},
		},
	}
	for _, object := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta(mc.Name + "-entrypoint")},
		&corev1.Service{ObjectMeta: meta(mc.Name), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: selector}},
		job,
	} {
		if err := env.client.Create(s.ctx, object); err != nil {
			s.t.Fatal(err)
		}
	}
	return job
}

// A MiniCluster that the Flux Operator ran is told apart: its command does not run a second time.
func TestMiniClusterOfTheFluxOperator(t *testing.T) {
	env.manager.Stop()
	stopped := true
	defer func() {
		if stopped {
			restartManager(t)
		}
	}()
	s := newSite(t, 2)
	ran, fresh := s.create(s.miniCluster("ran")), s.create(s.miniCluster("fresh"))
	s.madeByOperator(ran)
	restartManager(t)
	stopped = false
	s.awaitSuccess(fresh)
	s.await(ran, "refused", func(mc *v1alpha2.MiniCluster) bool {
		c := condition(mc, v1alpha2.ConditionAccepted)
		return c.Reason == v1alpha2.ReasonNameClash && strings.HasSuffix(c.Message, " is of a run by the Flux Operator; delete the MiniCluster, and create it again")
	})
	s.delete(ran)
	s.awaitGone(ran) // the garbage collector deletes what the Flux Operator made
	s.awaitSuccess(s.create(s.miniCluster("ran")))
}

// kubectl minicluster migrate --check reads a cluster.
func TestMigrateCheck(t *testing.T) {
	s := newSite(t, 0)
	check := func() (code int, lines []string) {
		cmd := exec.CommandContext(s.ctx, filepath.Join(env.Bin, "kubectl-minicluster"), "migrate", "--check", "--kubeconfig="+env.cluster.Kubeconfig(), "-n", s.namespace)
		out, err := cmd.Output()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return cmd.ProcessState.ExitCode(), lines
	}
	suspended := func(name string) *v1alpha2.MiniCluster {
		return s.create(s.miniCluster(name).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Suspend = true }))
	}
	if code, lines := check(); code != 0 || !slices.Equal(lines, []string{"There is nothing to do."}) {
		t.Errorf("exit code %d: %q", code, lines)
	}
	suspended("plain")
	header, plain := "MINICLUSTER STATE VERDICT WHAT TO DO", s.namespace+"/plain new works as it is -"
	if code, lines := check(); code != 0 || !slices.Equal(lines, []string{header, plain, "There is nothing to do."}) {
		t.Errorf("exit code %d: %q", code, lines)
	}
	s.madeByOperator(suspended("runs"))
	job := s.madeByOperator(suspended("ended"))
	eventually(t, func() error { // the Job controller writes, too; nobody may change the time of the start
		if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		now := new(metav1.Now())
		if job.Status.StartTime == nil {
			job.Status.StartTime = now
		}
		job.Status.CompletionTime, job.Status.Active, job.Status.Ready = now, 0, nil
		job.Status.Succeeded, job.Status.CompletedIndexes = 1, "0"
		job.Status.Conditions = []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
		}
		return env.client.Status().Update(s.ctx, job)
	})
	grantOther(t)
	operator := deployment("operator-controller-manager", 1)
	if err := env.client.Create(s.ctx, operator); err != nil {
		t.Fatal(err)
	}
	code, lines := check()
	s.delete(operator)
	again := func(name string) string {
		return fmt.Sprintf(" works with a change delete it once it has ended, since the Flux Operator made its Job %s, ConfigMap %s-entrypoint, Service %s; then create it again if it has to run", name, name, name)
	}
	want := []string{
		header,
		s.namespace + "/ended ended" + again("ended"),
		plain,
		s.namespace + "/runs runs" + again("runs"),
		"The Flux Operator runs (Deployment default/operator-controller-manager). Remove it before flux-elastic starts.",
	}
	if code != 1 || !slices.Equal(lines, want) {
		t.Errorf("exit code %d: %s", code, cmp.Diff(lines, want))
	}
}
