// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// fate is what comes over a MiniCluster.
type fate struct {
	name   string
	weight int
	// shape makes it so. What is not said is of its own size and runs for seconds.
	shape func(c *chaos, r *rand.Rand, w *fixture.MiniClusterWrapper)
	// then is what somebody does to it later on.
	then func(c *chaos, r *rand.Rand, l *life)
	// ends are the outcomes that it may have where no node was lost.
	ends []string
}

// Ends that are no outcomes.
const (
	endGone  = "gone"
	endWaits = "waits"
)

var fates = []fate{
	{name: "plain", weight: 4, ends: []string{v1alpha2.ReasonSucceeded}},
	{name: "elastic", weight: 3, shape: elastic, ends: []string{v1alpha2.ReasonSucceeded}},
	{name: "urgent", weight: 2, shape: urgent, ends: []string{v1alpha2.ReasonSucceeded}},
	{name: "with services", weight: 1, shape: withServices, ends: []string{v1alpha2.ReasonSucceeded}},
	{name: "exit code", weight: 1, shape: annotated(simulator.ExitCode, "3"), ends: []string{v1alpha2.ReasonCommandFailed}},
	{name: "a rank never starts, rigid", weight: 2, shape: neverStarts, ends: []string{v1alpha2.ReasonStartLimit}},
	{name: "a rank never starts, elastic", weight: 2, shape: both(elastic, neverStarts), ends: []string{v1alpha2.ReasonSucceeded, v1alpha2.ReasonStartLimit}},
	{name: "nodes cannot start it", weight: 2, shape: cannotStartSomewhere, ends: []string{v1alpha2.ReasonSucceeded, v1alpha2.ReasonStartLimit}},
	{name: "no node can start it", weight: 1, shape: both(impatient, annotated(simulator.CannotStart, "*")), ends: []string{v1alpha2.ReasonStartLimit}},
	{name: "lead fails in Init", weight: 1, shape: annotated(simulator.LeadFails, simulator.PhaseInit), ends: []string{v1alpha2.ReasonCommandFailed}},
	{name: "lead fails in Waiting", weight: 1, shape: annotated(simulator.LeadFails, simulator.PhaseWaiting), ends: []string{v1alpha2.ReasonCommandFailed}},
	{name: "lead fails, tried twice", weight: 2, shape: both(annotated(simulator.LeadFails, simulator.PhaseRunning), triedTwice), ends: []string{v1alpha2.ReasonCommandFailed}},
	{name: "loses a rank: Fail", weight: 2, shape: loses(v1alpha2.LossFail), ends: []string{v1alpha2.ReasonCommandFailed, v1alpha2.ReasonBrokersLost}},
	{name: "loses a rank: Recreate", weight: 2, shape: loses(v1alpha2.LossRecreate), ends: []string{v1alpha2.ReasonCommandFailed, v1alpha2.ReasonBrokersLost}},
	{name: "loses a rank: Continue", weight: 2, shape: both(loses(v1alpha2.LossContinue), launcher), ends: []string{v1alpha2.ReasonSucceeded}},
	{name: "hangs on a loss", weight: 1, shape: both(loses(v1alpha2.LossFail), annotated(simulator.HangsOnLoss, "true")), ends: []string{v1alpha2.ReasonBrokersLost}},
	{name: "deadline", weight: 2, shape: pressed, ends: []string{v1alpha2.ReasonDeadlineExceeded}},
	{name: "scaled launcher", weight: 4, shape: launcher, then: scaled, ends: []string{v1alpha2.ReasonSucceeded}},
	{name: "scaled MPI job", weight: 1, shape: elastic, then: scaled, ends: []string{v1alpha2.ReasonSucceeded}},
	{name: "suspended and resumed", weight: 3, then: suspended, ends: []string{v1alpha2.ReasonSucceeded}},
	{name: "deleted", weight: 2, shape: annotated(simulator.Runtime, "1h"), then: deleted, ends: []string{endGone}},
	{name: "deleted and made again", weight: 2, then: madeAgain, ends: []string{v1alpha2.ReasonSucceeded}},
	{name: "removed once done", weight: 2, shape: removed, ends: []string{endGone}},
	{name: "never fits", weight: 1, shape: tooLarge, ends: []string{endWaits}},
}

type shape = func(c *chaos, r *rand.Rand, w *fixture.MiniClusterWrapper)

func both(first, second shape) shape {
	return func(c *chaos, r *rand.Rand, w *fixture.MiniClusterWrapper) {
		first(c, r, w)
		second(c, r, w)
	}
}

func annotated(key, value string) shape {
	return func(_ *chaos, _ *rand.Rand, w *fixture.MiniClusterWrapper) { w.PodAnnotation(key, value) }
}

func elastic(_ *chaos, r *rand.Rand, w *fixture.MiniClusterWrapper) {
	w.Size(2 + r.Int32N(8)).MaxSize(10).MinSize(1)
}

