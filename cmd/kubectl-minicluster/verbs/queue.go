// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

func newQueue(s *access.Session) *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use: "queue [NAME]", Aliases: []string{"queues"}, Short: "List queues, or show who waits in one",
		Example: "  kubectl minicluster queue\n  kubectl minicluster queue research", ValidArgsFunction: completeQueues(s),
		Long: `List queues with their shares of the cluster, or show one queue: who waits, in the order in which they are served, and
who has nodes. It needs the right to list miniclusterqueues, which the roles view, edit and admin have for the whole
cluster, and not for a namespace.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return access.Usagef("name one queue, and not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Client()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return listQueues(cmd.Context(), s, c, format)
			}
			return showQueue(cmd.Context(), s, c, args[0], format)
		},
	}
	output(cmd, &format, formats...)
	return cmd
}

func listQueues(ctx context.Context, s *access.Session, c client.Reader, format string) error {
	var list v1alpha2.MiniClusterQueueList
	if err := c.List(ctx, &list); err != nil {
		return err
	}
	if format != "table" && format != "wide" {
		return printObject(s.Out, format, &list)
	}
	counted, err := addUnmade(ctx, c, &list)
	if err != nil {
		return err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha2.MiniClusterQueue) int {
		return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), cmp.Compare(a.Name, b.Name))
	})
	t := s.NewTable()
	head := []string{"NAME", "WAIT", "HAVE NODES", "SHARE", "DESERVED", "PRIORITY", "STATE"}
	if format == "wide" {
		head = append(head, "WEIGHT", "ORDER", "BACKFILL")
	}
	t.Row(head...)
	for i := range list.Items {
		q := &list.Items[i]
		q.Default()
		waiting, admitted := count(q.Status.Pending), count(q.Status.Admitted)
		if q.UID == "" && !counted {
			waiting, admitted = "", ""
		}
		cells := []string{q.Name, waiting, admitted, percent(q.Status.Share), percent(q.Status.Deserved), count(q.Spec.Priority), openOf(q)}
		if format == "wide" {
			cells = append(cells, count(q.Spec.Weight), string(q.Spec.Ordering), string(q.Spec.Backfill))
		}
		t.Row(cells...)
	}
	return t.Flush()
}

// withoutObject are the queues that exist even if nobody has made them.
var withoutObject = []string{v1alpha2.DefaultQueue, v1alpha2.KueueQueue}

// addUnmade adds the queue default, and the queue kueue if it is used, to a list of queues in which nobody has made them.
// counted is false if the user may not list MiniClusters.
func addUnmade(ctx context.Context, c client.Reader, list *v1alpha2.MiniClusterQueueList) (counted bool, err error) {
	missing := slices.DeleteFunc(slices.Clone(withoutObject), func(name string) bool {
		return slices.ContainsFunc(list.Items, func(q v1alpha2.MiniClusterQueue) bool { return q.Name == name })
	})
	unmade, counted, err := countQueues(ctx, c, missing...)
	for i := range unmade {
		if q := &unmade[i]; q.Name == v1alpha2.DefaultQueue || q.Status.Pending+q.Status.Admitted > 0 {
			list.Items = append(list.Items, *q)
		}
	}
	return counted, err
}

// names are those of queues, with that of the queue default.
func names(queues []v1alpha2.MiniClusterQueue) []string {
	out := []string{v1alpha2.DefaultQueue}
	for i := range queues {
		out = append(out, queues[i].Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// queueOf reads a queue. counted is false if it is not known who waits there.
func queueOf(ctx context.Context, c client.Reader, name string) (q *v1alpha2.MiniClusterQueue, counted bool, err error) {
	q = &v1alpha2.MiniClusterQueue{}
	if err = c.Get(ctx, client.ObjectKey{Name: name}, q); err == nil {
		return q, true, nil
	}
	if !apierrors.IsNotFound(err) || !slices.Contains(withoutObject, name) {
		return nil, false, err
	}
	unmade, counted, err := countQueues(ctx, c, name)
	if err != nil {
		return nil, false, err
	}
	return &unmade[0], counted, nil
}

// countQueues returns queues that exist although nobody has made them. They have no UID. Who waits there is known from the
// MiniClusters, and the places are not: the scheduler writes them into the object alone. counted is false, and nobody is
// counted, if the user may not list MiniClusters.
func countQueues(ctx context.Context, c client.Reader, names ...string) (queues []v1alpha2.MiniClusterQueue, counted bool, err error) {
	if len(names) == 0 {
		return nil, true, nil
	}
	var all v1alpha2.MiniClusterList
	err = c.List(ctx, &all)
	if ignoreForbidden(err) != nil {
		return nil, false, err
	}
	sortByAge(all.Items)
	queues = make([]v1alpha2.MiniClusterQueue, len(names))
	for i, name := range names {
		queues[i].Name = name
		countInto(&queues[i], all.Items)
	}
	return queues, err == nil, nil
}

// countInto counts which MiniClusters wait in a queue, and which have nodes.
func countInto(q *v1alpha2.MiniClusterQueue, all []v1alpha2.MiniCluster) {
	for i := range all {
		mc := &all[i]
		switch {
		case state.QueueOf(mc) != q.Name || is(mc, v1alpha2.ConditionFinished):
		case mc.Status.Admission != nil:
			q.Status.Admitted++
		case waits(mc):
			q.Status.Pending++
			why := condition(mc, v1alpha2.ConditionAdmitted)
			q.Status.Waiting = append(q.Status.Waiting, v1alpha2.WaitingMiniCluster{Namespace: mc.Namespace, Name: mc.Name, Reason: why.Reason, Message: why.Message})
		}
	}
}

// count is a number, also 0.
func count[N int | int32](n N) string { return strconv.Itoa(int(n)) }

// percent is a part of the cluster, from "0" to "1", as percents.
func percent(part string) string {
	value, err := strconv.ParseFloat(part, 64)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100*value)
}

func openOf(q *v1alpha2.MiniClusterQueue) string {
	if q.Spec.Suspended {
		return "suspended"
	}
	return "open"
}

func showQueue(ctx context.Context, s *access.Session, c client.Reader, name, format string) error {
	q, counted, err := queueOf(ctx, c, name)
	if apierrors.IsNotFound(err) {
		return noQueue(ctx, c, name)
	} else if err != nil {
		return err
	}
	if format != "table" && format != "wide" {
		return printObject(s.Out, format, q)
	}
	q.Default()
	if q.UID == "" {
		fmt.Fprintf(s.Out, "%s   open   Nobody has made this queue: it has the default settings, and tells neither shares nor places.\n\n", q.Name)
	} else {
		fmt.Fprintf(s.Out, "%s   %s   priority %d   weight %d   has %s of the cluster, deserves %s\n\n", q.Name, openOf(q), q.Spec.Priority, q.Spec.Weight,
			cmp.Or(percent(q.Status.Share), "0%"), cmp.Or(percent(q.Status.Deserved), "0%"))
	}
	if !counted {
		fmt.Fprintln(s.Out, "Who waits and who has nodes is not known. To see them, you need the right to list miniclusters in all namespaces.")
		return nil
	}
	if err := showWaiting(s, q); err != nil {
		return err
	}
	var list v1alpha2.MiniClusterList
	if err := c.List(ctx, &list); err != nil {
		fmt.Fprintf(s.Out, "\n%d have nodes. To see them, you need the right to list miniclusters in all namespaces.\n", q.Status.Admitted)
		return nil //nolint:nilerr // the rest is shown
	}
	return showAdmitted(s, name, list.Items)
}

// noQueue is the error of a queue that does not exist. It names the queues that do, if the user may list them.
func noQueue(ctx context.Context, c client.Reader, name string) error {
	var list v1alpha2.MiniClusterQueueList
	switch err := c.List(ctx, &list); {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("there is no queue %s", name)
	case err != nil:
		return err
	}
	return fmt.Errorf("there is no queue %s; queues: %s", name, strings.Join(names(list.Items), ", "))
}

// showWaiting prints who waits in a queue.
func showWaiting(s *access.Session, q *v1alpha2.MiniClusterQueue) error {
	if len(q.Status.Waiting) == 0 {
		fmt.Fprintln(s.Out, "Nobody waits.")
		return nil
	}
	t := s.NewTable()
	t.Row("PLACE", "WAITS", "REASON", "WHY")
	for _, w := range q.Status.Waiting {
		t.Row(number(w.Position), w.Namespace+"/"+w.Name, w.Reason, w.Message)
	}
	if more := int(q.Status.Pending) - len(q.Status.Waiting); more > 0 {
		t.Row("...", fmt.Sprintf("%d more", more), "", "")
	}
	return t.Flush()
}

// showAdmitted prints which MiniClusters of a queue have nodes.
func showAdmitted(s *access.Session, queue string, all []v1alpha2.MiniCluster) error {
	now := s.Clock.Now()
	var admitted []*v1alpha2.MiniCluster
	for i := range all {
		if mc := &all[i]; state.QueueOf(mc) == queue && mc.Status.Admission != nil && mc.Status.Nodes > 0 {
			admitted = append(admitted, mc)
		}
	}
	if len(admitted) == 0 {
		fmt.Fprintln(s.Out, "\nNobody has nodes.")
		return nil
	}
	slices.SortFunc(admitted, func(a, b *v1alpha2.MiniCluster) int {
		return a.Status.Admission.Time.Compare(b.Status.Admission.Time.Time)
	})
	fmt.Fprintln(s.Out)
	t := s.NewTable()
	t.Row("HAS NODES", "STATE", "NODES", "SINCE", "RAN")
	for _, mc := range admitted {
		t.Row(mc.Namespace+"/"+mc.Name, s.Paint(stateOf(mc)), count(mc.Status.Nodes), duration.HumanDuration(now.Sub(mc.Status.Admission.Time.Time)), ranOf(mc, now))
	}
	return t.Flush()
}
