// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// endless is a MiniCluster of four brokers whose command runs until it is told to end.
func endless() *fixture.MiniClusterWrapper {
	return fixture.MiniCluster("lmp").Size(4).CPU("8").PodAnnotation(simulator.Runtime, "1000h")
}

// run starts a MiniCluster, and waits until its command runs and its pods are ready.
func (p *play) run(mc *v1alpha2.MiniCluster) {
	p.Helper()
	p.start(mc)
	p.until("all pods are ready", func() bool {
		pods := p.pods()
		return len(pods) == int(mc.Spec.Size) && !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return !podReady(&pod) })
	})
}

// pod is the last pod of a rank.
func (p *play) pod(rank int) *corev1.Pod {
	p.Helper()
	var last *corev1.Pod
	for _, pod := range p.pods() {
		if r, ok := protocol.Rank(&pod); ok && r == rank && (last == nil || last.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			last = &pod
		}
	}
	if last == nil {
		p.Fatalf("no pod of rank %d\n%s", rank, p.describe())
	}
	return last
}

func (p *play) tell(rank int, annotation, value string) {
	p.Helper()
	if err := simulator.Tell(p.ctx, p.Client, p.pod(rank), annotation, value); err != nil {
		p.Fatal(err)
	}
}

// commands says of each run of a command whether it runs, or with what it ended.
func (p *play) commands() string {
	var out []string
	for _, process := range p.kubelets.Processes() {
		switch {
		case !process.Command:
		case process.Runs():
			out = append(out, "runs")
		default:
			out = append(out, fmt.Sprint(process.Code))
		}
	}
	return strings.Join(out, " ")
}

// end is how the container of a pod's broker ended: its exit code and reason.
func end(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if ended := status.State.Terminated; ended != nil {
			return fmt.Sprintf("%s %d %s", pod.Status.Phase, ended.ExitCode, ended.Reason)
		}
	}
	return string(pod.Status.Phase)
}

// forSeeds runs a test in bubbles with some seeds, with a MiniCluster whose command runs on four nodes of five.
func forSeeds(t *testing.T, test func(p *play)) {
	t.Helper()
	for seed := range uint64(8) {
		inBubble(t, seed, 5, func(p *play) {
			p.run(endless().Defaulted())
			test(p)
		})
	}
}

// A lead that is deleted ends its command, and is gone within its grace period. Its pod was not a success.
func TestDeletedLead(t *testing.T) {
	forSeeds(t, func(p *play) {
		lead, began := p.pod(0), time.Now()
		if err := p.Delete(p.ctx, lead); err != nil {
			t.Fatal(err)
		}
		p.until("the pod of the lead is gone", func() bool { return p.Get(p.ctx, client.ObjectKeyFromObject(lead), lead) != nil })
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("it took %s", took)
		}
		if code := p.commands(); code != "143" && code != "-1" {
			t.Errorf("the command: %s", code)
		}
		p.until("the lead's Job has failed", func() bool { return hasJobCondition(p.jobStatus("lmp-0-0"), batchv1.JobFailed) })
	})
}

// A lead that is told to stop ends with 143, says why, and its followers end.
func TestStoppedLead(t *testing.T) {
	forSeeds(t, func(p *play) {
		p.tell(0, v1alpha2.StopAnnotation, "Preempted 30")
		p.until("the followers have ended", func() bool { return hasJobCondition(p.jobStatus("lmp-w-0"), batchv1.JobComplete) })
		p.until("the lead has ended", func() bool { return podEnded(p.pod(0)) })
		lead := p.pod(0)
		if got := end(lead); got != "Failed 143 Error" || p.commands() != "143" {
			t.Errorf("the lead is %s, the command %s", got, p.commands())
		}
		if !protocol.Read(lead).Asked {
			t.Errorf("it does not say why: %s", p.describe())
		}
	})
}

// A follower that is lost fails an MPI job.
func TestLostFollower(t *testing.T) {
	for name, tc := range map[string]struct {
		lose func(*play)
		want string // how the follower's pod ends
	}{
		"killed for its memory": {func(p *play) { p.kubelets.OOM(p.pod(2).UID, "lmp") }, "Failed 137 OOMKilled"},
		"evicted":               {func(p *play) { p.kubelets.Evict(p.pod(2).UID, "The node was low on resource: memory.") }, "Evicted"},
	} {
		t.Run(name, func(t *testing.T) {
			forSeeds(t, func(p *play) {
				follower := p.pod(2)
				tc.lose(p)
				p.until("the lead has failed", func() bool { return p.pod(0).Status.Phase == corev1.PodFailed })
				p.until("the follower has failed", func() bool {
					return p.Get(p.ctx, client.ObjectKeyFromObject(follower), follower) != nil || podEnded(follower)
				})
				got := end(follower)
				if follower.Status.Reason != "" {
					got = follower.Status.Reason
				}
				if got != tc.want || p.commands() != "1" {
					t.Errorf("the follower is %s, the command %s", got, p.commands())
				}
				// A broker that is asked to end, and does, is not lost.
				if lost := protocol.Read(p.pod(0)).Lost; lost != "2" && (lost != "" || tc.want != "Evicted") {
					t.Errorf("the lead lost %q", lost)
				}
				if disrupted := podCondition(follower, corev1.DisruptionTarget).Status == corev1.ConditionTrue; disrupted != (tc.want == "Evicted") {
					t.Errorf("its condition DisruptionTarget is %v", disrupted)
				}
			})
		})
	}
}

