// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"testing"
	"time"
)

func TestDeadlines(t *testing.T) {
	const none, short, hour, day = time.Duration(0), time.Minute, time.Hour, 24 * time.Hour
	for name, tc := range map[string]struct {
		queue     Deadlines
		set, want time.Duration
	}{
		"none without any":                    {Deadlines{}, none, none},
		"its own without any":                 {Deadlines{}, day, day},
		"the default":                         {Deadlines{Default: hour}, none, hour},
		"a default is no limit":               {Deadlines{Default: hour}, day, day},
		"its own, not the default":            {Deadlines{Default: hour}, short, short},
		"the longest, without a default":      {Deadlines{Max: day}, none, day},
		"the default, not the longest":        {Deadlines{Default: hour, Max: day}, none, hour},
		"its own, up to the longest":          {Deadlines{Default: short, Max: day}, hour, hour},
		"no longer than the longest, by edit": {Deadlines{Default: short, Max: hour}, day, hour},
	} {
		if got := tc.queue.Of(tc.set); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}
