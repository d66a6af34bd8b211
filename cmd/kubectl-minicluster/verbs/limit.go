// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"math"
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
		seconds := read(parts[1:])
		if seconds > int64(longest/time.Second) {
			return fmt.Errorf("it has to be at most %s", longest)
		}
		d = time.Duration(seconds) * time.Second
	}
	if d < time.Second {
		return errors.New("it has to be at least 1s")
	}
	*l = limit(d)
	return nil
}

// longest is the longest duration, in whole hours.
const longest = time.Duration(math.MaxInt64 / int64(time.Hour) * int64(time.Hour))

// read adds up the seconds of the days, and of the numbers after them. Without days, up to two numbers are minutes and
// seconds.
func read(parts []string) (seconds int64) {
	units := []int64{24 * 60 * 60, 60 * 60, 60, 1}
	if parts[0] == "" && parts[3] == "" {
		units = []int64{0, 60, 1, 0}
	}
	for i, part := range parts {
		count, _ := strconv.ParseInt(part, 10, 64) // "" is 0
		seconds += count * units[i]
	}
	return seconds
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
