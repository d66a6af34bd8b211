// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment"
	"github.com/flux-elastic/flux-elastic/internal/story"
	"github.com/flux-elastic/flux-elastic/internal/timeline"
)

// Sizes of drawings, in pixels.
const (
	half   = 420
	height = 280
)

// sizes are the sizes wanted, each with its color.
type sizes struct {
	all   []int32
	class map[int32]string
}

func sizesOf(records []*experiment.Record) sizes {
	seen := map[int32]bool{}
	for _, r := range records {
		seen[r.Wanted] = true
	}
	s := sizes{all: slices.Sorted(maps.Keys(seen)), class: map[int32]string{}}
	for i, size := range s.all {
		s.class[size] = chart.Color(i)
	}
	return s
}

// legend explains the colors of the sizes.
func (s sizes) legend() (out []chart.Entry) {
	for _, size := range s.all {
		out = append(out, chart.Entry{Label: nodes(size), Class: s.class[size]})
	}
	return out
}

func nodes(n int32) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// scaling draws a measure over the size, and beside it the parallel efficiency.
func scaling(m experiment.Measure, series []experiment.Series) []chart.Drawing {
	var all []float64
	var at []chart.Tick
	seen := map[int32]bool{}
	for _, s := range series {
		for _, p := range s.Points {
			all = append(all, p.Values...)
			all = append(all, ideal(m, s, p))
			if !seen[p.Size] {
				seen[p.Size] = true
				at = append(at, chart.Tick{At: float64(p.Size), Label: strconv.Itoa(int(p.Size))})
			}
		}
	}
	if len(seen) < 2 {
		return nil
	}
	slices.SortFunc(at, func(a, b chart.Tick) int { return cmp.Compare(a.At, b.At) })
	x := chart.Axis{Label: "nodes", Log: true, Min: at[0].At / 1.2, Max: at[len(at)-1].At * 1.2, Ticks: at}
	figure := &chart.Plot{Title: "Strong scaling: " + m.Name, Width: half, Height: height, X: x,
		Y: chart.Axis{Label: m.Label(), Log: true, Min: slices.Min(all) / 1.3, Max: slices.Max(all) * 1.3}}
	efficiency := &chart.Plot{Title: "Parallel efficiency", Width: half, Height: height, X: x, Y: chart.Axis{Label: "efficiency [%]", Max: 105}}
	efficiency.Marks = append(efficiency.Marks, chart.Mark{Shape: chart.Line, Class: "gray dashed", Points: []chart.Point{{X: x.Min, Y: 100}, {X: x.Max, Y: 100}}})
	for i, s := range series {
		drawSeries(figure, efficiency, m, s, chart.Color(i))
		if s.Name != "" {
			figure.Legend = append(figure.Legend, chart.Entry{Label: s.Name, Class: "line " + chart.Color(i)})
		}
	}
	figure.Legend = append(figure.Legend, chart.Entry{Label: "ideal", Class: "line gray dashed"})
	efficiency.Legend = slices.Clone(figure.Legend)
	return []chart.Drawing{
		{Name: "scaling", Caption: "Each dot is a run that succeeded, and the line goes through the medians. The ideal begins at the median of the smallest size. Both axes are logarithmic.", Plot: figure},
		{Name: "efficiency", Caption: "The speedup over the median of the smallest size, divided by the ratio of the sizes. Dots are medians, and the middle half of the runs is within the bars.", Plot: efficiency},
	}
}

// ideal is the measure at the size of a point if it scaled as the size does, from the median of the smallest size.
func ideal(m experiment.Measure, s experiment.Series, p experiment.Scale) float64 {
	ratio := float64(p.Size) / float64(s.Points[0].Size)
	if m.Better == experiment.Lower {
		ratio = 1 / ratio
	}
	return s.Points[0].Spread.Median * ratio
}

