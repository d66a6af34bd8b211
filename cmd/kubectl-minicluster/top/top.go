// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package top has the verb top: a live view of MiniClusters, queues and nodes in a terminal.
package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/internal/dashboard"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// New returns the command. run runs the program with other arguments.
func New(s *access.Session, run func(ctx context.Context, args []string, s *access.Session) error) *cobra.Command {
	all, every := false, 2*time.Second
	cmd := &cobra.Command{
		Use: "top", Short: "Watch MiniClusters, queues and nodes live, on the whole screen", Args: access.NoArgs,
		Example: "  kubectl minicluster top\n  kubectl minicluster top -A --interval=5s",
		Long: `Watch MiniClusters, queues and nodes live, on the whole screen of a terminal. Without the right to list queues, nodes or
reservations, the rest is shown.

Keys: q quits, tab changes the list, the arrow keys choose a MiniCluster, / filters, s sorts by another column. For the chosen
MiniCluster: enter shows its status, w why it waits, l the end of its log, and esc or q goes back; d deletes it after a question.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !s.IsTerminal():
				return errors.New("top needs a terminal: kubectl minicluster list prints the MiniClusters once")
			case every < time.Second:
				return access.Usagef("--interval=%s: it has to be at least 1s", every)
			}
			r := &reader{Session: s, all: all}
			if err := r.open(); err != nil {
				return err
			}
			first, err := r.read(cmd.Context())
			if err != nil {
				return err
			}
			p := &program{reader: r, every: every, scene: first, screen: screen{colorless: !s.HasColors()}, run: run}
			p.flags = given(cmd.InheritedFlags())
			_, err = tea.NewProgram(p, tea.WithContext(cmd.Context()), tea.WithInput(s.In), tea.WithOutput(s.Raw.Out)).Run()
			if errors.Is(err, tea.ErrProgramKilled) && cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "those of all namespaces")
	cmd.Flags().DurationVar(&every, "interval", every, "time between two looks")
	return cmd
}

// given are the flags that the user gave, as arguments.
func given(flags *pflag.FlagSet) (args []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, isList := f.Value.(pflag.SliceValue); isList {
			values = list.GetSlice()
		}
		for _, value := range values {
			if f.Changed {
				args = append(args, "--"+f.Name+"="+value)
			}
		}
	})
	return args
}

// reader reads the scene from the API server.
type reader struct {
	*access.Session
	all       bool
	client    client.Client
	namespace string
}

func (r *reader) open() (err error) {
	if r.namespace, err = r.Among(r.all); err != nil {
		return err
	}
	r.client, err = r.Client()
	return err
}

// read reads the scene. Without MiniClusters there is nothing to show, so that right is needed; the others are not.
func (r *reader) read(ctx context.Context) (*scene, error) {
	var miniClusters v1alpha2.MiniClusterList
	if err := r.client.List(ctx, &miniClusters, client.InNamespace(r.namespace)); err != nil {
		return nil, err
	}
	c := &scene{namespace: r.namespace, limits: map[string]time.Duration{}, now: r.Clock.Now()}
	var queues v1alpha2.MiniClusterQueueList
	var reservations v1alpha2.MiniClusterReservationList
	var nodes corev1.NodeList
	var pods corev1.PodList
	for _, part := range []struct {
		name    string
		list    client.ObjectList
		options []client.ListOption
	}{
		{"queues", &queues, nil}, {"reservations", &reservations, nil}, {"nodes", &nodes, nil},
		{"pods", &pods, []client.ListOption{client.InNamespace(r.namespace), client.HasLabels{v1alpha2.MiniClusterLabel}}},
	} {
		switch err := r.client.List(ctx, part.list, part.options...); {
		case apierrors.IsForbidden(err):
			c.missing = append(c.missing, part.name)
		case err != nil:
			return nil, fmt.Errorf("listing %s: %w", part.name, err)
		}
	}
	for i := range miniClusters.Items {
		mc := &miniClusters.Items[i]
		if limit := access.Limit(mc); limit > 0 {
			c.limits[mc.Namespace+"/"+mc.Name] = limit
		}
	}
	c.view = dashboard.New(&dashboard.Objects{
		Nodes: nodes.Items, Pods: pods.Items, MiniClusters: miniClusters.Items, Queues: queues.Items, Reservations: reservations.Items,
		Levels: state.TopologyLevels, Batch: labels.Everything(),
	})
	return c, nil
}

// program is the screen and what it shows, as bubbletea runs it.
type program struct {
	*reader
	every time.Duration
	screen
	scene *scene
	err   error
	// run runs a verb, with flags that select the cluster and user of this one.
	run   func(ctx context.Context, args []string, s *access.Session) error
	flags []string
}

// looked is what a look at the API server found.
type looked struct {
	scene *scene
	err   error
}

// told is what a verb printed.
type told struct {
	of   page
	text string
}

// arguments of verbs, after the name of the MiniCluster.
var arguments = map[string][]string{"logs": {"--tail=500"}, "delete": {"--wait=false"}}

// tell runs the verb of a page.
func (p *program) tell(of page) tea.Cmd {
	namespace, name, _ := strings.Cut(of.id, "/")
	args := slices.Concat([]string{of.verb, name}, arguments[of.verb], p.flags, []string{"--namespace=" + namespace})
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		var out strings.Builder
		access.Report(p.run(ctx, args, access.New(strings.NewReader(""), &out, &out)), &out)
		return told{of, out.String()}
	}
}

// Init begins to look.
func (p *program) Init() tea.Cmd { return p.look }

// look waits, and reads the scene.
func (p *program) look() tea.Msg {
	<-p.Clock.After(p.every)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	scene, err := p.read(ctx)
	return looked{scene, err}
}

// Update takes a key, a size or a scene.
func (p *program) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		p.width, p.height = message.Width, message.Height
	case looked:
		if p.err = message.err; p.err == nil {
			p.scene = message.scene
		}
		p.spare(p.scene)
		return p, p.look
	case told:
		p.show(message.of, message.text)
	case tea.KeyPressMsg:
		switch do := p.key(message.String()); do.verb {
		case "":
		case quit:
			return p, tea.Quit
		default:
			tell := p.tell(do)
			return p, tell
		}
	}
	return p, nil
}

// View draws the screen.
func (p *program) View() tea.View {
	view := tea.NewView("")
	view.AltScreen = true
	if p.width == 0 {
		return view
	}
	view.Content = p.draw(p.scene)
	if p.err != nil && p.says() == "" { // what was seen last stays
		lines := strings.Split(view.Content, "\n")
		lines[len(lines)-1] = bad.Render(access.PlainLine("The API server did not answer: " + access.Explain(p.err)))
		view.Content = strings.Join(lines, "\n")
	}
	return view
}
