// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// plays are the examples of queues, by the names of their files.
var plays = map[string]func(*stage){
	"enqueue": playEnqueue, "allocate": playAllocate, "backfill": playBackfill, "preempt": playPreempt,
	"reclaim": playReclaim, "grow": playGrow, "topology": playTopology, "best-effort": playBestEffort, "users": playUsers,
	"exclusive": playExclusive, "deadlines": playDeadlines, "reservation": playReservation,
}

// The examples of queues are applied one after the other, on a cluster of their own: what a
// queue deserves is a part of the whole cluster.
func TestQueues(t *testing.T) {
	t.Parallel()
	s := startStage(t)
	for name, play := range plays {
		t.Run(name, func(t *testing.T) {
			example := s.example(t, name)
			play(example)
		})
	}
}

// Every example of queues is played above, and an API server takes all of it.
func TestQueueExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(env.Root, "examples", "queues", "*.yaml"))
	if err != nil || len(files) != len(plays) {
		t.Errorf("%d are played of the examples %v: %v", len(plays), files, err)
	}
	out, err := kubectl(t.Context(), "apply", "--dry-run=server", "-f", filepath.Join(env.Root, "examples", "queues"))
	if err != nil || strings.Contains(string(out), "Warning") {
		t.Errorf("%v\n%s", err, out)
	}
}

func playEnqueue(s *stage) {
	s.step(0)
	s.awaitReason("never", v1alpha2.ReasonNeverFits)
	s.awaitMessage("never", "the whole cluster of 8 nodes has room for 8")
	s.awaitReason("over-capacity", v1alpha2.ReasonTooLargeForQueue)
	s.awaitReason("no-such-queue", v1alpha2.ReasonNoSuchQueue)
	s.awaitMessage("no-such-queue", "nowhere")
	s.awaitWaiting("default", "never: "+v1alpha2.ReasonNeverFits)
	s.awaitWaiting("two-nodes", "over-capacity: "+v1alpha2.ReasonTooLargeForQueue)
	s.awaitSuccess("behind")
	if sizes := s.admittedSizes(s.awaitSuccess("smaller")); sizes[0] != 2 {
		s.t.Errorf("smaller was admitted at %v", sizes)
	}
	for _, name := range []string{"never", "over-capacity", "no-such-queue"} {
		s.neverHad(name)
	}
	s.awaitEvent("never", v1alpha2.ReasonNeverFits)
	s.awaitEvent("over-capacity", v1alpha2.ReasonTooLargeForQueue)
	s.create(fixture.Queue("nowhere").New())
	s.endCommand("no-such-queue")
	s.awaitSuccess("no-such-queue")
}

func playAllocate(s *stage) {
	s.step(1)
	for _, name := range []string{"elastic", "rigid"} {
		s.await(name, "waiting for its queue", func(mc *v1alpha2.MiniCluster) bool {
			c := condition(mc, v1alpha2.ConditionAdmitted)
			return c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "suspended") && mc.Status.Queue == "joint"
		})
		s.neverHad(name)
	}
	s.awaitQueue("joint", "counting two that wait, in order", func(q *v1alpha2.MiniClusterQueueStatus) bool {
		return q.Pending == 2 && q.Admitted == 0 && len(q.Waiting) == 2 && q.Waiting[0].Position == 1 && q.Waiting[1].Position == 2 &&
			q.Waiting[0].Message != "" && q.Waiting[0].Namespace == "default"
	})
	s.step(2)
	elastic, rigid := s.awaitAdmitted("elastic"), s.awaitAdmitted("rigid")
	if len(s.members(elastic)) != 4 || len(s.members(rigid)) != 4 {
		s.t.Errorf("elastic was admitted on %s, rigid on %s", elastic.Status.Admission.Nodes, rigid.Status.Admission.Nodes)
	}
	s.awaitQueue("joint", "counting two that run, on all of the cluster", func(q *v1alpha2.MiniClusterQueueStatus) bool {
		return q.Pending == 0 && q.Admitted == 2 && fraction(q.Share) == 1 && q.Used.Cpu().Value() == 64
	})
	for _, name := range []string{"elastic", "rigid"} {
		s.endCommand(name)
		s.awaitSuccess(name)
	}
}

