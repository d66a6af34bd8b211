// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/kubectl-minicluster/access"
)

// logger prints the log of a broker's container. That of the lead broker has the output of the command.
type logger struct {
	*access.Session
	client client.WithWatch
	pods   *kubernetes.Clientset
	key    client.ObjectKey
	rank   int
	follow bool
	tail   int64
	// container is the one whose log was printed last, and until the time of the last line.
	container string
	until     time.Time
	// told is true once it was told that the log cannot be read.
	told bool
	// began is when the container or the command began, until a first line was seen.
	began time.Time
}

func newLogs(s *access.Session) *cobra.Command {
	l := &logger{Session: s}
	cmd := named(s, "logs NAME", "Print the output of the command: the log of the lead broker",
		"  kubectl minicluster logs lammps -f\n  kubectl minicluster logs lammps --rank=3 --tail=20", func(ctx context.Context, c client.WithWatch, key client.ObjectKey) error {
			l.client, l.key = c, key
			return l.run(ctx)
		})
	cmd.Flags().BoolVarP(&l.follow, "follow", "f", false, "wait for the log to begin, and go on until the pod ends")
	cmd.Flags().IntVar(&l.rank, "rank", 0, "rank of the broker")
	cmd.Flags().Int64Var(&l.tail, "tail", -1, "number of last lines; -1: all")
	return cmd
}

func newAttach(s *access.Session) *cobra.Command {
	cmd := named(s, "attach NAME", "Print the output of the command until it has ended, and end with its exit code",
		"  kubectl minicluster attach lammps", func(ctx context.Context, c client.WithWatch, key client.ObjectKey) error {
			return attach(ctx, s, c, key)
		})
	cmd.Long = `Print the output of the command, also of the attempts that follow, until the MiniCluster has finished. Ctrl-C ends this
program, and not the MiniCluster.

The exit code is that of the command. It is 1 if the command never ran or its exit code is not known.`
	return cmd
}

// attach prints the output of all attempts that come, until the MiniCluster has finished.
func attach(ctx context.Context, s *access.Session, c client.WithWatch, key client.ObjectKey) error {
	l := &logger{Session: s, client: c, key: key, follow: true, tail: -1}
	mc, err := l.begin(ctx)
	if err != nil {
		return err
	}
	t := &teller{Session: s, state: stateOf(mc)}
	defer t.leave(ctx, key)
	over := ""
	for {
		mc, lead, err := l.look(ctx)
		if err != nil {
			return err
		}
		if done, err := t.look(mc, "finished"); err != nil && !done {
			return err
		}
		l.tellSimulated(lead)
		if lead.begun() && lead.status.ContainerID != over {
			ended, err := l.print(ctx, mc, lead)
			if err != nil && !is(mc, v1alpha2.ConditionFinished) {
				return err
			}
			if ended {
				over = lead.status.ContainerID
				continue
			}
		}
		if is(mc, v1alpha2.ConditionFinished) {
			return outcome(mc)
		}
		if err := l.Sleep(ctx, pollPause); err != nil {
			return err
		}
	}
}

// tellSimulated says once that there will be no output.
func (l *logger) tellSimulated(c container) {
	if err := c.checkSimulated(); err != nil && !l.told {
		fmt.Fprintln(l.ErrOut, access.PlainLine(err.Error()))
		l.told = true
	}
}

// begin looks for the MiniCluster. An API server that cannot be reached is an error here, and later it is waited for.
func (l *logger) begin(ctx context.Context) (*v1alpha2.MiniCluster, error) {
	mc, err := get(ctx, l.client, l.key)
	if err == nil {
		l.pods, err = l.Clientset()
	}
	return mc, err
}

func (l *logger) run(ctx context.Context) error {
	if _, err := l.begin(ctx); err != nil {
		return err
	}
	began := ""
	for {
		mc, broker, err := l.look(ctx)
		switch {
		case err != nil:
			return err
		case broker.checkSimulated() != nil:
			return broker.checkSimulated()
		case began != "" && broker.status.ContainerID != began:
			return nil
		case broker.begun():
			began = broker.status.ContainerID
			if ended, err := l.print(ctx, mc, broker); ended || err != nil {
				return err
			}
		case !l.follow || is(mc, v1alpha2.ConditionFinished):
			return fmt.Errorf("there is no log of rank %d: %s is %s", l.rank, mc.Name, stateOf(mc))
		}
		if err := l.Sleep(ctx, pollPause); err != nil {
			return err
		}
	}
}

// pollPause is the pause before the next look at pods.
const pollPause = 500 * time.Millisecond

