// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Names of resources with units of their own. All others (GPUs, say) are counted.
const (
	CPU              = "cpu"               // thousandths of a core
	Memory           = "memory"            // bytes
	EphemeralStorage = "ephemeral-storage" // bytes
	Pods             = "pods"
)

// Resources are amounts by name. An amount that is not there is 0.
type Resources map[string]int64

// add changes r by n times the amounts of other.
func (r Resources) add(other Resources, n int64) {
	for name, amount := range other {
		r[name] += n * amount
	}
}

// holds is how often the request fits into r. A request for nothing fits without
// end.
func (r Resources) holds(request Resources) int {
	count := int64(math.MaxInt32)
	for name, amount := range request {
		if amount > 0 {
			count = min(count, max(r[name], 0)/amount)
		}
	}
	return int(count)
}

// lacking is the first resource, by name, of which r has too little for one
// request; "" if there is none.
func (r Resources) lacking(request Resources) string {
	for _, name := range slices.Sorted(maps.Keys(request)) {
		if request[name] > 0 && r[name] < request[name] {
			return name
		}
	}
	return ""
}

// String writes the amounts for people: "8 cpu, 32Gi memory". Pods are left out:
// each broker is one.
func (r Resources) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r)) {
		switch amount := r[name]; {
		case amount == 0 || name == Pods:
		case name == CPU && amount%1000 == 0:
			parts = append(parts, fmt.Sprintf("%d cpu", amount/1000))
		case name == CPU:
			parts = append(parts, fmt.Sprintf("%dm cpu", amount))
		case name == Memory || name == EphemeralStorage:
			parts = append(parts, bytesText(amount)+" "+name)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", amount, name))
		}
	}
	return strings.Join(parts, ", ")
}

// bytesText writes an amount in the largest binary unit that leaves it whole.
func bytesText(amount int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	i := 0
	for ; i < len(units)-1 && amount%1024 == 0; i++ {
		amount /= 1024
	}
	return fmt.Sprintf("%d%s", amount, units[i])
}
