// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package clog is the arithmetic of the clogging experiment: many gangs that want whole nodes, all
// submitted at once. It makes the gangs. From the observed changes and their times it computes
// whether the cluster clogged, and how the time was spent. Callers watch the cluster.
package clog

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Values of the minimum of Gangs: the whole size, or half of it.
const (
	Rigid = "rigid"
	Half  = "half"
)

// Gang is one MiniCluster of the experiment.
type Gang struct {
	Name      string
	Size, Min int
}

// Class is a number of gangs of one size.
type Class struct{ Size, Count int }

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
			gang := Gang{Size: class.Size, Min: class.Size}
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

// Pods returns the sum of the sizes.
func Pods(gangs []Gang) int {
	n := 0
	for _, gang := range gangs {
		n += gang.Size
	}
	return n
}
