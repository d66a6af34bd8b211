// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Held says why a MiniCluster without nodes is not queued yet: it waits for other MiniClusters, or for a time. named is the
// MiniCluster of a name in its namespace; nil if there is none.
func Held(mc *v1alpha2.MiniCluster, named func(string) *v1alpha2.MiniCluster, now time.Time) elastic.Refusal {
	if why := notMet(mc, named); why != "" {
		return elastic.Refuse(elastic.Dependency, why)
	}
	if at := mc.Spec.NotBefore; at != nil && now.Before(at.Time) {
		return elastic.Refuse(elastic.Later, "waits until "+at.UTC().Format(time.RFC3339)+" (notBefore)")
	}
	return elastic.Refusal{}
}

// Met are the dependencies of a MiniCluster that were met before, or are met now, as far as its spec still has them.
func Met(mc *v1alpha2.MiniCluster, named func(string) *v1alpha2.MiniCluster) []v1alpha2.Dependency {
	var met []v1alpha2.Dependency
	for _, d := range mc.Spec.After {
		if isRecorded(mc, d) || isMet(d, named(d.Name)) {
			met = append(met, d)
		}
	}
	return met
}

// KnownWithin is how long a MiniCluster that has finished stays at most for others to record what they wait for.
const KnownWithin = time.Minute

// Awaits reports whether a MiniCluster without nodes is to record yet what is so of another.
func Awaits(mc, on *v1alpha2.MiniCluster) bool {
	return mc.Status.Admission == nil && mc.DeletionTimestamp == nil && slices.ContainsFunc(mc.Spec.After, func(d v1alpha2.Dependency) bool {
		return d.Name == on.Name && isMet(d, on) && !isRecorded(mc, d)
	})
}

func isRecorded(mc *v1alpha2.MiniCluster, d v1alpha2.Dependency) bool {
	return slices.Contains(mc.Status.MetDependencies, d)
}

// notMet says which dependency of a MiniCluster is not recorded as met, and why; "" if all are.
func notMet(mc *v1alpha2.MiniCluster, named func(string) *v1alpha2.MiniCluster) (why string) {
	for _, d := range mc.Spec.After {
		switch on := named(d.Name); {
		case isRecorded(mc, d):
		case isMet(d, on):
			why = missing(d, on) // until the record
		default:
			return cmp.Or(circleOf(mc, named), missing(d, on))
		}
	}
	return why
}

func isMet(d v1alpha2.Dependency, on *v1alpha2.MiniCluster) bool {
	return on != nil && map[v1alpha2.DependencyCondition]bool{
		v1alpha2.DependencyStarted:   hasStarted(on),
		v1alpha2.DependencySucceeded: outcome(on) == v1alpha2.ReasonSucceeded,
		v1alpha2.DependencyFailed:    IsOver(on) && outcome(on) != v1alpha2.ReasonSucceeded,
		v1alpha2.DependencyFinished:  IsOver(on),
	}[d.Condition]
}

// missing says what a MiniCluster waits for. on is the MiniCluster that the dependency names; nil if there is none.
func missing(d v1alpha2.Dependency, on *v1alpha2.MiniCluster) string {
	is := strings.ToLower(string(d.Condition))
	switch {
	case on == nil:
		return fmt.Sprintf("waits for MiniCluster %s, which does not exist", d.Name)
	case IsOver(on) && !isMet(d, on):
		return fmt.Sprintf("never starts: MiniCluster %s has finished (%s), and has not %s; change spec.after, or delete this MiniCluster", d.Name, outcome(on), is)
	}
	return fmt.Sprintf("waits until MiniCluster %s has %s", d.Name, is)
}

// WaitsFor reports whether a MiniCluster without nodes has not recorded that what it waits for of another is met.
func WaitsFor(mc *v1alpha2.MiniCluster, name string) bool {
	return mc.Status.Admission == nil && slices.ContainsFunc(mc.Spec.After, func(d v1alpha2.Dependency) bool { return d.Name == name && !isRecorded(mc, d) })
}