func drawSeries(figure, efficiency *chart.Plot, m experiment.Measure, s experiment.Series, class string) {
	var medians, ideals, efficiencies, dots []chart.Point
	for _, p := range s.Points {
		x, best := float64(p.Size), ideal(m, s, p)
		medians = append(medians, chart.Point{X: x, Y: p.Spread.Median})
		ideals = append(ideals, chart.Point{X: x, Y: best})
		efficiencies = append(efficiencies, chart.Point{X: x, Y: p.Efficiency * 100})
		for _, value := range p.Values {
			dots = append(dots, chart.Point{X: x, Y: value})
		}
		low, high := 100*p.Spread.Quarter/best, 100*p.Spread.ThreeQuarters/best
		if m.Better == experiment.Lower {
			low, high = 100*best/p.Spread.ThreeQuarters, 100*best/p.Spread.Quarter
		}
		efficiency.Y.Max = max(efficiency.Y.Max, high*1.05)
		efficiency.Marks = append(efficiency.Marks, chart.Mark{Shape: chart.Line, Class: class, Points: []chart.Point{{X: x, Y: low}, {X: x, Y: high}}})
	}
	figure.Marks = append([]chart.Mark{{Shape: chart.Line, Class: "gray dashed", Points: ideals}}, append(figure.Marks,
		chart.Mark{Shape: chart.Line, Class: class, Points: medians}, chart.Mark{Shape: chart.Dots, Class: class, Points: dots})...)
	efficiency.Marks = append(efficiency.Marks,
		chart.Mark{Shape: chart.Line, Class: class, Points: efficiencies}, chart.Mark{Shape: chart.Dots, Class: class, Points: efficiencies})
}

// waits draws which part of the runs had to wait for how long at most.
func waits(records []*experiment.Record, s sizes) chart.Drawing {
	bySize := map[int32][]float64{}
	most := 1.0
	for _, r := range records {
		if wait, ok := r.Wait(); ok {
			bySize[r.Wanted] = append(bySize[r.Wanted], wait)
			most = max(most, wait)
		}
	}
	p := &chart.Plot{Title: "Waits for nodes", Width: half, Height: height, Legend: s.legend(),
		X: chart.Axis{Label: "wait [s]", Max: most}, Y: chart.Axis{Label: "part of the runs [%]", Max: 100}}
	for i := range p.Legend {
		p.Legend[i].Class = "line " + p.Legend[i].Class
	}
	for _, size := range s.all {
		points := []chart.Point{{}}
		sorted := slices.Sorted(slices.Values(bySize[size]))
		for i, wait := range sorted {
			points = append(points, chart.Point{X: wait, Y: float64(i+1) / float64(len(sorted)) * 100})
		}
		points = append(points, chart.Point{X: most, Y: points[len(points)-1].Y})
		if len(sorted) > 0 {
			p.Marks = append(p.Marks, chart.Mark{Shape: chart.Steps, Class: s.class[size], Points: points, Title: nodes(size)})
		}
	}
	return chart.Drawing{Name: "waits", Caption: "For each size, the part of the runs that waited for at most so long, from the submission to the last admission.", Plot: p}
}

// got draws how often which size was given for which size wanted.
func got(records []*experiment.Record, s sizes) chart.Drawing {
	counts := map[[2]int32]int{}
	seen := map[int32]bool{}
	most := 1
	for _, r := range records {
		if r.Size > 0 {
			key := [2]int32{r.Wanted, r.Size}
			counts[key]++
			most = max(most, counts[key])
			seen[r.Size], seen[r.Wanted] = true, true
		}
	}
	// Sizes are at even distances, in their order.
	order := slices.Sorted(maps.Keys(seen))
	axis := chart.Axis{Min: -.6, Max: float64(len(order)) - .4, Ticks: []chart.Tick{}}
	place := map[int32]float64{}
	for i, size := range order {
		place[size] = float64(i)
		axis.Ticks = append(axis.Ticks, chart.Tick{At: float64(i), Label: strconv.Itoa(int(size))})
	}
	p := &chart.Plot{Title: "Sizes got and wanted", Width: half, Height: height, X: axis, Y: axis}
	p.X.Label, p.Y.Label = "nodes wanted", "nodes got"
	radius := min(22, height/float64(2*max(len(order), 1)), half/float64(2*max(len(order), 1)))
	for _, key := range slices.SortedFunc(maps.Keys(counts), func(a, b [2]int32) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		at := []chart.Point{{X: place[key[0]], Y: place[key[1]]}}
		p.Marks = append(p.Marks,
			chart.Mark{Shape: chart.Dots, Class: s.class[key[0]] + " pale", Points: at, Radius: max(3, radius*math.Sqrt(float64(counts[key])/float64(most)))},
			chart.Mark{Shape: chart.Text, Points: at, Title: strconv.Itoa(counts[key])})
	}
	return chart.Drawing{Name: "sizes", Caption: "How many runs got which size, by the size that they wanted.", Plot: p}
}

// extentOf is the time of all runs.
func extentOf(records []*experiment.Record) (e timeline.Extent) {
	for _, r := range records {
		if r.Submitted != nil && (e.From.IsZero() || r.Submitted.Before(e.From)) {
			e.From = *r.Submitted
		}
		for _, at := range []*time.Time{r.Submitted, r.Admitted, r.Started, r.Finished} {
			if at != nil {
				e.To = story.Later(e.To, *at)
			}
		}
	}
	return e
}
