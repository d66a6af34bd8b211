// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"html"
	"io"
	"strings"
)

const pageHead = `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>Which node ran what</title>
<style>body{margin:1.5em;background:#fff;color:#1f2933;font:14px system-ui,sans-serif}svg{max-width:100%;height:auto}
table{border-collapse:collapse;margin-top:1em}td,th{padding:.2em .8em;border-bottom:1px solid #e4e7eb;text-align:right}
td:first-child,th:first-child,td:last-child,th:last-child{text-align:left}
@media screen and (prefers-color-scheme:dark){body{background:#15191e;color:#e4e7eb}td,th{border-color:#323f4b}}
@page{margin:14mm}@media print{body{margin:0}tr{break-inside:avoid}thead{display:table-header-group}}</style>
`

// HTML draws the record as a page that needs no other file, with a table of the MiniClusters.
func (r *Recorder) HTML(w io.Writer) error {
	var out strings.Builder
	out.WriteString(pageHead)
	if err := r.SVG(&out); err != nil {
		return err
	}
	waited := map[string]float64{}
	for _, wait := range r.Waits() {
		waited[wait.MiniCluster] += wait.To.Sub(wait.From).Seconds()
	}
	out.WriteString("<table><thead><tr><th>MiniCluster<th>Brokers<th>Wanted<th>Tasks<th>Waited, s<th>Ran, s<th>State</tr></thead>\n")
	for _, run := range r.Runs() {
		ran := 0.0
		if !run.Started.IsZero() {
			end := r.last
			if !run.Ended.IsZero() {
				end = run.Ended
			}
			ran = end.Sub(run.Started).Seconds()
		}
		fmt.Fprintf(&out, "<tr><td>%s<td>%d<td>%d<td>%d<td>%.0f<td>%.0f<td>%s</tr>\n",
			html.EscapeString(run.Name), run.Size, run.Wanted, run.Tasks, waited[run.Name], ran, html.EscapeString(run.State))
	}
	out.WriteString("</table></html>\n")
	_, err := io.WriteString(w, out.String())
	return err
}
