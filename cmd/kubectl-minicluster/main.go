// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-minicluster prints the objects that the controller makes for MiniClusters. It
// needs no cluster. As a plugin of kubectl on the PATH it runs as: kubectl minicluster render FILE.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

const usage = `kubectl-minicluster prints the objects that the controller makes for MiniClusters.

  kubectl minicluster render [-n NAMESPACE] FILE...

render prints the objects that the controller would make for the MiniClusters in
the files (- is the standard input), as YAML, in the order in which it makes them.
render rejects what the API server would reject, and skips documents of other
kinds. It needs no cluster: MiniClusters have no UID, and the CURVE certificate
is a placeholder, unless flux.curveCert is set.

  -n, --namespace NAMESPACE   for MiniClusters without a namespace (default)
  -h, --help                  show this
`

// errUsage is the error of an invalid command line.
var errUsage = errors.New("try kubectl minicluster --help")

func main() {
	os.Exit(status(run(os.Args[1:], os.Stdin, os.Stdout), os.Stderr))
}

// status returns the exit code of a program that ended with an error, and prints the error.
func status(err error, stderr io.Writer) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "kubectl-minicluster:", err)
		return 2
	}
	fmt.Fprintln(stderr, err)
	return 1
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	namespace, words := "default", []string(nil)
	flags := flag.NewFlagSet("kubectl-minicluster", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&namespace, "n", namespace, "")
	flags.StringVar(&namespace, "namespace", namespace, "")
	for rest := args; ; rest = flags.Args()[1:] { // options may follow files
		err := flags.Parse(rest)
		switch {
		case errors.Is(err, flag.ErrHelp):
			_, err = io.WriteString(stdout, usage)
			return err
		case err != nil:
			return fmt.Errorf("%w; %w", err, errUsage)
		}
		if flags.NArg() == 0 {
			break
		}
		words = append(words, flags.Arg(0))
	}
	if len(words) == 0 || words[0] != "render" {
		return fmt.Errorf("unknown command, only render is available; %w", errUsage)
	}
	if len(words) == 1 {
		return fmt.Errorf("render needs a file; %w", errUsage)
	}
	return renderFiles(words[1:], namespace, stdin, stdout)
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
