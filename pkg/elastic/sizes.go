// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"math"
	"math/bits"
	"sort"
)

// Sizing says at which sizes a MiniCluster may start, and how many tasks its command has at each.
type Sizing struct {
	// Min and Size bound the number of brokers.
	Min, Size int
	// Most is a temporary upper bound, because larger sizes did not start; 0 if there is none.
	// The smallest allowed size stays allowed.
	Most int
	// Operator and Operand make the allowed sizes from Min: Min, Min op Operand, and so on, as a
	// count range of a jobspec does (Flux RFC 14). Size is always allowed.
	Operator Operator
	Operand  int
	Tasks    Tasks
	// SlotsPerNode is the number of tasks for which a broker has cores, 0 if this is not known.
	SlotsPerNode int
}

// Operator derives the next allowed size from one.
type Operator string

// Operators of RFC 14.
const (
	Add      Operator = "+"
	Multiply Operator = "*"
	Power    Operator = "^"
)

// Tasks says how many tasks the command has.
type Tasks struct {
	// AtSize is the number of tasks at Sizing.Size brokers. 0 leaves the number to Flux.
	AtSize int
	// Fixed keeps the number at smaller sizes that have the cores for it. Otherwise the number is
	// proportional to the size.
	Fixed      bool
	Constraint Constraint
	// MultipleOf is the factor of the constraint of that name.
	MultipleOf int
}

// Constraint is the kind of task counts with which an application can run.
type Constraint string

// Constraints.
const (
	AnyNumber  Constraint = "Any"
	PowerOfTwo Constraint = "PowerOfTwo"
	Cube       Constraint = "Cube"
	MultipleOf Constraint = "MultipleOf"
)

// Allowed are the sizes at which the MiniCluster may start. The last is Size, or the largest size
// within Most.
func (s Sizing) Allowed() Ladder {
	// More brokers have more tasks, so all sizes from one on are allowed.
	least := s.Min + sort.Search(max(s.Size-s.Min, 0), func(i int) bool { return s.Tasks.AtSize == 0 || s.TasksAt(s.Min+i) > 0 })
	all := Ladder{s, min(s.Min, s.Size), s.Size}.From(least)
	if s.Most > 0 && s.Most < s.Size {
		all.last = max(all.Within(s.Most), all.first)
	}
	return all
}

// LargestWithin is the largest allowed size of at most n brokers; 0 if there is none.
func (s Sizing) LargestWithin(n int) int { return s.Allowed().Within(n) }

// Ladder are allowed sizes: those of a Sizing from the first to the last. It is never empty. A Ladder has no list
// of its sizes, because there may be very many.
type Ladder struct {
	sizing      Sizing
	first, last int
}

// Least is the smallest of the sizes.
func (l Ladder) Least() int { return l.first }

// Most is the largest of the sizes.
func (l Ladder) Most() int { return l.last }

// Within is the largest of the sizes that is at most n; 0 if there is none.
func (l Ladder) Within(n int) int {
	switch {
	case n >= l.last:
		return l.last
	case n < l.first:
		return 0
	}
	return l.sizing.step(n)
}

// From are the sizes of at least n, or the largest if there is none.
func (l Ladder) From(n int) Ladder {
	switch {
	case n >= l.last:
		l.first = l.last
	case n > l.first:
		if l.first = l.sizing.step(n); l.first < n {
			l.first = l.after(l.first)
		}
	}
	return l
}

// UpTo are the sizes of at most n, or the smallest if there is none.
func (l Ladder) UpTo(n int) Ladder {
	l.last = max(l.Within(n), l.first)
	return l
}

// Between are the sizes from low to high, rising.
func (l Ladder) Between(low, high int) []int {
	var sizes []int
	for l = l.From(low); l.first >= low && l.first <= high; l.first = l.after(l.first) {
		if sizes = append(sizes, l.first); l.first == l.last {
			break
		}
	}
	return sizes
}

// after is the size after one of the sizes.
func (l Ladder) after(size int) int {
	if next := l.sizing.next(size); next > size { // 1 * 2 makes progress, 1 ^ 2 does not
		return min(next, l.last)
	}
	return l.last
}

// step is the largest of Min, Min op Operand, and so on, that is at most n. n is from Min to below Size.
func (s Sizing) step(n int) int {
	if s.Operator != Multiply && s.Operator != Power && s.Operand > 0 {
		return n - (n-s.Min)%s.Operand
	}
	size := s.Min
	for next := s.next(size); next > size && next <= n; next = s.next(size) {
		size = next
	}
	return size
}

// next is the size after n, and Size if that is smaller.
func (s Sizing) next(n int) int {
	switch s.Operator {
	case Multiply:
		if n > s.Size/s.Operand {
			return s.Size
		}
		return n * s.Operand
	case Power:
		if n == 1 {
			return 1
		}
		result := 1
		for range s.Operand {
			if result > s.Size/n {
				return s.Size
			}
			result *= n
		}
		return result
	default:
		return n + s.Operand
	}
}

// TasksAt is the number of tasks with n brokers; 0 if no number is possible, or if the number is
// left to Flux. At the full size it is what the user wrote.
//
// A fixed number of tasks without a core each would wait in Flux for ever, so TasksAt returns 0
// there, unless the user asked for more tasks than cores at the full size.
func (s Sizing) TasksAt(n int) int {
	if n == s.Size || s.Tasks.AtSize == 0 {
		return s.Tasks.AtSize
	}
	if s.Tasks.Fixed {
		if least := s.leastForFixed(); n < least && least <= s.Size {
			return 0
		}
		return s.Tasks.AtSize
	}
	tasks := int(int64(s.Tasks.AtSize) * int64(n) / int64(s.Size))
	return s.Tasks.constrain(max(tasks, 1))
}

// leastForFixed is the smallest number of brokers with a core for each task; 0 if the cores are
// not known.
func (s Sizing) leastForFixed() int {
	if s.SlotsPerNode == 0 {
		return 0
	}
	return (s.Tasks.AtSize-1)/s.SlotsPerNode + 1
}

// constrain lowers a number of tasks to one with which the application can run.
func (t Tasks) constrain(tasks int) int {
	switch t.Constraint {
	case PowerOfTwo:
		return 1 << (bits.Len(uint(tasks)) - 1)
	case Cube:
		root := int(math.Cbrt(float64(tasks)))
		for (root+1)*(root+1)*(root+1) <= tasks { // Cbrt may be a hair too low
			root++
		}
		return root * root * root
	case MultipleOf:
		return tasks / t.MultipleOf * t.MultipleOf
	default:
		return tasks
	}
}
