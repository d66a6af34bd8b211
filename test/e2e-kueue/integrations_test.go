// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"testing"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Kueue manages all JobSets, Jobs and pods, with or without label, and has a default LocalQueue. Each
// of two settings keeps it away from those of MiniClusters.
func TestIntegrations(t *testing.T) {
	t.Parallel()
	for name, configuration := range map[string]string{
		"excluded namespaces": "managedJobsNamespaceSelector: {matchLabels: {jobs: of-kueue}}\n",
		"an external framework": "integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset, pod]," +
			" externalFrameworks: [MiniCluster.v1alpha2.flux-framework.org]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, 4, configuration+"manageJobsWithoutQueueName: true\n").newSite(t, 4)
			s.newQueue("default", 32)
			with, without := s.create(s.miniCluster("with").Size(2), "default"), s.create(s.miniCluster("without").Size(2), "")
			for _, mc := range []*v1alpha2.MiniCluster{with, without} {
				s.AwaitState(mc, v1alpha2.StateRunning)
			}
			s.succeed(with, without)
		})
	}
}
