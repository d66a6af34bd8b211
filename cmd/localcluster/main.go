// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command localcluster runs Kubernetes with simulated nodes on this machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"

	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/flux-elastic/flux-elastic/internal/localcluster"
	"github.com/flux-elastic/flux-elastic/internal/simulator"
)

const usage = `localcluster runs Kubernetes with simulated nodes on this machine.

  localcluster build     build what is missing of the control plane
  localcluster up        start a cluster
  localcluster down      end it, and all that was started with it
  localcluster status    show what runs
  localcluster install   install the MiniCluster API
  localcluster demo      run the examples on a cluster of their own, live
  localcluster clog      run many gangs at once on one, and tell where the time goes
  localcluster simulate  play Flux in the pods of MiniClusters (up starts it)

Each takes --help.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, []string) error{
		"build": build, "up": up, "down": down, "status": status, "install": install, "simulate": simulate, "demo": demo, "clog": clogging,
	}
	if len(args) == 0 {
		args = []string{"help"}
	}
	switch command, ok := commands[args[0]]; {
	case ok:
		return command(ctx, args[1:])
	case strings.TrimLeft(args[0], "-") == "help", args[0] == "-h":
		fmt.Print(usage)
		return nil
	}
	return fmt.Errorf("there is no command %q; try localcluster help", args[0])
}

func build(ctx context.Context, args []string) error {
	if err := newFlags("build").Parse(args); err != nil {
		return err
	}
	_, err := ensureBinaries(ctx)
	return err
}

func ensureBinaries(ctx context.Context) (localcluster.Binaries, error) {
	root, err := localcluster.Root()
	if err != nil {
		return nil, err
	}
	return localcluster.EnsureBinaries(ctx, localcluster.ModuleDir(root), newBuildDisplay(os.Stdout))
}

func up(ctx context.Context, args []string) error {
	config := localcluster.Config{}
	flags := newFlags("up")
	clusterFlags(flags, &config)
	if err := flags.Parse(args); err != nil {
		return err
	}
	cluster, binaries, err := startCluster(ctx, config)
	if err != nil {
		return err
	}
	if err := startSimulator(cluster); err != nil {
		return err
	}
	fmt.Printf("\nUp: %d nodes at %s\n\n  export KUBECONFIG=%s\n  export PATH=%s:$PATH   # kubectl\n  make run                # the controller, in the foreground\n",
		config.Nodes.Count, cluster.URL(), cluster.Kubeconfig(), filepath.Dir(binaries["kubectl"]))
	return nil
}

// startCluster starts a cluster; what is missing of it is built first.
func startCluster(ctx context.Context, config localcluster.Config) (*localcluster.Cluster, localcluster.Binaries, error) {
	binaries, err := ensureBinaries(ctx)
	if err != nil {
		return nil, nil, err
	}
	if config.Dir, err = filepath.Abs(config.Dir); err != nil {
		return nil, nil, err
	}
	cluster, err := localcluster.Up(ctx, config, binaries, say)
	return cluster, binaries, err
}

func install(ctx context.Context, args []string) error {
	flags := newFlags("install")
	dir := dirFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	cluster, err := localcluster.Open(*dir)
	if err != nil {
		return err
	}
	root, err := localcluster.Root()
	if err != nil {
		return err
	}
	_, err = installAPI(ctx, cluster, root)
	return err
}

// startSimulator runs this program's own simulate beside the cluster.
func startSimulator(cluster *localcluster.Cluster) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return cluster.Run("simulator", self, "simulate", "--kubeconfig="+cluster.Kubeconfig())
}

func simulate(ctx context.Context, args []string) error {
	flags := newFlags("simulate")
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the cluster")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctrl.SetLogger(zap.New())
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	return simulator.Run(ctx, config)
}

func down(ctx context.Context, args []string) error {
	flags := newFlags("down")
	dir := dirFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	return localcluster.Down(ctx, *dir)
}

func status(ctx context.Context, args []string) error {
	flags := newFlags("status")
	dir := dirFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := localcluster.GetStatus(ctx, *dir)
	if err != nil {
		return err
	}
	fmt.Printf("Kubernetes %s at %s\n%d of %d nodes ready, %d pods\n\n", s.Version, s.Cluster.URL(), s.Ready, s.Nodes, s.Pods)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROCESS\tPID\tSTATE\tLOG")
	for _, p := range s.Processes {
		state := "running"
		if !p.Alive {
			state = "ended"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", p.Name, p.PID, state, p.Log)
	}
	return w.Flush()
}

func newFlags(command string) *flag.FlagSet {
	return flag.NewFlagSet("localcluster "+command, flag.ContinueOnError)
}

func dirFlag(flags *flag.FlagSet) *string {
	return flags.String("dir", ".local", "directory of the cluster")
}

func clusterFlags(flags *flag.FlagSet, config *localcluster.Config) {
	flags.StringVar(&config.Dir, "dir", ".local", "directory of the cluster")
	flags.IntVar(&config.Port, "port", localcluster.DefaultPort, "first of its ports")
	flags.IntVar(&config.Nodes.Count, "nodes", 149, "simulated nodes")
	flags.StringVar(&config.Nodes.CPU, "node-cpu", "8", "CPUs of a node")
	flags.StringVar(&config.Nodes.Memory, "node-memory", "32Gi", "memory of a node")
	flags.IntVar(&config.Nodes.Pods, "node-pods", 110, "pods that a node can hold")
}

func say(line string) { fmt.Println(line) }
