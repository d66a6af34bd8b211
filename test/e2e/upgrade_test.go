// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// MiniClusters pass from an older version to this one, and back.
func TestUpgrade(t *testing.T) {
	revision := upgradeFrom(t)
	t.Run("from-"+revision, func(t *testing.T) {
		old := checkout(t, revision)
		defer stopManager(t)()
		defer install(t, env.Root)
		t.Run("Lives", func(t *testing.T) { upgradesLives(t, old) })
		t.Run("BoundDirectly", func(t *testing.T) { upgradesBoundDirectly(t) })
	})
}

// MiniClusters in every state: nothing is lost, restarted or decided twice, and each reaches its end under the version that then
// runs.
func upgradesLives(t *testing.T, old string) {
	t.Helper()
	install(t, old)
	_, err := os.Stat(filepath.Join(old, "controllers", "scheduler", "ahead.go"))
	ahead := err == nil
	m := startOf(t, old)
	defer func() { m.Stop() }()
	there, back := makeLives(newSite(t, 7), ahead), makeLives(newSite(t, 7), ahead)
	replace := func(root string) {
		t.Helper()
		before, used := []map[string]kept{there.kept(), back.kept()}, []v1alpha2.MiniClusterQueueStatus{there.used(), back.used()}
		install(t, root)
		m.Stop()
		m = startOf(t, root)
		for i, l := range []*upgraded{there, back} {
			l.awaitPass("after-" + filepath.Base(root))
			if diff := cmp.Diff(before[i], l.kept()); diff != "" {
				t.Errorf("another version changed (-before +after):\n%s", diff)
			}
			l.awaitUsage(used[i])
		}
	}
	replace(env.Root)
	for _, l := range []*upgraded{there, back} {
		l.awaitPods("gated", 0)
		l.await(l.all["shrinking"], "knowing for which size its tasks are", func(mc *v1alpha2.MiniCluster) bool {
			return mc.Status.TasksFor != nil && *mc.Status.TasksFor == v1alpha2.TasksFor{Size: 3, Tasks: 6}
		})
	}
	there.end()
	replace(old)
	back.end()
	there.record.check(there.site)
	back.record.check(back.site)
}

