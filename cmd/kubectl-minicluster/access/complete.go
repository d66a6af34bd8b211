// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Complete sets how the shell completes the values of a flag that a command has.
func Complete(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err) // the command has no such flag, or it is completed in another way
	}
}

// Choices completes one of a few words.
func Choices(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// CompleteNamespaces completes the names of namespaces, if the user may list them.
func (s *Session) CompleteNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list corev1.NamespaceList
	if err := s.List(cmd.Context(), &list); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeConfig completes the names that a kubeconfig has.
func completeConfig[V any](s *Session, of func(clientcmdapi.Config) map[string]V) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		config, err := s.Flags.Load().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return slices.Sorted(maps.Keys(of(config))), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFlags sets how the shell completes the flags that select a cluster, a user and a namespace.
func (s *Session) CompleteFlags(cmd *cobra.Command) {
	Complete(cmd, "namespace", s.CompleteNamespaces)
	Complete(cmd, "context", completeConfig(s, func(c clientcmdapi.Config) map[string]*clientcmdapi.Context { return c.Contexts }))
	Complete(cmd, "cluster", completeConfig(s, func(c clientcmdapi.Config) map[string]*clientcmdapi.Cluster { return c.Clusters }))
	Complete(cmd, "user", completeConfig(s, func(c clientcmdapi.Config) map[string]*clientcmdapi.AuthInfo { return c.AuthInfos }))
}
