// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// The embedded JobSet controller leaves JobSets alone that are not of a MiniCluster.
func TestForeignJobSet(t *testing.T) {
	s := newSite(t, 2)
	foreign := &jobsetapi.JobSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "foreign"},
		Spec: jobsetapi.JobSetSpec{
			Network:       &jobsetapi.Network{EnableDNSHostnames: new(true)},
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
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("a-pod"), RenewTime: new(metav1.NewMicroTime(renewed))},
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
					NodeSelector: map[string]string{"no": "node"}, Containers: []corev1.Container{{Name: "manager", Image: "m"}},
				},
			},
		},
	}
}

// A manager does not start beside a controller that would reconcile the same objects.
func TestRunsBesideNoOther(t *testing.T) {
	const operator, jobSet = "the Flux Operator runs in this cluster", "a JobSet controller runs in this cluster"
	now := wallClock.Now()
	env.manager.stop()
	defer restartManager(t)
	for name, tc := range map[string]struct {
		object client.Object
		jobSet string
		args   []string
		want   string // of the error; "" if the manager starts
	}{
		"the operator's Deployment": {deployment("operator-controller-manager", 1), jobSetExternal, nil, operator + " (Deployment default/operator-controller-manager)"},
		"it is scaled down":         {deployment("operator-controller-manager", 0), jobSetEmbedded, nil, ""},
		"the operator's Lease":      {lease("14dde902.flux-framework.org", now), jobSetEmbedded, nil, operator + " (Lease default/14dde902.flux-framework.org)"},
		"an old Lease":              {lease("14dde902.flux-framework.org", now.Add(-time.Hour)), jobSetEmbedded, nil, ""},
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
			m, err := startManager(env.kubeconfig, tc.jobSet, tc.args...)
			if err == nil {
				m.stop()
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
