// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// TopologyLevel is one level of the topology: its name in gangs and messages, and the node label
// with a node's domain. A node without the label is in no domain of the level.
type TopologyLevel struct{ Name, Label string }

// TopologyLevels are the default levels, outermost first: zones, and the labels for blocks and
// racks from the documentation of Kueue and KAI.
var TopologyLevels = []TopologyLevel{
	{"zone", corev1.LabelTopologyZone},
	{"block", "cloud.provider.com/topology-block"},
	{"rack", "cloud.provider.com/topology-rack"},
}

// TopologyLabels are the labels of levels, as ParseTopologyLevels reads them.
func TopologyLabels(levels []TopologyLevel) string {
	labels := make([]string, len(levels))
	for i, level := range levels {
		labels[i] = level.Label
	}
	return strings.Join(labels, ",")
}

// ParseTopologyLevels reads labels that are separated by commas, outermost first. A level is
// named by its label without the domain and without "topology-".
func ParseTopologyLevels(text string) ([]TopologyLevel, error) {
	var levels []TopologyLevel
	for label := range strings.SplitSeq(text, ",") {
		label = strings.TrimSpace(label)
		if label == "" {
			continue
		}
		if problems := validation.IsQualifiedName(label); len(problems) > 0 {
			return nil, fmt.Errorf("%q is no label of nodes: %s", label, strings.Join(problems, "; "))
		}
		name := strings.TrimPrefix(label[strings.LastIndexByte(label, '/')+1:], "topology-")
		for _, level := range levels {
			if level.Name == name || level.Label == label {
				return nil, fmt.Errorf("two levels of the topology are called %q: %s and %s", name, level.Label, label)
			}
		}
		levels = append(levels, TopologyLevel{name, label})
	}
	return levels, nil
}

// topology says how close the pods of a MiniCluster have to be. A key that is no level's label
// (UnknownTopology) names no level.
func topology(mc *v1alpha2.MiniCluster, levels []TopologyLevel) fluxion.Topology {
	placement := &mc.Spec.Placement
	if placement.TopologyKey == "" {
		return fluxion.Topology{}
	}
	level := placement.TopologyKey
	if i := levelOf(level, levels); i >= 0 {
		level = levels[i].Name
	}
	return fluxion.Topology{Level: level, Required: placement.Topology == v1alpha2.TopologyRequired}
}

// levelOf is the index of the level with a label; -1 if there is none.
func levelOf(label string, levels []TopologyLevel) int {
	return slices.IndexFunc(levels, func(level TopologyLevel) bool { return level.Label == label })
}

// UnknownTopology says that the MiniCluster's topologyKey is no level's label; "" if it is one,
// or there is no key.
func UnknownTopology(mc *v1alpha2.MiniCluster, levels []TopologyLevel) string {
	key := mc.Spec.Placement.TopologyKey
	if key == "" || levelOf(key, levels) >= 0 {
		return ""
	}
	if len(levels) == 0 {
		return fmt.Sprintf("placement.topologyKey %q is no label that the topology of the nodes is told by: there is none", key)
	}
	return fmt.Sprintf("placement.topologyKey %q is no label that the topology of the nodes is told by: those are %s", key,
		strings.ReplaceAll(TopologyLabels(levels), ",", ", "))
}

// Domains are sets of nodes with equal values of some labels. Each takes a number of pods of a gang
// at most, and no other node takes any.
type Domains struct {
	labels []string
	// most is by name.
	most map[string]int
	// Key is the same for equal Domains.
	Key string
}

// mostDomains bounds the domains of a hostlist: a MiniCluster has no more brokers.
const mostDomains = 1 << 17

// domainsOf reads the domains of a quota. A hostlist that cannot be read names no domain.
func domainsOf(t *v1alpha2.QuotaTopology) *Domains {
	d := &Domains{labels: t.Levels, most: map[string]int{}}
	for i := range t.Domains {
		from := &t.Domains[i]
		values, _ := hostlist.Decode(from.Values, mostDomains)
		for _, value := range values {
			d.most[nameOf(slices.Concat(from.Within, []string{value}))] += int(from.Brokers)
		}
	}
	key, err := json.Marshal(t)
	if err == nil { // it always is
		d.Key = string(key)
	}
	return d
}

// nameOf is the name of a domain. Values of labels have no commas.
func nameOf(values []string) string { return strings.Join(values, ",") }

// Of is the name of the domain of a node with some labels, and the number of pods that the domain
// takes at most; 0 for a node that is in none.
func (d *Domains) Of(labels map[string]string) (name string, most int) {
	values := make([]string, len(d.labels))
	for i, label := range d.labels {
		values[i] = labels[label]
	}
	name = nameOf(values)
	return name, d.most[name]
}
