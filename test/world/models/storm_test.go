// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"fmt"
	"math/rand/v2"
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
)

// strike lets something happen to a pod, or to a node.
func (p *play) strike(r *rand.Rand, pod *corev1.Pod, node string) string {
	reasons := []string{"ErrImagePull", "CreateContainerError", "StartError"}
	switch r.IntN(12) {
	case 0:
		p.kubelets.Cut(node, r.IntN(2) == 0)
		return "cut " + node
	case 1:
		p.kubelets.PowerOff(node)
		return "power off " + node
	case 2, 3, 4:
		p.kubelets.Return(node)
		return "return " + node
	case 5:
		p.kubelets.Restart(node)
		return "restart " + node
	case 6:
		p.kubelets.Evict(pod.UID, "memory")
		return "evict " + pod.Name
	case 7:
		p.kubelets.OOM(pod.UID, "lmp")
		return "out of memory " + pod.Name
	case 8:
		p.kubelets.FailStart("", "", "lmp", reasons[r.IntN(3)], 1+r.IntN(3))
		return "fail starts"
	case 9:
		grace := int64(r.IntN(2) * 30)
		_ = p.Delete(p.ctx, pod, client.GracePeriodSeconds(grace)) // it may be gone
		return fmt.Sprintf("delete %s within %d s", pod.Name, grace)
	case 10:
		p.jobs.Restart()
		return "restart the Job controller"
	default:
		_ = simulator.Tell(p.ctx, p.Client, pod, v1alpha2.DrainAnnotation, fmt.Sprint(1+r.IntN(3))) // it may be gone
		return "drain"
	}
}

// checkPods checks that a pod that has ended, as the API server knows, has no process.
func (p *play) checkPods(did string) {
	p.Helper()
	runs := map[types.UID]*Process{}
	for _, process := range p.kubelets.Processes() {
		if process.Runs() {
			runs[process.Pod] = process
		}
	}
	for _, pod := range p.pods() {
		if process := runs[pod.UID]; process != nil && podEnded(&pod) && pod.DeletionTimestamp == nil {
			p.Fatalf("after %s, pod %s has ended, and %s runs in it\n%s", did, pod.Name, process.Container, p.describe())
		}
	}
}

// Whatever happens to nodes and pods, the models come to rest afterwards: no deleted pod stays, and no process outlives its
// pod.
func TestStorm(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, seed, 5, func(p *play) {
				r := rand.New(rand.NewPCG(seed, 2))
				mc := endless()
				if r.IntN(2) == 0 {
					mc = mc.Launcher()
				}
				mc = mc.Spec(func(s *v1alpha2.MiniClusterSpec) { s.BackoffLimit = int32(r.IntN(3)) })
				p.start(mc.Defaulted())
				drained := false
				for range 12 {
					p.settle(time.Duration(r.IntN(120)) * time.Second)
					if pods := p.pods(); len(pods) > 0 {
						did := p.strike(r, &pods[r.IntN(len(pods))], fmt.Sprint("node-", r.IntN(5)))
						p.checkPods(did)
						drained = drained || did == "drain"
					}
				}
				for i := range 5 {
					p.kubelets.Return(fmt.Sprint("node-", i))
				}
				p.settle(30 * time.Minute)
				p.checkPods("the storm")
				if !drained && !hasJobCondition(p.jobStatus("lmp-0-0"), batchv1.JobFailed) && !strings.HasSuffix(p.commands(), "runs") {
					t.Errorf("the command does not run: %q\n%s", p.commands(), p.describe())
				}
				there := map[types.UID]bool{}
				for _, pod := range p.pods() {
					there[pod.UID] = true
					if pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0 {
						t.Errorf("pod %s is still deleted\n%s", pod.Name, p.describe())
					}
				}
				for _, process := range p.kubelets.Processes() {
					if process.Runs() && !there[process.Pod] {
						t.Errorf("%s of pod %s runs without its pod", process.Container, process.PodName)
					}
				}
			})
		})
	}
}

// A MiniCluster that nobody disturbs ends as its command does, whatever kind it is of.
func TestEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha2.MiniClusterSpec)
		code   string
		want   string
	}{
		"a command that succeeds": {func(*v1alpha2.MiniClusterSpec) {}, "0", "Succeeded 0 Completed"},
		"a command that fails":    {func(*v1alpha2.MiniClusterSpec) {}, "3", "Failed 3 Error"},
		"a launcher":              {func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Launcher = true }, "0", "Succeeded 0 Completed"},
		"a batch":                 {func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Batch = true }, "5", "Failed 5 Error"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, 4, func(p *play) {
				p.start(fixture.MiniCluster("lmp").Size(4).CPU("8").PodAnnotation(simulator.ExitCode, tc.code).Spec(tc.change).Defaulted())
				p.until("the lead has ended", func() bool { return podEndedOf(p) })
				if got := end(p.pod(0)); got != tc.want || p.commands() != tc.code {
					t.Errorf("the lead is %s, the command %s", got, p.commands())
				}
			})
		})
	}
}

func podEndedOf(p *play) bool {
	for _, pod := range p.pods() {
		if isLead(&pod) && podEnded(&pod) {
			return true
		}
	}
	return false
}
