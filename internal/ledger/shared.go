// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// shared are what pods request, by a text of it. The pods that request as much have one copy.
type shared struct {
	known map[string]fluxion.Resources
	bytes int // of the texts
}

// maxShared bounds the bytes of texts, also of pods that are gone: more than those of the kinds of pods in a cluster.
const maxShared = 256 << 10

// of are equal requests.
func (s *shared) of(requests fluxion.Resources) fluxion.Resources {
	var text [256]byte
	key := textOf(text[:0], requests)
	if known, ok := s.known[string(key)]; ok {
		return known
	}
	if s.bytes += len(key); s.bytes > maxShared || s.known == nil {
		*s = shared{map[string]fluxion.Resources{}, len(key)}
	}
	s.known[string(key)] = requests
	return requests
}

// textOf appends a text of requests, in which equal requests are equal.
func textOf(text []byte, requests fluxion.Resources) []byte {
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		text = append(append(text, name...), 0)
		text = binary.AppendVarint(text, requests[name])
	}
	return text
}
