// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/dashboard"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

func newNodes(s *access.Session) *cobra.Command {
	format, levels := "", ""
	cmd := &cobra.Command{
		Use: "nodes", Short: "Show the nodes by zone and rack: who runs where, free, reserved, cordoned", SuggestFor: []string{"sinfo"}, Args: access.NoArgs,
		Example: "  kubectl minicluster nodes\n  kubectl minicluster nodes -o wide",
		Long: `Show the nodes by zone and rack: who runs where, free, reserved, cordoned. With -o wide, every node has a line. It needs
the right to list nodes, and pods, miniclusters and miniclusterreservations of all namespaces. "Free" means without
MiniClusters: pods of others do not count.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			topology, err := state.ParseTopologyLevels(levels)
			if err != nil {
				return access.Usagef("--topology-labels: %w", err)
			}
			c, err := s.Client()
			if err != nil {
				return err
			}
			view, err := viewOf(cmd.Context(), c, topology)
			if err != nil {
				return err
			}
			switch format {
			case "table":
				return mapNodes(s, view.Nodes)
			case "wide":
				return listNodes(s, view.Nodes, topology)
			case "name":
				for i := range view.Nodes {
					fmt.Fprintln(s.Out, "node/"+view.Nodes[i].Name)
				}
				return nil
			}
			return printValue(s.Out, format, nodesFrom(view.Nodes, topology))
		},
	}
	output(cmd, &format, formats...)
	cmd.Flags().StringVar(&levels, "topology-labels", state.TopologyLabels(state.TopologyLevels), "node labels of the topology, outermost first, as the manager's flag")
	return cmd
}

// viewOf reads what the map is made from.
func viewOf(ctx context.Context, c client.Reader, topology []state.TopologyLevel) (*dashboard.View, error) {
	var nodes corev1.NodeList
	var pods corev1.PodList
	var miniClusters v1alpha2.MiniClusterList
	var reservations v1alpha2.MiniClusterReservationList
	for _, list := range []client.ObjectList{&nodes, &pods, &miniClusters, &reservations} {
		var options []client.ListOption
		if list == client.ObjectList(&pods) {
			options = append(options, client.HasLabels{v1alpha2.MiniClusterLabel})
		}
		if err := c.List(ctx, list, options...); err != nil {
			return nil, err
		}
	}
	return dashboard.New(&dashboard.Objects{
		Nodes: nodes.Items, Pods: pods.Items, MiniClusters: miniClusters.Items, Reservations: reservations.Items, Levels: topology, Batch: labels.Everything(),
	}), nil
}

// useOf says what a node is used for, in a few words.
func useOf(n *dashboard.Node) string {
	var uses []string
	for _, holder := range n.Holders {
		uses = append(uses, holder.Of)
	}
	switch {
	case n.Down != "":
		uses = append(uses, "down: "+n.Down)
	case n.Taint != "":
		uses = append(uses, "taint "+n.Taint)
	case n.Reserved && len(uses) == 0:
		uses = append(uses, strings.TrimSpace("reserved "+n.Reservation))
	}
	return cmp.Or(strings.Join(uses, ", "), "free")
}

// node is a node as JSON.
type node struct {
	Name string `json:"name"`
	// Labels are those of the topology.
	Labels map[string]string `json:"labels,omitempty"`
	// MiniClusters are those on the node, each as NAMESPACE/NAME.
	MiniClusters     []string `json:"miniClusters,omitempty"`
	RequestedPercent int      `json:"requestedPercent"`
	// Use is what the table says.
	Use         string `json:"use"`
	Down        string `json:"down,omitempty"`
	Taint       string `json:"taint,omitempty"`
	Reservation string `json:"reservation,omitempty"`
}

func nodesFrom(nodes []dashboard.Node, topology []state.TopologyLevel) []node {
	out := make([]node, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		out[i] = node{Name: n.Name, RequestedPercent: n.Part, Use: useOf(n), Down: n.Down, Taint: n.Taint, Reservation: n.Reservation}
		for _, holder := range n.Holders {
			out[i].MiniClusters = append(out[i].MiniClusters, holder.Of)
		}
		for level, value := range n.In {
			if value != "" {
				out[i].Labels = merged(out[i].Labels, map[string]string{topology[level].Label: value})
			}
		}
	}
	return out
}

func listNodes(s *access.Session, nodes []dashboard.Node, topology []state.TopologyLevel) error {
	t := s.NewTable()
	head := []string{"NODE"}
	for _, level := range topology {
		head = append(head, strings.ToUpper(level.Label[strings.LastIndex(level.Label, "/")+1:]))
	}
	t.Row(append(head, "REQUESTED", "USE")...)
	for i := range nodes {
		n := &nodes[i]
		t.Row(slices.Concat([]string{n.Name}, n.In, []string{fmt.Sprintf("%d%%", n.Part), useOf(n)})...)
	}
	return t.Flush()
}

// mapNodes prints, for each domain, its uses with their nodes.
func mapNodes(s *access.Session, nodes []dashboard.Node) error {
	type group struct {
		domain string
		uses   map[string][]string // nodes
		order  []string
	}
	var groups []*group
	byDomain := map[string]*group{}
	for i := range nodes {
		n := &nodes[i]
		domain := n.Domain()
		g := byDomain[domain]
		if g == nil {
			g = &group{domain: domain, uses: map[string][]string{}}
			byDomain[domain], groups = g, append(groups, g)
		}
		use := useOf(n)
		if g.uses[use] == nil {
			g.order = append(g.order, use)
		}
		g.uses[use] = append(g.uses[use], n.Name)
	}
	t := s.NewTable()
	t.Row("DOMAIN", "COUNT", "USE", "NODES")
	for _, g := range groups {
		for i, use := range g.order {
			domain := cmp.Or(g.domain, "(no domain)")
			if i > 0 {
				domain = " "
			}
			t.Row(domain, count(len(g.uses[use])), use, hostlist.Encode(g.uses[use]))
		}
	}
	return t.Flush()
}
