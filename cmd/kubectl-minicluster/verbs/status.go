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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/story"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

func newStatus(s *access.Session) *cobra.Command {
	format := ""
	cmd := named(s, "status NAME", "Show one MiniCluster: its nodes and brokers, its attempts, the last decisions",
		"  kubectl minicluster status lammps\n  kubectl minicluster status lammps -o wide", func(ctx context.Context, c client.WithWatch, key client.ObjectKey) error {
			mc, err := get(ctx, c, key)
			if err != nil {
				return err
			}
			if format != "table" && format != "wide" {
				return printObject(s.Out, format, mc)
			}
			return show(ctx, s, c, mc, format == "wide")
		})
	cmd.Long = cmd.Short + ". With -o wide, every broker has a line."
	output(cmd, &format, formats...)
	return cmd
}

// show prints a MiniCluster.
func show(ctx context.Context, s *access.Session, c client.Reader, mc *v1alpha2.MiniCluster, wide bool) error {
	t := s.NewTable()
	t.Row("name", mc.Namespace+"/"+mc.Name)
	t.Row("state", s.Paint(stateOf(mc))+reasonOf(mc))
	t.Row("command", strings.TrimSpace(mc.Spec.FluxContainer().Command))
	t.Row("queue", state.QueueOf(mc))
	t.Row("size", sizesOf(mc))
	for _, line := range history(mc, s) {
		t.Row(line...)
	}
	if a := mc.Status.Admission; a != nil {
		t.Row("brokers", fmt.Sprintf("%d up of %d; the quorum is %d", mc.Status.Size, a.Size, a.Quorum))
		t.Row("nodes", a.Nodes)
		if a.Vacated != "" {
			t.Row("left", "ranks "+a.Vacated)
		}
	}
	decisions, err := decisionsOf(ctx, c, mc)
	if err != nil {
		return err
	}
	if d := mc.Status.LastDecision; d != nil && len(decisions) == 0 {
		t.Row("decision", fmt.Sprintf("%s, %s: %s", d.Reason, since(&metav1.Time{Time: d.Time.Time}, s.Clock.Now()), d.Message))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := showAttempts(s, mc); err != nil {
		return err
	}
	if err := showDecisions(s, decisions); err != nil {
		return err
	}
	return showBrokers(ctx, s, c, mc, wide)
}

// reasonOf is why a MiniCluster is in its state.
func reasonOf(mc *v1alpha2.MiniCluster) string {
	if message := condition(mc, v1alpha2.ConditionReady).Message; message != "" {
		return ": " + message
	}
	return ""
}

// sizesOf are the sizes that the spec allows, and the tasks.
func sizesOf(mc *v1alpha2.MiniCluster) string {
	spec := &mc.Spec
	text := fmt.Sprintf("%d wanted", spec.Size)
	if spec.MinSize < spec.Size || spec.MaxSize > spec.Size {
		text += fmt.Sprintf(", %d to %d allowed", spec.MinSize, max(spec.MaxSize, spec.Size))
	}
	if mc.Status.Tasks > 0 {
		text += fmt.Sprintf("; %d tasks", mc.Status.Tasks)
	}
	return text
}

// history are lines with the times of a MiniCluster's life.
func history(mc *v1alpha2.MiniCluster, s *access.Session) [][]string {
	now, st := s.Clock.Now(), &mc.Status
	lines := [][]string{{"created", since(&mc.CreationTimestamp, now)}}
	if a := st.Admission; a != nil {
		lines = append(lines, []string{"admitted", fmt.Sprintf("%s, attempt %d", since(&a.Time, now), a.Attempt)})
	}
	if st.StartTime != nil {
		lines = append(lines, []string{"started", since(st.StartTime, now)})
	}
	if st.CompletionTime != nil {
		text := since(st.CompletionTime, now)
		if st.ExitCode != nil {
			text += fmt.Sprintf(", exit code %d", *st.ExitCode)
		}
		lines = append(lines, []string{"finished", text})
	}
	if ran := ranOf(mc, now); ran != "" {
		lines = append(lines, []string{"ran", ran})
	}
	return lines
}

// showAttempts prints the attempts that ended without success.
func showAttempts(s *access.Session, mc *v1alpha2.MiniCluster) error {
	if len(mc.Status.Attempts) == 0 {
		return nil
	}
	fmt.Fprintln(s.Out)
	t := s.NewTable()
	t.Row("ATTEMPT", "SIZE", "HAD NODES FOR", "ENDED", "REASON", "WHY")
	for _, a := range mc.Status.Attempts {
		t.Row(count(a.Attempt), count(a.Size), duration.HumanDuration(a.Ended.Sub(a.Admitted.Time)), since(&a.Ended, s.Clock.Now()), a.Reason, a.Message)
	}
	return t.Flush()
}

// mostDecisions is how many decisions are shown: the last ones.
const mostDecisions = 10

// decisionsOf are the events of a MiniCluster, from the oldest. There are none if the user may not list events.
func decisionsOf(ctx context.Context, c client.Reader, mc *v1alpha2.MiniCluster) ([]corev1.Event, error) {
	var list corev1.EventList
	if err := c.List(ctx, &list, client.InNamespace(mc.Namespace), client.MatchingFields{"involvedObject.uid": string(mc.UID)}); err != nil {
		return nil, ignoreForbidden(err)
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return story.TimeOf(&a).Compare(story.TimeOf(&b)) })
	return list.Items[max(0, len(list.Items)-mostDecisions):], nil
}

