// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// inInstance runs its arguments in the Flux instance. The file is made by the broker's start script.
const inInstance = `. %s/flux-view.sh && export FLUX_URI=$fluxsocket && exec "$@"`

func newExec(s *access.Session) *cobra.Command {
	tty, input := false, true
	cmd := &cobra.Command{
		Use: "exec NAME [-t] -- COMMAND [ARGUMENT...]", Short: "Run a command in the Flux instance of a MiniCluster that runs", ValidArgsFunction: completeNames(s, 1),
		Example: "  kubectl minicluster exec lammps -- flux resource list\n  kubectl minicluster exec lammps -t -- flux top",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || cmd.ArgsLenAtDash() != 1 {
				return access.Usagef("name a MiniCluster, and a command after --")
			}
			if !input {
				s.In = strings.NewReader("")
			}
			return execute(cmd.Context(), s, args[0], args[1:], tty)
		},
	}
	takesCommand(cmd, 1, "exec lammps -- flux resource list")
	cmd.Long = cmd.Short + ": in the lead's container. The exit code is that of the command."
	cmd.Flags().BoolVarP(&tty, "tty", "t", false, "give the command a terminal")
	cmd.Flags().BoolVarP(&input, "stdin", "i", true, "give the command the input of this program")
	return cmd
}

func newShell(s *access.Session) *cobra.Command {
	return &cobra.Command{
		Use: "shell NAME", Short: "Open a shell in the Flux instance of a MiniCluster that runs", Args: one,
		Example: "  kubectl minicluster shell lammps", ValidArgsFunction: completeNames(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return execute(cmd.Context(), s, args[0], []string{"bash"}, isTerminal(s.In))
		},
	}
}

// execute runs a command in the instance, with the input of this program.
func execute(ctx context.Context, s *access.Session, name string, command []string, tty bool) error {
	c, key, err := find(s, name)
	if err != nil {
		return err
	}
	mc, err := get(ctx, c, key)
	if err != nil {
		return err
	}
	pod, err := access.PodOf(ctx, c, mc, 0)
	if err != nil {
		return err
	}
	lead := brokerOf(pod, mc.Name)
	if err := lead.checkSimulated(); err != nil {
		return err
	}
	if !lead.begun() {
		return fmt.Errorf("%s is %s: its lead broker does not run", mc.Name, stateOf(mc))
	}
	script := fmt.Sprintf(inInstance, mc.Spec.Flux.Container.MountPath)
	executor, err := connect(s, pod, mc.Name, append([]string{"bash", "-c", script, "bash"}, command...), tty)
	if err != nil {
		return err
	}
	options := remotecommand.StreamOptions{Stdin: s.In, Stdout: s.Raw.Out, Stderr: s.Raw.ErrOut, Tty: tty}
	if tty {
		restore, sizes, err := raw(ctx, s)
		if err != nil {
			return err
		}
		defer restore()
		options.Stderr, options.TerminalSizeQueue = nil, sizes
	}
	err = executor.StreamWithContext(ctx, options)
	if exit := utilexec.ExitError(nil); errors.As(err, &exit) {
		return &access.ExitError{Code: exit.ExitStatus()}
	}
	return err
}

// connect returns the connection to a container: by WebSocket, or by SPDY if a proxy on the way does not know that.
func connect(s *access.Session, pod *corev1.Pod, container string, command []string, tty bool) (remotecommand.Executor, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	url := clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: container, Command: command, Stdin: true, Stdout: true, Stderr: !tty, TTY: tty,
	}, scheme.ParameterCodec).URL()
	websocket, err := remotecommand.NewWebSocketExecutor(config, "GET", url.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", url)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return strings.Contains(err.Error(), "unable to upgrade") || strings.Contains(err.Error(), "bad handshake")
	})
}

func isTerminal(in any) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// sizes are the sizes of a terminal, now and whenever it changes.
type sizes struct {
	ctx     context.Context
	fd      int
	changed chan os.Signal
}

// Next returns the size; nil when the terminal is not needed any more.
func (s *sizes) Next() *remotecommand.TerminalSize {
	select {
	case <-s.ctx.Done():
		return nil
	case <-s.changed:
		width, height, err := term.GetSize(s.fd)
		if err != nil {
			return nil
		}
		return &remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)} //nolint:gosec // a terminal is smaller
	}
}

// raw lets a command in a pod have the terminal, until restore is called.
func raw(ctx context.Context, s *access.Session) (restore func(), _ remotecommand.TerminalSizeQueue, _ error) {
	file, ok := s.In.(*os.File)
	if !ok || !isTerminal(file) {
		return nil, nil, errors.New("the input is no terminal: omit --tty")
	}
	fd := int(file.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	q := &sizes{ctx, fd, make(chan os.Signal, 1)}
	q.changed <- syscall.SIGWINCH // the first size
	signal.Notify(q.changed, syscall.SIGWINCH)
	return func() {
		signal.Stop(q.changed)
		cancel()
		_ = term.Restore(fd, before)
	}, q, nil
}
