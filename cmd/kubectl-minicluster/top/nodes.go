// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/charmbracelet/lipgloss"

	"github.com/flux-elastic/flux-elastic/internal/dashboard"
)

// palette are the colors of MiniClusters on the map.
var palette = []string{"4", "2", "5", "6", "3", "12", "10", "13", "14", "11"}

// nodes is a map: a character for each node, in lines of their domains.
func (s *screen) nodes(c *scene) []string {
	if len(c.view.Nodes) == 0 {
		return []string{"The nodes are not known."}
	}
	var domains []string
	byDomain := map[string][]*dashboard.Node{}
	colors := map[string]lipgloss.Style{}
	for i := range c.view.Nodes {
		n := &c.view.Nodes[i]
		domain := cmp.Or(n.Domain(), "nodes")
		if byDomain[domain] == nil {
			domains = append(domains, domain)
		}
		byDomain[domain] = append(byDomain[domain], n)
		for _, holder := range n.Holders {
			if _, known := colors[holder.Of]; !known {
				colors[holder.Of] = lipgloss.NewStyle().Foreground(lipgloss.Color(palette[len(colors)%len(palette)]))
			}
		}
	}
	lines := []string{dim.Render("█ in use   ▒ partly   · free   r reserved   t taint   x down")}
	width := max(10, s.width-22)
	for _, domain := range domains {
		name := domain
		for nodes := range slices.Chunk(byDomain[domain], width) {
			line := pad(name, 20)
			for _, n := range nodes {
				line += symbol(n, colors)
			}
			lines = append(lines, line)
			name = ""
		}
	}
	return append(lines, s.legend(c, colors)...)
}

func symbol(n *dashboard.Node, colors map[string]lipgloss.Style) string {
	switch {
	case n.Down != "":
		return bad.Render("x")
	case len(n.Holders) > 0 && n.Part < 100:
		return colors[n.Holders[0].Of].Render("▒")
	case len(n.Holders) > 0:
		return colors[n.Holders[0].Of].Render("█")
	case n.Reserved:
		return waits.Render("r")
	case n.Taint != "":
		return dim.Render("t")
	}
	return dim.Render("·")
}

// legend names the MiniClusters on the map, those with the most nodes first.
func (s *screen) legend(c *scene, colors map[string]lipgloss.Style) []string {
	counts := map[string]int{}
	for i := range c.view.Nodes {
		for _, holder := range c.view.Nodes[i].Holders {
			counts[holder.Of]++
		}
	}
	var keys []string
	for key := range counts {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	lines := []string{""}
	for _, key := range keys {
		lines = append(lines, colors[key].Render("█ ")+pad(cmp.Or(c.label(key), "others"), 40)+fmt.Sprintf("%d nodes", counts[key]))
	}
	return lines
}