func playBackfill(s *stage) {
	s.step(1)
	s.awaitAdmitted("first")
	s.step(2)
	s.awaitReason("large", v1alpha2.ReasonNoRoom)
	s.step(3)
	small := s.awaitAdmitted("small")
	s.awaitReason("long", v1alpha2.ReasonWaitingForTurn)
	s.awaitWaiting("easy", "large: "+v1alpha2.ReasonNoRoom, "long: "+v1alpha2.ReasonWaitingForTurn)
	s.awaitSuccess("small") // before the first
	s.endCommand("first")
	s.awaitSuccess("first")
	large, long := s.awaitSuccess("large"), s.awaitSuccess("long")
	if !small.Status.Admission.Time.Before(&large.Status.Admission.Time) || long.Status.Admission.Time.Before(&large.Status.Admission.Time) {
		s.t.Errorf("admitted: small at %s, large at %s, long at %s", small.Status.Admission.Time, large.Status.Admission.Time, long.Status.Admission.Time)
	}
}

func playDeadlines(s *stage) {
	s.step(1)
	s.awaitReason("too-long", v1alpha2.ReasonDeadlineTooLong)
	s.awaitMessage("too-long", "is more than queue short allows (1m)")
	s.await("forgotten", "ended by the deadline of its queue", func(mc *v1alpha2.MiniCluster) bool {
		return condition(mc, v1alpha2.ConditionFinished).Reason == v1alpha2.ReasonDeadlineExceeded && ptr.Deref(mc.Status.Admission.DeadlineSeconds, 0) == 5
	})
	s.neverHad("too-long")
	s.step(2)
	s.endCommand("too-long")
	s.awaitSuccess("too-long")
}

func playPreempt(s *stage) {
	s.step(1)
	s.awaitRunning("sweep")
	s.step(2)
	urgent := s.awaitAdmitted("urgent")
	s.shrunkBefore("sweep", urgent, 4)
	if sweep := s.get("sweep"); state(sweep) != v1alpha2.StateRunning || s.leads("sweep") != 1 {
		s.t.Errorf("sweep is %s after it shrank, and had %d leads", state(sweep), s.leads("sweep"))
	}
	s.awaitEvent("sweep", "Draining")
	if n := s.events("sweep")[v1alpha2.ReasonPreempted]; n != 0 {
		s.t.Errorf("sweep was evicted, though it could shrink")
	}
	s.endCommand("urgent")
	s.awaitSuccess("urgent")
	s.step(3)
	s.awaitEvent("sweep", v1alpha2.ReasonPreempted)
	s.awaitAdmitted("urgent-all")
	if c := condition(s.get("sweep"), v1alpha2.ConditionAdmitted); c.Status != metav1.ConditionFalse {
		s.t.Errorf("sweep is admitted beside what took its nodes: %s", c.Message)
	}
	s.endCommand("urgent-all")
	s.awaitSuccess("urgent-all")
	s.endCommand("sweep")
	s.awaitSuccess("sweep") // it came back
	if s.leads("sweep") != 2 {
		s.t.Errorf("sweep ran %d times", s.leads("sweep"))
	}
}

func playReclaim(s *stage) {
	s.step(1)
	s.awaitRunning("a-sweep")
	s.awaitRunning("a-job")
	s.awaitQueue("team-a", "having the whole cluster", func(q *v1alpha2.MiniClusterQueueStatus) bool {
		return fraction(q.Share) == 1 && q.Admitted == 2
	})
	s.step(2)
	job := s.awaitAdmitted("b-job")
	if len(s.members(job)) != 6 {
		s.t.Errorf("b-job was admitted on %s", job.Status.Admission.Nodes)
	}
	s.shrunkBefore("a-sweep", job, 2)
	s.awaitEvent("a-sweep", "Draining")
	s.awaitEvent("a-job", v1alpha2.ReasonReclaimed)
	s.awaitQueue("team-a", "having what it deserves, a quarter", func(q *v1alpha2.MiniClusterQueueStatus) bool {
		return fraction(q.Share) == 0.25 && fraction(q.Deserved) == 0.25
	})
	s.awaitQueue("team-b", "having what it deserves, the rest", func(q *v1alpha2.MiniClusterQueueStatus) bool {
		return fraction(q.Share) == 0.75 && fraction(q.Deserved) == 0.75
	})
	for _, name := range []string{"b-job", "a-sweep", "a-job"} {
		s.endCommand(name)
		s.awaitSuccess(name)
	}
	if s.leads("a-sweep") != 1 || s.leads("a-job") != 2 {
		s.t.Errorf("a-sweep ran %d times, a-job %d times", s.leads("a-sweep"), s.leads("a-job"))
	}
}