// container is the container of a broker.
type container struct {
	pod    *corev1.Pod // nil if there is none
	status corev1.ContainerStatus
}

// brokerOf is the container of a pod that has the name of the MiniCluster.
func brokerOf(pod *corev1.Pod, name string) container {
	if pod == nil {
		return container{}
	}
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return container{pod: pod}
	}
	return container{pod, pod.Status.ContainerStatuses[i]}
}

// begun reports whether the container has begun to run.
func (c container) begun() bool {
	return c.status.State.Running != nil || c.status.State.Terminated != nil
}

// checkSimulated returns access.ErrSimulated if the container has begun on a simulated node.
func (c container) checkSimulated() error {
	if c.pod == nil {
		return nil
	}
	return access.CheckSimulated(c.pod, c.status.Name)
}

// since is when the container began to run; zero if that is not known.
func (c container) since() time.Time {
	switch state := c.status.State; {
	case state.Running != nil:
		return state.Running.StartedAt.Time
	case state.Terminated != nil:
		return state.Terminated.StartedAt.Time
	}
	return time.Time{}
}

// look reads the MiniCluster, and the container of the newest pod of the rank.
func (l *logger) look(ctx context.Context) (mc *v1alpha2.MiniCluster, broker container, err error) {
	err = l.Insist(ctx, l.TellTrouble, func() error {
		if mc, err = get(ctx, l.client, l.key); err != nil {
			return err
		}
		pod, err := access.PodOf(ctx, l.client, mc, l.rank)
		broker = brokerOf(pod, mc.Name)
		return err
	})
	return mc, broker, err
}

// print copies the log of a container, from where the log broke off before. ended is false if there may be more.
func (l *logger) print(ctx context.Context, mc *v1alpha2.MiniCluster, c container) (ended bool, err error) {
	stream, err := l.pods.CoreV1().Pods(c.pod.Namespace).GetLogs(c.pod.Name, l.options(mc, c)).Stream(ctx)
	passes := access.Passes(err) || apierrors.IsNotFound(err) // a kubelet that starts does not know its pods yet
	if err != nil && (!l.follow || !passes || is(mc, v1alpha2.ConditionFinished)) {
		return false, err
	}
	if err != nil {
		if !l.told {
			l.TellTrouble(err)
		}
		l.told = true
		return false, nil
	}
	defer stream.Close()
	l.told = false
	whole, err := l.copy(stream)
	if err == nil && !whole && !l.follow {
		err = errors.New("the log broke off")
	}
	return !l.follow || whole && c.status.State.Terminated != nil, err
}

// options ask for the log of a container from the last line on that was printed.
func (l *logger) options(mc *v1alpha2.MiniCluster, c container) *corev1.PodLogOptions {
	if c.status.ContainerID != l.container {
		l.container, l.until, l.began = c.status.ContainerID, time.Time{}, c.since()
		if start := mc.Status.StartTime; l.rank == 0 && start != nil && start.After(l.began) { // the lead waits for the brokers before
			l.began = start.Time
		}

	}
	options := &corev1.PodLogOptions{Container: l.key.Name, Follow: l.follow, Timestamps: true}
	switch {
	case !l.until.IsZero():
		options.SinceTime = new(metav1.NewTime(l.until))
	case l.tail >= 0:
		options.TailLines, l.began = &l.tail, time.Time{}
	}
	return options
}

// copy prints the lines of a log, without their times, that are later than all printed before. whole is false if the log
// broke off. Each line begins with its time.
func (l *logger) copy(stream io.Reader) (whole bool, err error) {
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return false, nil
		}
		stamp, text, _ := strings.Cut(line, " ")
		at, wrong := time.Parse(time.RFC3339Nano, stamp)
		switch {
		case wrong != nil:
			text = line
		case !at.After(l.until):
			text = ""
		default:
			l.tellRotated(at)
			l.until = at
		}
		if _, err := io.WriteString(l.Raw.Out, text); err != nil {
			return false, err
		}
		if last {
			return true, nil
		}
	}
}

// lateLine is how long after its command a log may begin without a word about that.
const lateLine = time.Minute

// tellRotated says that a log begins long after its command did. Kubelets tell only the newest file of a log that they
// have rotated, and not that there were others.
func (l *logger) tellRotated(first time.Time) {
	if began := l.began; !began.IsZero() && first.Sub(began) > lateLine {
		fmt.Fprintf(l.ErrOut, "This log begins %s after the command. If the command wrote something before, the kubelet has rotated that away "+
			"(containerLogMaxSize of the kubelet).\n", first.Sub(began).Round(time.Second))
	}
	l.began = time.Time{}
}