// This version still binds the pods of a MiniCluster that an older manager made with --binder=direct, also those that replace
// others. With the flag, this version makes MiniClusters as without it.
func upgradesBoundDirectly(t *testing.T) {
	t.Helper()
	old := checkout(t, lastWith(t, "internal/jobset/binding.go", "func BindDirectly("))
	const flag = "--binder=direct"
	mayBind(t)
	install(t, old)
	s := newSite(t, 4)
	m := startOf(t, old, flag)
	defer func() { m.Stop() }()
	mc := s.create(s.miniCluster("direct").Size(3).Launcher().PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(mc, v1alpha2.StateRunning)
	isOurs := func(pod *corev1.Pod) bool { return pod.Spec.SchedulerName == v1alpha2.SchedulerName }
	for i, root := range []string{env.Root, old} {
		install(t, root)
		m.Stop()
		m = startOf(t, root, flag)
		was := s.podOfRank(mc, i+1)
		s.delete(was)
		s.awaitPod(mc, i+1, "on its node again", func(pod *corev1.Pod) bool {
			return pod.UID != was.UID && pod.Spec.NodeName == was.Spec.NodeName && isOurs(pod)
		})
		other := s.create(s.miniCluster(fmt.Sprint("other-", i)))
		s.awaitSuccess(other)
		if got, want := isOurs(s.podOfRank(other, 0)), root == old; got != want {
			t.Errorf("%s: the manager itself bound a pod of a new MiniCluster: %v", root, got)
		}
	}
	s.endCommand(mc)
	s.awaitSuccess(mc)
	if mc.Status.Admission.Attempt != 1 || s.leadsOf(mc) != 1 {
		t.Errorf("attempt %d, the command ran %d times", mc.Status.Admission.Attempt, s.leadsOf(mc))
	}
}

// install installs the definitions, rights and policies of a tree.
func install(t *testing.T, root string) {
	t.Helper()
	if err := env.cluster.Install(context.WithoutCancel(t.Context()), root); err != nil {
		t.Fatal(err)
	}
}

// lastWith returns the last revision of which a file has some text.
func lastWith(t *testing.T, name, text string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", env.Root, "log", "-1", "--format=%H", "-S"+text, "--", name).Output()
	if err != nil || len(out) == 0 {
		t.Skipf("the history of this clone has no revision with %q in %s: %v", text, name, err)
	}
	return strings.TrimSpace(string(out)) + "^"
}

// upgradeFrom returns the revision of the older version: UPGRADE_FROM, or else the last tag before this commit, or else
// the commit before, or in a clone that has none, this commit.
func upgradeFrom(t *testing.T) string {
	t.Helper()
	if revision := os.Getenv("UPGRADE_FROM"); revision != "" {
		return revision
	}
	for _, args := range [][]string{{"describe", "--tags", "--abbrev=0", "HEAD^"}, {"rev-parse", "--short", "HEAD^"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", env.Root}, args...)...).Output(); err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	return "HEAD"
}

// checkout makes a tree of a revision, with its manager in bin, and returns its path.
func checkout(t *testing.T, revision string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "old")
	for _, script := range []string{
		`mkdir "$1" && git -C "$2" archive --format=tar "$3" >"$1.tar" && tar -xf "$1.tar" -C "$1"`,
		`cd "$1" && go build -o bin/ ./cmd/manager`,
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", dir, env.Root, revision)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("making %s: %v\n%s", revision, err, out)
		}
	}
	return dir
}

// startOf starts the manager of a tree.
func startOf(t *testing.T, root string, flags ...string) *harness.Manager {
	t.Helper()
	program := filepath.Join(root, "bin", "manager")
	if root == env.Root {
		program = filepath.Join(env.Bin, "manager")
	}
	m, err := env.StartProgram(program, env.cluster.ManagerKubeconfig, jobSetEmbedded, flags...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// upgraded are MiniClusters in every state, each named after it. The states last until end.
type upgraded struct {
	*site
	record *record
	all    map[string]*v1alpha2.MiniCluster
	// ahead is true if the older version makes pods before there are nodes for them.
	ahead bool
}

// makeLives makes them on seven nodes.
func makeLives(s *site, ahead bool) *upgraded {
	s.t.Helper()
	l := &upgraded{site: s, record: s.newRecord(), all: map[string]*v1alpha2.MiniCluster{}, ahead: ahead}
	s.patchQueue(`{"spec":{"ordering":"FairShare"}}`)
	for _, name := range []string{"finished", "paused", "backing-off", "suspended", "rejected", "running", "starting", "shrinking", "gated", "waiting"} {
		w := s.miniCluster(name).Size(2)
		switch name {
		case "paused", "running":
			w.PodAnnotation(simulator.Runtime, untilTold)
		case "backing-off":
			w.PodAnnotation(simulator.LoseRanks, "1").PodAnnotation(simulator.LoseAfter, "0s").PodAnnotation(simulator.Runtime, untilTold).
				Spec(func(spec *v1alpha2.MiniClusterSpec) {
					spec.Elastic.OnLoss, spec.Elastic.Recreate = v1alpha2.LossRecreate, v1alpha2.Recreate{BackoffBase: duration("1h"), BackoffMax: duration("1h")}
				})
		case "suspended":
			w.Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Suspend = true })
		case "rejected":
			w.Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.PriorityClassName = "missing" })
		case "starting":
			w.PodAnnotation(simulator.NeverStart, "1").PodAnnotation(simulator.Runtime, untilTold).Spec(needsScheduler).
				Spec(func(spec *v1alpha2.MiniClusterSpec) {
					spec.Elastic.QuorumTimeout, spec.Elastic.StartTimeout = duration("1h"), duration("2h")
				})
		case "shrinking":
			w.Size(3).Tasks(6).MinSize(1).Launcher().PodAnnotation(simulator.Runtime, untilTold).PodAnnotation(simulator.Busy, untilTold)
		case "gated":
			w.Size(4).Spec(needsScheduler)
		case "waiting":
			w.Size(5)
		}
		mc := s.create(w)
		l.all[name] = mc
		l.reach(name, mc)
	}
	return l
}

// reach waits until a MiniCluster is in its state.
func (l *upgraded) reach(name string, mc *v1alpha2.MiniCluster) {
	l.t.Helper()
	states := map[string]string{
		"backing-off": v1alpha2.StateBackingOff, "suspended": v1alpha2.StateSuspended, "rejected": v1alpha2.StateRejected,
		"running": v1alpha2.StateRunning, "gated": v1alpha2.StateQueued, "waiting": v1alpha2.StateQueued,
	}
	switch name {
	case "finished":
		l.awaitSuccess(mc)
		l.awaitOnlyLead(mc)
	case "paused":
		l.awaitState(mc, v1alpha2.StateRunning)
		l.patch(mc, `{"spec":{"suspend":true}}`)
		l.awaitState(mc, v1alpha2.StateSuspended)
	case "starting":
		l.await(mc, "starting, with one up", func(mc *v1alpha2.MiniCluster) bool {
			return state(mc) == v1alpha2.StateStarting && mc.Status.Size == 1
		})
	case "shrinking":
		l.awaitBrokers(mc, 3)
		l.patch(mc, `{"spec":{"size":2}}`)
		l.record.await(l.site, mc, "asking one to leave", func(mc *v1alpha2.MiniCluster) bool {
			return mc.Status.Admission != nil && mc.Status.Admission.Drain != nil
		})
	default:
		l.awaitState(mc, states[name])
	}
	if name == "gated" && l.ahead {
		l.awaitPods(name, 4)
	}
}

