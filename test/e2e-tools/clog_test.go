// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2etools

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/flux-elastic/flux-elastic/dev/clog"
)

// Many gangs at once do not clog a cluster: all finish, in their first attempt, and at no
// instant a pod is bound for a gang of which the minimum is not placed. It is what
// `make bench-clog` measures, on a cluster of its own and with nothing beside it.
func TestClogging(t *testing.T) {
	for name, args := range map[string][]string{
		"rigid": {"--seed=1"},
		"half":  {"--seed=2", "--min=half", "--run=3s", "--binder=gate"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "clog")
			args := append([]string{"clog", "--dir=" + dir, "--port=0", "--manager=" + filepath.Join(env.Bin, "manager"), "--limit=30m"}, args...)
			out, err := exec.CommandContext(t.Context(), filepath.Join(env.Bin, "localcluster"), args...).CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "result.json"))
			if err != nil {
				t.Fatal(err)
			}
			var result clog.Result
			if err := json.Unmarshal(text, &result); err != nil {
				t.Fatal(err)
			}
			if result.Gangs != 76 || result.Finished != 76 || result.Pods != 1264 || result.Violations.Count() != 0 {
				t.Errorf("%d of %d gangs finished, of %d pods; violations: %+v", result.Finished, result.Gangs, result.Pods, result.Violations)
			}
			if _, err := os.Stat(filepath.Join(dir, "timeline.svg")); err != nil {
				t.Error(err)
			}
		})
	}
}
