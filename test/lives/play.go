// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package lives are lives of MiniClusters that must be the same on simulated nodes
// (test/e2e) and on real ones (test/e2e-real).
package lives

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// Play lets a MiniCluster have this life, and says what was not as it must be. The
// MiniCluster is that of the life, as its place has it. What is waited for is polled.
func (l *Life) Play(ctx context.Context, c client.Client, mc *v1alpha2.MiniCluster, poll func(func() error) error) error {
	if err := c.Create(ctx, mc); err != nil {
		return err
	}
	for _, step := range l.Then {
		var now *seen
		err := poll(func() (err error) {
			if now, err = see(ctx, c, mc); err == nil {
				err = step.isDue(now)
			}
			return err
		})
		if err == nil {
			err = step.do(ctx, c, mc, now.pods)
		}
		if err != nil {
			return err
		}
	}
	return poll(func() error {
		s, err := see(ctx, c, mc)
		if err == nil {
			err = l.check(s)
		}
		return err
	})
}

// seen is what is there of a MiniCluster.
type seen struct {
	mc   *v1alpha2.MiniCluster // nil when it is gone
	pods []corev1.Pod
	told []string
}

func see(ctx context.Context, c client.Client, of *v1alpha2.MiniCluster) (*seen, error) {
	s := &seen{mc: &v1alpha2.MiniCluster{}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(of), s.mc); client.IgnoreNotFound(err) != nil {
		return nil, err
	} else if err != nil {
		s.mc = nil
	}
	var pods corev1.PodList
	var events eventsv1.EventList
	err := errors.Join(c.List(ctx, &pods, client.InNamespace(of.Namespace), client.MatchingLabels{v1alpha2.MiniClusterLabel: of.Name}),
		c.List(ctx, &events, client.InNamespace(of.Namespace), client.MatchingFields{"regarding.uid": string(of.UID)})) // all are much
	s.pods, s.told = pods.Items, told(events.Items)
	return s, err
}

// told are the decisions about a MiniCluster as Life.Told has them.
func told(events []eventsv1.Event) []string {
	slices.SortFunc(events, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var told []string
	for _, event := range events {
		switch {
		case event.Action != "Decide" || event.Reason == "Vacated":
		case event.Reason == "Started":
			sizes, _, _ := strings.Cut(event.Note, ";") // the cores of nodes differ
			told = append(told, sizes)
		default:
			told = append(told, event.Reason)
		}
	}
	return told
}

func (s *seen) state() string {
	if s.mc == nil {
		return "gone"
	}
	if ready := meta.FindStatusCondition(s.mc.Status.Conditions, v1alpha2.ConditionReady); ready != nil {
		return ready.Reason
	}
	return "new"
}

func (s *Step) isDue(now *seen) error {
	if s.Ends && slices.Contains([]string{v1alpha2.StateSucceeded, v1alpha2.StateFailed}, now.state()) {
		return nil // on a real node nobody holds it
	}
	if state := now.state(); state != s.State || now.mc.Status.Size != s.Brokers {
		return fmt.Errorf("it is %s, and not %s with %d brokers; it was told to be %q", state, s.State, s.Brokers, now.told)
	}
	if s.Told != "" && now.told[len(now.told)-1] != s.Told {
		return fmt.Errorf("it was told to be %q, and not %s last", now.told, s.Told)
	}
	if held := now.mc.Status.Nodes; s.Brokers == 0 && (held > 0 || len(now.pods) > 0) {
		return fmt.Errorf("it is %s, and holds %d nodes with %d pods", s.State, held, len(now.pods))
	}
	return nil
}

func (s *Step) do(ctx context.Context, c client.Client, mc *v1alpha2.MiniCluster, pods []corev1.Pod) error {
	switch {
	case s.Ends:
		return endCommand(ctx, c, pods)
	case s.Patch == "":
		return c.Delete(ctx, mc)
	}
	return c.Patch(ctx, mc, client.RawPatch(types.MergePatchType, []byte(s.Patch)))
}

// endCommand ends the command of a simulated lead. A real one pays no heed.
func endCommand(ctx context.Context, c client.Client, pods []corev1.Pod) error {
	for i := range pods {
		if rank, isBroker := protocol.Rank(&pods[i]); isBroker && rank == 0 {
			return client.IgnoreNotFound(simulator.Tell(ctx, c, &pods[i], simulator.Runtime, "0s"))
		}
	}
	return nil
}

// check says what is not as it must be at the end.
func (l *Life) check(now *seen) error {
	var wrong []error
	if !slices.Equal(now.told, l.Told) {
		wrong = append(wrong, fmt.Errorf("it was told to be %q, and not %q", now.told, l.Told))
	}
	return errors.Join(append(wrong, l.End.status(now), l.End.left(now.pods))...)
}

func (e *End) status(now *seen) error {
	state := "gone"
	switch e.Reason {
	case "":
	case v1alpha2.ReasonSucceeded:
		state = v1alpha2.StateSucceeded
	default:
		state = v1alpha2.StateFailed
	}
	if now.state() != state {
		return fmt.Errorf("it is %s, and not %s", now.state(), state)
	}
	if e.Reason == "" {
		return nil
	}
	status := now.mc.Status
	if end := meta.FindStatusCondition(status.Conditions, v1alpha2.ConditionFinished); end.Status != metav1.ConditionTrue || end.Reason != e.Reason {
		return fmt.Errorf("it ended with %s: %s; and not with %s", end.Reason, end.Message, e.Reason)
	}
	if !ptr.Equal(status.ExitCode, e.ExitCode) {
		return fmt.Errorf("its exit code is %d, and not %d", ptr.Deref(status.ExitCode, -1), ptr.Deref(e.ExitCode, -1))
	}
	if status.Nodes > 0 || status.Size > 0 {
		return fmt.Errorf("it holds %d nodes, with %d brokers", status.Nodes, status.Size)
	}
	return nil
}

// left checks the pods that are left.
func (e *End) left(pods []corev1.Pod) error {
	want := 0
	if e.Log {
		want = 1
	}
	if len(pods) != want {
		return fmt.Errorf("%d pods are left, and not %d", len(pods), want)
	}
	for i := range pods {
		rank, isBroker := protocol.Rank(&pods[i])
		if code := exitCode(&pods[i]); !isBroker || rank > 0 || pods[i].DeletionTimestamp != nil || !e.isOf(code) {
			return fmt.Errorf("what is left is pod %s, with the exit code %d", pods[i].Name, code)
		}
	}
	return nil
}

// isOf reports whether a lead may have ended with an exit code.
func (e *End) isOf(code int32) bool {
	if e.ExitCode == nil {
		return code > 0
	}
	return code == *e.ExitCode
}

// exitCode is that of a pod's only container; -1 while it has none.
func exitCode(pod *corev1.Pod) int32 {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Terminated != nil {
			return status.State.Terminated.ExitCode
		}
	}
	return -1
}
