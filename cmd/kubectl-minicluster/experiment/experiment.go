// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package experiment has the verbs that run a MiniCluster many times with different parameters, and record what came
// out.
package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	core "github.com/flux-elastic/flux-elastic/internal/experiment"
	"github.com/flux-elastic/flux-elastic/internal/story"
)

// New returns the command with all verbs.
func New(s *access.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "experiment", Short: "Run a MiniCluster many times with different parameters, and compare the runs",
		Example: "  kubectl minicluster experiment run scaling.yaml\n  kubectl minicluster experiment report scaling",
		Args:    cobra.ArbitraryArgs,
		RunE:    access.NoVerb,
	}
	cmd.AddCommand(newRun(s), newResume(s), newStatus(s), newReport(s), newCompare(s), newSchema(s), newFigures())
	return cmd
}

func newRun(s *access.Session) *cobra.Command {
	out, dry := "", false
	cmd := &cobra.Command{
		Use: "run FILE", Short: "Run an experiment, and record its runs", Example: "  kubectl minicluster experiment run scaling.yaml",
		Long: `Submit a MiniCluster for each run of the experiment in the file (- is the standard input). When a run has ended, its
log and its record are written, and its MiniCluster is deleted.

If the program is interrupted or killed, the MiniClusters go on, and "resume" takes them up. The exit code is 1 if a
run did not succeed, or was not submitted.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return access.Usagef("run needs one file")
			}
			text, definition, err := readDefinition(args[0], s.In)
			if err != nil {
				return err
			}
			if dry {
				return list(s, definition)
			}
			dir := cmp.Or(out, definition.Out, definition.Name)
			if err := begin(cmd.Context(), s, dir, text, definition); err != nil {
				return err
			}
			return resume(cmd.Context(), s, dir)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the directory of the results (default: out of the file, or else its name)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "list the runs, and submit nothing")
	return cmd
}

func newResume(s *access.Session) *cobra.Command {
	return &cobra.Command{
		Use: "resume DIR", Short: "Go on with an experiment that was interrupted", Example: "  kubectl minicluster experiment resume scaling", ValidArgsFunction: directories,
		Long: `Go on with the experiment whose results are in the directory. Runs that have a record are not repeated. Those whose
MiniCluster is in the cluster are taken up, and all others are submitted.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return access.Usagef("resume needs one directory of results")
			}
			return resume(cmd.Context(), s, args[0])
		},
	}
}

func newStatus(s *access.Session) *cobra.Command {
	return &cobra.Command{
		Use: "status DIR", Short: "Count the runs of an experiment by their state", Example: "  kubectl minicluster experiment status scaling", ValidArgsFunction: directories,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return access.Usagef("status needs one directory of results")
			}
			return status(cmd.Context(), s, args[0])
		},
	}
}

// directories completes the directories of results.
func directories(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func newSchema(s *access.Session) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON schema of experiments, for editors", Args: access.NoArgs,
		Long: `Print the JSON schema of experiments, with the fields of the MiniCluster. Write it to a file beside the experiment, whose
first line then tells editors with a YAML language server to complete and check what is written:

  # yaml-language-server: $schema=experiment.schema.json`,
		Example: "  kubectl minicluster experiment schema > experiment.schema.json",
		RunE: func(*cobra.Command, []string) error {
			schema, err := core.Schema()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(s.Out, string(schema))
			return err
		},
	}
}

func readDefinition(file string, stdin io.Reader) (text []byte, _ *core.Definition, err error) {
	if text, err = access.ReadObject(file, stdin); err != nil {
		return nil, nil, err
	}
	definition, err := core.Read(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return text, definition, nil
}

// list prints the runs in their order.
func list(s *access.Session, d *core.Definition) error {
	runs, err := d.Runs()
	if err != nil {
		return err
	}
	t := s.NewTable()
	t.Row("NAME", "CASE", "REPETITION", "SIZE", "TASKS", "PARAMETERS")
	for _, run := range runs {
		mc, err := d.MiniCluster(run)
		if err != nil {
			return err
		}
		tasks := int32(1)
		if mc.Spec.Tasks != nil {
			tasks = *mc.Spec.Tasks
		}
		t.Row(run.Name, strconv.Itoa(run.Case), strconv.Itoa(run.Repetition), strconv.Itoa(int(max(mc.Spec.Size, 1))), strconv.Itoa(int(tasks)), core.Describe(run.Parameters))
	}
	return t.Flush()
}

// begin makes the directory of results, after the API server has checked a MiniCluster of each case.
func begin(ctx context.Context, s *access.Session, dir string, text []byte, d *core.Definition) error {
	namespace, err := s.Namespace()
	if err != nil {
		return err
	}
	c, err := newCluster(s, namespace, "check")
	if err != nil {
		return err
	}
	runs, err := d.Runs()
	if err != nil {
		return err
	}
	if err := c.check(ctx, d, runs); err != nil {
		return err
	}
	return createResults(dir, text, namespace, s.Clock.Now())
}

// resume runs the rest of an experiment.
func resume(ctx context.Context, s *access.Session, dir string) error {
	r, err := readResults(dir)
	if err != nil {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	defer r.close()
	c, err := newCluster(s, r.identity.Namespace, r.identity.ID)
	if err != nil {
		return err
	}
	show := &display{out: s.Raw.Out, width: s.Width}
	runner, err := newRunner(r, c, s.Clock, show)
	if err != nil {
		return err
	}
	err = runner.run(ctx)
	show.clear()
	err = errors.Join(err, r.writeTable())
	counts := runner.sweep.Counts()
	if err != nil {
		if ctx.Err() != nil {
			show.end(fmt.Sprintf("%d of %d runs are recorded. Go on with: kubectl minicluster experiment resume %s", counts.Recorded, counts.All(), dir))
		}
		return err
	}
	show.end(fmt.Sprintf("%d of %d runs are recorded in %s, %d of them succeeded", counts.Recorded, counts.All(), filepath.Join(dir, tableFile), counts.Recorded-counts.Failed))
	if counts.Recorded < counts.All() || counts.Failed > 0 {
		return &access.ExitError{Code: access.CodeFailed}
	}
	return nil
}

// status prints the counts.
func status(ctx context.Context, s *access.Session, dir string) error {
	r, err := readResults(dir)
	if err != nil {
		return err
	}
	c, err := newCluster(s, r.identity.Namespace, r.identity.ID)
	if err != nil {
		return err
	}
	there, err := c.list(ctx)
	if err != nil {
		return err
	}
	states := map[string]int{}
	recorded := map[string]bool{}
	for _, record := range r.records {
		recorded[record.Name] = true
		states[record.State]++
	}
	left := 0
	for i := range there {
		if mc := &there[i]; !recorded[mc.Name] {
			states[story.StateOf(mc)]++
			left++
		}
	}
	fmt.Fprintf(s.Out, "%s: %d runs in namespace %s, %d recorded, %d in the cluster, %d not submitted\n",
		r.definition.Name, len(r.runs), r.identity.Namespace, len(r.records), left, len(r.runs)-len(r.records)-left)
	t := s.NewTable()
	t.Row("STATE", "RUNS")
	for _, state := range sortedKeys(states) {
		t.Row(s.Paint(state), strconv.Itoa(states[state]))
	}
	return t.Flush()
}
