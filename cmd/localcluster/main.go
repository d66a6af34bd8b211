// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Command localcluster runs Kubernetes with simulated or real nodes on this machine.
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

	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/dev/localcluster/image"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

const usage = `localcluster runs Kubernetes with simulated or real nodes on this machine.

  localcluster build     build the missing programs of the control plane
  localcluster up        start a cluster, with simulated nodes or real ones
  localcluster down      end the cluster and all programs that were started with it
  localcluster status    list the processes and their states
  localcluster images    make the images of real nodes
  localcluster fault     kill, stop or start a process, or disconnect or connect a real node
  localcluster install   install the MiniCluster API
  localcluster demo      run the examples on a cluster of their own, live
  localcluster clog      run many gangs at once, and print where the time goes
  localcluster bench     run schedulers of gangs beside each other, and compare them
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
		"build": build, "images": images, "up": up, "fault": fault, "down": down, "status": status, "install": install, "simulate": simulate, "demo": demo, "clog": clogging, "bench": benchmark,
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
	flags := newFlags("build")
	mode, kueue, autoscaler := modeFlag(flags), kueueFlag(flags), autoscalerFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	var parts []localcluster.Part
	if localcluster.Mode(*mode) == localcluster.Real {
		parts = append(parts, localcluster.RealNodes)
	}
	if *kueue {
		parts = append(parts, localcluster.Kueue)
	}
	if *autoscaler != "" {
		parts = append(parts, localcluster.Karpenter)
	}
	_, err := ensureBinaries(ctx, parts...)
	return err
}

func ensureBinaries(ctx context.Context, parts ...localcluster.Part) (localcluster.Binaries, error) {
	root, err := localcluster.Root()
	if err != nil {
		return nil, err
	}
	return localcluster.EnsureBinaries(ctx, localcluster.ModuleDir(root), newBuildDisplay(os.Stdout), parts...)
}

func up(ctx context.Context, args []string) error {
	config := localcluster.Config{}
	flags := newFlags("up")
	clusterFlags(flags, &config)
	mode, mpi, kueue, autoscaler := modeFlag(flags), mpiFlag(flags), kueueFlag(flags), autoscalerFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *kueue {
		config.Kueue = &localcluster.KueueConfig{}
	}
	if *autoscaler != "" {
		config.Karpenter = &localcluster.KarpenterConfig{}
	}
	if localcluster.Mode(*mode) == localcluster.Kind {
		return upKind(ctx, config)
	}
	cluster, binaries, err := startNodes(ctx, localcluster.Mode(*mode), config, *mpi)
	if err != nil {
		return err
	}
	sayUp(cluster, binaries, config.Nodes.Count)
	return nil
}

// startNodes starts a cluster with simulated or real nodes. For real nodes it first makes images
// that are missing.
func startNodes(ctx context.Context, mode localcluster.Mode, config localcluster.Config, mpi bool) (*localcluster.Cluster, localcluster.Binaries, error) {
	switch mode {
	case localcluster.Simulated:
		return startSimulated(ctx, config)
	case localcluster.Real:
		return startReal(ctx, config, mpi)
	}
	return nil, nil, fmt.Errorf("there is no mode %q: simulated, real or kind", mode)
}

func startSimulated(ctx context.Context, config localcluster.Config) (*localcluster.Cluster, localcluster.Binaries, error) {
	cluster, binaries, err := startCluster(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	if err := startSimulator(cluster); err != nil {
		return nil, nil, errors.Join(err, localcluster.Down(context.WithoutCancel(ctx), cluster.Dir))
	}
	return cluster, binaries, nil
}

func startReal(ctx context.Context, config localcluster.Config, mpi bool) (*localcluster.Cluster, localcluster.Binaries, error) {
	if err := localcluster.CheckReal(image.Commands); err != nil {
		return nil, nil, err
	}
	archives, err := makeImages(ctx, config.Dir, mpi)
	if err != nil {
		return nil, nil, err
	}
	config.Real = localcluster.RealConfig{Count: config.Nodes.Count, Images: archives}
	config.Nodes.Count = 0
	return startCluster(ctx, config)
}

func upKind(ctx context.Context, config localcluster.Config) error {
	if config.Kueue != nil {
		return errors.New("a cluster of mode kind runs no Kueue: install Kueue in the cluster")
	}
	if config.Karpenter != nil {
		return errors.New("a cluster of mode kind does not scale: its nodes are containers")
	}
	root, err := localcluster.Root()
	if err != nil {
		return err
	}
	kubeconfig, err := localcluster.UpKind(ctx, config.Dir, config.Nodes.Count)
	if err != nil {
		return err
	}
	if _, err := installAPI(ctx, config.Dir, root); err != nil {
		return err
	}
	fmt.Printf("\nUp: a kind cluster with %d workers\n\n  export KUBECONFIG=%s\n", config.Nodes.Count, kubeconfig)
	return nil
}

func sayUp(cluster *localcluster.Cluster, binaries localcluster.Binaries, nodes int) {
	fmt.Printf("\nUp: %d nodes at %s\n\n  export KUBECONFIG=%s\n  export PATH=%s:$PATH   # kubectl\n  make run                # the controller, in the foreground\n",
		nodes, cluster.URL(), cluster.Kubeconfig(), filepath.Dir(binaries["kubectl"]))
}

// startCluster starts a cluster. It first builds programs that are missing.
func startCluster(ctx context.Context, config localcluster.Config) (*localcluster.Cluster, localcluster.Binaries, error) {
	binaries, err := ensureBinaries(ctx, config.Parts()...)
	if err != nil {
		return nil, nil, err
	}
	if config.Dir, err = filepath.Abs(config.Dir); err != nil {
		return nil, nil, err
	}
	cluster, err := localcluster.Up(ctx, config, binaries, say)
	return cluster, binaries, err
}

func images(ctx context.Context, args []string) error {
	flags := newFlags("images")
	dir, mpi := dirFlag(flags), mpiFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	archives, err := makeImages(ctx, *dir, *mpi)
	if err == nil {
		fmt.Println(strings.Join(archives, "\n"))
	}
	return err
}

// makeImages makes the images of real nodes, and returns the paths of their archives.
func makeImages(ctx context.Context, dir string, mpi bool) (archives []string, err error) {
	root, err := localcluster.Root()
	if err != nil {
		return nil, err
	}
	cache, err := localcluster.CacheDir()
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	say("making images")
	return image.Build(ctx, root, cache, dir, mpi)
}

// fault kills, stops, suspends, resumes or starts a process of a running cluster, or disconnects or
// connects a real node.
func fault(ctx context.Context, args []string) error {
	flags := newFlags("fault [--dir=DIR] kill|stop|suspend|resume|start|disconnect|connect NAME")
	dir := dirFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := localcluster.Find(*dir)
	if err != nil {
		return err
	}
	does := map[string]func(context.Context, string) error{
		"kill": c.Kill, "stop": c.Stop, "start": c.Start, "disconnect": c.Disconnect, "connect": c.Connect,
		"suspend": func(_ context.Context, name string) error { return c.Suspend(name) },
		"resume":  func(_ context.Context, name string) error { return c.Resume(name) },
	}
	do, ok := does[flags.Arg(0)]
	if !ok || flags.NArg() != 2 {
		return fmt.Errorf("usage: %s", flags.Name())
	}
	return do(ctx, flags.Arg(1))
}

func install(ctx context.Context, args []string) error {
	flags := newFlags("install")
	dir := dirFlag(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := localcluster.Root()
	if err != nil {
		return err
	}
	_, err = installAPI(ctx, *dir, root)
	return err
}

// startSimulator runs the command simulate of this program as a process of the cluster.
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

func modeFlag(flags *flag.FlagSet) *string {
	return flags.String("mode", string(localcluster.Simulated), "kind of the nodes: simulated, real or kind")
}

func mpiFlag(flags *flag.FlagSet) *bool {
	return flags.Bool("mpi", false, "make the image with MPI, too")
}

func kueueFlag(flags *flag.FlagSet) *bool {
	return flags.Bool("kueue", false, "run Kueue, too")
}

// autoscalerFlag is "karpenter", or empty for no autoscaler.
func autoscalerFlag(flags *flag.FlagSet) *string {
	var name string
	flags.Func("autoscaler", "run an autoscaler, too, which makes simulated nodes: karpenter", func(value string) error {
		if value != "" && value != localcluster.KarpenterName {
			return fmt.Errorf("there is no autoscaler %q: %s", value, localcluster.KarpenterName)
		}
		name = value
		return nil
	})
	return &name
}

func dirFlag(flags *flag.FlagSet) *string {
	return flags.String("dir", ".local", "directory of the cluster")
}

func clusterFlags(flags *flag.FlagSet, config *localcluster.Config) {
	flags.StringVar(&config.Dir, "dir", ".local", "directory of the cluster")
	flags.IntVar(&config.Port, "port", localcluster.DefaultPort, "first port of the cluster")
	flags.IntVar(&config.Nodes.Count, "nodes", 149, "nodes")
	flags.StringVar(&config.Nodes.CPU, "node-cpu", "8", "CPUs of a simulated node")
	flags.StringVar(&config.Nodes.Memory, "node-memory", "32Gi", "memory of a simulated node")
	flags.IntVar(&config.Nodes.Pods, "node-pods", 110, "pods that a simulated node can hold")
}

func say(line string) { fmt.Println(line) }
