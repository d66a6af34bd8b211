// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-minicluster is for those who run MiniClusters. As a plugin of kubectl on the PATH it runs as:
// kubectl minicluster VERB.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/dashboard"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/experiment"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/timeline"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/top"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/verbs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	ctrllog.SetLogger(klog.NewKlogr())
	code := access.Report(run(ctx, arguments(os.Args[0], os.Args[1:]), access.New(os.Stdin, os.Stdout, os.Stderr)), os.Stderr)
	stop()
	os.Exit(code)
}

// completer is the name under which kubectl runs the program to complete what follows "kubectl minicluster".
const completer = "kubectl_complete-minicluster"

// arguments are those of the program under its name.
func arguments(name string, args []string) []string {
	if filepath.Base(name) == completer {
		return append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	return args
}

func run(ctx context.Context, args []string, s *access.Session) error {
	root := newRoot(s)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return access.Hint(cmd, err)
}

// newRoot returns the command with all verbs.
func newRoot(s *access.Session) *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-minicluster",
		Short:         "Submit MiniClusters, see why they wait, watch them, and change them",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl minicluster"},
		SilenceErrors: true, SilenceUsage: true, // access.Report prints the error
		Args: cobra.ArbitraryArgs,
		RunE: access.NoVerb,
		Example: `  kubectl minicluster submit -N 8-16 --ntasks-per-node=7 --cpu=7 -t 20m --image=lammps -- lmp -in in.lj
  kubectl minicluster list
  kubectl minicluster why lmp-x7k2p`,
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.ErrOut)
	root.SetFlagErrorFunc(access.FlagError)
	s.Flags.AddFlags(root.PersistentFlags())
	root.AddCommand(verbs.New(s, check)...)
	root.AddCommand(experiment.New(s), timeline.New(s), top.New(s, run), dashboard.New(s), newRender(s), newMigrate(s), newOptions())
	s.CompleteFlags(root)
	shareNamespace(s, root)
	hideOptions(root)
	return root
}

// newOptions is the verb that lists the flags that all verbs have.
func newOptions() *cobra.Command {
	return &cobra.Command{
		Use: "options", Short: "List the flags that all verbs have", Args: access.NoArgs,
		Example: "  kubectl minicluster options",
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprint(cmd.OutOrStdout(), "These flags select a cluster, a user and a namespace. All verbs have them:\n\n"+cmd.Root().PersistentFlags().FlagUsages())
		},
	}
}

// hideOptions leaves the flags that all verbs have out of the help of each, except for the namespace. The shell completes
// them nevertheless.
func hideOptions(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Name != "namespace" })
		help(cmd, args)
		fmt.Fprintln(cmd.OutOrStdout(), "\nThe flags that all verbs have: kubectl minicluster options")
	})
}

// shareNamespace gives the flag --namespace of a command and of those below it the letter n, as in kubectl, unless the
// command has another use for the letter: submit has it for tasks, as sbatch and flux submit.
func shareNamespace(s *access.Session, cmd *cobra.Command) {
	if inherited := cmd.PersistentFlags().Lookup("namespace"); inherited != nil {
		inherited.Shorthand = "" // the flags of commands below may not repeat a letter
	}
	if cmd.Flags().ShorthandLookup("n") == nil {
		cmd.Flags().StringVarP(&s.Flags.Context.Namespace, "namespace", "n", "", "namespace; by default that of the kubeconfig")
		access.Complete(cmd, "namespace", s.CompleteNamespaces)
	}
	for _, below := range cmd.Commands() {
		shareNamespace(s, below)
	}
}

// defaultNamespace is the namespace of MiniClusters in files that name none.
const defaultNamespace = "default"

func newRender(s *access.Session) *cobra.Command {
	return &cobra.Command{
		Use: "render FILE...", Short: "Print the objects that the manager makes of MiniClusters in files",
		Example: "  kubectl minicluster render minicluster.yaml",
		Long: `Print the objects that the manager would make for the MiniClusters in the files (- is the standard input), as
YAML, in the order in which it makes them. Render rejects what the API server would reject, and skips documents of
other kinds. It needs no cluster: MiniClusters have no UID, and the CURVE certificate is a placeholder, unless
flux.curveCert or flux.curveCertSecretRef is set.`,
		RunE: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return access.Usagef("render needs a file")
			}
			return renderFiles(files, cmp.Or(s.Flags.Context.Namespace, defaultNamespace), s.In, s.Out)
		},
	}
}

func newMigrate(s *access.Session) *cobra.Command {
	check := false
	cmd := &cobra.Command{
		Use: "migrate --check [FILE...]", Short: "Check MiniClusters of the Flux Operator",
		Example: "  kubectl minicluster migrate --check\n  kubectl minicluster migrate --check minicluster.yaml",
		Long: `Say how the MiniClusters of a cluster that has the Flux Operator work with flux-elastic, and what there is of the
Flux Operator. It changes nothing. With files it says so for the MiniClusters in them, without a cluster. Without
--namespace it reads all namespaces.

The exit code is 0 if there is nothing to do, 1 if there is, and 2 after an error.`,
		RunE: func(cmd *cobra.Command, files []string) error {
			if !check {
				return access.Usagef("migrate can only check: add --check")
			}
			var err error
			if len(files) > 0 {
				err = migrateFiles(files, cmp.Or(s.Flags.Context.Namespace, defaultNamespace), s)
			} else {
				err = migrateCluster(cmd.Context(), s)
			}
			if err != nil && !errors.Is(err, errToDo) {
				return &access.ExitError{Code: access.CodeUsage, Err: err}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "check, and change nothing")
	return cmd
}

// renderFiles writes the objects of all files. If there is an error, it writes nothing.
func renderFiles(files []string, namespace string, stdin io.Reader, stdout io.Writer) error {
	r, err := newRenderer(namespace)
	if err != nil {
		return err
	}
	var errs []error
	var out bytes.Buffer
	for _, file := range files {
		text, err := access.ReadFile(file, stdin)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, r.render(file, text, &out)...)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if out.Len() == 0 {
		return errors.New("there is no MiniCluster")
	}
	_, err = out.WriteTo(stdout)
	return err
}
