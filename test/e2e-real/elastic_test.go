// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// machineClock is the one that the nodes have, too.
var machineClock clock.RealClock

func errorUnless(ok bool, what string, err error) error {
	if err == nil && !ok {
		err = fmt.Errorf("it is %q", what)
	}
	return err
}

// inNode runs a command in a node.
func (c *cluster) inNode(node string, args ...string) error {
	c.Helper()
	status, err := localcluster.GetStatus(c.Context(), c.Dir)
	if err != nil {
		return err
	}
	for _, p := range status.Processes {
		if p.Name == node {
			enter := []string{"--target=" + strconv.Itoa(p.PID), "--mount", "--uts", "--ipc", "--net", "--pid"}
			out, err := exec.CommandContext(c.Context(), "nsenter", append(enter, args...)...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%q in %s: %w: %s", args, node, err, out)
			}
			return nil
		}
	}
	return fmt.Errorf("there is no node %s", node)
}

// without lets no pod on a node, for the time of the test.
func (c *cluster) without(node string) {
	c.Helper()
	c.must("cordon", node)
	c.Cleanup(func() {
		if _, err := c.kubectlIn(context.WithoutCancel(c.Context()), "uncordon", node); err != nil {
			c.Error(err)
		}
	})
}

// nodesReady waits until all nodes are, also at the end of a test.
func (c *cluster) nodesReady() {
	c.Helper()
	ctx := context.WithoutCancel(c.Context())
	err := poll(ctx, func() error {
		var nodes corev1.NodeList
		if err := c.client.List(ctx, &nodes); err != nil {
			return err
		}
		for _, node := range nodes.Items {
			if !state.Ready(&node) || (len(node.Spec.Taints) > 0 && !node.Spec.Unschedulable) {
				return fmt.Errorf("%s is not", node.Name)
			}
		}
		return nil
	})
	if err != nil {
		c.Errorf("the nodes are ready: %v", err)
	}
}

// wholeNode is what a container wants of a node that has no room for another of them.
func wholeNode(c *cluster) string {
	var node corev1.Node
	if err := c.client.Get(c.Context(), client.ObjectKey{Name: localcluster.RealNodeName(0)}, &node); err != nil {
		c.Fatal(err)
	}
	return fmt.Sprintf("resources: {requests: {cpu: %dm}}", node.Status.Allocatable.Cpu().MilliValue()*2/3)
}

// One that wants three nodes of which one is of no use starts with two. The command sees
// what there is, with as many tasks as belong to that.
func testStart(c *cluster) {
	t := c.T
	const last = "real-2"
	c.without("real-3")
	for name, test := range map[string]struct {
		image   string // that the last node does not have
		spoil   func(c *cluster) error
		repair  func(c *cluster) error
		timeout string
		told    string // and why
	}{
		"cordoned": {
			spoil:   func(c *cluster) error { c.without(last); return nil },
			timeout: "1h",
		},
		"image": {
			image: "flux-elastic/rare:latest",
			spoil: func(c *cluster) error {
				for _, node := range []string{"real-0", "real-1"} {
					err := c.inNode(node, "ctr", "--namespace=k8s.io", "images", "tag", "--force", "docker.io/"+best(), "docker.io/flux-elastic/rare:latest")
					if err != nil {
						return err
					}
				}
				return nil
			},
			timeout: "1h", told: "rank 2 on real-2: ", // ErrImagePull or ImagePullBackOff, as it comes
		},
		"cable": {
			spoil:   func(c *cluster) error { return c.Disconnect(c.Context(), last) },
			repair:  func(c *cluster) error { return c.Connect(context.WithoutCancel(c.Context()), last) },
			timeout: "15s", told: "2 of 3 came up within 15s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := c.in(t)
			repair := func() {
				if test.repair != nil {
					if err := test.repair(c); err != nil {
						t.Error(err)
					}
					test.repair = nil
					c.nodesReady()
				}
			}
			image := best()
			if test.image != "" {
				image = test.image
			}
			if err := test.spoil(c); err != nil {
				t.Fatal(err)
			}
			began := machineClock.Now()
			m := c.make(name, image, wholeNode(c)+", "+command(`if ! flux version | grep -q fakeflux; then halo 100; fi
echo nodes $FLUX_MINICLUSTER_NODES, tasks $FLUX_MINICLUSTER_TASKS of size $FLUX_MINICLUSTER_SIZE, $(flux resource list -s up -no '{nnodes}') up
`+until("go")), `minSize: 2, elastic: {startTimeout: 1h, quorumTimeout: `+test.timeout+`}`)
			t.Cleanup(repair) // before it is removed
			mc := m.awaitRunning()
			t.Log(name, "runs after", machineClock.Since(began))
			if a := mc.Status.Admission; a.Quorum != 2 || mc.Status.Tasks != 2 {
				t.Errorf("quorum %d, tasks %d", a.Quorum, mc.Status.Tasks)
			}
			if reached := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionQuorumReached); reached.Message != "2 of 3 brokers, tasks 2 of 3" {
				t.Errorf("it says %q", reached.Message)
			}
			if test.told != "" {
				if said := m.told("QuorumLowered"); !strings.Contains(said, test.told) {
					t.Errorf("it was told %q", said)
				}
			}
			repair()
			eventually(t, "the third pod is behind its gate, and holds nothing", func() error {
				pods, err := m.listPods(c.Context())
				placed := 0
				for i := range pods {
					if !protocol.IsGated(&pods[i]) {
						placed++
					}
				}
				held := m.get().Status.Nodes
				return errorUnless(len(pods) == 3 && placed == 2 && held == 2, fmt.Sprintf("%d of %d pods, %d nodes", placed, len(pods), held), err)
			})
			m.open("go")
			m.awaitEnd(v1alpha2.ReasonSucceeded)
			m.says("Starting on 2 of 3 nodes: /bin/bash /flux_operator/submit.sh flux submit -N 2 -n 2 ", "nodes 2, tasks 2 of size 3, 2 up")
			if hasFlux() {
				m.says("halo: 2 ranks on 2 hosts")
			}
			m.followersGone()
		})
	}
	c.nodesReady()
}

