// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"regexp"
	"strconv"
	"time"
)

// limit is a length of time as users of sbatch and flux submit write it: with a unit (90s, 20m, 1h30m, 2d), in minutes
// (20), or as a clock (M:S, H:M:S, D-H, D-H:M, D-H:M:S).
type limit time.Duration

// clock has days, and up to three more numbers.
var clock = regexp.MustCompile(`^(?:(\d{1,5})[d-])?(?:(\d{1,7})(?::(\d{1,7})(?::(\d{1,7}))?)?)?$`)

// Set reads the time.
func (l *limit) Set(text string) error {
	d, err := time.ParseDuration(text)
	parts := clock.FindStringSubmatch(text)
	switch {
	case err != nil && (parts == nil || text == ""):
		return errors.New("it has to be like 20m, 1h30m, 2d, 20 (minutes) or 1:30:00")
	case err != nil:
		d = read(parts[1:])
	}
	if d < time.Second {
		return errors.New("it has to be at least 1s")
	}
	*l = limit(d)
	return nil
}

// read adds up the days, and the numbers after them. Without days, up to two numbers are minutes and seconds.
func read(parts []string) (d time.Duration) {
	units := []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}
	if parts[0] == "" && parts[3] == "" {
		units = []time.Duration{0, time.Minute, time.Second, 0}
	}
	for i, part := range parts {
		count, _ := strconv.Atoi(part) // "" is 0
		d += time.Duration(count) * units[i]
	}
	return d
}

// String is "" without a limit.
func (l *limit) String() string {
	if *l == 0 {
		return ""
	}
	return time.Duration(*l).String()
}

// Type is how the help calls the value.
func (l *limit) Type() string { return "time" }
