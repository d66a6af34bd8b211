// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"fmt"
	"slices"
	"unicode"

	"charm.land/lipgloss/v2"

	"github.com/flux-elastic/flux-elastic/internal/dashboard"
)

// palette are the colors of MiniClusters on the map.
var palette = []string{"4", "2", "5", "6", "3", "12", "10", "13", "14", "11"}

// ink is how a MiniCluster is drawn: as a block in a color, or as a letter where there are no colors.
type ink struct {
	color  lipgloss.Style
	letter rune // 0 with colors
}

func newInk(i int, colorless bool) ink {
	if colorless {
		return ink{letter: rune('A' + i%26)}
	}
	return ink{color: lipgloss.NewStyle().Foreground(lipgloss.Color(palette[i%len(palette)]))}
}

func (k ink) whole() string {
	if k.letter != 0 {
		return string(k.letter)
	}
	return k.color.Render("█")
}

func (k ink) part() string {
	if k.letter != 0 {
		return string(unicode.ToLower(k.letter))
	}
	return k.color.Render("▒")
}

// nodes is a map: a character for each node, in lines of their domains.
func (s *screen) nodes(c *scene) (heading string, lines []string) {
	if len(c.view.Nodes) == 0 {
		return "", []string{"The nodes are not known."}
	}
	var domains []string
	byDomain := map[string][]*dashboard.Node{}
	inks := map[string]ink{}
	for i := range c.view.Nodes {
		n := &c.view.Nodes[i]
		domain := cmp.Or(n.Domain(), "nodes")
		if byDomain[domain] == nil {
			domains = append(domains, domain)
		}
		byDomain[domain] = append(byDomain[domain], n)
		for _, holder := range n.Holders {
			if _, known := inks[holder.Of]; !known {
				inks[holder.Of] = newInk(len(inks), s.colorless)
			}
		}
	}
	used := "█ in use   ▒ half or less"
	if s.colorless {
		used = "A in use   a half or less"
	}
	width := max(10, s.width-22)
	for _, domain := range domains {
		name := domain
		for nodes := range slices.Chunk(byDomain[domain], width) {
			line := pad(name, 20)
			for _, n := range nodes {
				line += symbol(n, inks)
			}
			lines = append(lines, line)
			name = ""
		}
	}
	return used + "   · free   r reserved   t taint   x down", append(lines, s.legend(c, inks)...)
}

func symbol(n *dashboard.Node, inks map[string]ink) string {
	switch {
	case n.Down != "":
		return bad.Render("x")
	case len(n.Holders) > 0 && n.Part <= 50: // one of 7 of 8 CPUs has no room for a second broker
		return inks[n.Holders[0].Of].part()
	case len(n.Holders) > 0:
		return inks[n.Holders[0].Of].whole()
	case n.Reserved:
		return waits.Render("r")
	case n.Taint != "":
		return dim.Render("t")
	}
	return dim.Render("·")
}

// legend names the MiniClusters on the map, those with the most nodes first.
func (s *screen) legend(c *scene, inks map[string]ink) []string {
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
		text := fmt.Sprintf("%d nodes", counts[key])
		if counts[key] == 1 {
			text = "1 node"
		}
		lines = append(lines, inks[key].whole()+" "+pad(cmp.Or(c.label(key), "others"), 40)+text)
	}
	return lines
}