// showDecisions prints what was decided, from the oldest.
func showDecisions(s *access.Session, decisions []corev1.Event) error {
	if len(decisions) == 0 {
		return nil
	}
	fmt.Fprintln(s.Out)
	t := s.NewTable()
	t.Row("DECISION", "WHEN", "WHAT")
	for i := range decisions {
		at := metav1.NewTime(story.TimeOf(&decisions[i]))
		t.Row(decisions[i].Reason, since(&at, s.Clock.Now()), decisions[i].Message)
	}
	return t.Flush()
}

// broker is a line of the brokers.
type broker struct {
	rank       int
	node, name string
	state      string
}

// showBrokers prints the brokers: each, or a line for each state.
func showBrokers(ctx context.Context, s *access.Session, c client.Reader, mc *v1alpha2.MiniCluster, wide bool) error {
	if mc.Status.Admission == nil {
		return nil
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(mc.Namespace), client.MatchingLabels{v1alpha2.UIDLabel: string(mc.UID)}); err != nil {
		return err
	}
	brokers := brokersFrom(mc.Status.Admission, pods.Items)
	fmt.Fprintln(s.Out)
	t := s.NewTable()
	if wide {
		t.Row("RANK", "NODE", "STATE", "POD")
		for _, b := range brokers {
			t.Row(count(b.rank), b.node, b.state, b.name)
		}
		return t.Flush()
	}
	t.Row("BROKERS", "RANKS", "NODES")
	byState := map[string][]broker{}
	var states []string
	for _, b := range brokers {
		if byState[b.state] == nil {
			states = append(states, b.state)
		}
		byState[b.state] = append(byState[b.state], b)
	}
	for _, state := range states {
		var ranks []int64
		var nodes []string
		for _, b := range byState[state] {
			ranks, nodes = append(ranks, int64(b.rank)), append(nodes, b.node)
		}
		t.Row(fmt.Sprintf("%d %s", len(ranks), state), idset.Encode(ranks), hostlist.Encode(nodes))
	}
	return t.Flush()
}

// brokersFrom are the brokers of an admission, by rank.
func brokersFrom(a *v1alpha2.Admission, pods []corev1.Pod) []broker {
	nodes, err := hostlist.Decode(a.Nodes, int(a.Size))
	if err != nil {
		return nil
	}
	vacated, _ := idset.Decode(a.Vacated, int(a.Size))
	newest := map[int]*corev1.Pod{}
	for i := range pods {
		rank, ok := protocol.Rank(&pods[i])
		if last := newest[rank]; ok && (last == nil || last.CreationTimestamp.Before(&pods[i].CreationTimestamp)) {
			newest[rank] = &pods[i]
		}
	}
	brokers := make([]broker, len(nodes))
	for rank, node := range nodes {
		b := broker{rank: rank, node: node, state: "without a pod"}
		if pod := newest[rank]; pod != nil {
			b.name, b.state = pod.Name, podState(pod)
			b.node = cmp.Or(pod.Spec.NodeName, node)
		}
		if slices.Contains(vacated, int64(rank)) {
			b.state = "left"
		}
		brokers[rank] = b
	}
	return brokers
}

// podState is the state of a broker's pod in a word.
func podState(pod *corev1.Pod) string {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return "ended"
	case pod.Status.Phase == corev1.PodFailed:
		return "failed"
	case pod.DeletionTimestamp != nil:
		return "ending"
	case protocol.IsGated(pod):
		return "gated"
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return "up"
		}
	}
	if trouble := protocol.Read(pod).Broker.Trouble; trouble != "" {
		return "starting: " + trouble
	}
	return "starting"
}
