// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package timeline has the verb timeline of kubectl-minicluster.
package timeline

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/timeline"
)

type options struct {
	*access.Session
	selector, output string
	all              bool
	since            time.Duration
}

// New returns the command.
func New(s *access.Session) *cobra.Command {
	o := &options{Session: s}
	cmd := &cobra.Command{
		Use: "timeline [FILE]", Short: "Draw which node ran what, and what waited",
		Example: "  kubectl minicluster timeline nodes.svg\n  kubectl minicluster timeline -l experiment=many --since 3h -o html nodes.html",
		Long: `Draw which node ran what, and what waited, into a file or to the standard output. The drawing comes from the
statuses and the events of MiniClusters that exist. Events tell the nodes of attempts that ended, and of brokers that
came or left while the command ran. API servers delete events after an hour by default.

The drawing has all nodes, if you may list nodes. Otherwise it has those that the MiniClusters name.`,
		RunE: func(cmd *cobra.Command, files []string) error {
			switch {
			case len(files) > 1:
				return access.Usagef("timeline writes one file")
			case o.output != "svg" && o.output != "html":
				return access.Usagef("timeline has the outputs svg and html, and not %q", o.output)
			case o.since <= 0:
				return access.Usagef("--since has to be more than 0")
			case len(files) == 0 && s.IsTerminal():
				return access.Usagef("name a file for the drawing, or redirect the output")
			}
			return o.run(cmd.Context(), files)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.selector, "selector", "l", "", "draw the MiniClusters with these labels")
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "draw the MiniClusters of all namespaces")
	flags.DurationVar(&o.since, "since", time.Hour, "how far back the drawing begins")
	flags.StringVarP(&o.output, "output", "o", "svg", "svg or html")
	access.Complete(cmd, "output", access.Choices("svg", "html"))
	return cmd
}

func (o *options) run(ctx context.Context, files []string) error {
	objects, err := o.read(ctx)
	if err != nil {
		return err
	}
	now := o.Clock.Now()
	record, unknown := timeline.Of(objects, now.Add(-o.since), now)
	if len(record.Stories) == 0 {
		return fmt.Errorf("there was no MiniCluster in the last %s", o.since)
	}
	if unknown > 0 {
		fmt.Fprintf(o.ErrOut, "attempts whose nodes are not drawn, since their events are gone: %d\n", unknown)
	}
	drawing := record.Plot().File()
	if o.output == "html" {
		drawing = record.Page().HTML()
	}
	if len(files) == 0 {
		_, err = o.Out.Write(drawing)
		return err
	}
	return os.WriteFile(files[0], drawing, 0o644)
}

// read reads what the user may see. Without MiniClusters there is nothing to draw, so that right is needed.
func (o *options) read(ctx context.Context) (*timeline.Objects, error) {
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return nil, access.Usagef("reading the selector: %w", err)
	}
	c, err := o.Client()
	if err != nil {
		return nil, err
	}
	namespace, err := o.Among(o.all)
	if err != nil {
		return nil, err
	}
	var miniClusters v1alpha2.MiniClusterList
	if err := c.List(ctx, &miniClusters, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, err
	}
	objects := &timeline.Objects{MiniClusters: miniClusters.Items, Qualified: o.all}
	var events corev1.EventList
	if err := o.list(ctx, c, &events, "events: ended attempts have no nodes", client.InNamespace(namespace), client.MatchingFields{"involvedObject.kind": "MiniCluster"}); err != nil {
		return nil, err
	}
	objects.Events = events.Items
	nodes := metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := o.list(ctx, c, &nodes, "nodes: the drawing has those that the MiniClusters name"); err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		objects.Nodes = append(objects.Nodes, nodes.Items[i].Name)
	}
	return objects, nil
}

// list reads objects. If the user may not, list says so, and there are none.
func (o *options) list(ctx context.Context, c client.Client, list client.ObjectList, without string, options ...client.ListOption) error {
	err := c.List(ctx, list, options...)
	if apierrors.IsForbidden(err) {
		fmt.Fprintln(o.ErrOut, "you may not list", without)
		return nil
	}
	return err
}
