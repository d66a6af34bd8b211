// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment/report"
)

const pageFile = "report.html"

func newReport(s *access.Session) *cobra.Command {
	out := ""
	cmd := &cobra.Command{
		Use: "report DIR", Short: "Write a page with drawings and tables of an experiment", Example: "  kubectl minicluster experiment report scaling", ValidArgsFunction: directories,
		Long: `Write report.html, a page that needs no other file, and each of its drawings as an SVG file. It needs no cluster, and
can be used while the experiment runs.`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return access.Usagef("report needs one directory of results")
			}
			study, err := readStudy(args[0])
			if err != nil {
				return err
			}
			page, drawings, err := report.New(study)
			if err != nil {
				return err
			}
			return writeReport(s.Out, cmp.Or(out, args[0]), page, drawings)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the directory of the report (default: that of the results)")
	return cmd
}

func newCompare(s *access.Session) *cobra.Command {
	out := ""
	cmd := &cobra.Command{
		Use: "compare A B", Short: "Compare the runs of two experiments with the same parameters", Example: "  kubectl minicluster experiment compare before after", ValidArgsFunction: directories,
		Long: `Print a table of the cases that both experiments have: the median and the range of each measure, the median ratio of
B to A over all pairs of runs, and the ratios between which nine tenths of the pairs are. With --out, the table and
drawings are also written as a page.`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return access.Usagef("compare needs two directories of results")
			}
			a, err := readStudy(args[0])
			if err != nil {
				return err
			}
			b, err := readStudy(args[1])
			if err != nil {
				return err
			}
			table, page, drawings, err := report.Comparison(a, b)
			if err != nil {
				return err
			}
			if err := printTable(s, table); err != nil || out == "" {
				return err
			}
			return writeReport(s.Out, out, page, drawings)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the directory of a page with the comparison")
	return cmd
}

func readStudy(dir string) (report.Study, error) {
	r, err := readResults(dir)
	if err != nil {
		return report.Study{}, err
	}
	return report.Study{Where: dir, Definition: r.definition, Records: r.records}, nil
}

// writeReport writes a page and its drawings.
func writeReport(out io.Writer, dir string, page []byte, drawings []chart.Drawing) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var names []string
	for _, d := range drawings {
		names = append(names, d.Name+".svg")
		if err := writeFile(filepath.Join(dir, d.Name+".svg"), d.Plot.File()); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, pageFile)
	if err := writeFile(path, page); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, and beside it %s\n", path, strings.Join(names, ", "))
	return nil
}

func printTable(s *access.Session, table chart.Table) error {
	t := s.NewTable()
	head := make([]string, len(table.Header))
	for i, name := range table.Header {
		head[i] = strings.ToUpper(name)
	}
	t.Row(head...)
	for _, row := range table.Rows {
		t.Row(row...)
	}
	return t.Flush()
}