// A follower is ready once it has joined, which needs the lead; and the lead when the
// command runs, which needs all of them. The MiniCluster runs then.
func testReady(c *cluster) {
	withFlux(c, func(c *cluster, image string) {
		m := c.make("ready", image, command(until("end"))+`, commands: {brokerPre: "`+until("lead")+`", workerPre: "[[ $HOSTNAME != ready-w-0-1 ]] || `+until("second")+`"}`, "")
		for rank := range 3 {
			m.podIs(rank, "runs", runs)
		}
		m.podIs(1, "has looked for the lead", func(*corev1.Pod) bool {
			_, err := m.exec(1, "ls -d /proc/*/comm >/dev/null && grep -q flux /proc/*/comm")
			return err == nil
		})
		m.readyAre(false, false, false)
		m.open("lead")
		m.podIs(1, "is ready", ready)
		m.readyAre(false, true, false)
		if state := m.state(m.get()); !strings.HasPrefix(state, v1alpha2.StateStarting+":") {
			m.Errorf("it is %s", state)
		}
		m.open("second")
		m.podIs(2, "is ready", ready)
		m.podIs(0, "is ready", ready)
		opened := machineClock.Now()
		m.awaitRunning()
		m.Logf("it runs %s after its lead was ready", machineClock.Since(opened))
		m.says("Starting on 3 of 3")
		m.open("end")
		m.awaitEnd(v1alpha2.ReasonSucceeded)
	})
	withFlux(c, func(c *cluster, image string) {
		m := c.make("timeline", image, command(until("end")), "")
		m.awaitRunning()
		m.logTimes()
		m.open("end")
		m.awaitEnd(v1alpha2.ReasonSucceeded)
	})
}

// readyAre checks which pods are ready.
func (m *miniCluster) readyAre(want ...bool) {
	m.Helper()
	for rank, want := range want {
		if pod := m.pod(rank); ready(pod) != want {
			m.Errorf("rank %d: ready is %t", rank, !want)
		}
	}
}

// logTimes logs how long each step took from the creation of the MiniCluster on; pods tell
// whole seconds.
func (m *miniCluster) logTimes() {
	mc := m.get()
	since := func(at time.Time) time.Duration { return at.Sub(mc.CreationTimestamp.Time) }
	for rank := range 3 {
		pod := m.podIs(rank, "is ready", ready)
		line := fmt.Sprintf("rank %d: pod %s", rank, since(pod.CreationTimestamp.Time))
		for _, status := range pod.Status.ContainerStatuses {
			line += fmt.Sprintf(", broker starts %s", since(status.State.Running.StartedAt.Time))
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady {
				line += fmt.Sprintf(", ready %s", since(condition.LastTransitionTime.Time))
			}
		}
		m.Log(line)
	}
	m.Log("running", since(mc.Status.StartTime.Time))
}

