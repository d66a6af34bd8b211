// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command release makes what a release consists of. The same checkout, image and version give the same
// bytes.
//
//	go -C hack/release run . manifests --image=REGISTRY/flux-elastic --version=v0.1.0
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/flux-elastic/flux-elastic/hack/release/chart"
	"github.com/flux-elastic/flux-elastic/hack/release/images"
	"github.com/flux-elastic/flux-elastic/hack/release/manifests"
	"github.com/flux-elastic/flux-elastic/hack/release/wheel"
)

// options are those of all subcommands.
type options struct {
	root      string
	out       string
	image     string
	version   string
	platforms string
	url       string
}

// commands are the subcommands.
var commands = map[string]func(context.Context, options) error{
	"chart":     func(_ context.Context, o options) error { return chart.Write(o.root, o.out, o.image, o.version) },
	"image":     writeImage,
	"plugin":    writePlugin,
	"sums":      func(_ context.Context, o options) error { return images.WriteSums(o.out) },
	"manifests": func(_ context.Context, o options) error { return manifests.Write(o.root, o.out, o.image, o.version) },
	"wheel":     func(_ context.Context, o options) error { return wheel.Write(o.root, o.out, o.version) },
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || commands[args[0]] == nil {
		return fmt.Errorf("name a subcommand: %s", strings.Join(slices.Sorted(maps.Keys(commands)), " or "))
	}
	var o options
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	flags.StringVar(&o.root, "root", "../..", "directory of the checkout; the default is for `go -C hack/release run .`")
	flags.StringVar(&o.out, "out", "../../dist", "directory of what is made")
	flags.StringVar(&o.image, "image", "flux-elastic", "name of the manager's image, without a tag")
	flags.StringVar(&o.version, "version", "", "version of the release, and tag of the image")
	flags.StringVar(&o.platforms, "platforms", "linux/amd64,linux/arm64", "platforms of the image, or of the plugin")
	flags.StringVar(&o.url, "url", "https://github.com/flux-elastic/flux-elastic/releases/download/VERSION", "where users get the files of the release; VERSION stands for the version")
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
	return commands[args[0]](ctx, o)
}

func writeImage(ctx context.Context, o options) error {
	source, platforms, err := read(ctx, o)
	if err != nil {
		return err
	}
	name, err := source.WriteImage(ctx, o.image, platforms, o.out)
	if err == nil {
		fmt.Println(name)
	}
	return err
}

func writePlugin(ctx context.Context, o options) error {
	source, platforms, err := read(ctx, o)
	if err != nil {
		return err
	}
	if err := source.WritePlugin(ctx, platforms, o.out); err != nil {
		return err
	}
	return source.WriteKrew(platforms, strings.ReplaceAll(o.url, "VERSION", o.version), o.out)
}

// read returns what programs are made from, and for which platforms.
func read(ctx context.Context, o options) (*images.Source, []images.Platform, error) {
	platforms, err := images.ParsePlatforms(o.platforms)
	if err != nil {
		return nil, nil, fmt.Errorf("--platforms: %w", err)
	}
	source, err := images.FromGit(ctx, o.root, o.version)
	return source, platforms, err
}
