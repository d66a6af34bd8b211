// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
)

func newResize(s *access.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "resize NAME SIZE", Short: "Change the number of brokers that a MiniCluster wants",
		Example: "  kubectl minicluster resize lammps 12", ValidArgsFunction: completeNames(s, 1),
		Long: `Change the number of brokers that a MiniCluster wants, as kubectl scale does. A MiniCluster that waits is placed at the
new size. A launcher or an interactive one that runs grows when there is room, and shrinks by draining its last ranks.
For a command that runs and cannot follow, the size counts from the next start, and resize says so (SizeIgnored).`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return access.Usagef("name one MiniCluster and its size")
			}
			return nil
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		size, err := strconv.ParseInt(args[1], 10, 32)
		if err != nil || size < 1 {
			return access.Usagef("size %q: it has to be a whole number of at least 1", args[1])
		}
		c, key, err := find(s, args[0])
		if err != nil {
			return err
		}
		mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, size)
		if err := c.SubResource("scale").Patch(cmd.Context(), mc, client.RawPatch("application/merge-patch+json", []byte(patch)),
			client.WithSubResourceBody(&autoscalingv1.Scale{})); err != nil {
			return err
		}
		if err := say(s, key, fmt.Sprintf("resized to %d", size)); err != nil {
			return err
		}
		return tellSize(cmd.Context(), s, c, key)
	}
	return cmd
}

// tellSize says what the new size does not do. What cannot be read is not worth an error: the size is changed.
func tellSize(ctx context.Context, s *access.Session, c client.Reader, key client.ObjectKey) error {
	mc, err := get(ctx, c, key)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		fmt.Fprintf(s.ErrOut, "What the new size does to %s is not known: %s\n", key.Name, access.Explain(err))
		return nil
	}
	for _, line := range meaningOf(mc) {
		fmt.Fprintln(s.ErrOut, access.PlainLine(line))
	}
	return nil
}

// meaningOf says what a new size does not do to a MiniCluster that runs or has finished: what the manager's events will
// say.
func meaningOf(mc *v1alpha2.MiniCluster) (lines []string) {
	switch {
	case is(mc, v1alpha2.ConditionFinished):
		return []string{mc.Name + " has finished: " + status.Ignored + "."}
	case mc.Status.StartTime == nil || mc.Status.Admission == nil:
		return nil
	}
	for _, event := range status.OtherSize(mc.Spec.Size, &mc.Status, state.Policy(mc)) {
		lines = append(lines, event.Reason+": "+event.Note+".")
	}
	return lines
}

func newSuspend(s *access.Session) *cobra.Command {
	cmd := named(s, "suspend NAME", "Give the nodes of a MiniCluster back, and let it wait until it is resumed",
		"  kubectl minicluster suspend lammps", func(ctx context.Context, c client.WithWatch, key client.ObjectKey) error {
			return patch(ctx, s, c, key, `{"spec":{"suspend":true}}`, "suspended")
		})
	cmd.Aliases = []string{"hold"}
	cmd.Long = cmd.Short + ". A command that runs is ended. It begins anew after a resume."
	return cmd
}

func newResume(s *access.Session) *cobra.Command {
	cmd := named(s, "resume NAME", "Let a suspended MiniCluster go on",
		"  kubectl minicluster resume lammps", func(ctx context.Context, c client.WithWatch, key client.ObjectKey) error {
			return patch(ctx, s, c, key, `{"spec":{"suspend":false}}`, "resumed")
		})
	cmd.Aliases = []string{"release"}
	return cmd
}

// patch changes the spec of a MiniCluster, and says so.
func patch(ctx context.Context, s *access.Session, c client.Client, key client.ObjectKey, patch, done string) error {
	mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := c.Patch(ctx, mc, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		return err
	}
	return say(s, key, done)
}

func newDelete(s *access.Session) *cobra.Command {
	wait := true
	cmd := &cobra.Command{
		Use: "delete NAME...", Aliases: []string{"cancel"}, SuggestFor: []string{"scancel"}, Short: "Delete MiniClusters, their pods and their logs",
		Example: "  kubectl minicluster delete lammps sweep-1 sweep-2", ValidArgsFunction: completeNames(s, 100),
		RunE: func(cmd *cobra.Command, names []string) error {
			if len(names) == 0 {
				return access.Usagef("name a MiniCluster")
			}
			c, err := s.Client()
			if err != nil {
				return err
			}
			for _, name := range names {
				if err := remove(cmd.Context(), s, c, name, wait); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until each is gone")
	return cmd
}

func remove(ctx context.Context, s *access.Session, c client.WithWatch, name string, wait bool) error {
	key, err := keyOf(s, name)
	if err != nil {
		return err
	}
	mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := c.Delete(ctx, mc); err != nil {
		return err
	}
	if wait {
		if err := await(ctx, s, c, key, "deleted", 0); err != nil {
			return err
		}
	}
	return say(s, key, "deleted")
}

// say prints what happened to a MiniCluster, as kubectl does.
func say(s *access.Session, key client.ObjectKey, what string) error {
	_, err := fmt.Fprintf(s.Out, "minicluster.flux-framework.org/%s %s\n", key.Name, what)
	return err
}
