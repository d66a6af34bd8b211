// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/test/world/models"
)

// life is a MiniCluster and what its user does to it.
type life struct {
	name       string
	namespace  string
	wrapper    *fixture.MiniClusterWrapper
	traits     []string
	finalizers []string
	deeds      []deed
}

// trait is something that a life has with a chance, of a hundred.
type trait struct {
	name   string
	chance int
	give   func(w *World, r *rand.Rand, l *life)
}

// kinds are the kinds of commands, of which a life has one.
var kinds = []trait{
	{"MPI", 40, func(*World, *rand.Rand, *life) {}},
	{"launcher", 15, func(_ *World, r *rand.Rand, l *life) {
		l.wrapper.Launcher().PodAnnotation(simulator.Busy, seconds(r, 0, 20))
		if r.IntN(2) == 0 {
			l.wrapper.Grow()
		}
	}},
	{"batch", 10, func(_ *World, _ *rand.Rand, l *life) {
		l.spec(func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Batch = true })
	}},
	{"interactive", 5, func(w *World, r *rand.Rand, l *life) {
		l.spec(func(s *v1alpha2.MiniClusterSpec) { s.Interactive, s.Containers[0].Command = true, "" })
		l.at(r, 60, 600, "delete", func() { w.removeLife(l, metav1.DeletePropagationBackground) })
	}},
	{"restarts", 20, func(_ *World, r *rand.Rand, l *life) {
		l.wrapper.PodAnnotation(simulator.Checkpoint, seconds(r, 0, 30)).Spec(func(s *v1alpha2.MiniClusterSpec) {
			s.Elastic.Resize = v1alpha2.ResizeRestart
			s.Elastic.Checkpoint = &v1alpha2.Checkpoint{}
			if r.IntN(3) > 0 {
				s.Elastic.Checkpoint.Signal = "SIGUSR1"
			}
			goesOn(r, s)
		})
	}},
	{"checkpoints", 10, func(_ *World, r *rand.Rand, l *life) {
		l.wrapper.PodAnnotation(simulator.Checkpoint, seconds(r, 0, 30))
		l.spec(func(s *v1alpha2.MiniClusterSpec) {
			s.Elastic.Checkpoint = &v1alpha2.Checkpoint{Signal: "SIGUSR1"}
			goesOn(r, s)
		})
	}},
}

// goesOn lets the command go on in a further attempt after its deadline, or not.
func goesOn(r *rand.Rand, s *v1alpha2.MiniClusterSpec) {
	if r.IntN(2) == 0 {
		s.Elastic.OnDeadline, s.Elastic.RequeueLimit = v1alpha2.DeadlineRequeue, new(r.Int32N(3))
	}
}