func urgent(c *chaos, r *rand.Rand, w *fixture.MiniClusterWrapper) {
	w.Size(4 + r.Int32N(8)).Priority(c.urgent)
}

func withServices(_ *chaos, _ *rand.Rand, w *fixture.MiniClusterWrapper) {
	w.CPU("7").Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Services = []v1alpha2.MiniClusterContainer{{Name: "db", Image: "db", Command: "serve"}}
	})
}

// impatient is soon done with what does not start.
func impatient(_ *chaos, _ *rand.Rand, w *fixture.MiniClusterWrapper) {
	w.Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.QuorumTimeout, spec.Elastic.StartTimeout = duration("5s"), duration("10s")
		spec.Elastic.Recreate.Limit = new(int32(1))
	})
}

func hasty(c *chaos, r *rand.Rand, w *fixture.MiniClusterWrapper) {
	impatient(c, r, w)
	w.Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.QuorumTimeout, spec.Elastic.StartTimeout = duration("1s"), duration("2s")
		spec.Elastic.Recreate.BackoffBase = duration("1s")
	})
}

func neverStarts(c *chaos, r *rand.Rand, w *fixture.MiniClusterWrapper) {
	impatient(c, r, w)
	w.Size(2+r.Int32N(4)).PodAnnotation(simulator.NeverStart, "1")
}

func cannotStartSomewhere(c *chaos, r *rand.Rand, w *fixture.MiniClusterWrapper) {
	var nodes []string
	for _, i := range r.Perm(len(c.nodes))[:len(c.nodes)/4] {
		nodes = append(nodes, c.nodes[i])
	}
	w.PodAnnotation(simulator.CannotStart, strings.Join(nodes, ","))
	if r.IntN(2) == 0 {
		impatient(c, r, w)
	}
}

func triedTwice(_ *chaos, _ *rand.Rand, w *fixture.MiniClusterWrapper) {
	w.PodAnnotation(simulator.Runtime, "5s").Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.BackoffLimit = 1 })
}

func loses(policy v1alpha2.LossPolicy) shape {
	return func(c *chaos, r *rand.Rand, w *fixture.MiniClusterWrapper) {
		impatient(c, r, w)
		w.Size(2+r.Int32N(4)).PodAnnotation(simulator.LoseRanks, "1").PodAnnotation(simulator.Runtime, "5s").
			Spec(func(spec *v1alpha2.MiniClusterSpec) {
				spec.Elastic.OnLoss = policy
				spec.Elastic.QuorumTimeout, spec.Elastic.StartTimeout = nil, nil
			})
	}
}

func launcher(_ *chaos, r *rand.Rand, w *fixture.MiniClusterWrapper) {
	w.Launcher().Size(3+r.Int32N(3)).MinSize(1).MaxSize(10).PodAnnotation(simulator.Runtime, "8s").
		PodAnnotation(simulator.Busy, fmt.Sprintf("%ds", r.IntN(3)))
	if r.IntN(2) == 0 {
		w.Grow()
	}
}

func pressed(_ *chaos, r *rand.Rand, w *fixture.MiniClusterWrapper) {
	w.Deadline(1+r.Int64N(5)).PodAnnotation(simulator.Runtime, "1h")
}

func removed(_ *chaos, r *rand.Rand, w *fixture.MiniClusterWrapper) {
	w.Spec(func(spec *v1alpha2.MiniClusterSpec) {
		if r.IntN(2) == 0 {
			spec.Cleanup = true
			return
		}
		spec.TTLSecondsAfterFinished = new(r.Int32N(10))
	})
}

func tooLarge(c *chaos, _ *rand.Rand, w *fixture.MiniClusterWrapper) {
	w.Size(int32(len(c.nodes)) + 1)
}

func scaled(c *chaos, r *rand.Rand, l *life) {
	for range 1 + r.IntN(4) {
		size := 1 + r.IntN(10)
		c.later(seconds(r, 15), func() { c.write(l, `{"spec":{"size":%d}}`, size) })
	}
}

func suspended(c *chaos, r *rand.Rand, l *life) {
	pause := seconds(r, 8)
	c.later(seconds(r, 10), func() {
		c.write(l, `{"spec":{"suspend":true}}`)
		c.later(pause, func() { c.write(l, `{"spec":{"suspend":false}}`) })
	})
}

func deleted(c *chaos, r *rand.Rand, l *life) {
	c.later(seconds(r, 10), func() { c.remove(l, metav1.DeletePropagationBackground) })
}

func deletedForeground(c *chaos, r *rand.Rand, l *life) {
	c.later(seconds(r, 10), func() { c.remove(l, metav1.DeletePropagationForeground) })
}

func madeAgain(c *chaos, r *rand.Rand, l *life) {
	c.later(seconds(r, 10), func() {
		w := c.shaped(r, l)
		c.remove(l, metav1.DeletePropagationBackground)
		c.make(l, w)
	})
}

// seconds is a time of up to so many.
func seconds(r *rand.Rand, most int) time.Duration {
	return time.Duration(r.Int64N(int64(most) * int64(time.Second)))
}
