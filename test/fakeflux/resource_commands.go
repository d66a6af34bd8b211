// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

func (c *call) resource(args []string) int {
	if len(args) > 0 {
		switch args[0] {
		case "list":
			return c.table(args[1:], "free,allocated,down", c.inListState)
		case "status":
			return c.table(args[1:], "avail,offline,draining,drained", c.inStatusState)
		case "drain":
			return c.drain(args[1:])
		case "undrain":
			return c.undrain(args[1:])
		}
	}
	return c.fail("flux-resource: fakeflux has list, status, drain and undrain alone")
}

// table prints a line for each state, or one for all where the format does not tell
// them apart.
func (c *call) table(args []string, states string, in func(state string) (map[int][]int64, error)) int {
	given, _, err := parse(args, syntax{"states,s=", "no-header,n", "format,o=", "include,i=", "skip-empty"})
	if err != nil {
		return c.misuse(err)
	}
	if own := given.last("states"); own != "" {
		states = own
	}
	format := given.last("format")
	if format == "" {
		format = "{state}\t{nnodes}\t{ncores}\t{nodelist}"
	}
	chosen, err := c.chosen(given)
	if err != nil {
		return c.misuse(err)
	}
	if !given.has("no-header") {
		c.print("%s", strings.ToUpper(strings.NewReplacer("{", "", "}", "").Replace(format)))
	}
	c.Lock()
	defer c.Unlock()
	all := map[int][]int64{}
	for state := range strings.SplitSeq(states, ",") {
		cores, err := in(state)
		if err != nil {
			return c.misuse(err)
		}
		maps.DeleteFunc(cores, func(rank int, _ []int64) bool { return !slices.Contains(chosen, rank) })
		if !strings.Contains(format, "{state") {
			for rank, more := range cores {
				all[rank] = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(all[rank]), more...))))
			}
		} else if err := c.lines(format, state, cores); err != nil {
			return c.misuse(err)
		}
	}
	if !strings.Contains(format, "{state") {
		if err := c.row(format, c.resources("", all)); err != nil {
			return c.misuse(err)
		}
	}
	return 0
}

// chosen are the ranks to tell of: all, where it is not said.
func (c *call) chosen(given options) ([]int, error) {
	if given.has("include") {
		return c.targets(given.last("include"))
	}
	var all []int
	for rank := range c.hosts {
		all = append(all, rank)
	}
	return all, nil
}

// lines prints that of a state, and one with a star for those which are drained and down.
func (c *call) lines(format, state string, cores map[int][]int64) error {
	down := map[int][]int64{}
	if state == "draining" || state == "drained" {
		maps.Copy(down, cores)
		maps.DeleteFunc(down, func(rank int, _ []int64) bool { return c.isUp(rank) })
		maps.DeleteFunc(cores, func(rank int, _ []int64) bool { return !c.isUp(rank) })
	}
	err := c.row(format, c.resources(state, cores))
	if err == nil && len(down) > 0 {
		err = c.row(format, c.resources(state+"*", down))
	}
	return err
}

// resources are the fields of a line.
func (c *call) resources(state string, cores map[int][]int64) map[string]string {
	var ranks []int
	n := 0
	for rank := range c.hosts {
		if _, ok := cores[rank]; ok {
			ranks = append(ranks, rank)
			n += len(cores[rank])
		}
	}
	return map[string]string{
		"state": state, "nnodes": strconv.Itoa(len(ranks)), "ncores": strconv.Itoa(n), "ngpus": "0",
		"nodelist": c.nodelist(ranks), "ranks": rankset(ranks), "rlist": rlist(cores, ranks),
	}
}

// inListState are the cores in a state of flux resource list, where a drained rank is
// down.
func (c *call) inListState(state string) (map[int][]int64, error) {
	in, free := map[int][]int64{}, c.free()
	for rank, cores := range c.cores {
		up, used := c.isSchedulable(rank), c.allocated(rank)
		switch state {
		case "all":
			in[rank] = cores
		case "up":
			if up {
				in[rank] = cores
			}
		case "down":
			if !up {
				in[rank] = cores
			}
		case "free":
			if len(free[rank]) > 0 {
				in[rank] = free[rank]
			}
		case "allocated":
			if len(used) > 0 {
				in[rank] = used
			}
		default:
			return nil, fmt.Errorf("error: invalid resource state %s specified", state)
		}
	}
	return in, nil
}