// traits are what any life may have.
var traits = []trait{
	{"elastic", 40, func(_ *World, r *rand.Rand, l *life) {
		size := l.wrapper.Obj().Spec.Size
		l.wrapper.MinSize(1 + r.Int32N(size)).MaxSize(size + r.Int32N(3))
	}},
	{"fails", 12, func(_ *World, r *rand.Rand, l *life) {
		l.wrapper.PodAnnotation(simulator.ExitCode, fmt.Sprint(1+r.IntN(3)))
	}},
	{"never ends", 8, func(_ *World, r *rand.Rand, l *life) {
		l.wrapper.PodAnnotation(simulator.Runtime, "100h").Deadline(int64(5 + r.IntN(200)))
	}},
	{"retried", 15, func(_ *World, r *rand.Rand, l *life) {
		l.spec(func(s *v1alpha2.MiniClusterSpec) { s.BackoffLimit = 1 + r.Int32N(2) })
	}},
	{"same pod", 10, func(_ *World, _ *rand.Rand, l *life) {
		l.spec(func(s *v1alpha2.MiniClusterSpec) { s.Pod.RestartPolicy = corev1.RestartPolicyOnFailure })
	}},
	{"impatient", 40, func(_ *World, r *rand.Rand, l *life) {
		quorum := time.Duration(1+r.IntN(30)) * time.Second
		l.spec(func(s *v1alpha2.MiniClusterSpec) {
			s.Elastic.QuorumTimeout = &metav1.Duration{Duration: quorum}
			s.Elastic.StartTimeout = &metav1.Duration{Duration: quorum + time.Duration(r.IntN(60))*time.Second}
		})
	}},
	{"lead fails", 5, func(_ *World, r *rand.Rand, l *life) {
		phases := []string{simulator.PhaseInit, simulator.PhaseWaiting, simulator.PhaseRunning}
		l.wrapper.PodAnnotation(simulator.LeadFails, phases[r.IntN(len(phases))]).PodAnnotation(simulator.FailsAfter, seconds(r, 0, 20))
	}},
	{"loses ranks", 8, func(_ *World, r *rand.Rand, l *life) {
		l.wrapper.PodAnnotation(simulator.LoseRanks, fmt.Sprint(1+r.IntN(3))).PodAnnotation(simulator.LoseAfter, seconds(r, 0, 20))
		if r.IntN(4) == 0 {
			l.wrapper.PodAnnotation(simulator.HangsOnLoss, "true").Deadline(300)
		}
	}},
	{"never starts", 5, func(_ *World, r *rand.Rand, l *life) {
		l.wrapper.PodAnnotation(simulator.NeverStart, fmt.Sprint(r.IntN(3)))
	}},
	{"starts late", 10, func(_ *World, r *rand.Rand, l *life) {
		l.wrapper.PodAnnotation(simulator.StartLate, fmt.Sprint(r.IntN(3))).PodAnnotation(simulator.StartDelay, seconds(r, 1, 60))
	}},
	{"cannot start", 5, func(w *World, r *rand.Rand, l *life) {
		l.wrapper.PodAnnotation(simulator.CannotStart, nodeName(r.IntN(w.nodes)))
	}},
	{"onLoss", 30, func(_ *World, r *rand.Rand, l *life) {
		policies := []v1alpha2.LossPolicy{v1alpha2.LossFail, v1alpha2.LossContinue, v1alpha2.LossRecreate}
		l.spec(func(s *v1alpha2.MiniClusterSpec) { s.Elastic.OnLoss = policies[r.IntN(len(policies))] })
	}},
	{"services", 10, func(_ *World, _ *rand.Rand, l *life) {
		l.spec(func(s *v1alpha2.MiniClusterSpec) {
			s.Services = []v1alpha2.MiniClusterContainer{{Name: "db", Image: "db", Command: "serve"}}
		})
	}},
	{"TTL", 15, func(_ *World, r *rand.Rand, l *life) {
		l.spec(func(s *v1alpha2.MiniClusterSpec) { s.TTLSecondsAfterFinished = new(r.Int32N(100)) })
	}},
	{"priority", 20, func(_ *World, r *rand.Rand, l *life) {
		l.wrapper.Priority(priorities[r.IntN(len(priorities))])
	}},
	{"queue", 30, func(_ *World, r *rand.Rand, l *life) {
		l.wrapper.Queue(queues[r.IntN(len(queues))])
	}},
	{"too large", 2, func(w *World, _ *rand.Rand, l *life) {
		l.wrapper.Size(int32(w.nodes) + 1).MinSize(0).MaxSize(0).CPU("8")
	}},
	{"scaled", 20, func(w *World, r *rand.Rand, l *life) {
		for range 1 + r.IntN(3) {
			size := 1 + r.IntN(6)
			l.at(r, 0, 300, fmt.Sprintf("scale to %d", size), func() { w.patchLife(l, fmt.Sprintf(`{"spec":{"size":%d}}`, size)) })
		}
	}},
	{"edited", 10, func(w *World, r *rand.Rand, l *life) {
		edits := []string{
			`{"spec":{"deadlineSeconds":100}}`, `{"spec":{"minSize":1}}`, `{"spec":{"backoffLimit":0}}`, `{"spec":{"tasks":7}}`,
			`{"spec":{"elastic":{"quorumTimeout":"5s","startTimeout":"20s"}}}`, `{"spec":{"pod":{"labels":{"edited":"yes"}}}}`,
		}
		edit := edits[r.IntN(len(edits))]
		l.at(r, 0, 200, "edit "+edit, func() { w.patchLife(l, edit) })
	}},
	{"suspended", 12, func(w *World, r *rand.Rand, l *life) {
		pause := time.Duration(r.IntN(120)) * time.Second
		at := l.at(r, 0, 200, "suspend", func() { w.patchLife(l, `{"spec":{"suspend":true}}`) })
		l.deeds = append(l.deeds, deed{at.Add(pause), "resume " + l.name, func() { w.patchLife(l, `{"spec":{"suspend":false}}`) }})
	}},
	{"deleted", 8, func(w *World, r *rand.Rand, l *life) {
		how := propagations[r.IntN(len(propagations)-1)]
		l.at(r, 0, 300, "delete "+string(how), func() { w.removeLife(l, how) })
	}},
	{"made again", 5, func(w *World, r *rand.Rand, l *life) {
		at := l.at(r, 0, 200, "delete, to make it again", func() { w.removeLife(l, metav1.DeletePropagationBackground) })
		l.deeds = append(l.deeds, deed{at.Add(time.Duration(r.IntN(20)) * time.Second), "make again " + l.name, func() { w.makeLife(l) }})
	}},
	{"kept when deleted", 5, func(w *World, r *rand.Rand, l *life) {
		if !slices.Contains(l.traits, "made again") { // nothing else can have its name
			l.finalizers = []string{keeper}
		}
		l.at(r, 0, 300, "delete", func() { w.removeLife(l, metav1.DeletePropagationBackground) })
	}},
	{"Kueue", 60, joinKueue},
	{"injected", 10, func(_ *World, r *rand.Rand, l *life) {
		who := slices.Sorted(maps.Keys(injected))[r.IntN(len(injected))]
		l.spec(func(s *v1alpha2.MiniClusterSpec) { s.Pod.Labels = map[string]string{fixture.InjectLabel: who} })
	}},
	{"waits", 15, func(w *World, r *rand.Rand, l *life) {
		conditions := []v1alpha2.DependencyCondition{v1alpha2.DependencyStarted, v1alpha2.DependencySucceeded, v1alpha2.DependencyFailed, v1alpha2.DependencyFinished}
		on := v1alpha2.Dependency{Name: fmt.Sprintf("l%d", r.IntN(w.MiniClusters)), Condition: conditions[r.IntN(len(conditions))]}
		l.spec(func(s *v1alpha2.MiniClusterSpec) { s.After = []v1alpha2.Dependency{on} })
	}},
	{"later", 10, func(_ *World, r *rand.Rand, l *life) {
		at := metav1.NewTime(l.deeds[0].at.Add(time.Duration(r.IntN(300)) * time.Second).Truncate(time.Second))
		l.spec(func(s *v1alpha2.MiniClusterSpec) { s.NotBefore = &at })
	}},
	{"singleton", 10, func(_ *World, _ *rand.Rand, l *life) {
		l.spec(func(s *v1alpha2.MiniClusterSpec) { s.Singleton = "key" })
	}},
}

