// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// makerOf is a Job of the MiniCluster x, or the JobSet without a set, whose pods of 8 CPUs go to nodes by rank.
func makerOf(uid, set types.UID, nodes ...string) *state.Maker {
	m := &state.Maker{
		UID: uid, Set: set, MiniCluster: "uid-x", Namespace: fixture.Namespace, Name: "x", Requests: fluxion.Resources{"cpu": 8000, "pods": 1},
	}
	for rank, node := range nodes {
		m.Pods = append(m.Pods, elastic.Pod{Rank: rank, Node: node})
	}
	return m
}

func podOfJob(rank int, job types.UID, node string) *corev1.Pod {
	pod := fixture.BrokerPod("x", rank).CPU("8").On(node).Obj()
	pod.OwnerReferences[0].UID = job
	return pod
}

// A node is taken from the moment a JobSet says that a pod goes there, until the pod was seen and is gone, or until Job and
// JobSet are gone that could make the pod. A promise of the node counts once.
func TestMakers(t *testing.T) {
	l := clusterOf(fixture.Nodes("a", "b", "c", "d"), nil, nil)
	fits := func(what string, want int) {
		t.Helper()
		if got := graphOf(t, l).Fits(fluxion.Gang{Pods: fluxion.Shape{Requests: fluxion.Resources{"cpu": 8000}}}); got != want {
			t.Errorf("%s: there is room for %d, want %d", what, got, want)
		}
	}
	l.Confirm("uid-x", onNodes("a", "b", "c"))
	set := makerOf("set", "", "a", "b", "c")
	l.SetMaker(set)
	fits("it may be that the API server binds no pods", 1)
	l.Expect(true)
	fits("the promise has the same nodes", 1)
	l.Confirm("uid-x", nil)
	fits("no pod was seen", 1)
	l.Expect(false)
	fits("the API server binds no pods", 4)
	l.Expect(true)
	job := makerOf("job", "set", "a", "b", "c")
	l.SetMaker(job)
	fits("the JobSet has made its Job", 1)
	first := podOfJob(0, "job", "a")
	l.SetPod(first)
	fits("the first pod is there", 1)
	l.Gone(first)
	fits("the first pod is gone", 2)
	l.DeleteMaker("job")
	fits("the JobSet will make the Job again, and its pods", 1)
	l.SetMaker(makerOf("again", "set", "a", "b", "c"))
	leaving := *set
	leaving.Leaves = true
	l.SetMaker(&leaving)
	l.DeleteMaker("again")
	fits("the JobSet makes no Job any more, and pods of the last one may come", 1)
	l.DeleteMaker("set")
	l.Lapse(fixture.Noon)
	l.Lapse(fixture.Noon.Add(lateFor - 1))
	fits("all are gone, and pods may still come", 1)
	if next := l.Lapse(fixture.Noon.Add(lateFor)); !next.IsZero() {
		t.Errorf("nothing is waited for, and the next look is at %s", next)
	}
	fits("no pods came", 4)
	if len(l.pods)+len(l.makers)+len(l.early)+len(l.accounts) > 0 {
		t.Error("something is left of what is gone")
	}
}

// A JobSet that is deleted with its Jobs makes none of them anew, in whatever order that is seen.
func TestMakersDeletedTogether(t *testing.T) {
	for name, order := range map[string][]types.UID{"the JobSet first": {"set", "lead"}, "the Job first": {"lead", "set"}} {
		t.Run(name, func(t *testing.T) {
			l := clusterOf(fixture.Nodes("a"), nil, nil)
			l.Expect(true)
			l.SetMaker(makerOf("set", "", "a"))
			l.SetMaker(makerOf("lead", "set", "a"))
			pod := podOfJob(0, "lead", "a")
			l.SetPod(pod)
			for _, uid := range order {
				l.DeleteMaker(uid)
			}
			l.Gone(pod)
			if left := graphOf(t, l).Left("a")["cpu"]; left != 8000 {
				t.Errorf("%d are left once all are gone", left)
			}
		})
	}
}

// Pods may be seen before their Job, and end before.
func TestPodsBeforeTheirJob(t *testing.T) {
	l := clusterOf(fixture.Nodes("a", "b"), nil, nil)
	l.Expect(true)
	ended := podOfJob(0, "job", "a")
	ended.Status.Phase = corev1.PodFailed
	l.SetPod(ended)
	elsewhere := podOfJob(1, "job", "b")
	elsewhere.Namespace = "elsewhere"
	l.SetPod(elsewhere)
	l.Gone(elsewhere)
	l.SetMaker(makerOf("job", "", "a", "b"))
	if held := l.nodesOf("uid-x"); len(held) != 1 || held[0] != "b" {
		t.Errorf("%v are held: the pod of the first rank was there, and none of the second", held)
	}
	over := makerOf("job", "", "a", "b")
	over.Over = true
	l.SetMaker(over)
	if held := l.nodesOf("uid-x"); len(held) > 0 {
		t.Errorf("%v are held for a Job that has ended", held)
	}
}

