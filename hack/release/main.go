// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command release makes what a release consists of. The same checkout, image and version give the same
// bytes.
//
//	go -C hack/release run . manifests --image=REGISTRY/flux-elastic --version=v0.1.0
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/flux-elastic/flux-elastic/hack/release/chart"
	"github.com/flux-elastic/flux-elastic/hack/release/manifests"
)

// options are those of all subcommands.
type options struct {
	root    string
	out     string
	image   string
	version string
}

// commands are the subcommands.
var commands = map[string]func(options) error{
	"chart":     func(o options) error { return chart.Write(o.root, o.out, o.image, o.version) },
	"manifests": func(o options) error { return manifests.Write(o.root, o.out, o.image, o.version) },
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || commands[args[0]] == nil {
		return fmt.Errorf("name a subcommand: %s", strings.Join(slices.Sorted(maps.Keys(commands)), " or "))
	}
	var o options
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	flags.StringVar(&o.root, "root", "../..", "directory of the checkout; the default is for `go -C hack/release run .`")
	flags.StringVar(&o.out, "out", "../../dist", "directory of what is made")
	flags.StringVar(&o.image, "image", "flux-elastic", "name of the manager's image, without a tag")
	flags.StringVar(&o.version, "version", "", "version of the release, and tag of the image")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unknown arguments %q", flags.Args())
	case o.version == "":
		return fmt.Errorf("--version is missing")
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	return commands[args[0]](o)
}