// A rank that is one too many is drained, leaves when its work is done, and waits for
// nothing; wanted again it comes back, and gets work.
func testScale(c *cluster) {
	t := c.T
	m := c.make("scale", best(), "launcher: true, "+command("flux submit -N3 -n3 bash -c 'touch /gate/works; "+until("work")+"'; "+until("go")+"; flux run -N3 -n3 bash -c 'echo \"task $FLUX_TASK_RANK on $(hostname)\"'"), "minSize: 2")
	hasThree := func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 3 }
	m.awaitRunning()
	m.is("has three", hasThree) // a rank that is not up yet would leave before rank 2
	m.isInFlux("avail", "0-2")
	m.wait("works")
	first := m.pod(2)
	c.must("scale", "minicluster", "scale", "--replicas=2")
	m.isInFlux("draining", "2")
	pod, asked := m.pod(2), m.get().Status.Admission.Drain // it may not stay longer than that
	if pod.UID != first.UID || !ready(pod) {
		if asked != nil && asked.Deadline != nil && machineClock.Now().Before(asked.Deadline.Time) {
			m.Errorf("it left while it had work: %s", pod.Status.String())
		}
	}
	m.open("work")
	opened := machineClock.Now()
	left := m.is("has two", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Admission.Vacated == "2" })
	m.Logf("rank 2 left %s after its job", machineClock.Since(opened))
	if said := m.told("Vacated"); !strings.Contains(said, "2 remain") || !strings.HasPrefix(m.state(left), v1alpha2.StateRunning+":") {
		m.Errorf("it was told %q", said)
	}
	eventually(t, "its next pod is behind the gate", func() error {
		pod := m.gated()
		held := m.get().Status.Nodes
		return errorUnless(pod != nil && held == 2, fmt.Sprint(held, " nodes"), nil)
	})
	m.isInFlux("drain", "2")

	opened = machineClock.Now()
	c.must("scale", "minicluster", "scale", "--replicas=3")
	m.isInFlux("avail", "0-2")
	m.is("has three", hasThree)
	m.Logf("three again after %s", machineClock.Since(opened))
	m.open("go")
	m.awaitEnd(v1alpha2.ReasonSucceeded)
	hosts := []string{"scale-0-0-0", "scale-0-0-0", "scale-0-0-0"} // the double runs all tasks on the lead's
	if hasFlux() {
		hosts = []string{"scale-0-0-0", "scale-w-0-0", "scale-w-0-1"}
	}
	for rank, host := range hosts {
		m.says(fmt.Sprintf("task %d on %s", rank, host))
	}
}

// gated is a pod behind its gate; nil if there is none.
func (m *miniCluster) gated() *corev1.Pod {
	pods, err := m.listPods(m.Context())
	for i := range pods {
		if err == nil && protocol.IsGated(&pods[i]) && pods[i].DeletionTimestamp == nil {
			return &pods[i]
		}
	}
	return nil
}

// isInFlux waits until these are the ranks in a state.
func (m *miniCluster) isInFlux(state, ranks string) {
	m.Helper()
	eventually(m.T, "ranks "+ranks+" are "+state, func() error {
		out, err := m.flux("resource status -s " + state + " -no '{ranks}'")
		return errorUnless(out == ranks, out, err)
	})
}

// After its time a command is told to end, and leaves its log.
func testDeadline(c *cluster) {
	t := c.T
	for name, shell := range map[string]string{
		"heeds":   "echo began; exec sleep infinity",
		"ignores": "echo began; trap '' TERM HUP INT; while true; do sleep 1; done",
	} {
		for _, launcher := range []bool{true, false} {
			t.Run(fmt.Sprint(name, "-launcher-", launcher), func(t *testing.T) {
				withFlux(c.in(t), func(c *cluster, image string) {
					m := c.make("deadline", image, fmt.Sprintf("launcher: %t, ", launcher)+command(shell), "deadlineSeconds: 5")
					mc := m.awaitEnd(v1alpha2.ReasonDeadlineExceeded)
					ended := machineClock.Now()
					pod := m.podIs(0, "has failed", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
					m.Logf("told after %s, over %s later", mc.Status.CompletionTime.Sub(mc.Status.StartTime.Time), machineClock.Since(ended))
					m.followersGone()
					if after := m.pod(0); after.UID != pod.UID {
						m.Error("the lead's pod was made anew")
					}
					m.says("Asked to end: DeadlineExceeded", "Starting on 3 of 3 nodes")
					if launcher {
						m.says("began")
					}
				})
			})
		}
	}
}

// When the command is done the nodes are free, and the log stays for as long as it was
// told.
func testEnd(c *cluster) {
	withFlux(c, func(c *cluster, image string) {
		m := c.make("end", image, command(until("go")+"; echo done"), "ttlSecondsAfterFinished: 3600")
		m.awaitRunning()
		m.open("go")
		opened := machineClock.Now()
		m.awaitEnd(v1alpha2.ReasonSucceeded)
		m.Logf("seen %s after the command ended", machineClock.Since(opened))
		m.is("has no node", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Nodes == 0 })
		m.Logf("the nodes are free %s after it", machineClock.Since(opened))
		m.says("done")
		m.followersGone()
		m.Logf("the followers' pods are gone %s after it", machineClock.Since(opened))
		m.says("done")
		c.must("patch", "minicluster", m.name, "--type=merge", `--patch={"spec":{"ttlSecondsAfterFinished":1}}`)
		eventually(c.T, "all of it is gone", func() error {
			out, err := c.kubectl("get", "pods", "--selector="+v1alpha2.MiniClusterLabel+"=end", "--output=name")
			if err == nil && out == "" {
				out, err = c.kubectl("get", "minicluster", "end", "--ignore-not-found", "--output=name")
			}
			return errorUnless(out == "", out, err)
		})
		m.Logf("all is gone %s after it", machineClock.Since(opened))
	})
}
