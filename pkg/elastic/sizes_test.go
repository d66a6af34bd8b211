// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestAllowed(t *testing.T) {
	cases := map[string]struct {
		sizing Sizing
		want   []int
	}{
		"rigid":                                 {Sizing{Min: 4, Size: 4, Operator: Add, Operand: 1}, []int{4}},
		"any size":                              {Sizing{Min: 2, Size: 5, Operator: Add, Operand: 1}, []int{2, 3, 4, 5}},
		"in steps":                              {Sizing{Min: 2, Size: 8, Operator: Add, Operand: 3}, []int{2, 5, 8}},
		"size is allowed off the steps":         {Sizing{Min: 2, Size: 9, Operator: Add, Operand: 3}, []int{2, 5, 8, 9}},
		"doubled":                               {Sizing{Min: 32, Size: 128, Operator: Multiply, Operand: 2}, []int{32, 64, 128}},
		"squared":                               {Sizing{Min: 2, Size: 300, Operator: Power, Operand: 2}, []int{2, 4, 16, 256, 300}},
		"the power of one goes nowhere":         {Sizing{Min: 1, Size: 8, Operator: Power, Operand: 2}, []int{1, 8}},
		"times one goes nowhere":                {Sizing{Min: 2, Size: 8, Operator: Multiply, Operand: 1}, []int{2, 8}},
		"a huge operand does not overflow":      {Sizing{Min: 3, Size: 100000, Operator: Power, Operand: 100000}, []int{3, 100000}},
		"sizes without tasks are not allowed":   {Sizing{Min: 1, Size: 4, Operator: Add, Operand: 1, Tasks: Tasks{AtSize: 16, Constraint: MultipleOf, MultipleOf: 8}}, []int{2, 3, 4}},
		"tasks left to Flux exclude no size":    {Sizing{Min: 1, Size: 3, Operator: Add, Operand: 1, Tasks: Tasks{Constraint: MultipleOf, MultipleOf: 8}}, []int{1, 2, 3}},
		"fixed tasks need their cores":          {Sizing{Min: 1, Size: 4, Operator: Add, Operand: 1, SlotsPerNode: 8, Tasks: Tasks{AtSize: 17, Fixed: true}}, []int{3, 4}},
		"unless all nodes have too few":         {Sizing{Min: 2, Size: 4, Operator: Add, Operand: 1, SlotsPerNode: 4, Tasks: Tasks{AtSize: 17, Fixed: true}}, []int{2, 3, 4}},
		"the full size is the user's own wish ": {Sizing{Min: 4, Size: 4, Operator: Add, Operand: 1, Tasks: Tasks{AtSize: 7, Constraint: PowerOfTwo}}, []int{4}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			allowed := tc.sizing.Allowed()
			if got := allowed.Between(allowed.Least(), allowed.Most()); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTasksAt(t *testing.T) {
	cases := map[string]struct {
		tasks Tasks
		size  int
		at    int
		want  int
	}{
		"all of them at the full size": {Tasks{AtSize: 512}, 64, 64, 512},
		"in proportion below it":       {Tasks{AtSize: 512}, 64, 48, 384},
		"and above it":                 {Tasks{AtSize: 512}, 64, 96, 768},
		"rounded down":                 {Tasks{AtSize: 10}, 4, 3, 7},
		"never none":                   {Tasks{AtSize: 1}, 4, 2, 1},
		"fixed":                        {Tasks{AtSize: 512, Fixed: true}, 64, 48, 512},
		"left to Flux":                 {Tasks{}, 64, 48, 0},
		"a power of two":               {Tasks{AtSize: 512, Constraint: PowerOfTwo}, 64, 48, 256},
		"a cube":                       {Tasks{AtSize: 512, Constraint: Cube}, 64, 48, 343},
		"a cube that is one already":   {Tasks{AtSize: 128, Constraint: Cube}, 2, 1, 64},
		"a multiple":                   {Tasks{AtSize: 100, Constraint: MultipleOf, MultipleOf: 12}, 10, 7, 60},
		"a multiple that does not fit": {Tasks{AtSize: 16, Constraint: MultipleOf, MultipleOf: 8}, 4, 1, 0},
		"the constraint does not bind at full size": {Tasks{AtSize: 100, Constraint: PowerOfTwo}, 10, 10, 100},
		"numbers beyond 32 bits":                    {Tasks{AtSize: 100_000_000}, 100_000, 99_999, 99_999_000},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sizing := Sizing{Min: 1, Size: tc.size, Operator: Add, Operand: 1, Tasks: tc.tasks}
			if got := sizing.TasksAt(tc.at); got != tc.want {
				t.Errorf("got %d tasks, want %d", got, tc.want)
			}
		})
	}
}