func playUsers(s *stage) {
	s.step(1)
	if first, second := s.awaitAdmitted("alice-1"), s.awaitAdmitted("alice-2"); len(s.members(first)) != 4 || len(s.members(second)) != 2 {
		s.t.Errorf("alice-1 was admitted on %s, alice-2 on %s", first.Status.Admission.Nodes, second.Status.Admission.Nodes)
	}
	s.awaitReason("alice-3", v1alpha2.ReasonUserLimit)
	s.awaitMessage("alice-3", "queue turns allows user alice 6 at once")
	s.step(2)
	s.awaitReason("bob-1", v1alpha2.ReasonNoRoom)
	s.awaitQueue("turns", "telling what its users have", func(q *v1alpha2.MiniClusterQueueStatus) bool {
		users := map[string]v1alpha2.QueueUser{}
		for _, user := range q.Users {
			user.Usage, user.ResourceSeconds = "", nil
			users[user.Name] = user
		}
		return q.UsageTime != nil && cmp.Equal(users, map[string]v1alpha2.QueueUser{
			"alice": {Name: "alice", Running: 2, Nodes: 6, Pending: 1}, "bob": {Name: "bob", Pending: 1},
		})
	})
	s.endCommand("alice-2")
	bob, alice := s.awaitSuccess("bob-1"), s.awaitSuccess("alice-3")
	if !bob.Status.Admission.Time.Before(&alice.Status.Admission.Time) {
		s.t.Errorf("admitted: bob-1 at %s, alice-3 at %s", bob.Status.Admission.Time, alice.Status.Admission.Time)
	}
	s.endCommand("alice-1")
	s.awaitSuccess("alice-1")
}

func playGrow(s *stage) {
	s.step(0)
	s.await("grows", "on the nodes that were idle", func(mc *v1alpha2.MiniCluster) bool { return len(s.members(mc)) == 4 })
	s.endCommand("other")
	s.await("grows", "on all nodes", func(mc *v1alpha2.MiniCluster) bool { return len(s.members(mc)) == 8 && mc.Status.Size == 8 })
	s.awaitEvent("grows", "Grew")
	s.awaitSuccess("other")
	s.endCommand("grows")
	s.awaitSuccess("grows")
	if s.leads("grows") != 1 {
		s.t.Errorf("it ran %d times", s.leads("grows"))
	}
}

