// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// lister is the verb list.
type lister struct {
	*access.Session
	client   client.WithWatch
	format   string
	all      bool
	selector string
	watch    bool
	headed   bool // the head of the table is printed
}

func newList(s *access.Session) *cobra.Command {
	l := &lister{Session: s}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List MiniClusters, the oldest first", SuggestFor: []string{"squeue"}, Args: access.NoArgs,
		Example: "  kubectl minicluster list\n  kubectl minicluster list -A --watch\n  kubectl minicluster list -l sweep=a -o wide",
		RunE:    func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	output(cmd, &l.format, formats...)
	cmd.Flags().BoolVarP(&l.all, "all-namespaces", "A", false, "those of all namespaces")
	cmd.Flags().StringVarP(&l.selector, "selector", "l", "", "those with these labels")
	cmd.Flags().BoolVarP(&l.watch, "watch", "w", false, "print each again when it changes")
	return cmd
}

func (l *lister) run(ctx context.Context) error {
	var err error
	if l.client, err = l.Client(); err != nil {
		return err
	}
	options, err := l.options()
	if err != nil {
		return err
	}
	if l.watch {
		if l.format != "table" && l.format != "wide" && l.format != "name" {
			return access.Usagef("--watch prints lines: --output has to be table, wide or name")
		}
		return follow(ctx, l.Session, l.client, nil, func(mc *v1alpha2.MiniCluster) (bool, error) {
			return false, l.print([]v1alpha2.MiniCluster{*mc})
		}, options...)
	}
	var list v1alpha2.MiniClusterList
	if err := l.client.List(ctx, &list, options...); err != nil {
		return err
	}
	sortByAge(list.Items)
	switch {
	case l.format == "json" || l.format == "yaml":
		return printObject(l.Out, l.format, &list)
	case len(list.Items) == 0:
		fmt.Fprintln(l.ErrOut, "There is no MiniCluster.")
		return nil
	}
	return l.print(list.Items)
}

// sortByAge sorts MiniClusters, the oldest first.
func sortByAge(items []v1alpha2.MiniCluster) {
	slices.SortStableFunc(items, func(a, b v1alpha2.MiniCluster) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

func (l *lister) options() ([]client.ListOption, error) {
	selector, err := labels.Parse(l.selector)
	if err != nil {
		return nil, access.Usagef("--selector: %w", err)
	}
	namespace, err := l.Among(l.all)
	return []client.ListOption{client.MatchingLabelsSelector{Selector: selector}, client.InNamespace(namespace)}, err
}

// print prints lines of the table, or names.
func (l *lister) print(items []v1alpha2.MiniCluster) error {
	if l.format == "name" {
		for i := range items {
			if err := printObject(l.Out, l.format, &items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	t := l.NewTable()
	if !l.headed {
		t.Row(l.cells("NAMESPACE", []string{"NAME", "STATE", "BROKERS", "TASKS", "NODES", "QUEUE", "AGE", "RAN", "WHY"}, "ATTEMPT", "PLACEMENT")...)
		l.headed = true
	}
	now := l.Clock.Now()
	for i := range items {
		mc := &items[i]
		mc.Default()
		attempt, placement := "", ""
		if a := mc.Status.Admission; a != nil {
			attempt, placement = strconv.Itoa(int(a.Attempt)), a.Nodes
		}
		t.Row(l.cells(mc.Namespace, []string{
			mc.Name, l.Paint(stateOf(mc)), brokersOf(mc), number(mc.Status.Tasks), number(mc.Status.Nodes), state.QueueOf(mc),
			duration.HumanDuration(now.Sub(mc.CreationTimestamp.Time)), ranOf(mc, now), whyOf(mc),
		}, attempt, placement)...)
	}
	return t.Flush()
}

// cells are those of a line: with the namespace first in a list of all, and with more at the end of a wide one.
func (l *lister) cells(namespace string, cells []string, wide ...string) []string {
	if l.all {
		cells = append([]string{namespace}, cells...)
	}
	if l.format == "wide" {
		cells = append(cells, wide...)
	}
	return cells
}

// number is "" for 0.
func number(n int32) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(int(n))
}
