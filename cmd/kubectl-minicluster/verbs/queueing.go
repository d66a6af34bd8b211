// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// queueing has the flags that say where a MiniCluster waits, and from when on.
type queueing struct {
	queue, priority  string
	after            dependencies
	begin, singleton string
}

func (w *queueing) flags(f *pflag.FlagSet) {
	f.StringVarP(&w.queue, "queue", "q", "", "queue; by default that of the namespace")
	f.VarP(&w.after, "dependency", "d", "MiniClusters for which it waits: afterok:NAME, after, afternotok or afterany; several: afterok:NAME:NAME,afterany:NAME")
	f.StringVar(&w.begin, "begin", "", "time before which it is not queued: 16:00, 2026-12-01T08:00 or now+2hours")
	f.StringVar(&w.singleton, "singleton", "", "key: of the MiniClusters with the same key, one at a time has nodes")
	f.StringVar(&w.priority, "priority-class", "", "PriorityClass of the pods")
}

func (w *queueing) set(spec *v1alpha2.MiniClusterSpec, now time.Time) error {
	spec.Queue = cmp.Or(w.queue, spec.Queue)
	spec.PriorityClassName = cmp.Or(w.priority, spec.PriorityClassName)
	spec.Singleton = cmp.Or(w.singleton, spec.Singleton)
	if len(w.after) > 0 {
		spec.After = w.after
	}
	if w.begin == "" {
		return nil
	}
	at, err := readBegin(w.begin, now)
	if err != nil {
		return access.Usagef("--begin=%s: %w", w.begin, err)
	}
	spec.NotBefore = at
	return nil
}

// dependencies are what a MiniCluster waits for, as users of sbatch write it: afterok:NAME:NAME,afterany:NAME.
type dependencies []v1alpha2.Dependency

// conditions are the conditions of the kinds of dependencies of sbatch and of flux submit.
var conditions = map[string]v1alpha2.DependencyCondition{
	"after": v1alpha2.DependencyStarted, "afterok": v1alpha2.DependencySucceeded, "afternotok": v1alpha2.DependencyFailed, "afterany": v1alpha2.DependencyFinished,
	"after-start": v1alpha2.DependencyStarted, "after-success": v1alpha2.DependencySucceeded, "after-failure": v1alpha2.DependencyFailed, "after-finish": v1alpha2.DependencyFinished,
	"afterstart": v1alpha2.DependencyStarted,
}

// Set reads further dependencies.
func (d *dependencies) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		kind, names, _ := strings.Cut(part, ":")
		if kind == "singleton" {
			return errors.New("a MiniCluster has a key for that: --singleton=KEY")
		}
		condition, known := conditions[kind]
		if !known || names == "" {
			return errors.New("it has to be like afterok:NAME, with after, afterok, afternotok or afterany; several in a row: afterok:NAME:NAME,afterany:NAME")
		}
		for name := range strings.SplitSeq(names, ":") {
			switch {
			case !miniClusterName.MatchString(name):
				return fmt.Errorf("%q is no name of a MiniCluster", name)
			case slices.ContainsFunc(*d, func(other v1alpha2.Dependency) bool { return other.Name == name }):
				return fmt.Errorf("MiniCluster %s is named twice", name)
			}
			*d = append(*d, v1alpha2.Dependency{Name: name, Condition: condition})
		}
	}
	return nil
}

// miniClusterName are the names that the API server allows.
var miniClusterName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// String is "" without dependencies.
func (d *dependencies) String() string {
	var parts []string
	for _, one := range *d {
		parts = append(parts, string(one.Condition)+":"+one.Name)
	}
	return strings.Join(parts, ",")
}

// Type is how the help calls the value.
func (d *dependencies) Type() string { return "dependencies" }

// readBegin is the time that users of sbatch and flux submit write: 2026-12-01T08:00 or 2026-12-01 in the time zone of the user,
// 16:00 today or tomorrow, now+2hours, +2h, or a time with its zone.
func readBegin(text string, now time.Time) (*metav1.Time, error) {
	if after, relative := strings.CutPrefix(strings.TrimPrefix(text, "now"), "+"); relative {
		wait, err := readWait(after)
		return &metav1.Time{Time: now.Add(wait).Truncate(time.Second)}, err
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return &metav1.Time{Time: at}, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return &metav1.Time{Time: at}, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if clock, err := time.Parse(layout, text); err == nil {
			at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), clock.Second(), 0, now.Location())
			if at.Before(now) {
				at = at.AddDate(0, 0, 1)
			}
			return &metav1.Time{Time: at}, nil
		}
	}
	return nil, errors.New("it has to be like 16:00, 2026-12-01T08:00, now+2hours, or a time with its zone: 2026-12-01T08:00:00Z")
}

// waitUnits are the units of sbatch, and the short ones of flux submit. Without a unit, both mean seconds.
var waitUnits = map[string]time.Duration{"": time.Second, "s": time.Second, "second": time.Second, "m": time.Minute, "minute": time.Minute, "h": time.Hour, "hour": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour}

var waitText = regexp.MustCompile(`^(\d{1,6})([a-z]*)$`)

// longestWait is about a hundred years.
const longestWait = 100 * 365 * 24 * time.Hour

// readWait is how long after now a time is: 3600 (seconds), 90s, 2hours, 1h30m or 1day.
func readWait(text string) (time.Duration, error) {
	if wait, err := time.ParseDuration(text); err == nil && wait >= 0 {
		return wait, nil
	}
	if parts := waitText.FindStringSubmatch(text); parts != nil {
		unit, known := waitUnits[parts[2]]
		if !known {
			unit, known = waitUnits[strings.TrimSuffix(parts[2], "s")]
		}
		if count, err := strconv.Atoi(parts[1]); known && err == nil && time.Duration(count) <= longestWait/unit {
			return time.Duration(count) * unit, nil
		}
	}
	return 0, errors.New("the wait after now has to be like 3600 (seconds), 90s, 2hours, 1h30m or 1day")
}