// On a node that is cut off the command goes on, whatever the API server thinks. Once the node is back, its kubelet ends
// the pods that were deleted meanwhile.
func TestCutNode(t *testing.T) {
	forSeeds(t, func(p *play) {
		lead := p.pod(0)
		p.kubelets.Cut(lead.Spec.NodeName, false)
		p.until("the pod is not ready", func() bool { return !podReady(p.pod(0)) })
		var node corev1.Node
		if err := p.Get(p.ctx, types.NamespacedName{Name: lead.Spec.NodeName}, &node); err != nil || nodeReady(&node).Status != corev1.ConditionUnknown {
			t.Errorf("the node is %+v (%v)", nodeReady(&node), err)
		}
		p.until("the pod is deleted", func() bool { return p.pod(0).DeletionTimestamp != nil })
		p.settle(10 * time.Minute)
		if now := p.pod(0); now.UID != lead.UID || p.commands() != "runs" {
			t.Errorf("pod %s, the command %s", now.Name, p.commands())
		}
		p.kubelets.Return(lead.Spec.NodeName)
		p.until("the pod is gone", func() bool { return p.Get(p.ctx, client.ObjectKeyFromObject(lead), lead) != nil })
		if p.commands() == "runs" {
			t.Error("the command runs on")
		}
		p.until("the node has no taints", func() bool {
			return p.Get(p.ctx, client.ObjectKeyFromObject(&node), &node) == nil && len(node.Spec.Taints) == 0 && nodeReady(&node).Status == corev1.ConditionTrue
		})
	})
}

// A node that loses its power ends the command. Nobody knows its exit code, even when the node is back.
func TestNodeWithoutPower(t *testing.T) {
	forSeeds(t, func(p *play) {
		lead := p.pod(0)
		p.kubelets.PowerOff(lead.Spec.NodeName)
		if p.commands() != "-1" {
			t.Errorf("the command: %s", p.commands())
		}
		p.settle(30 * time.Second)
		if p.pod(0).Status.Phase != corev1.PodRunning {
			t.Error("the API server knows too much")
		}
		p.kubelets.Return(lead.Spec.NodeName)
		p.until("the lead has failed", func() bool { return p.pod(0).Status.Phase == corev1.PodFailed })
		if got := end(p.pod(0)); got != "Failed 255 Unknown" || !protocol.Read(p.pod(0)).Began {
			t.Errorf("the lead is %s\n%s", got, p.describe())
		}
	})
}

// A kubelet that restarts leaves the command alone.
func TestRestartedKubelet(t *testing.T) {
	forSeeds(t, func(p *play) {
		p.kubelets.Restart(p.pod(0).Spec.NodeName)
		p.settle(time.Minute)
		if p.commands() != "runs" || !podReady(p.pod(0)) {
			t.Errorf("the command: %s\n%s", p.commands(), p.describe())
		}
	})
}

// A container that cannot be started keeps its pod waiting, or fails it.
func TestFailStart(t *testing.T) {
	for reason, want := range map[string]string{"ErrImagePull": "lmp ImagePullBackOff", "CreateContainerError": "lmp CreateContainerError", "StartError": "lmp StartError"} {
		t.Run(reason, func(t *testing.T) {
			inBubble(t, 1, 5, func(p *play) {
				over := p.kubelets.FailStart("", "", "lmp", reason, -1)
				p.start(endless().Defaulted())
				p.until(want, func() bool {
					pods := p.pods()
					return slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
						for _, s := range pod.Status.ContainerStatuses {
							if s.State.Waiting != nil && s.Name+" "+s.State.Waiting.Reason == want && pod.Status.Phase == corev1.PodPending ||
								s.State.Terminated != nil && s.Name+" "+s.State.Terminated.Reason == want && s.State.Terminated.ExitCode == 128 && pod.Status.Phase == corev1.PodFailed {
								return true
							}
						}
						return false
					})
				})
				over()
				if reason != "StartError" {
					p.until("the command runs", func() bool { return p.commands() == "runs" })
				} else if p.commands() != "" {
					t.Errorf("the command: %s", p.commands())
				}
			})
		})
	}
}

// The pods of a node that is deleted are deleted, too, and a node out of service loses its pods.
func TestGoneNodes(t *testing.T) {
	forSeeds(t, func(p *play) {
		gone, out := p.pod(1), p.pod(2)
		p.kubelets.PowerOff(gone.Spec.NodeName)
		p.kubelets.PowerOff(out.Spec.NodeName)
		node := &corev1.Node{}
		node.Name = gone.Spec.NodeName
		if err := p.Delete(p.ctx, node); err != nil {
			t.Fatal(err)
		}
		node = &corev1.Node{}
		if err := p.Get(p.ctx, types.NamespacedName{Name: out.Spec.NodeName}, node); err != nil {
			t.Fatal(err)
		}
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
		if err := p.Update(p.ctx, node); err != nil {
			t.Fatal(err)
		}
		for _, pod := range []*corev1.Pod{gone, out} {
			p.until("pod "+pod.Name+" is gone", func() bool {
				return p.Get(p.ctx, client.ObjectKeyFromObject(pod), pod) != nil
			})
		}
	})
}

// The same seed gives the same steps.
func TestSameSeed(t *testing.T) {
	trace := func() (out string) {
		inBubble(t, 7, 5, func(p *play) {
			p.run(endless().Defaulted())
			p.kubelets.Cut(p.pod(1).Spec.NodeName, true)
			p.settle(10 * time.Minute)
			for _, process := range p.kubelets.Processes() {
				out += fmt.Sprintf("%+v\n", *process)
			}
			out += p.describe()
		})
		return out
	}
	if a, b := trace(), trace(); a != b {
		t.Errorf("first\n%s\nthen\n%s", a, b)
	}
}