func playTopology(s *stage) {
	racks := map[string]string{}
	for i := range stageNodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: localcluster.NodeName(i)}}
		rack := []string{"left", "right"}[i/4]
		racks[node.Name] = rack
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"cloud.provider.com/topology-rack":%q}}}`, rack)
		if err := s.client.Patch(s.ctx, node, client.RawPatch(types.MergePatchType, patch)); err != nil {
			s.t.Fatal(err)
		}
	}
	in := func(mc *v1alpha2.MiniCluster) map[string]int {
		counts := map[string]int{}
		for _, node := range s.members(mc) {
			counts[racks[node]]++
		}
		return counts
	}
	s.step(1)
	half, whole := s.awaitAdmitted("half-a-rack"), s.awaitAdmitted("a-rack")
	if len(in(half)) != 1 || len(in(whole)) != 1 {
		s.t.Errorf("half-a-rack is in %v, a-rack in %v", in(half), in(whole))
	}
	s.step(2)
	s.awaitReason("too-wide", v1alpha2.ReasonNeverFits)
	for _, name := range []string{"half-a-rack", "a-rack"} {
		s.endCommand(name)
		s.awaitSuccess(name)
	}
	if waits := s.awaitSuccess("waits"); len(in(waits)) != 1 {
		s.t.Errorf("waits was in %v", in(waits))
	}
	if wide := s.awaitSuccess("two-racks"); len(in(wide)) != 2 {
		s.t.Errorf("two-racks was in %v", in(wide))
	}
	s.neverHad("too-wide")
}

func playBestEffort(s *stage) {
	s.step(1)
	s.awaitRunning("full")
	s.step(2)
	s.awaitAdmitted("guest")
	s.awaitReason("one-too-many", v1alpha2.ReasonTooLargeForQueue)
	s.awaitMessage("one-too-many", "pods")
	if full := s.get("full"); state(full) != v1alpha2.StateRunning {
		s.t.Errorf("full is %s", state(full))
	}
	s.awaitQueue("guests", "counting pods", func(q *v1alpha2.MiniClusterQueueStatus) bool { return q.Used.Pods().Value() == 4 })
	for _, name := range []string{"guest", "full"} {
		s.endCommand(name)
		s.awaitSuccess(name)
	}
	s.neverHad("one-too-many")
}

func playExclusive(s *stage) {
	s.step(1)
	alone := s.awaitAdmitted("alone")
	s.step(2)
	shares := s.awaitAdmitted("shares")
	if !alone.Status.Admission.Exclusive || shares.Status.Admission.Exclusive {
		s.t.Error("the admissions do not say who has nodes alone")
	}
	whole := s.members(alone)
	beside := func(node string) bool { return slices.Contains(whole, node) }
	if len(whole) != 4 || len(slices.Compact(slices.Sorted(slices.Values(whole)))) != 4 || slices.ContainsFunc(s.members(shares), beside) {
		s.t.Errorf("alone is on %s, shares on %s", alone.Status.Admission.Nodes, shares.Status.Admission.Nodes)
	}
	s.awaitQueue("limited", "counting whole nodes", func(q *v1alpha2.MiniClusterQueueStatus) bool { return q.Used.Cpu().Value() == 32 })
	s.step(3)
	s.awaitReason("one-more", v1alpha2.ReasonQueueFull)
	s.awaitMessage("one-more", "Needs 8 cpu in whole nodes")
	s.awaitReason("waits", v1alpha2.ReasonNoRoom)
	s.awaitMessage("waits", "a whole node each")
	for _, name := range []string{"alone", "shares"} {
		s.endCommand(name)
		s.awaitSuccess(name)
	}
	s.awaitSuccess("one-more")
	s.awaitSuccess("waits")
}

func playReservation(s *stage) {
	s.step(1)
	course := &v1alpha2.MiniClusterReservation{}
	eventually(s.t, func() error {
		if err := s.client.Get(s.ctx, client.ObjectKey{Name: "course"}, course); err != nil || course.Status.Size != 4 {
			return errors.Join(err, fmt.Errorf("the reservation has %d nodes", course.Status.Size))
		}
		return nil
	})
	reserved, err := hostlist.Decode(course.Status.Nodes, stageNodes)
	if err != nil {
		s.t.Fatal(err)
	}
	s.step(2)
	limited, students := s.awaitAdmitted("limited"), s.awaitAdmitted("students")
	for _, node := range s.members(limited) {
		if slices.Contains(reserved, node) {
			s.t.Errorf("limited is on %s, of the reservation", node)
		}
	}
	s.awaitReason("endless", v1alpha2.ReasonNoRoom)
	s.awaitMessage("endless", "reserved from 2100-01-01T00:00:00Z (maintenance)")
	s.neverHad("endless")
	s.kubectl("delete", "mcr", "maintenance")
	s.awaitSuccess("endless")
	for _, mc := range []*v1alpha2.MiniCluster{limited, students} {
		s.endCommand(mc.Name)
		s.awaitSuccess(mc.Name)
	}
}

// A namespace names the queue of the MiniClusters in it that name none.
func TestNamespaceQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, `{"metadata":{"labels":{%q:%q}}}`, v1alpha2.QueueLabel, s.namespace)
	labelled := s.create(s.miniCluster("labelled").Queue(""))
	s.awaitSuccess(labelled)
	if labelled.Status.Queue != s.namespace || labelled.Spec.Queue != "" {
		t.Errorf("it was in queue %q", labelled.Status.Queue)
	}
	named := s.create(s.miniCluster("named").Queue(v1alpha2.DefaultQueue))
	s.awaitSuccess(named)
	if named.Status.Queue != v1alpha2.DefaultQueue {
		t.Errorf("it was in queue %q", named.Status.Queue)
	}
}

// A queue serves the namespaces that its selector selects, also if their labels change meanwhile.
func TestNamespaceSelector(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	s.patchQueue(`{"spec":{"namespaceSelector":{"matchLabels":{"team":"a"}}}}`)
	mc := s.create(s.miniCluster("barred"))
	s.await(mc, "not allowed", func(mc *v1alpha2.MiniCluster) bool {
		admitted := condition(mc, v1alpha2.ConditionAdmitted)
		return admitted.Reason == v1alpha2.ReasonNotAllowed && strings.Contains(admitted.Message, "is not for namespace "+s.namespace+": team=a")
	})
	s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, `{"metadata":{"labels":{"team":"a"}}}`)
	s.awaitSuccess(mc)
}

// A MiniCluster that waits goes to another queue when the label of its namespace changes.
func TestNamespaceChangesQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	s.patchQueue(`{"spec":{"suspended":true}}`)
	setQueue := func(label string) {
		s.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, `{"metadata":{"labels":{%q:%q}}}`, v1alpha2.QueueLabel, label)
	}
	isIn := func(queue, reason string) func(mc *v1alpha2.MiniCluster) bool {
		return func(mc *v1alpha2.MiniCluster) bool {
			return mc.Status.Queue == queue && condition(mc, v1alpha2.ConditionAdmitted).Reason == reason
		}
	}
	setQueue("missing-" + s.namespace)
	waiting, named := s.create(s.miniCluster("waiting").Queue("")), s.create(s.miniCluster("named"))
	s.await(waiting, "in a queue that is missing", isIn("missing-"+s.namespace, v1alpha2.ReasonNoSuchQueue))
	s.await(named, "in its suspended queue", isIn(s.namespace, v1alpha2.ReasonQueueSuspended))
	setQueue(s.namespace)
	s.await(waiting, "in the suspended queue", isIn(s.namespace, v1alpha2.ReasonQueueSuspended))
	setQueue("")
	s.awaitSuccess(waiting)
	if waiting.Status.Queue != v1alpha2.DefaultQueue {
		t.Errorf("the MiniCluster was in queue %q", waiting.Status.Queue)
	}
	if s.get(named); !isIn(s.namespace, v1alpha2.ReasonQueueSuspended)(named) {
		t.Errorf("a MiniCluster that names its queue is in queue %q: %s", named.Status.Queue, state(named))
	}
}

// What runs in a suspended queue goes on, and what waits there starts once it is no
// more.
func TestSuspendedQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	queue := &v1alpha2.MiniClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	running := s.create(s.miniCluster("running").PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(running, v1alpha2.StateRunning)
	s.patchQueue(`{"spec":{"suspended":true}}`)
	waiting := s.create(s.miniCluster("waiting"))
	s.await(waiting, "told that its queue is suspended", func(mc *v1alpha2.MiniCluster) bool {
		return strings.Contains(condition(mc, v1alpha2.ConditionAdmitted).Message, "suspended")
	})
	s.endCommand(running)
	s.awaitSuccess(running)
	if s.get(waiting).Status.Admission != nil {
		t.Error("it was admitted from a suspended queue")
	}
	s.patch(queue, `{"spec":{"suspended":false}}`)
	s.awaitSuccess(waiting)
}

// A capacity that counts pods lets in as many as are left.
func TestCapacityInPods(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	s.patch(&v1alpha2.MiniClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, `{"spec":{"capacity":{"pods":"3"}}}`)
	first := s.create(s.miniCluster("first").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(first, v1alpha2.StateRunning)
	second := s.create(s.miniCluster("second").Size(2))
	s.await(second, "told that its queue has no more", func(mc *v1alpha2.MiniCluster) bool {
		c := condition(mc, v1alpha2.ConditionAdmitted)
		return c.Reason == v1alpha2.ReasonQueueFull && strings.Contains(c.Message, "pods")
	})
	s.endCommand(first)
	s.awaitSuccess(first)
	s.awaitSuccess(second)
	if second.Status.Admission != nil && second.Status.Admission.Time.Before(first.Status.CompletionTime) {
		t.Error("both had four of three pods")
	}
}

// A namespace is a user. Others of it wait for its limit, and its usage is recorded while it has nodes.
func TestUserOfANamespace(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.patch(queueOf(s), `{"spec":{"users":{"maxRunning":1}}}`)
	first := s.create(s.miniCluster("first").PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(first, v1alpha2.StateRunning)
	second := s.create(s.miniCluster("second"))
	s.await(second, "told that its user may have no more", func(mc *v1alpha2.MiniCluster) bool {
		c := condition(mc, v1alpha2.ConditionAdmitted)
		return c.Reason == v1alpha2.ReasonUserLimit && strings.Contains(c.Message, "at most 1 of user "+s.namespace+"'s MiniClusters")
	})
	eventually(t, func() error {
		queue := &v1alpha2.MiniClusterQueue{}
		if err := env.client.Get(s.ctx, client.ObjectKey{Name: s.namespace}, queue); err != nil {
			return err
		}
		if users := queue.Status.Users; len(users) != 1 || users[0].Name != s.namespace || users[0].Running != 1 || users[0].Usage == "0.000" {
			return fmt.Errorf("the users are %+v", users)
		}
		return nil
	})
	s.endCommand(first)
	s.awaitSuccess(first)
	s.awaitSuccess(second)
}

const stageNodes = 8

// stage is a small cluster with a manager of its own, on which examples are played one
// after the other.
type stage struct {
	t       *testing.T
	ctx     context.Context // outlives the test, for what it cleans up
	cluster *harness.Cluster
	client  client.Client
	file    string
	applied metav1.Time
}

func startStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, ctx: context.WithoutCancel(t.Context())}
	var err error
	if s.cluster, err = env.Up(s.ctx, "stage", stageNodes); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.cluster.Down(); err != nil {
			t.Error(err)
		}
	})
	s.client = s.cluster.Client
	m, err := s.cluster.StartManager(jobSetEmbedded)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Stop)
	return s
}

// example is the stage for one of them, which is removed when its test ends.
func (s *stage) example(t *testing.T, name string) *stage {
	t.Helper()
	e := &stage{t: t, ctx: s.ctx, cluster: s.cluster, client: s.client, file: filepath.Join(t.TempDir(), name+".yaml")}
	t.Cleanup(e.clear)
	text, err := os.ReadFile(filepath.Join(env.Root, "examples", "queues", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(e.file, unhurried(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return e
}

var (
	// looked matches the runtimes of an example, but not the shortest, during which nobody looks at
	// anything. limits matches the time limits.
	looked = regexp.MustCompile(`(runtime: )([2-9]|\d{2,})s`)
	limits = regexp.MustCompile(`(deadlineSeconds: \d+)`)
)

// unhurried is an example with time to look at it: its commands run until they are told, and its
// time limits are a hundred times as long.
func unhurried(example []byte) []byte {
	return limits.ReplaceAll(looked.ReplaceAll(example, []byte("${1}"+untilTold)), []byte("${1}00"))
}

// endCommand waits until a command runs, and ends the command.
func (s *stage) endCommand(name string) {
	s.t.Helper()
	s.awaitRunning(name)
	eventually(s.t, func() error {
		var pods corev1.PodList
		if err := s.client.List(s.ctx, &pods, client.MatchingLabels{v1alpha2.MiniClusterLabel: name, v1alpha2.RankLabel: "0"}); err != nil {
			return err
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; isReady(pod) {
				return simulator.Tell(s.ctx, s.client, pod, simulator.Runtime, "0s")
			}
		}
		return fmt.Errorf("the lead of %s is not ready", name)
	})
}

// clear removes what the example made, and waits until the nodes are free.
func (s *stage) clear() {
	if s.t.Failed() {
		s.t.Logf("what is there:\n%s", s.kubectl("get", "mc,mcq,pods,events", "-o", "wide"))
	}
	if err := s.client.DeleteAllOf(s.ctx, &v1alpha2.MiniCluster{}, client.InNamespace(corev1.NamespaceDefault)); err != nil {
		s.t.Error(err)
	}
	for _, kind := range []client.Object{&v1alpha2.MiniClusterQueue{}, &v1alpha2.MiniClusterReservation{}} {
		if err := s.client.DeleteAllOf(s.ctx, kind); err != nil {
			s.t.Error(err)
		}
	}
	if err := poll(func() error {
		var list corev1.PodList
		if err := s.client.List(s.ctx, &list, client.HasLabels{v1alpha2.MiniClusterLabel}); err != nil || len(list.Items) > 0 {
			return errors.Join(err, fmt.Errorf("%d pods are left", len(list.Items)))
		}
		return nil
	}); err != nil {
		s.t.Error(err)
	}
}

func (s *stage) kubectl(args ...string) string {
	s.t.Helper()
	out, err := s.cluster.Kubectl(s.ctx, args...)
	if err != nil {
		s.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// step applies what has this label, or everything for 0. Age counts in seconds: what
// comes later is younger.
func (s *stage) step(n int) {
	s.t.Helper()
	eventually(s.t, func() error {
		if now := s.now(); !s.applied.Before(&now) {
			return errors.New("it is the same second still")
		}
		return nil
	})
	args := []string{"apply", "-f", s.file}
	if n > 0 {
		args = append(args, "-l", "step="+strconv.Itoa(n))
	}
	s.kubectl(args...)
	s.applied = s.now()
}

// now is what an object that is created now has as its creation.
func (s *stage) now() metav1.Time {
	s.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "now", Namespace: corev1.NamespaceDefault}}
	if err := s.client.Create(s.ctx, object, client.DryRunAll); err != nil {
		s.t.Fatal(err)
	}
	return object.CreationTimestamp
}

func (s *stage) create(object client.Object) {
	s.t.Helper()
	if err := s.client.Create(s.ctx, object); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) get(name string) *v1alpha2.MiniCluster {
	s.t.Helper()
	mc := &v1alpha2.MiniCluster{}
	if err := s.client.Get(s.ctx, client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: name}, mc); err != nil {
		s.t.Fatal(err)
	}
	return mc
}

// await waits until a MiniCluster is as it is expected to be, and returns it.
func (s *stage) await(name, what string, holds func(*v1alpha2.MiniCluster) bool) *v1alpha2.MiniCluster {
	s.t.Helper()
	var mc *v1alpha2.MiniCluster
	eventually(s.t, func() error {
		if mc = s.get(name); holds(mc) {
			return nil
		}
		admitted := condition(mc, v1alpha2.ConditionAdmitted)
		return fmt.Errorf("%s is not %s, but %s; Admitted=%s, %s: %s", name, what, state(mc), admitted.Status, admitted.Reason, admitted.Message)
	})
	return mc
}

func (s *stage) awaitAdmitted(name string) *v1alpha2.MiniCluster {
	s.t.Helper()
	return s.await(name, "admitted", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Admission != nil })
}

func (s *stage) awaitRunning(name string) {
	s.t.Helper()
	s.await(name, "running", func(mc *v1alpha2.MiniCluster) bool { return state(mc) == v1alpha2.StateRunning })
}

func (s *stage) awaitSuccess(name string) *v1alpha2.MiniCluster {
	s.t.Helper()
	return s.await(name, "done", func(mc *v1alpha2.MiniCluster) bool {
		if state(mc) == v1alpha2.StateFailed {
			s.t.Fatalf("%s failed: %s", name, condition(mc, v1alpha2.ConditionReady).Message)
		}
		return state(mc) == v1alpha2.StateSucceeded && mc.Status.Nodes == 0
	})
}

// awaitReason waits until a MiniCluster waits for a reason.
func (s *stage) awaitReason(name, reason string) {
	s.t.Helper()
	s.await(name, "waiting: "+reason, func(mc *v1alpha2.MiniCluster) bool {
		c := condition(mc, v1alpha2.ConditionAdmitted)
		return c.Status == metav1.ConditionFalse && c.Reason == reason && c.Message != ""
	})
}

// awaitMessage waits until the message of why it waits says something.
func (s *stage) awaitMessage(name, part string) {
	s.t.Helper()
	s.await(name, "told "+part, func(mc *v1alpha2.MiniCluster) bool {
		return strings.Contains(condition(mc, v1alpha2.ConditionAdmitted).Message, part)
	})
}

// neverHad checks that nothing was made for a MiniCluster.
func (s *stage) neverHad(name string) {
	s.t.Helper()
	var pods corev1.PodList
	if err := s.client.List(s.ctx, &pods, client.MatchingLabels{v1alpha2.MiniClusterLabel: name}); err != nil {
		s.t.Fatal(err)
	}
	if mc := s.get(name); len(pods.Items) > 0 || mc.Status.Admission != nil || mc.Status.Nodes > 0 {
		s.t.Errorf("%s has %d pods and holds %d nodes", name, len(pods.Items), mc.Status.Nodes)
	}
}

// members are the nodes of the brokers that it was given and that have not left.
func (s *stage) members(mc *v1alpha2.MiniCluster) []string {
	s.t.Helper()
	a := mc.Status.Admission
	if a == nil {
		return nil
	}
	nodes, err := hostlist.Decode(a.Nodes, stageNodes)
	if err != nil {
		s.t.Fatal(err)
	}
	var vacated idset.Set
	if a.Vacated != "" {
		if vacated, err = idset.Parse(a.Vacated); err != nil {
			s.t.Fatal(err)
		}
	}
	var members []string
	for rank, node := range nodes {
		if !vacated.Has(int64(rank)) {
			members = append(members, node)
		}
	}
	return members
}

// shrunkBefore checks that one had shrunk, to a size, when another one was admitted,
// and that no node is both's.
func (s *stage) shrunkBefore(name string, admitted *v1alpha2.MiniCluster, size int) {
	s.t.Helper()
	mc := s.get(name)
	members := s.members(mc)
	if len(members) != size || mc.Status.Admission.Vacated == "" || mc.Status.Admission.Nodes == "" {
		s.t.Fatalf("%s has %d nodes, and not %d", name, len(members), size)
	}
	if members[0] != strings.Split(s.leadNode(name), " ")[0] {
		s.t.Errorf("the lead of %s is on %s, and its admission says %s", name, s.leadNode(name), members[0])
	}
	for _, node := range s.members(admitted) {
		if slices.Contains(members, node) {
			s.t.Errorf("%s and %s both have %s", name, admitted.Name, node)
		}
	}
}

func (s *stage) leadNode(name string) string {
	s.t.Helper()
	return s.kubectl("get", "pods", "-l", v1alpha2.MiniClusterLabel+"="+name+","+v1alpha2.RankLabel+"=0", "-o", "jsonpath={.items[*].spec.nodeName}")
}

// events are the reasons of a MiniCluster's events, each as often as it was said.
func (s *stage) events(name string) map[string]int {
	s.t.Helper()
	uid := s.get(name).UID
	var list corev1.EventList
	if err := s.client.List(s.ctx, &list, client.InNamespace(corev1.NamespaceDefault)); err != nil {
		s.t.Fatal(err)
	}
	counts := map[string]int{}
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.UID == uid {
			counts[e.Reason] += max(1, int(e.Count))
		}
	}
	return counts
}

func (s *stage) awaitEvent(name, reason string) {
	s.t.Helper()
	eventually(s.t, func() error {
		if events := s.events(name); events[reason] == 0 {
			return fmt.Errorf("no event %s of %s: %v", reason, name, events)
		}
		return nil
	})
}

// leads is how often a MiniCluster was started: each time it tells so.
func (s *stage) leads(name string) int { return s.events(name)["Started"] }

// admittedSizes waits for the events of its admissions, and returns the sizes.
func (s *stage) admittedSizes(mc *v1alpha2.MiniCluster) []int {
	s.t.Helper()
	var sizes []int
	eventually(s.t, func() error {
		var list corev1.EventList
		if err := s.client.List(s.ctx, &list, client.InNamespace(corev1.NamespaceDefault)); err != nil {
			return err
		}
		sizes = nil
		for i := range list.Items {
			e := &list.Items[i]
			var size, wanted int
			if e.InvolvedObject.UID != mc.UID || e.Reason != v1alpha2.ReasonAdmitted {
				continue
			}
			if _, err := fmt.Sscanf(e.Message, "Placed %d of %d brokers", &size, &wanted); err != nil {
				return fmt.Errorf("event %q: %w", e.Message, err)
			}
			sizes = append(sizes, size)
		}
		if len(sizes) == 0 {
			return fmt.Errorf("no event tells that %s was admitted", mc.Name)
		}
		return nil
	})
	return sizes
}

// awaitQueue waits until the status of a queue is as it is expected to be.
func (s *stage) awaitQueue(name, what string, holds func(*v1alpha2.MiniClusterQueueStatus) bool) {
	s.t.Helper()
	eventually(s.t, func() error {
		var queue v1alpha2.MiniClusterQueue
		if err := s.client.Get(s.ctx, client.ObjectKey{Name: name}, &queue); err != nil {
			return err
		}
		if !holds(&queue.Status) {
			return fmt.Errorf("queue %s is not %s: %+v", name, what, queue.Status)
		}
		return nil
	})
}

// awaitWaiting waits until the status of a queue says who waits, in this order.
// Queues that nobody made have none.
func (s *stage) awaitWaiting(name string, want ...string) {
	s.t.Helper()
	if name == v1alpha2.DefaultQueue {
		queue := fixture.Queue(name).New()
		if err := s.client.Create(s.ctx, queue); err != nil {
			s.t.Fatal(err)
		}
	}
	s.awaitQueue(name, strings.Join(want, ", "), func(q *v1alpha2.MiniClusterQueueStatus) bool {
		var got []string
		for _, w := range q.Waiting {
			got = append(got, w.Name+": "+w.Reason)
		}
		return slices.Equal(got, want)
	})
}

// fraction reads a share, to a hundredth.
func fraction(text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return -1
	}
	return math.Round(f*100) / 100
}
