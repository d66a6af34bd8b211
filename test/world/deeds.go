// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// part is what can be left out of a world: a life, or a fault. Shrinking leaves out parts while a violation stays.
type part struct {
	name string
	// begin is done when the world begins, and deeds at their times.
	begin func()
	deeds []deed
}

// deed is something that users do, or that befalls the cluster, at a time.
type deed struct {
	at   time.Time
	what string
	do   func()
}

// plan adds the deeds of a part, unless the part is left out.
func (w *World) plan(p part) {
	w.result.Parts = append(w.result.Parts, p.name)
	if slices.Contains(w.Without, len(w.result.Parts)-1) {
		return
	}
	if p.begin != nil {
		p.begin()
	}
	for _, d := range p.deeds {
		w.schedule(d)
	}
}

// later has something done after a while.
func (w *World) later(after time.Duration, what string, do func()) {
	w.schedule(deed{time.Now().Add(after), what, do})
}

// schedule keeps the deeds in the order of their times; of those of one time, the first one that came.
func (w *World) schedule(d deed) {
	i := len(w.deeds)
	for i > 0 && d.at.Before(w.deeds[i-1].at) {
		i--
	}
	w.deeds = slices.Insert(w.deeds, i, d)
}

// must ends the test if a deed of the world fails that nothing may refuse. What is gone, or there, is as it should be.
func must(err error) {
	if client.IgnoreNotFound(client.IgnoreAlreadyExists(err)) != nil {
		panic(err)
	}
}

// nextDeed is when the next deed is due; zero if there is none.
func (w *World) nextDeed() time.Time {
	if len(w.deeds) == 0 {
		return time.Time{}
	}
	return w.deeds[0].at
}

// doDue does the first deed that is due, and reports whether there was one.
func (w *World) doDue() bool {
	if len(w.deeds) == 0 || w.deeds[0].at.After(time.Now()) {
		return false
	}
	d := w.deeds[0]
	w.deeds = w.deeds[1:]
	w.trace("* " + d.what)
	d.do()
	clear(w.naps) // a fault of a model changes no object
	return true
}
