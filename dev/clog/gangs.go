// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package clog is the arithmetic of the clogging experiment: many gangs that want whole nodes, all
// submitted at once. It makes the gangs. From the observed changes and their times it computes
// whether the cluster clogged, and how the time was spent. Callers watch the cluster.
package clog

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Values of the minimum of Gangs: the whole size, or half of it.
const (
	Rigid = "rigid"
	Half  = "half"
)

// Gang is one MiniCluster of the experiment, or one Job of another scheduler.
type Gang struct {
	Name      string
	Size, Min int
	// Run is how long the gang runs at its full size.
	Run time.Duration
	// At is when the gang is submitted, since the begin of the experiment.
	At time.Duration
	// Queue is the name of the gang's queue; "" if there is only one.
	Queue string
	// NeverStart are the ranks whose pods never start, as in "3,5"; "" for none.
	NeverStart string
}

// Class is a number of gangs that are alike. Run, At and Queue are those of Gang.
type Class struct {
	Size, Count int
	Run, At     time.Duration
	Queue       string
}

// ParseSizes reads classes of gangs: 64x6,32x10 is six gangs of size 64 and ten of size 32.
func ParseSizes(text string) ([]Class, error) {
	var classes []Class
	for part := range strings.SplitSeq(text, ",") {
		size, count, ok := strings.Cut(strings.TrimSpace(part), "x")
		if !ok {
			return nil, fmt.Errorf("sizes %q: %q is not SIZExCOUNT, as in 64x6", text, part)
		}
		class := Class{}
		for _, field := range []struct {
			to         *int
			text, what string
		}{{&class.Size, size, "size"}, {&class.Count, count, "count"}} {
			n, err := strconv.Atoi(field.text)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("sizes %q: the %s in %q is no number above 0", text, field.what, part)
			}
			*field.to = n
		}
		classes = append(classes, class)
	}
	return classes, nil
}

// Gangs returns the gangs of some classes in a random order that depends on the seed.
func Gangs(classes []Class, minimum string, seed uint64) ([]Gang, error) {
	if minimum != Rigid && minimum != Half {
		return nil, fmt.Errorf("the minimum is %q: it can be %s or %s", minimum, Rigid, Half)
	}
	var gangs []Gang
	for _, class := range classes {
		for range class.Count {
			gang := Gang{Size: class.Size, Min: class.Size, Run: class.Run, At: class.At, Queue: class.Queue}
			if minimum == Half {
				gang.Min = (class.Size + 1) / 2
			}
			gangs = append(gangs, gang)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(gangs), func(i, j int) { gangs[i], gangs[j] = gangs[j], gangs[i] })
	for i := range gangs {
		gangs[i].Name = fmt.Sprintf("gang-%03d-%d", i, gangs[i].Size)
	}
	return gangs, nil
}

// Hopeless reports whether the gang can never run, since too many of its pods, or its lead, never start.
func (g Gang) Hopeless() bool {
	if g.NeverStart == "" {
		return false
	}
	ranks := strings.Split(g.NeverStart, ",")
	return g.Size-len(ranks) < g.Min || slices.Contains(ranks, "0")
}

// Bound is a lower bound of the makespan on a number of nodes, from the first submission on: no node is
// idle from any submission on until all gangs that were submitted since then have run.
func Bound(gangs []Gang, nodes int) time.Duration {
	bound := time.Duration(0)
	for _, first := range gangs {
		work := time.Duration(0)
		for _, gang := range gangs {
			if gang.At >= first.At {
				work += gang.Run * time.Duration(gang.Size)
			}
		}
		bound = max(bound, first.At+work/time.Duration(nodes), first.At+first.Run)
	}
	if len(gangs) == 0 {
		return 0
	}
	return bound - slices.MinFunc(gangs, func(a, b Gang) int { return cmp.Compare(a.At, b.At) }).At
}

// Pods returns the sum of the sizes.
func Pods(gangs []Gang) int {
	n := 0
	for _, gang := range gangs {
		n += gang.Size
	}
	return n
}
