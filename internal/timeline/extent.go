// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"time"

	"github.com/flux-elastic/flux-elastic/internal/chart"
)

// Extent is the time of a drawing. Its axis is at least Least seconds long.
type Extent struct {
	From, To time.Time
	Least    float64
}

// Seconds is the length of the axis.
func (e Extent) Seconds() float64 { return max(1, e.Least, e.To.Sub(e.From).Seconds()) }

// unit is that of the axis: its length in seconds, and its name.
func (e Extent) unit() (length float64, name string) {
	switch seconds := e.Seconds(); {
	case seconds > 5*3600:
		return 3600, "h"
	case seconds > 600:
		return 60, "min"
	}
	return 1, "s"
}

// At is where a time is on the axis.
func (e Extent) At(t time.Time) float64 {
	unit, _ := e.unit()
	return t.Sub(e.From).Seconds() / unit
}

// Axis is the axis of the time.
func (e Extent) Axis() chart.Axis {
	unit, name := e.unit()
	return chart.Axis{Label: "time since the first submission [" + name + "]", Max: e.Seconds() / unit}
}