// A rank that a MiniCluster has no longer, and a MiniCluster that nobody knows, have pods, too, as long as their Job is there.
func TestMakersOfOthers(t *testing.T) {
	l := clusterOf(fixture.Nodes("a", "b"), nil, nil)
	l.Expect(true)
	l.SetMiniCluster(fixture.MiniCluster("x").Size(1).Obj())
	l.SetMaker(makerOf("job", "", "a", "b"))
	l.DeleteMiniCluster("uid-x")
	if left := graphOf(t, l).Left("a")["cpu"] + graphOf(t, l).Left("b")["cpu"]; left != 0 {
		t.Errorf("%d are left", left)
	}
	l.DeleteMaker("job")
	l.Lapse(fixture.Noon)
	l.Lapse(fixture.Noon.Add(lateFor))
	if left := graphOf(t, l).Left("a")["cpu"] + graphOf(t, l).Left("b")["cpu"]; left != 16000 {
		t.Errorf("%d are left once the Job is gone", left)
	}
}

// A Job of another namespace says nothing about the pods of a JobSet, whatever UIDs the Job names.
func TestMakersOfAnotherNamespace(t *testing.T) {
	l := clusterOf(fixture.Nodes("a"), nil, nil)
	l.Expect(true)
	l.SetMaker(makerOf("set", "", "a"))
	other := makerOf("job", "set", "a")
	other.Namespace, other.Over = "other", true
	l.SetMaker(other)
	if left := graphOf(t, l).Left("a")["cpu"]; left != 0 {
		t.Errorf("%d are left on the node of the JobSet", left)
	}
}

// Whatever the finished MiniClusters of a namespace list, the pods of others are expected, and each pod once.
func TestMakersBesideFinishedMiniClusters(t *testing.T) {
	l := clusterOf(fixture.Nodes("a", "b"), nil, nil)
	l.Expect(true)
	for i := range 4 {
		over := makerOf(types.UID(fmt.Sprint("over-", i)), "", make([]string, mostListed/4)...)
		over.MiniCluster, over.Over = "uid-over", true
		l.SetMaker(over)
	}
	l.SetMaker(makerOf("set", "", "a"))
	if held := l.nodesOf("uid-x"); !slices.Equal(held, []string{"a"}) {
		t.Errorf("%v are held, want a", held)
	}
	many := makerOf("many", "", make([]string, mostListed-1)...)
	many.MiniCluster = "uid-many"
	l.SetMaker(many)
	l.SetMaker(makerOf("job", "set", "a")) // there is no room for its list
	pod := podOfJob(0, "job", "a")
	l.SetPod(pod)
	l.Gone(pod)
	if held := l.nodesOf("uid-x"); len(held) > 0 {
		t.Errorf("%v are held for a pod that was there", held)
	}
}

// An admission may end before its JobSet was seen: its pods may come all the same.
func TestUnseenMakers(t *testing.T) {
	for name, seen := range map[string]func(l *Ledger){
		"the JobSet is seen later, and makes nothing": func(l *Ledger) {
			set := *makerOf("set", "", "a", "b")
			set.Over = true
			l.SetMaker(&set)
		},
		"there is none": func(l *Ledger) {
			l.Lapse(fixture.Noon)
			l.Lapse(fixture.Noon.Add(lateFor))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := clusterOf(fixture.Nodes("a", "b"), nil, nil)
			l.Expect(true)
			l.SetMiniCluster(fixture.MiniCluster("x").Size(2).Obj())
			l.Confirm("uid-x", &state.Promise{Nodes: []string{"a", "b"}, Requests: fluxion.Resources{"cpu": 8000}})
			l.Confirm("uid-x", nil)
			l.DeleteMiniCluster("uid-x")
			if left := graphOf(t, l).Left("a")["cpu"] + graphOf(t, l).Left("b")["cpu"]; left != 0 {
				t.Errorf("%d are left", left)
			}
			seen(l)
			if left := graphOf(t, l).Left("a")["cpu"] + graphOf(t, l).Left("b")["cpu"]; left != 16000 {
				t.Errorf("%d are left at the end", left)
			}
		})
	}
}

// A pod that is still to be made, and is disowned, holds nothing until it is there. Nothing is remembered of it once its Job
// is over.
func TestDisownsWhatIsToBeMade(t *testing.T) {
	l := clusterOf(fixture.Nodes("a", "b"), nil, nil)
	l.SetMiniCluster(fixture.MiniCluster("x").Size(2).Defaulted())
	l.Expect(true)
	job := makerOf("job", "", "a", "b")
	l.SetMaker(job)
	l.SetPod(podOfJob(0, "job", "a"))
	holds := func(what string, disowned bool, want ...int) {
		t.Helper()
		if got := l.Holds("uid-x"); !slices.Equal(got, want) || l.HasDisowned("uid-x") != disowned {
			t.Errorf("%s: %v hold nodes; disowned: %t", what, got, l.HasDisowned("uid-x"))
		}
	}
	holds("one is there", false, 0, 1)
	l.Disown("uid-x", []int{1})
	holds("the other is disowned", true, 0)
	l.SetPod(podOfJob(1, "job", "b"))
	holds("it is there after all", false, 0, 1)
	l.SetMaker(makerOf("more", "", "", "", "b"))
	l.Disown("uid-x", []int{2})
	holds("another is disowned", true, 0, 1)
	over := *makerOf("more", "", "", "", "b")
	over.Over = true
	l.SetMaker(&over)
	holds("its Job is over", false, 0, 1)
}
