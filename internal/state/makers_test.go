// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// The makers of a MiniCluster say where the pods go that the API server binds.
func TestMakerOf(t *testing.T) {
	mc := fixture.MiniCluster("x").Size(4).CPU("8").Defaulted()
	set, err := jobset.JobSet(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	set.UID = "set"
	if m := MakerOfJobSet(set); len(m.Pods) > 0 {
		t.Errorf("pods with gates go to %v", m.Pods)
	}
	jobset.BindAtAdmission(set, []string{"n1", "n2", "", "n44"}, 1, fixture.Noon)
	want := []elastic.Pod{{Rank: 0, Node: "n1"}, {Rank: 1, Node: "n2"}, {Rank: 3, Node: "n44"}}
	m := MakerOfJobSet(set)
	if !slices.Equal(m.Pods, want) || m.MiniCluster != types.UID("uid-x") || m.Name != "x" || m.Over || m.Leaves || m.Requests["cpu"] != 8000 {
		t.Errorf("the JobSet is %+v with requests %v, want pods %v", m, map[string]int64(m.Requests), want)
	}
	set.Status.TerminalState = string(jobsetapi.JobSetCompleted)
	if !MakerOfJobSet(set).Over {
		t.Error("a JobSet that has ended makes pods")
	}
	i := slices.IndexFunc(set.Spec.ReplicatedJobs, func(job jobsetapi.ReplicatedJob) bool { return job.Name == v1alpha2.WorkersJob })
	job := &batchv1.Job{Spec: set.Spec.ReplicatedJobs[i].Template.Spec}
	job.UID, job.Labels = "job", map[string]string{jobsetapi.ReplicatedJobNameKey: v1alpha2.WorkersJob}
	job.OwnerReferences = []metav1.OwnerReference{{UID: "set", Controller: new(true)}}
	if m := MakerOfJob(job); !slices.Equal(m.Pods, want[1:]) || m.Set != "set" || m.Over {
		t.Errorf("the Job is %+v, want pods %v", m, want[1:])
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	if !MakerOfJob(job).Over {
		t.Error("a Job that has ended makes pods")
	}
}