// inStatusState are those in a state of flux resource status.
func (c *call) inStatusState(state string) (map[int][]int64, error) {
	is, ok := map[string]func(up, drained, busy bool) bool{
		"all":      func(_, _, _ bool) bool { return true },
		"online":   func(up, _, _ bool) bool { return up },
		"offline":  func(up, _, _ bool) bool { return !up },
		"avail":    func(up, drained, _ bool) bool { return up && !drained },
		"drain":    func(_, drained, _ bool) bool { return drained },
		"draining": func(_, drained, busy bool) bool { return drained && busy },
		"drained":  func(_, drained, busy bool) bool { return drained && !busy },
	}[state]
	if !ok {
		return nil, fmt.Errorf("error: invalid resource state %s specified", state)
	}
	in := map[int][]int64{}
	for rank, cores := range c.cores {
		_, drained := c.drained[rank]
		if is(c.isUp(rank), drained, len(c.allocated(rank)) > 0) {
			in[rank] = cores
		}
	}
	return in, nil
}

// targets are ranks, or host names.
func (c *call) targets(text string) ([]int, error) {
	if ids, err := idset.Decode(text, len(c.hosts)); err == nil {
		var ranks []int
		for _, id := range ids {
			if id >= int64(len(c.hosts)) {
				return nil, fmt.Errorf("ERROR: rank %d is out of range", id)
			}
			ranks = append(ranks, int(id))
		}
		return ranks, nil
	}
	hosts, err := hostlist.Decode(text, maxHosts)
	if err != nil {
		return nil, err
	}
	var ranks []int
	for _, host := range hosts {
		rank := slices.Index(c.hosts, host)
		if rank < 0 {
			return nil, fmt.Errorf("ERROR: invalid targets: unknown host %s", host)
		}
		ranks = append(ranks, rank)
	}
	return ranks, nil
}

// drain keeps jobs from ranks, or says which are drained.
func (c *call) drain(args []string) int {
	given, args, err := parse(args, syntax{"force,f", "update,u", "no-header,n", "format,o="})
	if err != nil {
		return c.misuse(err)
	}
	if len(args) == 0 {
		c.Lock()
		defer c.Unlock()
		for rank := range c.hosts {
			if reason, ok := c.drained[rank]; ok {
				c.print("drained %s %s", reason, c.hosts[rank])
			}
		}
		return 0
	}
	return c.mark(args[0], func(ranks []int) error {
		for _, rank := range ranks {
			if _, ok := c.drained[rank]; ok && !given.has("force") && !given.has("update") {
				return fmt.Errorf("ERROR: [Errno 17] rank %d already drained", rank)
			}
		}
		for _, rank := range ranks {
			c.drained[rank] = strings.Join(args[1:], " ")
		}
		return nil
	})
}

func (c *call) undrain(args []string) int {
	given, args, err := parse(args, syntax{"force,f"})
	if err != nil || len(args) == 0 {
		return c.misuse(fmt.Errorf("usage: flux resource undrain TARGETS"))
	}
	return c.mark(args[0], func(ranks []int) error {
		for _, rank := range ranks {
			if _, ok := c.drained[rank]; !ok && !given.has("force") {
				return fmt.Errorf("ERROR: rank %d not drained", rank)
			}
		}
		for _, rank := range ranks {
			delete(c.drained, rank)
		}
		return nil
	})
}

func (c *call) mark(targets string, do func(ranks []int) error) int {
	ranks, err := c.targets(targets)
	if err == nil {
		c.change(func() { err = do(ranks) })
	}
	if err != nil {
		return c.fail("flux-resource: %v", err)
	}
	return 0
}
