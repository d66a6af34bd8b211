// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

func TestDependencies(t *testing.T) {
	for text, tc := range map[string]struct{ want, err string }{
		"afterok:prepare":            {want: "Succeeded:prepare"},
		"after:a,afterany:b:c":       {want: "Started:a,Finished:b,Finished:c"},
		"afternotok:a":               {want: "Failed:a"},
		"afterok":                    {err: "it has to be like afterok:NAME"},
		"afterok:":                   {err: "it has to be like afterok:NAME"},
		"singleton":                  {err: "a MiniCluster has a key for that: --singleton=KEY"},
		"afterok:123":                {err: `"123" is no name of a MiniCluster`},
		"afterok:a,afterany:a":       {err: "MiniCluster a is named twice"},
		"afterok:a?afterok:b":        {err: `"a?afterok" is no name of a MiniCluster`},
		"aftercorr:a":                {err: "it has to be like afterok:NAME"},
		"after-success:a,afterany:b": {want: "Succeeded:a,Finished:b"},
	} {
		var d dependencies
		switch err := d.Set(text); {
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%s: %v, want %s", text, err, tc.err)
		case tc.err == "" && (err != nil || d.String() != tc.want):
			t.Errorf("%s: %s, %v", text, d.String(), err)
		}
	}
}

func TestBegin(t *testing.T) {
	zone := time.FixedZone("lab", 3600)
	now := time.Date(2026, 12, 1, 15, 30, 0, 500, zone)
	for text, want := range map[string]string{
		"16:00": "2026-12-01T16:00:00+01:00", "15:00": "2026-12-02T15:00:00+01:00", "15:30:01": "2026-12-01T15:30:01+01:00",
		"2026-12-24": "2026-12-24T00:00:00+01:00", "2026-12-24T18:30": "2026-12-24T18:30:00+01:00", "2026-12-24T18:30:00Z": "2026-12-24T18:30:00Z",
		"now+2h": "2026-12-01T17:30:00+01:00", "+90s": "2026-12-01T15:31:30+01:00", "now+1d": "2026-12-02T15:30:00+01:00",
		"now+3600": "2026-12-01T16:30:00+01:00", "+60": "2026-12-01T15:31:00+01:00", "now+1hour": "2026-12-01T16:30:00+01:00", "now+2weeks": "2026-12-15T15:30:00+01:00",
		"now+1h30m": "2026-12-01T17:00:00+01:00", "now+1minute": "2026-12-01T15:31:00+01:00", "now+-5s": "", "now+1year": "", "now+9999999": "", "now+999999weeks": "", "now+": "",
		"soon": "", "now": "", "25:00": "", "2026-13-01": "", "now+soon": "", "": "",
	} {
		at, err := readBegin(text, now)
		switch {
		case (err != nil) != (want == ""):
			t.Errorf("%s: %v, %v", text, at, err)
		case err == nil && at.Format(time.RFC3339) != want:
			t.Errorf("%s: %s, want %s", text, at.Format(time.RFC3339), want)
		}
	}
}

// Flags and directives of scripts let a MiniCluster wait.
func TestSubmitLater(t *testing.T) {
	out, err := submitted("#!/bin/bash\n#SBATCH -d afterok:prepare:mesh\n#SBATCH --begin=2026-12-24T18:30 --singleton=only\nflux run lmp\n", "--image=x", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	spec := out.Spec
	if len(spec.After) != 2 || spec.After[1] != (v1alpha2.Dependency{Name: "mesh", Condition: v1alpha2.DependencySucceeded}) || spec.NotBefore == nil || spec.Singleton != "only" {
		t.Errorf("got %+v, %v, %q", spec.After, spec.NotBefore, spec.Singleton)
	}
	for flag, want := range map[string]string{
		"--dependency=prepare": "it has to be like afterok:NAME", "--begin=soon": "--begin=soon: it has to be like 16:00",
	} {
		if _, err := submitted("#!/bin/bash\nflux run lmp\n", "--image=x", flag, "-f", "-"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