// MayMeet reports whether a change of a MiniCluster may end the wait of others for it.
func MayMeet(old, mc *v1alpha2.MiniCluster) bool {
	return outcome(old) != outcome(mc) || hasStarted(old) != hasStarted(mc)
}

// WaitsForOthers reports whether a MiniCluster waits for other MiniClusters than before a change, or the status says so in other
// words: of each MiniCluster in a circle, a message says that.
func WaitsForOthers(old, mc *v1alpha2.MiniCluster) bool {
	waits := func(mc *v1alpha2.MiniCluster) string {
		if reason, message := whyQueued(mc); reason == v1alpha2.ReasonDependency {
			return message
		}
		return ""
	}
	return waits(old) != waits(mc) || !slices.Equal(old.Spec.After, mc.Spec.After)
}

// HoldsKey reports whether a MiniCluster has nodes, and so its singleton key.
func HoldsKey(mc *v1alpha2.MiniCluster) bool {
	return mc.Spec.Singleton != "" && mc.Status.Admission != nil && !IsOver(mc)
}

// whyQueued is why a MiniCluster has no nodes, as its status says.
func whyQueued(mc *v1alpha2.MiniCluster) (reason, message string) {
	if admitted := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionAdmitted); admitted != nil {
		return admitted.Reason, admitted.Message
	}
	return "", ""
}

// Released has a MiniCluster wait from now on that was not to be queued yet, and is now. Status says that it was not, until the
// next write.
func Released(mc *v1alpha2.MiniCluster, now time.Time) {
	if reason, _ := whyQueued(mc); reason != v1alpha2.ReasonDependency && reason != v1alpha2.ReasonLater {
		return
	}
	waitsFrom(mc, now)
	if at := &mc.Status.RequeueState.RequeueAt; *at == nil || (*at).Time.Before(now) { // a pause goes on
		*at = new(metav1.NewTime(now))
	}
}

func hasStarted(mc *v1alpha2.MiniCluster) bool {
	return mc.Status.StartTime != nil || mc.Status.Runs > 0 || outcome(mc) == v1alpha2.ReasonSucceeded
}

// IsOver reports whether a MiniCluster has finished.
func IsOver(mc *v1alpha2.MiniCluster) bool { return outcome(mc) != "" }

// outcome is the reason for which a MiniCluster has finished; "" if it has not.
func outcome(mc *v1alpha2.MiniCluster) string {
	if finished := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionFinished); finished != nil && finished.Status == "True" {
		return finished.Reason
	}
	return ""
}

// mostInCircle bounds how many MiniClusters are looked at for a circle, and mostNamed how many of a circle are named.
const mostInCircle, mostNamed = 100, 8

// circleOf says that MiniClusters wait for each other in a circle, of which one is a part; "" if they do not. Each name is looked
// up once.
func circleOf(mc *v1alpha2.MiniCluster, named func(string) *v1alpha2.MiniCluster) string {
	before := map[string]string{mc.Name: ""} // by name, who waits for it
	for line := []*v1alpha2.MiniCluster{mc}; len(line) > 0 && len(before) < mostInCircle; line = line[1:] {
		waits := line[0]
		if waits.Status.Admission != nil || IsOver(waits) {
			continue
		}
		for _, d := range waits.Spec.After {
			_, known := before[d.Name]
			switch {
			case isRecorded(waits, d):
			case d.Name == mc.Name:
				return "never starts: MiniClusters wait for each other (" + circle(mc.Name, waits.Name, before) + "); change spec.after of one of them"
			case !known:
				before[d.Name] = waits.Name
				if next := named(d.Name); next != nil {
					line = append(line, next)
				}
			}
		}
	}
	return ""
}

// circle names the MiniClusters of a circle, from the first to the last of them and the first again.
func circle(first, last string, before map[string]string) string {
	path := []string{first}
	for name := last; name != first; name = before[name] {
		path = append(path, name)
	}
	path = append(path, first)
	slices.Reverse(path)
	if more := len(path) - mostNamed; more > 0 {
		path = slices.Replace(path, mostNamed/2, mostNamed/2+more, fmt.Sprintf("%d others", more))
	}
	return strings.Join(path, " for ")
}
