// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// maxCores is how many cores of a rank the double looks at.
const maxCores = 1 << 16

// resourceSet is the part of an R (RFC 20) that counts.
type resourceSet struct {
	Version   int       `json:"version"`
	Execution execution `json:"execution"`
}

type execution struct {
	RLite      []rLite  `json:"R_lite"`
	Nodelist   []string `json:"nodelist"`
	Starttime  float64  `json:"starttime"`
	Expiration float64  `json:"expiration"`
}

type rLite struct {
	Rank     string            `json:"rank"`
	Children map[string]string `json:"children"`
}

// readR reads the cores of each rank. Without a file each has those of this machine.
func readR(path string, ranks int) ([][]int64, error) {
	all := resourceSet{Execution: execution{RLite: []rLite{{
		fmt.Sprintf("0-%d", ranks-1), map[string]string{"core": ids(runtime.NumCPU())},
	}}}}
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("resource.path: %w", err)
		}
		if err := json.Unmarshal(data, &all); err != nil {
			return nil, fmt.Errorf("resource.path: %s: %w", path, err)
		}
	} else if ranks == 1 {
		all.Execution.RLite[0].Rank = "0"
	}
	cores := make([][]int64, ranks)
	for _, entry := range all.Execution.RLite {
		of, err := idset.Decode(entry.Rank, ranks)
		if err != nil {
			return nil, fmt.Errorf("resource.path: %w", err)
		}
		has, err := idset.Decode(entry.Children["core"], maxCores)
		if err != nil {
			return nil, fmt.Errorf("resource.path: %w", err)
		}
		for _, rank := range of {
			if rank < int64(ranks) {
				cores[rank] = has
			}
		}
	}
	return cores, nil
}

// ids are the first n.
func ids(n int) string {
	if n == 1 {
		return "0"
	}
	return fmt.Sprintf("0-%d", n-1)
}

// encodeR is flux R encode.
func encodeR(args []string) int {
	if len(args) == 0 || args[0] != "encode" {
		return fail("flux-R: fakeflux has encode alone")
	}
	given, _, err := parse(args[1:], syntax{"hosts,H=", "ranks,r=", "cores,c=", "gpus,g=", "local,l"})
	if err != nil {
		return fail("flux-R: %v", err)
	}
	hosts, err := hostlist.Decode(given.last("hosts"), maxHosts)
	if err != nil {
		return fail("flux-R: %v", err)
	}
	if len(hosts) == 0 {
		hosts = []string{hostname()}
	}
	ranks, children := given.last("ranks"), map[string]string{}
	if ranks == "" {
		ranks = ids(len(hosts))
	}
	if given.has("local") {
		children["core"] = ids(runtime.NumCPU())
	}
	for option, child := range map[string]string{"cores": "core", "gpus": "gpu"} {
		if text := given.last(option); text != "" {
			children[child] = text
		}
	}
	err = json.NewEncoder(os.Stdout).Encode(resourceSet{1, execution{
		RLite: []rLite{{ranks, children}}, Nodelist: []string{hostlist.Encode(hosts)},
	}})
	if err != nil {
		return fail("flux-R: %v", err)
	}
	return 0
}

// rlist writes the cores of each rank as Flux does: rank[0-1]/core[0-3].
func rlist(cores map[int][]int64, ranks []int) string {
	var groups []string
	of := map[string][]int64{}
	for _, rank := range ranks {
		if len(cores[rank]) == 0 {
			continue
		}
		group := idset.Encode(cores[rank])
		if of[group] == nil {
			groups = append(groups, group)
		}
		of[group] = append(of[group], int64(rank))
	}
	var out []string
	for _, group := range groups {
		out = append(out, "rank"+bracket(idset.Encode(of[group]))+"/core"+bracket(group))
	}
	return strings.Join(out, " ")
}

func bracket(ids string) string {
	if strings.ContainsAny(ids, "-,") {
		return "[" + ids + "]"
	}
	return ids
}
