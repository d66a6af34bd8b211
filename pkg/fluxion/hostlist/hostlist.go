// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostlist reads and writes the hostlists of Flux RFC 29, such as "node[008-011,003],login".
// A hostlist is an ordered list of host names, in which consecutive numbers are written as ranges.
// Order and repetition are kept: the position of a host is its rank.
package hostlist

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxDigits limits the digits of a number, so that the number fits in an int64.
const maxDigits = 18

// Encode returns hosts as a hostlist.
func Encode(hosts []string) string {
	var out strings.Builder
	for start := 0; start < len(hosts); {
		prefix, digits := split(hosts[start])
		end := start + 1
		for digits != "" && end < len(hosts) && isNumbered(hosts[end], prefix) {
			end++
		}
		if start > 0 {
			out.WriteByte(',')
		}
		writeGroup(&out, prefix, hosts[start:end])
		start = end
	}
	return out.String()
}

// writeGroup writes hosts that differ only in the number at their end.
func writeGroup(out *strings.Builder, prefix string, hosts []string) {
	if len(hosts) == 1 {
		out.WriteString(hosts[0])
		return
	}
	out.WriteString(prefix + "[")
	for i := 0; i < len(hosts); {
		_, first := split(hosts[i])
		last, j := first, i+1
		for ; j < len(hosts); j++ {
			_, digits := split(hosts[j])
			if digits != successor(last) {
				break
			}
			last = digits
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(first)
		if j-i > 1 {
			out.WriteString("-" + last)
		}
		i = j
	}
	out.WriteByte(']')
}

// maxBytes limits the total length of the names in a list.
const maxBytes = 1 << 26

// Decode reads a hostlist. It refuses a list of more than limit hosts, and a list whose names take
// more than 64 MiB. So a short text cannot take much memory.
func Decode(text string, limit int) ([]string, error) {
	list, err := Parse(text, limit)
	if err != nil || list.Len() == 0 {
		return nil, err
	}
	room := int64(maxBytes)
	for _, s := range list.spans {
		if room -= s.count() * int64(len(s.prefix)+s.digits); room < 0 {
			return nil, fmt.Errorf("host list: the names are more than %d bytes", maxBytes)
		}
	}
	return slices.AppendSeq(make([]string, 0, list.Len()), list.All()), nil
}

// cut splits the first element off a list: it ends before the first comma outside of brackets.
func cut(text string) (element, rest string, err error) {
	open := false
	for i, r := range text {
		switch {
		case r == '[' && open, r == ']' && !open:
			return "", "", fmt.Errorf("host list %q: unexpected %q at %d", text, r, i)
		case r == '[':
			open = true
		case r == ']':
			open = false
		case r == ',' && !open:
			if rest = text[i+1:]; i == 0 || rest == "" {
				return "", "", fmt.Errorf("host list %q: empty name", text)
			}
			return text[:i], rest, nil
		}
	}
	if open {
		return "", "", fmt.Errorf("host list %q: missing ]", text)
	}
	return text, "", nil
}

func number(digits string) (int64, error) {
	if len(digits) > maxDigits || strings.ContainsAny(digits, "+-") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(digits, 10, 64)
}

// split divides a name into the text before the number at its end, and the number.
func split(host string) (prefix, digits string) {
	i := len(host)
	for i > 0 && host[i-1] >= '0' && host[i-1] <= '9' && len(host)-i < maxDigits {
		i--
	}
	return host[:i], host[i:]
}

// isNumbered reports whether a name consists of the prefix and a number.
func isNumbered(host, prefix string) bool {
	before, digits := split(host)
	return before == prefix && digits != ""
}

// successor returns the next number, with the same number of digits if it has leading zeros.
func successor(digits string) string {
	n, err := number(digits)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%0*d", len(digits), n+1)
}

// Compare orders names by the text before the number at their end, then by the number. So node-2 is
// before node-10.
func Compare(a, b string) int {
	prefixA, digitsA := split(a)
	prefixB, digitsB := split(b)
	if c := strings.Compare(prefixA, prefixB); c != 0 {
		return c
	}
	numberA, _ := number(digitsA) // no number counts as 0
	numberB, _ := number(digitsB)
	if c := cmp.Compare(numberA, numberB); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}
