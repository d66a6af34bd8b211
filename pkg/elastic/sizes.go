// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"math"
	"math/bits"
)

// Sizing says which sizes a MiniCluster may start at, and how many tasks its
// command has at each.
type Sizing struct {
	// Min and Size bound the number of brokers.
	Min, Size int
	// Most bounds it for now, since larger ones did not start; 0 if they may. The least
	// allowed size always is allowed.
	Most int
	// Operator and Operand make the allowed sizes from Min: Min, Min op Operand,
	// and so on, as a count range of a jobspec does (Flux RFC 14). Size is always
	// allowed.
	Operator Operator
	Operand  int
	Tasks    Tasks
	// CoresPerNode is how many tasks a broker has cores for; 0 if that is not known.
	CoresPerNode int
}

// Operator takes one allowed size to the next.
type Operator string

// Operators of RFC 14.
const (
	Add      Operator = "+"
	Multiply Operator = "*"
	Power    Operator = "^"
)

// Tasks says how many tasks the command has.
type Tasks struct {
	// AtSize is their number at Sizing.Size brokers. 0 leaves it to Flux.
	AtSize int
	// Fixed keeps the number at other sizes that have the cores for it; otherwise it is
	// in proportion.
	Fixed      bool
	Constraint Constraint
	// MultipleOf belongs to the constraint of that name.
	MultipleOf int
}

// Constraint is the kind of numbers of tasks that an application can run with.
type Constraint string

// Constraints.
const (
	AnyNumber  Constraint = "Any"
	PowerOfTwo Constraint = "PowerOfTwo"
	Cube       Constraint = "Cube"
	MultipleOf Constraint = "MultipleOf"
)

// Allowed are the sizes that the MiniCluster may start at, rising. The last is
// Size, or the largest within Most.
func (s Sizing) Allowed() []int {
	sizes := s.ladder()
	for s.Most > 0 && len(sizes) > 1 && sizes[len(sizes)-1] > s.Most {
		sizes = sizes[:len(sizes)-1]
	}
	return sizes
}

// ladder are the sizes from Min to Size.
func (s Sizing) ladder() []int {
	var sizes []int
	for n := s.Min; n < s.Size; {
		if s.TasksAt(n) > 0 || s.Tasks.AtSize == 0 {
			sizes = append(sizes, n)
		}
		next := s.next(n)
		if next <= n { // 1 * 2 moves on, 1 ^ 2 does not
			break
		}
		n = next
	}
	return append(sizes, s.Size)
}

// LargestWithin is the largest allowed size of at most n brokers; 0 if there is
// none.
func (s Sizing) LargestWithin(n int) int {
	largest := 0
	for _, size := range s.Allowed() {
		if size <= n {
			largest = size
		}
	}
	return largest
}

// next is the size after n, Size where it would be larger.
func (s Sizing) next(n int) int {
	switch s.Operator {
	case Multiply:
		if n > s.Size/s.Operand {
			return s.Size
		}
		return n * s.Operand
	case Power:
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

// TasksAt is the number of tasks with n brokers; 0 where none would do, or where
// it is left to Flux. At the full size it is what the user wrote.
//
// It is never more than the brokers have cores for, unless the user asked for that at
// the full size: what is in proportion fits then as well, and a fixed number that does
// not fit would wait for ever.
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

// leastForFixed is the number of brokers that have a core for each task at full size.
func (s Sizing) leastForFixed() int {
	if s.CoresPerNode == 0 {
		return 0
	}
	return (s.Tasks.AtSize-1)/s.CoresPerNode + 1
}

// constrain lowers a number of tasks to one that the application can run with.
func (t Tasks) constrain(tasks int) int {
	switch t.Constraint {
	case PowerOfTwo:
		return 1 << (bits.Len(uint(tasks)) - 1)
	case Cube:
		root := int(math.Cbrt(float64(tasks)))
		for (root+1)*(root+1)*(root+1) <= tasks { // Cbrt may be a hair low
			root++
		}
		return root * root * root
	case MultipleOf:
		return tasks / t.MultipleOf * t.MultipleOf
	default:
		return tasks
	}
}
