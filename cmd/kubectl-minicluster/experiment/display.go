// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	core "github.com/flux-elastic/flux-elastic/internal/experiment"
)

// quiet is how long nothing is printed at most while nothing ends, without a terminal.
const quiet = 30 * time.Second

// display prints how far an experiment is: a line for each run that has ended, and on a terminal one more line, which
// changes.
type display struct {
	out io.Writer
	// width is that of the terminal now; 0 without a terminal.
	width  func() int
	began  time.Time
	before int // records at the beginning
	said   time.Time
	line   string
}

func (d *display) begin(c core.Counts, now time.Time) {
	d.began, d.said, d.before = now, now, c.Recorded
	if there := c.Waiting + c.Running + c.Ending; c.Recorded+there > 0 {
		d.print(fmt.Sprintf("%d of %d runs are recorded, and %d are in the cluster", c.Recorded, c.All(), there))
	}
}

// ended prints how a run ended.
func (d *display) ended(r *core.Record, definition *core.Definition, c core.Counts) {
	parts := []string{fmt.Sprintf("%*d/%d %s %s", len(strconv.Itoa(c.All())), c.Recorded, c.All(), r.Name, r.State)}
	if !r.Succeeded() && r.Reason != r.State && r.Reason != "" {
		parts[0] += " (" + r.Reason + ")"
	}
	if wait, ok := r.Wait(); ok {
		parts = append(parts, fmt.Sprintf("waited %s, got %d of %d nodes", seconds(wait), r.Size, r.Wanted))
	}
	if ran, ok := r.RunTime(); ok {
		parts = append(parts, "ran "+seconds(ran))
	}
	for _, f := range definition.Figures {
		if value, ok := r.Figures[f.Name]; ok {
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %.6g %s", f.Name, value, f.Unit)))
		} else if r.Succeeded() && r.LogError == "" {
			parts = append(parts, f.Name+" is not in the log")
		}
	}
	if r.LogError != "" {
		parts = append(parts, "log: "+r.LogError)
	}
	if r.Kept {
		parts = append(parts, "the MiniCluster stays")
	}
	d.print(strings.Join(parts, ", "))
}

// progress prints the counts: always on a terminal, and otherwise now and then.
func (d *display) progress(c core.Counts, stopped string, now time.Time) {
	line := fmt.Sprintf("%d of %d runs done, %d failed, %d running, %d waiting", c.Recorded, c.All(), c.Failed, c.Running, c.Waiting)
	if rate, left, ok := pace(c.Recorded-d.before, c.All()-c.Recorded, now.Sub(d.began)); ok {
		line += fmt.Sprintf("; %.3g a minute, %s left", rate, left)
	}
	if stopped != "" && c.Pending > 0 {
		line += "; no more are submitted: " + stopped
	}
	line = access.PlainLine(line)
	width := d.width()
	if width > 0 { // a line that is continued below cannot be removed
		line = ansi.Truncate(line, width-1, "…")
	}
	switch {
	case width > 0 && line != d.line:
		d.line = line
		fmt.Fprint(d.out, "\r\x1b[K"+line)
	case width == 0 && now.Sub(d.said) >= quiet:
		d.said = now
		fmt.Fprintln(d.out, line)
	}
}

// pace returns how many runs end in a minute, and how long the others take at that rate.
func pace(ended, left int, passed time.Duration) (perMinute float64, rest time.Duration, ok bool) {
	if ended == 0 || passed < time.Second {
		return 0, 0, false
	}
	each := passed / time.Duration(ended)
	return float64(ended) / passed.Minutes(), (each * time.Duration(left)).Round(time.Second), true
}

// print prints a line above the one that changes.
func (d *display) print(line string) {
	if d.line != "" {
		fmt.Fprint(d.out, "\r\x1b[K")
		defer fmt.Fprint(d.out, d.line)
	}
	fmt.Fprintln(d.out, access.PlainLine(line))
}

// end prints the last line.
func (d *display) end(line string) {
	d.clear()
	fmt.Fprintln(d.out, access.PlainLine(line))
}

// clear removes the line that changes.
func (d *display) clear() {
	if d.line != "" {
		fmt.Fprint(d.out, "\r\x1b[K")
		d.line = ""
	}
}

func seconds(s float64) string { return time.Duration(s * float64(time.Second)).String() }