// awaitPods waits until a MiniCluster has so many pods.
func (l *upgraded) awaitPods(name string, n int) {
	l.t.Helper()
	eventually(l.t, func() error {
		if pods := l.pods(l.all[name]); len(pods) != n {
			return fmt.Errorf("%s has %d pods, want %d", name, len(pods), n)
		}
		return nil
	})
}

// kept is what stays of a MiniCluster whatever manager runs.
type kept struct {
	State      string
	Attempt    int32
	Nodes      string
	Start, End *metav1.Time
	ExitCode   *int32
	Requeue    *v1alpha2.RequeueState
	Attempts   []v1alpha2.Attempt
	Pods       map[types.UID]string // their nodes
}

// kept describes the MiniClusters, but for the pod that leaves one that shrinks, and for pods that an older version made ahead
// of their nodes.
func (l *upgraded) kept() map[string]kept {
	l.t.Helper()
	out := map[string]kept{}
	for name, mc := range l.all {
		status := &l.get(mc).Status
		k := kept{
			State: state(mc), Start: status.StartTime, End: status.CompletionTime, ExitCode: status.ExitCode,
			Requeue: status.RequeueState, Attempts: status.Attempts, Pods: map[types.UID]string{},
		}
		if a := status.Admission; a != nil {
			k.Attempt, k.Nodes = a.Attempt, a.Nodes
		}
		for _, pod := range l.pods(mc) {
			if rank, _ := protocol.Rank(&pod); (name != "shrinking" || rank < 2) && name != "gated" {
				k.Pods[pod.UID] = pod.Spec.NodeName
			}
		}
		out[name] = k
	}
	return out
}

// used is the status of the queue once it records usage.
func (l *upgraded) used() (used v1alpha2.MiniClusterQueueStatus) {
	l.t.Helper()
	l.awaitQueue("recording usage", func(q *v1alpha2.MiniClusterQueueStatus) bool {
		used = *q
		return q.UsageTime != nil && usageOf(q) > 0
	})
	return used
}

// usageOf is the usage of the one user of a queue.
func usageOf(q *v1alpha2.MiniClusterQueueStatus) float64 {
	if len(q.Users) != 1 {
		return 0
	}
	usage, _ := strconv.ParseFloat(q.Users[0].Usage, 64)
	return usage
}

// awaitUsage waits until the queue shows the usage that another version recorded, or a later record with as much.
func (l *upgraded) awaitUsage(before v1alpha2.MiniClusterQueueStatus) {
	l.t.Helper()
	l.awaitQueue("keeping its usage", func(q *v1alpha2.MiniClusterQueueStatus) bool {
		part := usageOf(q) / usageOf(&before)
		if part < 0.99 {
			l.t.Errorf("the usage was %s, and is %s", before.Users[0].Usage, q.Users[0].Usage)
		}
		return part < 1.01 || q.UsageTime.After(before.UsageTime.Time)
	})
}

// awaitPass waits until the manager has gone through the namespace: what is new there comes last. The record has seen
// that, too: its watch ends when an API changes, and begins again.
func (l *upgraded) awaitPass(name string) {
	l.t.Helper()
	probe := l.create(l.miniCluster(name).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Suspend = true }))
	l.record.await(l.site, probe, "suspended", func(mc *v1alpha2.MiniCluster) bool { return state(mc) == v1alpha2.StateSuspended })
}

// end lets all reach their ends, each of which is that of a life without another version.
func (l *upgraded) end() {
	l.t.Helper()
	run := fmt.Sprintf(`{"spec":{"suspend":false,"pod":{"annotations":{%q:"1s"}}}}`, simulator.Runtime)
	l.endCommand(l.all["running"])
	l.letStart(l.all["starting"], 1)
	l.awaitState(l.all["starting"], v1alpha2.StateRunning)
	l.endCommand(l.all["starting"])
	l.awaitBrokers(l.all["shrinking"], 2)
	l.endCommand(l.all["shrinking"])
	l.patch(l.all["paused"], "%s", run)
	l.patch(l.all["suspended"], "%s", run)
	runs := map[string]int{"finished": 1, "running": 1, "starting": 1, "shrinking": 1, "gated": 1, "waiting": 1, "suspended": 1, "paused": 2}
	for name, want := range runs {
		mc := l.all[name]
		l.awaitSuccess(mc)
		l.awaitOnlyLead(mc)
		failed := slices.DeleteFunc(slices.Clone(mc.Status.Attempts), func(a v1alpha2.Attempt) bool {
			return name == "paused" && a.Reason == v1alpha2.ReasonReleased
		})
		if n := l.leadsOf(mc); n != want || len(failed) > 0 {
			l.t.Errorf("%s: the command ran %d times, and attempts failed: %+v", name, n, failed)
		}
	}
	for name, mc := range l.all {
		if _, ends := runs[name]; !ends {
			l.reach(name, mc)
		}
	}
}
