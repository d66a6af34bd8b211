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

// Names of resources that have a unit. All other resources (GPUs, for example) are
// counted.
const (
	CPU              = "cpu"               // thousandths of a core
	Memory           = "memory"            // bytes
	EphemeralStorage = "ephemeral-storage" // bytes
	Pods             = "pods"
)

// WholeNode is the resource of a pod that has its node alone. A request of more than nothing
// keeps all other pods off the node, whether of a job or not. The pod fits only on a node
// without pods. Each node has the resource, and no capacity counts for it.
const WholeNode = "node"

// allShares is how much of WholeNode each node has. A pod that asks for a whole node takes all,
// and any other pod takes 1. The sum over the pods of a node stays within int64.
const allShares = 1 << 40

// Resources are amounts by name. A missing amount is 0. A requested amount counts as at
// least 0, and every amount as at most MaxAmount.
type Resources map[string]int64

// MaxAmount is the largest amount of a pod or a node that counts: 2^48 bytes are 256 TiB. So the
// requests of ten thousands of pods on a node have a sum within int64.
const MaxAmount = 1 << 48

// unlimited is how many pods fit that request nothing.
const unlimited = math.MaxInt32

// demand is what one pod takes, by the resources of a graph.
type demand struct {
	// amounts are by resource of the graph.
	amounts []int64
	// asked are the resources of which the pod takes something, rising.
	asked []int32
	// unknown is the first resource, by name, that the pod takes and no node of the graph
	// has; "" if there is none.
	unknown string
}

// compile sets the demand to what a pod requests.
func (d *demand) compile(resources []string, request Resources) {
	d.amounts, d.asked, d.unknown = d.amounts[:0], d.asked[:0], ""
	known := 0
	for i, name := range resources {
		amount, is := request[name]
		if is {
			known++
		}
		amount = min(max(amount, 0), MaxAmount)
		if name == WholeNode {
			amount = shares(amount)
		}
		d.amounts = append(d.amounts, amount)
		if amount > 0 {
			d.asked = append(d.asked, int32(i))
		}
	}
	if known == len(request) {
		return
	}
	for name, amount := range request {
		if amount > 0 && !slices.Contains(resources, name) && (d.unknown == "" || name < d.unknown) {
			d.unknown = name
		}
	}
}

// shares is how much of its node a pod takes that requests this much of WholeNode.
func shares(requested int64) int64 {
	if requested > 0 {
		return allShares
	}
	return 1
}

// isNamed reports whether pods differ in how much they request of a resource: each pod takes
// one of the pods of its node, and a part of the node.
func isNamed(resource string) bool { return resource != Pods && resource != WholeNode }

// fits is the number of pods for which this much is enough.
func (d *demand) fits(free []int64) int32 {
	if d.unknown != "" {
		return 0
	}
	count := int64(unlimited)
	for _, r := range d.asked {
		left, amount := free[r], d.amounts[r]
		if left < amount {
			return 0
		}
		count = min(count, left/amount)
	}
	return int32(count)
}

// lacking is the first resource, by name, of which this much is too little for one pod; "" if there is none. none is true if
// there is nothing of it.
func (d *demand) lacking(resources []string, free []int64) (name string, none bool) {
	for _, r := range d.asked {
		if free[r] < d.amounts[r] && (d.unknown == "" || resources[r] < d.unknown) {
			return resources[r], free[r] <= 0
		}
	}
	return d.unknown, true
}

// String writes the amounts for people: "8 cpu, 32Gi memory". The pods are left out,
// because each broker is one pod.
func (r Resources) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r)) {
		switch amount := r[name]; {
		case amount == 0 || name == Pods || name == WholeNode:
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
	if r[WholeNode] > 0 {
		parts = append(parts, "a whole node")
	}
	return strings.Join(parts, ", ")
}

// bytesText writes a number of bytes in the largest binary unit that keeps it whole.
func bytesText(amount int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	i := 0
	for ; i < len(units)-1 && amount%1024 == 0; i++ {
		amount /= 1024
	}
	return fmt.Sprintf("%d%s", amount, units[i])
}
