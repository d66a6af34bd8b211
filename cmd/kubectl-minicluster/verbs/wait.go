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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	cmd := named(s, "wait NAME --for=finished", "Wait until a MiniCluster has nodes, runs, has finished or is deleted",
		"  kubectl minicluster wait lammps\n  kubectl minicluster wait lammps --for=running --timeout=10m", func(ctx context.Context, c client.WithWatch, key client.ObjectKey) error {
			if !slices.Contains(goals, goal) {
				return access.Usagef("--for=%s: it has to be one of %s", goal, strings.Join(goals, ", "))
			}
			if err := await(ctx, s, c, key, goal, timeout); err != nil || goal != "deleted" {
				return err
			}
			return say(s, key, "deleted")
		})
	cmd.Long = `Wait until a MiniCluster has nodes (admitted), its command runs (running) or has ended (finished), or the MiniCluster
is gone (deleted). The state and the reason are printed whenever they change, the state that was waited for last.

The exit code of --for=finished is that of the command. It is 1 if the command never ran or its exit code is not known,
and 124 after --timeout. A MiniCluster that is rejected, that never fits the cluster (NeverFits), or that ends before it
reaches the state, ends the wait. Ctrl-C ends the wait, and not the MiniCluster.`
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
	t := &teller{Session: s, state: stateOf(mc)}
	err = follow(ctx, s, c, mc, func(mc *v1alpha2.MiniCluster) (bool, error) {
		done, err := t.look(mc, goal)
		if done && err == nil && goal != "deleted" {
			t.tell(mc)
		}
		return done, err
	}, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		return &access.ExitError{Code: access.CodeTimeout, Err: fmt.Errorf("%s is %s after %s", key.Name, t.state, timeout)}
	}
	t.leave(ctx, key)
	return err
}

// firstLook is how long submit waits for the first state of a MiniCluster.
const firstLook = 3 * time.Second

// tellFirst prints the first state of a new MiniCluster, and why it waits. What cannot be read is not worth an error:
// the MiniCluster is submitted.
func tellFirst(ctx context.Context, s *access.Session, c client.WithWatch, mc *v1alpha2.MiniCluster) error {
	soon, cancel := context.WithTimeoutCause(ctx, firstLook, errTimeout)
	defer cancel()
	t := &teller{Session: s, state: stateNew}
	err := follow(soon, s, c, mc, func(mc *v1alpha2.MiniCluster) (bool, error) {
		t.state = stateOf(mc)
		return t.tell(mc), nil
	},
		client.InNamespace(mc.Namespace), client.MatchingFields{"metadata.name": mc.Name})
	switch {
	case ctx.Err() != nil:
		t.leave(ctx, client.ObjectKeyFromObject(mc))
		return context.Cause(ctx)
	case errors.Is(context.Cause(soon), errTimeout) && !apierrors.IsForbidden(err):
		fmt.Fprintf(s.ErrOut, "No manager has said within %s what becomes of %s. Ask later: kubectl minicluster why %s\n", firstLook, mc.Name, mc.Name)
	case err != nil:
		fmt.Fprintf(s.ErrOut, "What becomes of %s is not known: %s\n", mc.Name, access.Explain(err))
	}
	return nil
}

// teller tells a user who waits for a MiniCluster what happens to the MiniCluster.
type teller struct {
	*access.Session
	state, told string
}

// look reports whether the MiniCluster has reached a goal, and tells what happens before that.
func (t *teller) look(mc *v1alpha2.MiniCluster, goal string) (done bool, err error) {
	t.state = stateOf(mc)
	if done, err = reached(mc, goal); !done && err == nil && goal != "deleted" {
		t.tell(mc)
	}
	return done, err
}

// tell prints the state with its reason, if either has changed. It reports whether there is something to tell: no
// controller has looked at a new MiniCluster, and no scheduler at one that waits without a reason.
func (t *teller) tell(mc *v1alpha2.MiniCluster) bool {
	now := stateOf(mc)
	if reasonOf(mc) == "" && (now == stateNew || now == v1alpha2.StateQueued) {
		return false
	}
	if reason := whyOf(mc); reason != "" && reason != now {
		now += " (" + reason + ")"
	}
	if now != t.told {
		fmt.Fprintln(t.ErrOut, access.PlainLine(headline(mc, now)))
	}
	t.told = now
	return true
}

// leave says what becomes of the MiniCluster, if Ctrl-C has ended the program.
func (t *teller) leave(ctx context.Context, key client.ObjectKey) {
	switch {
	case ctx.Err() == nil, t.state == v1alpha2.StateSucceeded, t.state == v1alpha2.StateFailed:
	case t.state == stateDeleting:
		fmt.Fprintf(t.ErrOut, "%s is %s, and goes away without this program.\n", key.Name, t.state)
	default:
		fmt.Fprintf(t.ErrOut, "%s is %s, and goes on without this program. To see its output: kubectl minicluster attach %s. To end it: kubectl minicluster delete %s\n",
			key.Name, t.state, key.Name, key.Name)
	}
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

// missed is the error of a MiniCluster that has finished before it reached a goal, or that will not start as it is.
func missed(mc *v1alpha2.MiniCluster) error {
	accepted, admitted := condition(mc, v1alpha2.ConditionAccepted), condition(mc, v1alpha2.ConditionAdmitted)
	switch {
	case is(mc, v1alpha2.ConditionFinished):
		return fmt.Errorf("%s has finished: %s", mc.Name, condition(mc, v1alpha2.ConditionFinished).Message)
	case current(mc) && accepted.Status == metav1.ConditionFalse:
		return fmt.Errorf("%s is rejected: %s", mc.Name, accepted.Message)
	case current(mc) && waits(mc) && admitted.Reason == v1alpha2.ReasonNeverFits:
		return fmt.Errorf("%s never fits: %s; it stays in its queue: kubectl minicluster why %s says what would help", mc.Name, admitted.Message, mc.Name)
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
