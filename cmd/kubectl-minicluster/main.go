// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-minicluster prints the objects that the controller makes for MiniClusters. It
// needs no cluster. As a plugin of kubectl on the PATH it runs as: kubectl minicluster render FILE.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/flux-elastic/flux-elastic/internal/version"
)

const usage = `kubectl-minicluster prints what the controller makes of MiniClusters, and checks MiniClusters of
the Flux Operator.

  kubectl minicluster render [-n NAMESPACE] FILE...

render prints the objects that the controller would make for the MiniClusters in
the files (- is the standard input), as YAML, in the order in which it makes them.
render rejects what the API server would reject, and skips documents of other
kinds. It needs no cluster: MiniClusters have no UID, and the CURVE certificate
is a placeholder, unless flux.curveCert or flux.curveCertSecretRef is set.

  kubectl minicluster migrate --check [-n NAMESPACE] [FILE...]

migrate --check says how the MiniClusters of a cluster that has the Flux Operator
work with flux-elastic, and what there is of the Flux Operator. It changes
nothing. With files it says so for the MiniClusters in them, without a cluster.
The exit code is 0 if there is nothing to do, 1 if there is, and 2 after an error.

  kubectl minicluster version

version prints the version of this program.

  -n, --namespace NAMESPACE   for MiniClusters without a namespace (default); of
                              the MiniClusters of a cluster (all namespaces)
      --kubeconfig FILE       of the cluster (as kubectl)
      --context NAME          of the kubeconfig (its current one)
  -h, --help                  show this
`

// errUsage is the error of an invalid command line.
var errUsage = errors.New("try kubectl minicluster --help")

// errCommand is the error of a command that does not exist.
var errCommand = fmt.Errorf("unknown command: there are render, migrate and version; %w", errUsage)

// checkError is an error that prevents a check.
type checkError struct{ error }

func main() {
	os.Exit(status(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout), os.Stderr))
}

// status returns the exit code of a program that ended with an error, and prints the error.
func status(err error, stderr io.Writer) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "kubectl-minicluster:", err)
		return 2
	case errors.As(err, new(*checkError)):
		fmt.Fprintln(stderr, err)
		return 2
	}
	fmt.Fprintln(stderr, err)
	return 1
}

// flags are the options of a command line.
type flags struct {
	namespace   string
	kubeconfig  string
	kubeContext string
	check       bool
}

// parse returns the words of a command line that are no options. Options may follow words.
func (f *flags) parse(args []string) (words []string, err error) {
	set := flag.NewFlagSet("kubectl-minicluster", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&f.namespace, "n", "", "")
	set.StringVar(&f.namespace, "namespace", "", "")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "")
	set.StringVar(&f.kubeContext, "context", "", "")
	set.BoolVar(&f.check, "check", false, "")
	for rest := args; ; rest = set.Args()[1:] {
		if err := set.Parse(rest); err != nil {
			return nil, err
		}
		if set.NArg() == 0 {
			return words, nil
		}
		words = append(words, set.Arg(0))
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	var f flags
	words, err := f.parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = io.WriteString(stdout, usage)
		return err
	case err != nil:
		return fmt.Errorf("%w; %w", err, errUsage)
	case len(words) == 0:
		return errCommand
	}
	switch files := words[1:]; words[0] {
	case "render":
		if len(files) == 0 {
			return fmt.Errorf("render needs a file; %w", errUsage)
		}
		return renderFiles(files, cmp.Or(f.namespace, defaultNamespace), stdin, stdout)
	case "migrate":
		return migrate(ctx, f, files, stdin, stdout)
	case "version":
		_, err = fmt.Fprintln(stdout, version.String())
		return err
	}
	return errCommand
}

// defaultNamespace is the namespace of MiniClusters in files that name none.
const defaultNamespace = "default"

func migrate(ctx context.Context, f flags, files []string, stdin io.Reader, stdout io.Writer) error {
	if !f.check {
		return fmt.Errorf("migrate can only check: add --check; %w", errUsage)
	}
	var err error
	if len(files) > 0 {
		err = migrateFiles(files, cmp.Or(f.namespace, defaultNamespace), stdin, stdout)
	} else {
		err = migrateCluster(ctx, f, stdout)
	}
	if err != nil && !errors.Is(err, errToDo) {
		return &checkError{err}
	}
	return err
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
		text, err := read(file, stdin)
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

func read(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file)
}
