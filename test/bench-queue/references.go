// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"time"
)

// firstCome starts jobs in their order, and none before the one ahead of it (FCFS).
type firstCome struct{}

func (firstCome) decide(_ time.Duration, waiting []*job, _ []*running, free int) (d decision) {
	for _, j := range waiting {
		if j.size > free {
			break
		}
		free -= j.size
		d.starts = append(d.starts, resize{j, j.size})
	}
	return d
}

// firstFit starts every job that fits, in their order. Nothing is kept for one that does not: the
// allocate action of Volcano does so with gangs.
type firstFit struct{}

func (firstFit) decide(_ time.Duration, waiting []*job, _ []*running, free int) (d decision) {
	for _, j := range waiting {
		if j.size <= free {
			free -= j.size
			d.starts = append(d.starts, resize{j, j.size})
		}
	}
	return d
}

// easy is EASY backfilling: only the first job that does not fit has a reservation, at its shadow
// time. Others may pass that job if they end before, or take only nodes that it will not need
// then (Lifka, The ANL/IBM SP scheduling system, 1995; Mu'alem and Feitelson 2001).
type easy struct{}

func (easy) decide(now time.Duration, waiting []*job, runs []*running, free int) (d decision) {
	d = firstCome{}.decide(now, waiting, runs, free)
	type end struct {
		at    time.Duration
		nodes int
	}
	var ends []end
	for _, r := range runs {
		ends = append(ends, end{r.limit, r.nodes})
	}
	for _, s := range d.starts {
		free -= s.nodes
		ends = append(ends, end{now + s.estimate, s.nodes})
	}
	waiting = waiting[len(d.starts):]
	if len(waiting) == 0 {
		return d
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.at, b.at) })
	head, spare, shadow := waiting[0], free, now
	for _, e := range ends {
		if spare >= head.size && e.at > shadow {
			break
		}
		spare, shadow = spare+e.nodes, e.at
	}
	spare -= head.size
	for _, j := range waiting[1:] {
		inTime := now+j.estimate <= shadow
		if j.size > free || !inTime && j.size > spare {
			continue
		}
		free -= j.size
		if !inTime {
			spare -= j.size
		}
		d.starts = append(d.starts, resize{j, j.size})
	}
	return d
}

// conservative backfilling gives every waiting job a reservation. When a job ends early, each
// reservation in turn moves to the earliest time that delays no other (Feitelson and Weil 1998).
type conservative struct {
	reserved map[*job]time.Duration
}

func (c *conservative) decide(now time.Duration, waiting []*job, runs []*running, free int) (d decision) {
	p := profile{{at: now, free: free}}
	for _, r := range runs {
		p.add(r.limit, forever, r.nodes)
	}
	if c.reserved == nil {
		c.reserved = map[*job]time.Duration{}
	}
	for _, j := range waiting {
		if at, ok := c.reserved[j]; ok {
			p.add(at, at+j.estimate, -j.size)
		}
	}
	for _, j := range waiting {
		if at, ok := c.reserved[j]; ok {
			p.add(at, at+j.estimate, j.size)
		}
		at := p.earliest(j.size, j.estimate)
		p.add(at, at+j.estimate, -j.size)
		if c.reserved[j] = at; at == now {
			d.starts = append(d.starts, resize{j, j.size})
			delete(c.reserved, j)
		} else if d.lookAgain == 0 || at < d.lookAgain {
			d.lookAgain = at
		}
	}
	return d
}

// forever is later than any end.
const forever = time.Duration(1) << 62

// profile is how many nodes are free from each time on, rising by time.
type profile []step

type step struct {
	at   time.Duration
	free int
}

// add frees nodes from one time until another, or takes them if the number is negative. What was
// before the first time of the profile does not matter.
func (p *profile) add(from, until time.Duration, nodes int) {
	from = max(from, (*p)[0].at)
	if from >= until {
		return
	}
	first := p.split(from)
	last := len(*p)
	if until < forever {
		last = p.split(until)
	}
	for i := first; i < last; i++ {
		(*p)[i].free += nodes
	}
}

// split makes a step begin at a time, and returns its index.
func (p *profile) split(at time.Duration) int {
	i, found := slices.BinarySearchFunc(*p, at, func(s step, at time.Duration) int { return cmp.Compare(s.at, at) })
	if !found {
		*p = slices.Insert(*p, i, step{at, (*p)[i-1].free})
	}
	return i
}

// earliest is when a number of nodes is free for a while.
func (p profile) earliest(nodes int, run time.Duration) time.Duration {
	for i := 0; i < len(p); i++ {
		from := p[i].at
		for ; i < len(p) && p[i].at < from+run; i++ {
			if p[i].free < nodes {
				break
			}
		}
		if i == len(p) || p[i].at >= from+run {
			return from
		}
	}
	panic("a job is larger than the machine")
}
