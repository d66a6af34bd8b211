// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command resource-query matches jobspecs on a resource graph, at a prompt or by a script. It
// prints which resources a jobspec can get, now or later. It accepts the commands and options of
// flux-sched's resource-query, and writes the same output.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/flux-elastic/flux-elastic/fluxion/traverser"
)

const usage = `resource-query matches jobspecs on a resource graph.

  resource-query -L FILE [options]              commands at a prompt
  resource-query -L FILE [options] < COMMANDS   commands of a file

  -L, --load-file FILE           the resource graph
  -f, --load-format FORMAT       its format: %s (grug)
  -P, --match-policy POLICY      which resources to take: first, firstnodex, high, low,
                                 hinode, hinodex, lonode, lonodex, locality, variation,
                                 or "policy=high|low node_centric=true
                                 node_exclusive=true stop_on_1_matches=true" (first)
  -F, --match-format FORMAT      how to write matches: %s (simple)
  -p, --prune-filters FILTERS    what to count below vertices, to prune the search:
                                 ANCHOR:TYPE,..., ANCHOR a type or ALL; may be repeated
                                 (ALL:core,ALL:node)
  -t, --test-output FILE         write results there, not to the standard output
  -e, --elapse-time              print how long matches take, and what they visit
  -d, --disable-prompt           no prompt, even at a terminal
  -h, --help                     show this

For scripts that were written for flux-sched there are also:

  -S, --match-subsystems NAME    CA, containment, is the only one (CA)
  -T, --traverser-policy NAME    simple is the only one (simple)
  -r, --reserve-vtx-vec N        has no effect: no memory need be reserved
  -W, --load-allowlist TYPES     has no effect: it is for hwloc, which is not read
  -o, --graph-output NAME        has no effect: the graph is not written,
  -g, --graph-format FORMAT      in no format
`

// loaders read the formats of a resource graph. A shorthand format leaves something out. An
// R is always read without its scheduling key.
var loaders = map[string]func(io.Reader) (*traverser.Graph, error){
	"grug":          traverser.ReadGRUG,
	"jgf":           traverser.ReadJGF,
	"jgf_shorthand": traverser.ReadJGF,
	"rv1exec":       traverser.ReadRv1Exec,
	"rv1exec_force": traverser.ReadRv1Exec,
}

var formats = []traverser.Format{
	traverser.Simple, traverser.PrettySimple, traverser.JGF, traverser.JGFShorthand,
	traverser.RLite, traverser.RV1, traverser.RV1NoSched, traverser.RV1Shorthand,
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := query(args, stdin, stdout, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usageText())
	case err != nil:
		fmt.Fprintln(stderr, "resource-query:", err)
		return 1
	}
	return 0
}

func query(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	s, err := newSession(o, stdout, stderr)
	if err != nil {
		return err
	}
	if file, isFile := stdin.(*os.File); isFile && !o.noPrompt {
		s.interactive = term.IsTerminal(int(file.Fd()))
	}
	if o.output == "" {
		return s.loop(stdin)
	}
	out, err := os.Create(o.output)
	if err != nil {
		return err
	}
	s.out = out
	return errors.Join(s.loop(stdin), out.Close())
}

// newSession loads the graph. Results go to the standard output.
func newSession(o *options, stdout, stderr io.Writer) (*session, error) {
	start := time.Now()
	graph, err := load(o)
	if err != nil {
		return nil, err
	}
	matcher, err := traverser.NewMatcher(graph, traverser.Options{
		Policy: o.policy, PruneFilters: strings.Join(o.pruneFilters, ","), CountVisits: o.elapse,
	})
	if err != nil {
		return nil, err
	}
	if o.elapse {
		fmt.Fprintf(stdout, "INFO: Graph Load Time: %g\n", time.Since(start).Seconds())
	}
	return &session{
		matcher: matcher, format: traverser.Format(o.format), elapse: o.elapse,
		out: stdout, stdout: stdout, stderr: stderr, nextID: 1, jobs: map[uint64]job{},
	}, nil
}

func load(o *options) (*traverser.Graph, error) {
	file, err := os.Open(o.file)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	graph, err := loaders[o.fileFormat](file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.file, err)
	}
	return graph, nil
}

type options struct {
	file, fileFormat, policy, format, output string
	pruneFilters                             []string
	subsystems, traverser                    string
	elapse, noPrompt                         bool
}

func parseOptions(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("resource-query", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	text := func(to *string, short, long, value string) {
		flags.StringVar(to, short, value, "")
		flags.StringVar(to, long, value, "")
	}
	yes := func(to *bool, short, long string) {
		flags.BoolVar(to, short, false, "")
		flags.BoolVar(to, long, false, "")
	}
	text(&o.file, "L", "load-file", "")
	text(&o.fileFormat, "f", "load-format", "grug")
	text(&o.policy, "P", "match-policy", "first")
	text(&o.format, "F", "match-format", "simple")
	text(&o.output, "t", "test-output", "")
	text(&o.subsystems, "S", "match-subsystems", "CA")
	text(&o.traverser, "T", "traverser-policy", "simple")
	for _, name := range []string{"p", "prune-filters"} {
		flags.Func(name, "", func(filters string) error {
			o.pruneFilters = append(o.pruneFilters, filters)
			return nil
		})
	}
	yes(&o.elapse, "e", "elapse-time")
	yes(&o.noPrompt, "d", "disable-prompt")
	var ignored string
	text(&ignored, "r", "reserve-vtx-vec", "")
	text(&ignored, "W", "load-allowlist", "")
	text(&ignored, "g", "graph-format", "")
	text(&ignored, "o", "graph-output", "")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if err := o.check(flags.Args()); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected %q; try resource-query --help", rest[0])
	case o.file == "":
		return errors.New("which resource graph? Give a file with -L, or try resource-query --help")
	case loaders[o.fileFormat] == nil:
		return fmt.Errorf("-f %s: the formats of a resource graph are %s", o.fileFormat, loaderNames())
	case !slices.Contains(formats, traverser.Format(o.format)):
		return fmt.Errorf("-F %s: the formats of matches are %s", o.format, formatNames())
	case !strings.EqualFold(o.subsystems, "CA"):
		return fmt.Errorf("-S %s: there is no subsystem but CA, containment", o.subsystems)
	case o.traverser != "simple":
		return fmt.Errorf("-T %s: there is no traverser but simple", o.traverser)
	}
	return nil
}

func loaderNames() string {
	var names []string
	for name := range loaders {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func formatNames() string {
	var names []string
	for _, format := range formats {
		names = append(names, string(format))
	}
	return strings.Join(names, ", ")
}

func usageText() string { return fmt.Sprintf(usage, loaderNames(), formatNames()) }
