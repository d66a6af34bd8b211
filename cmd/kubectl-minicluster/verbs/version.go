// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/version"
)

// versions are those of this program and of what it talks to.
type versions struct {
	Client     string          `json:"client"`
	Manager    *managerVersion `json:"manager,omitempty"`
	Kubernetes string          `json:"kubernetes,omitempty"`
}

// managerVersion is what the Lease of the leader says.
type managerVersion struct {
	Version string `json:"version"`
	// Holder is the manager that leads; "" if none does. Seen is when it last said so.
	Holder string    `json:"holder,omitempty"`
	Seen   time.Time `json:"seen,omitzero"`
}

func newVersion(s *access.Session) *cobra.Command {
	format, namespace, alone := "", "", false
	cmd := &cobra.Command{
		Use: "version", Short: "Print the versions of this program, of the manager and of Kubernetes", Args: access.NoArgs,
		Example: "  kubectl minicluster version\n  kubectl minicluster version --client",
		Long: `Print the versions of this program, of the manager and of Kubernetes. The version of the manager is a label of its Lease,
which all users may get. A manager without --leader-elect has no Lease.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versions{Client: version.String()}
			var err error
			if !alone {
				err = v.ask(cmd.Context(), s, namespace)
			}
			return errors.Join(v.print(s, format), err)
		},
	}
	output(cmd, &format, "table", "json", "yaml")
	cmd.Flags().BoolVar(&alone, "client", false, "the version of this program alone, without a cluster")
	cmd.Flags().StringVar(&namespace, "manager-namespace", access.ManagerNamespace, "namespace of the manager")
	return cmd
}

// ask asks the cluster for its versions. What it does not say is missing, and an error.
func (v *versions) ask(ctx context.Context, s *access.Session, namespace string) error {
	clientset, err := s.Clientset()
	if err != nil {
		return err
	}
	server, err := clientset.ServerVersion()
	if err != nil {
		return err
	}
	v.Kubernetes = server.GitVersion
	c, err := s.Client()
	if err != nil {
		return err
	}
	lease := &coordinationv1.Lease{}
	err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: version.ManagerLease}, lease)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the manager is not known: namespace %s has no Lease %s; --manager-namespace names another namespace", namespace, version.ManagerLease)
	case err != nil:
		return fmt.Errorf("the manager is not known: %w", err)
	}
	v.Manager = managerOf(lease)
	return nil
}

func managerOf(lease *coordinationv1.Lease) *managerVersion {
	m := &managerVersion{Version: cmp.Or(lease.Labels[version.LeaseLabel], "unknown")}
	m.Holder, _, _ = strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_") // its host name, and a UUID
	if renewed := lease.Spec.RenewTime; renewed != nil {
		m.Seen = renewed.Time
	}
	return m
}

// silence is after how long without a sign a manager counts as gone: no leader is silent for so long.
const silence = time.Minute

// state says whether a manager leads.
func (m *managerVersion) state(now time.Time) string {
	switch ago := now.Sub(m.Seen); {
	case m.Seen.IsZero():
		return "no manager leads"
	case m.Holder == "" || ago > silence:
		return "no manager leads: the last one was seen " + duration.HumanDuration(ago) + " ago"
	}
	return m.Holder + " leads"
}

func (v *versions) print(s *access.Session, format string) error {
	if format != "table" {
		return printValue(s.Out, format, v)
	}
	t := s.NewTable()
	t.Row("client", v.Client)
	if m := v.Manager; m != nil {
		t.Row("manager", m.Version+" ("+m.state(s.Clock.Now())+")")
	}
	if v.Kubernetes != "" {
		t.Row("Kubernetes", v.Kubernetes)
	}
	return t.Flush()
}
