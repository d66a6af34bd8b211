// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/constants"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// asMade returns the labels of the pods that are made of a MiniCluster, and of its JobSet and Jobs.
func asMade(t *testing.T, mc *v1alpha2.MiniCluster) (pods, jobs map[string]string) {
	t.Helper()
	pod, err := jobset.Pod(mc)
	if err != nil {
		t.Fatal(err)
	}
	services, err := jobset.ServicesPod(mc)
	if err != nil {
		t.Fatal(err)
	}
	set, err := jobset.JobSet(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	pods, jobs = services.Labels, set.Labels
	maps.Copy(pods, pod.Labels)
	maps.Copy(pods, protocol.Binding(pod, "node", 1, protocol.Orders{}).Labels)
	for _, job := range jobset.Jobs(set) {
		maps.Copy(jobs, job.Labels)
	}
	return pods, jobs
}

// No label of a user is replaced silently: it is kept, or the API refuses the label.
func TestLabelsAreKeptOrRefused(t *testing.T) {
	const base = "{apiVersion: flux-framework.org/v1alpha2, kind: MiniCluster, metadata: {name: lmp}, spec: {size: 2, placement: {exclusive: true}, " +
		"services: [{name: db, image: db}], containers: [{image: app, runFlux: true}, {name: side, image: side, ports: [80]}], " +
		"pod: {labels: {%s}}, jobLabels: {%s}}}"
	r, err := newRenderer("default")
	if err != nil {
		t.Fatal(err)
	}
	// made are the labels of pods and Jobs with some labels of the user; else the API's errors.
	made := func(ofPods, ofJobs string) (pods, jobs map[string]string, err error) {
		errs := eachMiniCluster("labels", fmt.Appendf(nil, base, ofPods, ofJobs), yaml.YAMLToJSONStrict, func(object map[string]any) error {
			mc, err := r.miniCluster(object)
			if err == nil {
				pods, jobs = asMade(t, mc)
			}
			return err
		})
		return pods, jobs, errors.Join(errs...)
	}
	pods, jobs, err := made("", "")
	if err != nil || len(pods) < 10 || len(jobs) < 4 {
		t.Fatalf("%v, %v, %v", pods, jobs, err)
	}
	more := []string{ // what JobSet and older Jobs set, and what Kueue acts by
		jobsetapi.JobSetUIDKey, jobsetapi.JobKey, jobsetapi.GroupNameKey, constants.RestartsKey,
		"job-name", "controller-uid", v1alpha2.KueueQueueLabel, v1alpha2.KueuePriorityLabel,
	}
	const refusal = "must not be" // "be", or "begin with"
	refused := map[bool]int{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(pods)), more) {
		got, _, err := made(name+": mine", "")
		if err == nil && got[name] != "mine" || err != nil && !strings.Contains(err.Error(), "labels of pods "+refusal) {
			t.Errorf("the label %s of pods became %q, %v", name, got[name], err)
		}
		refused[err != nil]++
	}
	if refused[false] != 3 { // app, app.kubernetes.io/name, namespace
		t.Errorf("%d labels of pods are kept", refused[false])
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(jobs)), more) {
		_, got, err := made("", name+": mine")
		if err == nil && got[name] != "mine" || err != nil && !strings.Contains(err.Error(), "jobLabels "+refusal) {
			t.Errorf("the label %s of Jobs became %q, %v", name, got[name], err)
		}
	}
}