// injected are the commands of the containers that somebody injects into pods, by their names: a mesh that never ends, an
// agent that fails, and one that ends well.
var injected = map[string][]string{
	"mesh": {models.Injected}, "broken-agent": {models.Injected, "4s", "1"}, "agent": {models.Injected, "20s", "0"},
}

// keeper is the finalizer of users who keep the MiniClusters that they delete.
const keeper = "example.com/keeps"

var (
	priorities   = []string{"high", "low"}
	queues       = []string{"batch", "urgent"}
	namespaces   = []string{"team-a", "team-b"}
	propagations = []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
)

// bear makes up a life.
func (w *World) bear(i int) *life {
	r := rand.New(rand.NewPCG(w.Seed, uint64(1000+i)))
	l := &life{name: fmt.Sprintf("l%d", i), namespace: namespaces[r.IntN(len(namespaces))]}
	cpus := []string{"8", "8", "8", "4", "2"}
	l.wrapper = fixture.MiniCluster(l.name).In(l.namespace).Size(1+r.Int32N(int32(min(6, w.nodes)))).CPU(cpus[r.IntN(len(cpus))]).
		PodAnnotation(simulator.Runtime, seconds(r, 1, 120)).Tasks(1 + r.Int32N(12))
	l.spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Elastic.Recreate = v1alpha2.Recreate{
			Limit: new(r.Int32N(4)), BackoffBase: &metav1.Duration{Duration: 2 * time.Second}, BackoffMax: &metav1.Duration{Duration: time.Minute},
		}
	})
	born := w.began.Add(time.Duration(r.Int64N(int64(w.busy))))
	l.deeds = []deed{{born, "", func() { w.makeLife(l) }}}
	n := r.IntN(100)
	for _, kind := range kinds {
		if n -= kind.chance; n < 0 {
			l.give(w, r, kind)
			break
		}
	}
	for _, t := range traits {
		if r.IntN(100) < t.chance {
			l.give(w, r, t)
		}
	}
	l.deeds[0].what = "create " + l.name + ": " + strings.Join(l.traits, ", ")
	return l
}

