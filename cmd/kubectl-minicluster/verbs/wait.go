// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// goals are the values of --for.
var goals = []string{"admitted", "running", "finished", "deleted"}

func newWait(s *access.Session) *cobra.Command {
	var goal string
	var timeout time.Duration
	cmd := named(s, "wait NAME --for=finished", "Wait until a MiniCluster has nodes, runs, has finished or is deleted", func(ctx context.Context, c client.WithWatch, key client.ObjectKey) error {
		if !slices.Contains(goals, goal) {
			return access.Usagef("--for=%s: it has to be one of %s", goal, strings.Join(goals, ", "))
		}
		return await(ctx, s, c, key, goal, timeout)
	})
	cmd.Long = `Wait until a MiniCluster has nodes (admitted), its command runs (running) or has ended (finished), or the MiniCluster
is gone (deleted).

The exit code of --for=finished is that of the command. It is 1 if the command never ran or its exit code is not known,
and 124 after --timeout. A MiniCluster that is rejected, or that ends before it reaches the state, ends the wait.`
	cmd.Flags().StringVar(&goal, "for", "finished", strings.Join(goals, ", "))
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "longest wait; 0: no limit")
	access.Complete(cmd, "for", access.Choices(goals...))
	return cmd
}

// errTimeout is the cause of the end of a wait that took too long.
var errTimeout = errors.New("timeout")

// await waits until a MiniCluster has reached a goal. A timeout of 0 is none.
func await(ctx context.Context, s *access.Session, c client.WithWatch, key client.ObjectKey, goal string, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	mc, err := get(ctx, c, key)
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		return &access.ExitError{Code: access.CodeTimeout, Err: fmt.Errorf("the API server did not answer within %s", timeout)}
	}
	if err != nil && (goal != "deleted" || client.IgnoreNotFound(err) != nil) {
		return err
	} else if err != nil {
		return nil
	}
	last := stateOf(mc)
	err = follow(ctx, s, c, mc, func(mc *v1alpha2.MiniCluster) (bool, error) {
		last = stateOf(mc)
		return reached(mc, goal)
	}, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		return &access.ExitError{Code: access.CodeTimeout, Err: fmt.Errorf("%s is %s after %s", key.Name, last, timeout)}
	}
	return err
}

// reached reports whether a MiniCluster has reached a goal. It returns an error if the goal will not be reached, and for
// the goal finished also if the command did not succeed.
func reached(mc *v1alpha2.MiniCluster, goal string) (bool, error) {
	switch {
	case mc.DeletionTimestamp != nil && goal == "deleted":
		return isGone(mc), nil
	case mc.DeletionTimestamp != nil:
		return false, fmt.Errorf("%s was deleted", mc.Name)
	case goal == "deleted":
		return false, nil
	case goal == "admitted" && (is(mc, v1alpha2.ConditionAdmitted) || mc.Status.StartTime != nil),
		goal == "running" && is(mc, v1alpha2.ConditionReady):
		return true, nil
	case goal == "finished" && is(mc, v1alpha2.ConditionFinished):
		return true, outcome(mc)
	}
	return false, missed(mc)
}

// missed is the error of a MiniCluster that has finished, or that is rejected, before it reached a goal.
func missed(mc *v1alpha2.MiniCluster) error {
	switch accepted := condition(mc, v1alpha2.ConditionAccepted); {
	case is(mc, v1alpha2.ConditionFinished):
		return fmt.Errorf("%s has finished: %s", mc.Name, condition(mc, v1alpha2.ConditionFinished).Message)
	case current(mc) && accepted.Status == metav1.ConditionFalse:
		return fmt.Errorf("%s is rejected: %s", mc.Name, accepted.Message)
	}
	return nil
}

// current reports whether the status belongs to the spec.
func current(mc *v1alpha2.MiniCluster) bool { return mc.Status.ObservedGeneration == mc.Generation }

// outcome is the error of a MiniCluster that has finished: it has the exit code of the command. It is nil after a
// success.
func outcome(mc *v1alpha2.MiniCluster) error {
	finished := condition(mc, v1alpha2.ConditionFinished)
	if finished.Reason == v1alpha2.ReasonSucceeded {
		return nil
	}
	code := access.CodeFailed
	if mc.Status.ExitCode != nil && *mc.Status.ExitCode != 0 {
		code = int(*mc.Status.ExitCode)
	}
	return &access.ExitError{Code: code, Err: fmt.Errorf("%s: %s", mc.Name, finished.Message)}
}
