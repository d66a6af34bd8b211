// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"encoding/json"
	"reflect"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// exponents are those of numbers for which the parser of quantities needs minutes. The API server refuses such pods.
var exponents = regexp.MustCompile(`[eE][-+]?[0-9]{3}`)

// Any pod can be read, with any labels, annotations, statuses and messages, and is read from the cache as it is. Only a lead has
// rank 0.
func FuzzRead(f *testing.F) {
	f.Add(`{"metadata":{"labels":{"jobset.sigs.k8s.io/replicatedjob-name":"w","batch.kubernetes.io/job-completion-index":"-1"}}}`)
	f.Add(`{"metadata":{"labels":{"jobset.sigs.k8s.io/replicatedjob-name":"w","batch.kubernetes.io/job-completion-index":"9223372036854775807"},"deletionTimestamp":"2026-03-01T12:00:00Z","deletionGracePeriodSeconds":-9223372036854775808}}`)
	f.Add(`{"metadata":{"labels":{"app":"a"},"annotations":{"flux-framework.org/quorum":"99999999999999999999","flux-framework.org/restart":"-1 0-9"}},
"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":[]}]}]}}}},
"status":{"phase":"Failed","reason":"Evicted","message":"....","containerStatuses":[{"name":"","state":{"terminated":{"exitCode":-1,"message":"began asked lost 0-99"}}}],"initContainerStatuses":[{"state":{"terminated":{"message":" does not resolve"}}}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		pod := &corev1.Pod{}
		if exponents.MatchString(text) || json.Unmarshal([]byte(text), pod) != nil {
			return
		}
		p := Read(pod)
		if job := pod.Labels[jobsetapi.ReplicatedJobNameKey]; p.Rank < -1 || (p.Rank == 0) != (job == v1alpha2.LeadJob) || p.Rank > 0 && job != v1alpha2.WorkersJob {
			t.Errorf("a pod of the Job %q has rank %d", job, p.Rank)
		}
		if Moved(pod, pod.DeepCopy()) {
			t.Error("it moved")
		}
		kept := Read(Strip(pod.DeepCopy()))
		if p.Pod, kept.Pod = nil, nil; !reflect.DeepEqual(p, kept) {
			t.Errorf("from the cache it is read as %+v, and before as %+v", kept, p)
		}
	})
}