func (l *life) give(w *World, r *rand.Rand, t trait) {
	t.give(w, r, l)
	l.traits = append(l.traits, t.name)
}

func (l *life) spec(change func(*v1alpha2.MiniClusterSpec)) { l.wrapper.Spec(change) }

// at has the user do something some seconds after the life began.
func (l *life) at(r *rand.Rand, least, most int, what string, do func()) time.Time {
	at := l.deeds[0].at.Add(time.Duration(least)*time.Second + time.Duration(r.Int64N(int64(most-least)*int64(time.Second))))
	l.deeds = append(l.deeds, deed{at, what + " " + l.name, do})
	return at
}

func seconds(r *rand.Rand, least, most int) string {
	return (time.Duration(least)*time.Second + time.Duration(r.Int64N(int64(most-least)*1000))*time.Millisecond).String()
}

// makeLife creates the MiniCluster of a life, again if one of its name is still there.
func (w *World) makeLife(l *life) {
	mc := l.wrapper.New()
	mc.Finalizers = l.finalizers
	err := w.user.Create(w.ctx, mc)
	switch {
	case apierrors.IsAlreadyExists(err):
		w.later(5*time.Second, "try again to make "+l.name, func() { w.makeLife(l) })
	case err != nil:
		w.refused(l.name, err)
	default:
		w.result.Lives++
	}
}

func (w *World) patchLife(l *life, patch string) {
	mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.name}}
	w.mayRefuse(l.name, w.user.Patch(w.ctx, mc, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func (w *World) removeLife(l *life, how metav1.DeletionPropagation) {
	mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.name}}
	w.mayRefuse(l.name, w.user.Delete(w.ctx, mc, client.PropagationPolicy(how)))
}

// mayRefuse notes that the API server refused something to a user, and reports whether it did not. What is gone is not
// refused.
func (w *World) mayRefuse(what string, err error) (done bool) {
	if client.IgnoreNotFound(err) != nil {
		w.refused(what, err)
	}
	return err == nil
}

// refused notes what the API server did not let a user do: it validates.
func (w *World) refused(what string, err error) {
	text, _, _ := strings.Cut(err.Error(), "\n")
	w.trace("  refused " + what + ": " + text)
	w.result.Refused++
}
