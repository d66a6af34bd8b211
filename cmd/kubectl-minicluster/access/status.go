// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strconv"
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

// Part reads a part of the cluster, from "0" to "1". What is not known is 0.
func Part(text string) float64 {
	part, _ := strconv.ParseFloat(text, 64)
	return max(0, min(1, part))
}
