// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package hostlist

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// List is a hostlist that is kept as ranges. It takes no more memory than its text, however many hosts it
// has. A List never changes.
type List struct {
	text  string
	spans []span // in the order of the text
	size  int
}

// span are the names of a prefix and a number from first to last. Each number has the same number of digits, with
// zeros before it if need be. Without digits the prefix is the only name.
type span struct {
	prefix      string
	stem        int // length of the prefix without the digits at its end
	digits      int
	first, last int64
}

// named is a prefix without numbers.
func named(prefix string) span {
	return span{prefix: prefix, stem: len(strings.TrimRight(prefix, "0123456789"))}
}

// Parse reads a hostlist. It refuses a list of more than limit hosts.
func Parse(text string, limit int) (List, error) {
	list := List{text: text}
	for text != "" {
		element, rest, err := cut(text)
		if err != nil {
			return List{}, err
		}
		if err := list.add(element, limit); err != nil {
			return List{}, err
		}
		text = rest
	}
	return list, nil
}

// add adds the hosts of one element.
func (l *List) add(element string, limit int) error {
	prefix, numbers, found := strings.Cut(element, "[")
	if !found {
		return l.append(named(element), limit)
	}
	numbers, after, _ := strings.Cut(numbers, "]")
	if after != "" {
		return fmt.Errorf("host list element %q: text after ]", element)
	}
	s := named(prefix)
	for part := range strings.SplitSeq(numbers, ",") {
		low, high, digits, ok := parseRange(part)
		if !ok {
			return fmt.Errorf("host list element %q: %q is no number or rising range", element, part)
		}
		for low <= high { // one span for each number of digits
			s.digits, s.first = max(digits, len(fmt.Sprint(low))), low
			s.last = min(high, power(s.digits)-1)
			if err := l.append(s, limit); err != nil {
				return err
			}
			low = s.last + 1
		}
	}
	return nil
}

func (l *List) append(s span, limit int) error {
	if s.count() > int64(limit-l.size) {
		return fmt.Errorf("host list: more than %d hosts", limit)
	}
	l.spans, l.size = append(l.spans, s), l.size+int(s.count())
	return nil
}

// parseRange reads a number or a rising range. digits is how many digits its numbers have at least.
func parseRange(text string) (low, high int64, digits int, ok bool) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	low, lowErr := number(first)
	high, highErr := number(last)
	return low, high, len(first), lowErr == nil && highErr == nil && low <= high
}

// power is 10 to the power of n, which is at most maxDigits.
func power(n int) int64 {
	result := int64(1)
	for range n {
		result *= 10
	}
	return result
}

// Len is the number of hosts.
func (l List) Len() int { return l.size }

// All are the hosts in their order.
func (l List) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range l.spans {
			for n := s.first; n <= s.last; n++ {
				if !yield(s.name(n)) {
					return
				}
			}
		}
	}
}

// WithoutFirst is the text of the list without its first host; "" if the list has no other.
func (l List) WithoutFirst() string {
	element, rest, _ := cut(l.text) // Parse has read it
	prefix, numbers, found := strings.Cut(strings.TrimSuffix(element, "]"), "[")
	if !found {
		return rest
	}
	part, others, _ := strings.Cut(numbers, ",")
	low, high, digits, _ := parseRange(part)
	left := []string{others}
	switch next := fmt.Sprintf("%0*d", digits, low+1); {
	case low+1 == high:
		left = []string{next, others}
	case low < high:
		left = []string{fmt.Sprintf("%s-%d", next, high), others}
	}
	isEmpty := func(text string) bool { return text == "" }
	if left = slices.DeleteFunc(left, isEmpty); len(left) > 0 {
		prefix += "[" + strings.Join(left, ",") + "]"
	} else {
		prefix = ""
	}
	return strings.Join(slices.DeleteFunc([]string{prefix, rest}, isEmpty), ",")
}

func (s span) count() int64 { return s.last - s.first + 1 }

func (s span) name(n int64) string { return s.prefix + s.number(n) }

func (s span) number(n int64) string {
	if s.digits == 0 {
		return ""
	}
	return fmt.Sprintf("%0*d", s.digits, n)
}

// Set are the hosts of a list, to look them up. Like a List it takes no more memory than the text.
type Set struct{ spans []span } // by their first names

// Set returns the hosts of the list.
func (l List) Set() Set { return Set{slices.SortedFunc(slices.Values(l.spans), byFirst)} }

func byFirst(a, b span) int { return compareNames(a, a.first, b, b.first) }

// Twice is a host that the list has more than once; "" if there is none.
func (s Set) Twice() string {
	for i := range s.spans[:max(len(s.spans)-1, 0)] {
		if a, b := s.spans[i], s.spans[i+1]; a.reaches(b) {
			return b.name(b.first)
		}
	}
	return ""
}

// Has reports whether a list that has no host twice has a host.
func (s Set) Has(host string) bool {
	name := named(host)
	i, found := slices.BinarySearchFunc(s.spans, name, byFirst)
	return found || i > 0 && s.spans[i-1].reaches(name)
}

// reaches reports whether the first name of another span, which does not come before that of s, is in s.
func (s span) reaches(other span) bool {
	return compareKinds(s, other) == 0 && compareNames(s, s.last, other, other.first) >= 0
}

// compareKinds orders names by the text before all digits at their end, and by the number of these digits. Names
// that are equal in both differ as these digits do.
func compareKinds(a, b span) int {
	return cmp.Or(
		strings.Compare(a.prefix[:a.stem], b.prefix[:b.stem]),
		cmp.Compare(len(a.prefix)+a.digits, len(b.prefix)+b.digits), // the stems are equal
	)
}

// compareNames orders the names of number n of a and number m of b. The same name may have several prefixes: n1[0-9]
// is n[10-19].
func compareNames(a span, n int64, b span, m int64) int {
	if c := compareKinds(a, b); c != 0 {
		return c
	}
	digitsA, digitsB := a.prefix[a.stem:], b.prefix[b.stem:]
	common := min(len(digitsA), len(digitsB))
	if c := strings.Compare(digitsA[:common], digitsB[:common]); c != 0 {
		return c
	}
	if len(digitsA) == len(digitsB) {
		return cmp.Compare(n, m)
	}
	return strings.Compare(digitsA[common:]+a.number(n), digitsB[common:]+b.number(m))
}
