// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

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
	queues   map[string]*v1alpha2.MiniClusterQueue
}

func newList(s *access.Session) *cobra.Command {
	l := &lister{Session: s}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List MiniClusters, the oldest first", SuggestFor: []string{"squeue"}, Args: access.NoArgs,
		Example: "  kubectl minicluster list\n  kubectl minicluster list -A --watch\n  kubectl minicluster list -l sweep=a -o wide",
		Long: `List MiniClusters, the oldest first, with the columns of squeue: the user in the queue, the time used and the time limit, the
nodes or how many are wanted, and the list of the nodes or the reason for which the MiniCluster waits or has ended. On a
terminal, lines are cut off at its width. With -o wide they are not, and have the age, the brokers that are up, the tasks and
the attempt.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
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
	if l.queues, err = l.readQueues(ctx); err != nil {
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

// readQueues reads the queues by name for a table: they say who their users are. There is none if the user may not list queues.
func (l *lister) readQueues(ctx context.Context) (map[string]*v1alpha2.MiniClusterQueue, error) {
	if l.format != "table" && l.format != "wide" {
		return nil, nil
	}
	var list v1alpha2.MiniClusterQueueList
	if err := l.client.List(ctx, &list); err != nil {
		return nil, ignoreForbidden(err)
	}
	queues := map[string]*v1alpha2.MiniClusterQueue{}
	for i := range list.Items {
		queues[list.Items[i].Name] = &list.Items[i]
	}
	return queues, nil
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
	if l.format == "table" {
		t.Fit(l.Width())
	}
	if !l.headed {
		t.Row(l.cells("NAMESPACE", []string{"NAME", "QUEUE", "USER", "STATE", "TIME", "NODES", "NODELIST(REASON)"}, "AGE", "BROKERS", "TASKS", "ATTEMPT")...)
		l.headed = true
	}
	now := l.Clock.Now()
	for i := range items {
		mc := &items[i]
		mc.Default()
		queue, attempt := state.QueueOf(mc), ""
		if a := mc.Status.Admission; a != nil {
			attempt = strconv.Itoa(int(a.Attempt))
		}
		t.Row(l.cells(mc.Namespace, []string{
			mc.Name, queue, state.User(mc, l.queues[queue]), l.Paint(stateOf(mc)), timeOf(mc, now), nodesOf(mc), whereOf(mc),
		}, duration.HumanDuration(now.Sub(mc.CreationTimestamp.Time)), brokersOf(mc), number(mc.Status.Tasks), attempt)...)
	}
	return t.Flush()
}

// timeOf is the time used and the time limit, also of a MiniCluster that has not started: "0s/20m".
func timeOf(mc *v1alpha2.MiniCluster, now time.Time) string {
	if limit := access.Limit(mc); mc.Status.StartTime == nil && limit > 0 {
		return "0s/" + duration.HumanDuration(limit)
	}
	return cmp.Or(ranOf(mc, now), "0s")
}

// nodesOf is how many nodes a MiniCluster has, or how many brokers it asks for.
func nodesOf(mc *v1alpha2.MiniCluster) string {
	if mc.Status.Nodes == 0 && mc.Spec.MinSize < mc.Spec.Size && waits(mc) {
		return fmt.Sprintf("%d-%d", mc.Spec.MinSize, mc.Spec.Size)
	}
	return strconv.Itoa(int(cmp.Or(mc.Status.Nodes, mc.Spec.Size)))
}

// whereOf is where a MiniCluster is, or the reason for which it waits or has ended, in brackets.
func whereOf(mc *v1alpha2.MiniCluster) string {
	if why := whyOf(mc); why != "" {
		return "(" + why + ")"
	}
	if a := mc.Status.Admission; a != nil {
		return a.Nodes
	}
	return ""
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
