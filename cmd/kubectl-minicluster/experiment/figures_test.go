// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	core "github.com/flux-elastic/flux-elastic/internal/experiment"
)

// TestMain lets the test program be the process that reads figures, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "experiment" && os.Args[2] == figuresVerb {
		cmd := New(access.New(os.Stdin, os.Stdout, os.Stderr))
		cmd.SetArgs(os.Args[2:])
		if cmd.ExecuteContext(context.Background()) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A filter of any kind has a figure or a sentence within a time and a memory. A filter has no
// environment.
func TestFigures(t *testing.T) {
	t.Setenv("SECRET", "7")
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("x=5\n{\"a\": 1, \"b\": ["+strings.Repeat("1,", 1000)+"2]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const one, tooLong, tooMuch = "map[f:1]", "did not end in time", "the figures of the log need more than"
	for filter, want := range map[string]string{
		".a":                               one,
		"env.SECRET // 1 | tonumber":       one,
		"$ENV.SECRET // 1 | tonumber":      one,
		"def f: f; f":                      tooLong,
		"last(range(1e12))":                tooLong,
		"last(repeat(1))":                  tooLong,
		"[limit(1e9; repeat(1))] | length": tooMuch,
		`def f: .+. | f; "x" | f`:          tooMuch,
		`"x" * 1000000000 | length`:        tooMuch,
		"reduce range(60) as $i (1; [.,.]) | tojson | length": tooMuch,
		"[range(1e5)] as $a | $a - ($a|map(.+1e6)) | length":  tooMuch,
		"reduce range(1e8) as $i (1; [.]) | tojson":           tooMuch,
		"halt":        "halt",
		"halt_error":  "halt",
		`error("no")`: "no",
		".b":          "is no number",
		"null":        "map[]",
	} {
		t.Run(filter, func(t *testing.T) {
			t.Parallel()
			b, endless := usual, want == tooLong || want == tooMuch
			if endless {
				b = bounds{time.Second, 256 << 20}
			}
			got, err := figures(t.Context(), []core.Figure{{Name: "f", JQ: filter, Take: core.TakeLast}}, log, b)
			said := fmt.Sprint(got)
			if err != nil {
				said = err.Error()
			}
			if reached := strings.Contains(said, tooLong) || strings.Contains(said, tooMuch); !strings.Contains(said, want) && (!endless || !reached) { // whichever is first
				t.Errorf("it says %s, and not %s", said, want)
			}
		})
	}
}

// A filter that reads anything but the log is refused with its file.
func TestFiguresOfOtherFiles(t *testing.T) {
	for _, filter := range []string{"input", "inputs", "$__loc__", "$__prog_args", "get_search_list", "debug", "input_filename", `import "a" as a; 1`, `include "a"; 1`, `import "/etc/passwd" as $a; 1`} {
		text := "apiVersion: " + core.APIVersion + "\nkind: Experiment\nname: a\ntemplate: {spec: {size: 1}}\nfigures: [{name: f, jq: '" + filter + "'}]\n"
		if _, err := core.Read([]byte(text)); err == nil || !strings.Contains(err.Error(), "figures[0].jq: ") {
			t.Errorf("%s: %v", filter, err)
		}
	}
}
