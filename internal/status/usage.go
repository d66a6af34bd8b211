// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// usageOf is what a status says about usage.
func usageOf(s *v1alpha2.MiniClusterStatus) life.Usage {
	var u life.Usage
	if s.Usage != nil {
		u.Useful, u.Lost = s.Usage.UsefulNodeSeconds, s.Usage.LostNodeSeconds
	}
	if s.Admission != nil && s.Admission.Usage != nil {
		held := s.Admission.Usage
		u.Held, u.Starting, u.At = held.NodeSeconds, held.StartingNodeSeconds, held.Until.Time
	}
	return u
}

// writeUsage writes the usage after a decision. It is in the same write as the decision, so that nothing counts
// twice.
func writeUsage(s *v1alpha2.MiniClusterStatus, u life.Usage) {
	if u.Useful+u.Lost > 0 {
		s.Usage = &v1alpha2.Usage{UsefulNodeSeconds: u.Useful, LostNodeSeconds: u.Lost}
	}
	if s.Admission != nil && !u.At.IsZero() {
		s.Admission.Usage = &v1alpha2.AttemptUsage{NodeSeconds: u.Held, StartingNodeSeconds: u.Starting, Until: metav1.NewTime(u.At)}
	}
}
