// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

// Flags select a cluster, a user and a namespace, as those of kubectl. The flags of k8s.io/cli-runtime (genericclioptions) come
// with kustomize, and nearly double the size of the program.
type Flags struct {
	// KubeConfig is the path of a kubeconfig; "" is for those of KUBECONFIG, or else that of the home directory.
	KubeConfig string
	clientcmd.ConfigOverrides
}

// AddFlags adds the flags to a set.
func (f *Flags) AddFlags(set *pflag.FlagSet) {
	set.StringVar(&f.KubeConfig, "kubeconfig", "", "Path to the kubeconfig file to use for CLI requests.")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.AuthOverrideFlags.Username.LongName, names.AuthOverrideFlags.Password.LongName = "", "" // as kubectl has none
	clientcmd.BindOverrideFlags(&f.ConfigOverrides, set, names)
}

// Load reads what the flags select.
func (f *Flags) Load() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.KubeConfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.ConfigOverrides)
}