// Allowed sizes rise from at least Min to Size, and LargestWithin picks from them.
func TestSizingProperties(t *testing.T) {
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := Sizing{
			Operator: []Operator{Add, Multiply, Power}[random.IntN(3)], Operand: 1 + random.IntN(4),
			Tasks: Tasks{
				AtSize: random.IntN(200), Fixed: random.IntN(4) == 0, MultipleOf: 1 + random.IntN(9),
				Constraint: []Constraint{AnyNumber, PowerOfTwo, Cube, MultipleOf}[random.IntN(4)],
			},
		}
		s.Min = 1 + random.IntN(20)
		s.Size = s.Min + random.IntN(100)
		s.SlotsPerNode = random.IntN(10)
		sizes := listed(s)
		cores := s.SlotsPerNode
		for n := 1; n <= 2*s.Size && cores > 0 && s.Tasks.AtSize <= cores*s.Size; n++ {
			if got := s.TasksAt(n); got > cores*n {
				t.Fatalf("seed %d: %+v has %d tasks on %d cores", seed, s, got, cores*n)
			}
		}
		if !slices.IsSorted(sizes) || sizes[0] < s.Min || sizes[len(sizes)-1] != s.Size {
			t.Fatalf("seed %d: %+v allows %v", seed, s, sizes)
		}
		for i, size := range sizes {
			if i > 0 && sizes[i-1] == size {
				t.Fatalf("seed %d: %+v allows %v: one twice", seed, s, sizes)
			}
			if s.LargestWithin(size) != size {
				t.Fatalf("seed %d: within %d the largest of %v is %d", seed, size, sizes, s.LargestWithin(size))
			}
		}
		if got := s.LargestWithin(sizes[0] - 1); got != 0 {
			t.Fatalf("seed %d: within %d the largest of %v is %d", seed, sizes[0]-1, sizes, got)
		}
		if random.IntN(2) == 0 {
			s.Most = random.IntN(130)
		}
		checkLadder(t, s)
	}
}

// listed are the allowed sizes one by one, each made from the one before.
func listed(s Sizing) []int {
	var sizes []int
	for n := s.Min; n < s.Size; {
		if s.TasksAt(n) > 0 || s.Tasks.AtSize == 0 {
			sizes = append(sizes, n)
		}
		next := s.next(n)
		if next <= n {
			break
		}
		n = next
	}
	sizes = append(sizes, s.Size)
	for s.Most > 0 && len(sizes) > 1 && sizes[len(sizes)-1] > s.Most {
		sizes = sizes[:len(sizes)-1]
	}
	return sizes
}

// A ladder without a list says the same as the list.
func checkLadder(t *testing.T, s Sizing) {
	t.Helper()
	ladder, list := s.Allowed(), listed(s)
	if ladder.Least() != list[0] || ladder.Most() != list[len(list)-1] {
		t.Fatalf("%+v is from %d to %d, want %v", s, ladder.Least(), ladder.Most(), list)
	}
	for low := range 130 {
		var within int
		var from []int
		for _, size := range list {
			if size <= low {
				within = size
			}
			if size >= low {
				from = append(from, size)
			}
		}
		if got := ladder.Within(low); got != within {
			t.Fatalf("%+v: the largest size within %d is %d, want one of %v", s, low, got, list)
		}
		if got := ladder.Between(low, 200); !slices.Equal(got, from) {
			t.Fatalf("%+v: the sizes from %d on are %v, want %v", s, low, got, from)
		}
		if got := ladder.From(low); got.Most() != list[len(list)-1] || (len(from) > 0 && got.Least() != from[0]) || (len(from) == 0 && got.Least() != got.Most()) {
			t.Fatalf("%+v: from %d on it is %+v, want %v", s, low, got, from)
		}
	}
}
