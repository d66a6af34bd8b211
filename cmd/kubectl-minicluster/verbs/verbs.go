// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package verbs has the verbs of kubectl-minicluster that read and change MiniClusters in a cluster. Each verb needs
// the rights of the roles view or edit in one namespace. Verbs that read queues or nodes say which right they lack.
package verbs

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// New returns the commands. check says what the API server or the manager would refuse of a MiniCluster.
func New(s *access.Session, check func(*v1alpha2.MiniCluster) error) []*cobra.Command {
	return []*cobra.Command{
		newSubmit(s, check), newList(s), newStatus(s), newWhy(s), newQueue(s), newNodes(s),
		newLogs(s), newAttach(s), newExec(s), newShell(s),
		newWait(s), newResize(s), newSuspend(s), newResume(s), newDelete(s), newVersion(s),
	}
}

// named returns a command with one MiniCluster as its argument, whose name the shell completes.
func named(s *access.Session, use, short, example string, run func(ctx context.Context, c client.WithWatch, key client.ObjectKey) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: one, ValidArgsFunction: completeNames(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := find(s, args[0])
			if err != nil {
				return err
			}
			return run(cmd.Context(), c, key)
		},
	}
}

// one is the check of a command with one name.
func one(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return access.Usagef("name a MiniCluster")
	case 1:
		return nil
	}
	return access.Usagef("name one MiniCluster, and not %d", len(args))
}

// takesCommand makes a verb take a command after --, behind so many other words.
func takesCommand(cmd *cobra.Command, words int, example string) {
	before := func(cmd *cobra.Command) error {
		all, at := cmd.Flags().Args(), cmd.ArgsLenAtDash()
		if at < 0 {
			at = len(all)
		}
		if at <= words {
			return nil
		}
		return access.Usagef("%q is before --, and the command follows --: %s", all[words], example)
	}
	cmd.Args = func(cmd *cobra.Command, _ []string) error { return before(cmd) }
	// A flag that the verb does not know may be the command's.
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return cmp.Or(before(cmd), access.FlagError(cmd, err)) })
}

// find returns a client, and the key of a MiniCluster.
func find(s *access.Session, name string) (client.WithWatch, client.ObjectKey, error) {
	key, err := keyOf(s, name)
	if err != nil {
		return nil, key, err
	}
	c, err := s.Client()
	return c, key, err
}

// keyOf returns the key of a MiniCluster. The name may be written as kubectl prints names: mc/NAME.
func keyOf(s *access.Session, name string) (client.ObjectKey, error) {
	namespace, err := s.Namespace()
	if _, after, found := strings.Cut(name, "/"); found {
		name = after
	}
	return client.ObjectKey{Namespace: namespace, Name: name}, err
}

// get reads a MiniCluster, with its defaults.
func get(ctx context.Context, c client.Reader, key client.ObjectKey) (*v1alpha2.MiniCluster, error) {
	mc := &v1alpha2.MiniCluster{}
	if err := c.Get(ctx, key, mc); err != nil {
		return nil, err
	}
	mc.Default()
	return mc, nil
}

// completeNames completes the names of MiniClusters, for at most so many arguments.
func completeNames(s *access.Session, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var list v1alpha2.MiniClusterList
		namespace, err := s.Namespace()
		if err == nil && len(args) < most {
			err = s.List(cmd.Context(), &list, client.InNamespace(namespace))
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names := make([]cobra.Completion, len(list.Items))
		for i := range list.Items {
			names[i] = cobra.CompletionWithDesc(list.Items[i].Name, stateOf(&list.Items[i]))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeQueues completes the names of queues, if the user may list queues.
func completeQueues(s *access.Session) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var list v1alpha2.MiniClusterQueueList
		if err := s.List(cmd.Context(), &list); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []cobra.Completion
		for _, queue := range list.Items {
			names = append(names, cobra.CompletionWithDesc(queue.Name, fmt.Sprintf("%d wait", queue.Status.Pending)))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
