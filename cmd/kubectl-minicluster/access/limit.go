// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Limit is how long the command of a MiniCluster may run; 0 without a limit.
func Limit(mc *v1alpha2.MiniCluster) time.Duration {
	seconds := mc.Spec.DeadlineSeconds
	if a := mc.Status.Admission; a != nil && a.DeadlineSeconds != nil {
		seconds = a.DeadlineSeconds
	}
	if seconds == nil || *seconds == v1alpha2.DefaultDeadlineSeconds {
		return 0
	}
	return time.Duration(*seconds) * time.Second
}
