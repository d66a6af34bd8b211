// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
}

func newLogs(s *access.Session) *cobra.Command {
	l := &logger{Session: s}
	cmd := named(s, "logs NAME", "Print the output of the command: the log of the lead broker", func(ctx context.Context, c client.WithWatch, key client.ObjectKey) error {
		l.client, l.key = c, key
		return l.run(ctx)
	})
	cmd.Flags().BoolVarP(&l.follow, "follow", "f", false, "wait for the log to begin, and go on until the pod ends")
	cmd.Flags().IntVar(&l.rank, "rank", 0, "rank of the broker")
	cmd.Flags().Int64Var(&l.tail, "tail", -1, "number of last lines; -1: all")
	return cmd
}

func newAttach(s *access.Session) *cobra.Command {
	cmd := named(s, "attach NAME", "Print the output of the command until it has ended, and end with its exit code", func(ctx context.Context, c client.WithWatch, key client.ObjectKey) error {
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
	if err := l.open(); err != nil {
		return err
	}
	printed := map[types.UID]bool{}
	for {
		mc, err := get(ctx, c, key)
		if err != nil {
			return err
		}
		if done, err := reached(mc, "finished"); err != nil && !done {
			return err
		}
		pod, err := podOf(ctx, l.client, mc, l.rank)
		if err != nil {
			return err
		}
		switch {
		case pod != nil && !printed[pod.UID] && started(pod, mc.Name):
			printed[pod.UID] = true
			if err := l.print(ctx, pod); err != nil {
				return err
			}
		case is(mc, v1alpha2.ConditionFinished):
			return outcome(mc)
		default:
			if err := l.pause(ctx); err != nil {
				return err
			}
		}
	}
}

func (l *logger) open() (err error) {
	l.pods, err = l.Clientset()
	return err
}

func (l *logger) run(ctx context.Context) error {
	if err := l.open(); err != nil {
		return err
	}
	for {
		mc, err := get(ctx, l.client, l.key)
		if err != nil {
			return err
		}
		pod, err := podOf(ctx, l.client, mc, l.rank)
		switch {
		case err != nil:
			return err
		case pod != nil && started(pod, mc.Name):
			return l.print(ctx, pod)
		case !l.follow || is(mc, v1alpha2.ConditionFinished):
			return fmt.Errorf("there is no log of rank %d: %s is %s", l.rank, mc.Name, stateOf(mc))
		}
		if err := l.pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits before the next look at pods.
func (l *logger) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.Clock.After(500 * time.Millisecond):
		return nil
	}
}

// print copies the log of a pod.
func (l *logger) print(ctx context.Context, pod *corev1.Pod) error {
	options := &corev1.PodLogOptions{Container: l.key.Name, Follow: l.follow}
	if l.tail >= 0 {
		options.TailLines = &l.tail
	}
	stream, err := l.pods.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	_, err = io.Copy(l.Out, stream)
	return err
}

// podOf returns the newest pod of a rank; nil if there is none.
func podOf(ctx context.Context, c client.Reader, mc *v1alpha2.MiniCluster, rank int) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(mc.Namespace), client.MatchingLabels{
		v1alpha2.UIDLabel: string(mc.UID), v1alpha2.RankLabel: strconv.Itoa(rank),
	}); err != nil {
		return nil, err
	}
	var newest *corev1.Pod
	for i := range pods.Items {
		if pod := &pods.Items[i]; newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp) {
			newest = pod
		}
	}
	return newest, nil
}

// started reports whether the broker's container, which has the MiniCluster's name, has begun to run.
func started(pod *corev1.Pod, name string) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == name {
			return status.State.Running != nil || status.State.Terminated != nil
		}
	}
	return false
}
