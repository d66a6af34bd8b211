// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
)

// Verdicts on a MiniCluster that was written for the Flux Operator.
const (
	worksAsIs       = "works as it is"
	worksWithChange = "works with a change"
	refusedHere     = "refused"
)

// verdict says how a MiniCluster that was written for the Flux Operator works here.
type verdict struct {
	kind string
	// details are the changes that it needs, or why it is refused.
	details []string
}

// judge returns the verdict on a MiniCluster. It removes unknown fields from the object.
func (r *renderer) judge(object map[string]any) verdict {
	var changes []string
	for _, path := range r.schema.prune(object) {
		changes = append(changes, "remove "+path+", which does not exist")
	}
	mc, err := r.miniCluster(object)
	if err == nil {
		_, err = jobset.AllObjects(mc, placeholderSuffix, placeholderCertificate)
	}
	if err != nil {
		return verdict{refusedHere, []string{err.Error()}}
	}
	changes = append(changes, changesOf(mc)...)
	if len(changes) > 0 {
		return verdict{worksWithChange, changes}
	}
	return verdict{worksAsIs, nil}
}

// oldService is the default of network.headlessName in the Flux Operator until 2025.
const oldService = "flux-service"

var oldServiceHost = regexp.MustCompile(`[a-z0-9]\.` + oldService + `\b`)

// changesOf returns the changes that a valid MiniCluster needs to work as with the Flux Operator.
func changesOf(mc *v1alpha2.MiniCluster) (changes []string) {
	text, err := json.Marshal(mc.Spec)
	if err == nil && mc.Spec.Network.HeadlessName != oldService && oldServiceHost.Match(text) {
		changes = append(changes, "set network.headlessName: "+oldService+", as with the Flux Operator since September 2025")
	}
	return append(changes, quotingOf(mc.Spec.FluxContainer())...)
}

var (
	expanded = regexp.MustCompile("[$`]")
	lines    = regexp.MustCompile(`[^\\\n]\n\s*\S`)
	escaped  = regexp.MustCompile(`\\[$"]`)
)

// quotingOf returns what to look at in a command, which the shells of the tasks read, and not the
// lead's (docs/migrate.md).
func quotingOf(flux *v1alpha2.MiniClusterContainer) (changes []string) {
	command := strings.TrimSpace(flux.Command)
	switch {
	case flux.Batch && escaped.MatchString(command):
		return []string{"remove the backslashes before $ and quotes in the batch"}
	case flux.Batch:
		return nil
	}
	if expanded.MatchString(command) {
		changes = append(changes, "look at the variables of the command: each task expands them, and not the lead")
	}
	if lines.MatchString(command) {
		changes = append(changes, "end the lines of the command with a backslash if they are one command")
	}
	return changes
}
