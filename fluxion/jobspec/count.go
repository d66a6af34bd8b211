// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobspec

import "math"

// Count is the allowed numbers of a resource: Min, and the numbers that the operator makes from
// it, up to Max.
//
//	'+'  Min, Min+Operand, Min+2*Operand, …
//	'*'  Min, Min*Operand, Min*Operand*Operand, …
//	'^'  Min, Min to the power of Operand, this number to the power of Operand, …
type Count struct {
	Min, Max uint32
	Operator byte
	Operand  int
}

// parseCount reads a count: a number, a minimum alone, or a range (RFC 14). As in Fluxion, a
// range must have max, operator and operand together.
func parseCount(n node) Count {
	if _, isMap := n.value.(map[string]any); !isMap {
		fixed := uint32(n.integer(1, math.MaxUint32))
		return Count{Min: fixed, Max: fixed, Operator: '+', Operand: 1}
	}
	keys := n.object("min", "max", "operator", "operand")
	count := Count{
		Min:      uint32(n.get("min").integer(1, math.MaxUint32)),
		Max:      math.MaxUint32,
		Operator: '+',
		Operand:  1,
	}
	if len(keys) == 1 {
		return count
	}
	count.Max = uint32(n.get("max").integer(int64(count.Min), math.MaxUint32))
	least := int64(1)
	switch operator := n.get("operator"); operator.text() {
	case "+", "*", "^":
		if count.Operator = operator.text()[0]; count.Operator != '+' {
			least = 2
		}
	default:
		operator.fail("neither +, * nor ^")
	}
	count.Operand = int(n.get("operand").integer(least, math.MaxInt32))
	if count.Operator == '^' && count.Min < 2 {
		n.get("min").fail("at least 2, as powers of 1 are 1")
	}
	return count
}

// Largest returns the largest allowed count up to the available number, or 0 if there is none. It
// is Fluxion's calc_count, except that products do not wrap around.
func (c Count) Largest(available uint32) uint32 {
	limit := uint64(min(available, c.Max))
	if uint64(c.Min) > limit {
		return 0
	}
	if c.Operator == '+' && c.Operand > 0 {
		return uint32(limit - (limit-uint64(c.Min))%uint64(c.Operand))
	}
	for count := uint64(c.Min); ; {
		next := c.next(count, limit)
		if next <= count {
			return uint32(count)
		}
		count = next
	}
}

// next returns the count after this one, by multiplication or power. If there is none within the
// limit, the result is not greater than this count.
func (c Count) next(count, limit uint64) uint64 {
	switch {
	case c.Operator == '*' && c.Operand > 1 && count <= limit/uint64(c.Operand):
		return count * uint64(c.Operand)
	case c.Operator == '^' && count > 1:
		power := count
		for range c.Operand - 1 {
			if power > limit/count {
				return 0
			}
			power *= count
		}
		return power
	}
	return 0
}

// EffectiveMax returns the largest allowed count, if enough are available.
func (c Count) EffectiveMax() uint32 {
	return c.Largest(math.MaxUint32)
}
