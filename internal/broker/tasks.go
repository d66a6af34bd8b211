// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// cores returns how many cores each rank has in Flux, or 0 if this number is not known before
// the brokers run.
func cores(s *v1alpha2.MiniClusterSpec) int {
	if s.Flux.Resources == v1alpha2.ResourcesLocal {
		return 0
	}
	return int(amount(s, corev1.ResourceCPU))
}

// Slots returns for how many tasks of the command each rank has cores in Flux, or 0 if this
// number is not known before the brokers run. If the command submits its own jobs, or users do,
// this is the number of cores.
func Slots(s *v1alpha2.MiniClusterSpec) int {
	perTask, known := coresPerTask(s)
	if !known {
		return 0
	}
	return cores(s) / perTask
}

// checkTasks returns an error if Flux would refuse the command, because the brokers do not have
// the cores for its tasks.
func checkTasks(mc *v1alpha2.MiniCluster) error {
	s := &mc.Spec
	perTask, known := coresPerTask(s)
	each := cores(s)
	if !known || each == 0 || !submits(s) || s.Flux.Bursting.LeadBroker != nil {
		return nil
	}
	const wayOut = "raise the CPU in resources of the Flux container, or set flux.resources: Local"
	slots := each / perTask
	switch most := int64(slots) * int64(s.Size); {
	case slots == 0:
		return fmt.Errorf("a task of %d cores does not fit on a broker with %d; %s", perTask, each, wayOut)
	case int64(*s.Tasks) > most:
		return fmt.Errorf("spec.tasks is %d, more than the %d for which Flux has cores (brokers: %d, cores of each: %d, cores per task: %d); %s", *s.Tasks, most, s.Size, each, perTask, wayOut)
	}
	return nil
}

// submits reports whether the command is submitted with the tasks of the spec.
func submits(s *v1alpha2.MiniClusterSpec) bool {
	m := mode(s)
	return m == modeSubmit || m == modeBatch
}

// overrides are options of flux-submit(1) by which a command gets other tasks than the spec says.
var overrides = []string{"-n", "-N", "--ntasks", "--nslots", "--nodes", "--cores=", "--tasks-per-", "--gpus-per-node"}

// coresPerTask returns how many cores a task of the command gets: 1, or what the user's options
// of the submit command say. It returns false if these options, or a broker configuration of the
// user, may say more than that.
func coresPerTask(s *v1alpha2.MiniClusterSpec) (n int, known bool) {
	if !submits(s) {
		return 1, true
	}
	if s.Flux.BrokerConfig != "" {
		return 0, false
	}
	text := s.Flux.OptionFlags
	if mode(s) == modeSubmit {
		text = s.Flux.SubmitCommand + " " + text
	}
	n = 1
	words := strings.Fields(text)
	for i, word := range words {
		if strings.ContainsAny(word, "$`\"'") || word == "--cores" || slices.ContainsFunc(overrides, func(o string) bool { return strings.HasPrefix(word, o) }) {
			return 0, false
		}
		value, is := optionValue(word, words[i+1:])
		if !is {
			continue
		}
		var err error
		if n, err = strconv.Atoi(value); err != nil || n < 1 {
			return 0, false
		}
	}
	return n, len(words) == 0 || strings.HasPrefix(words[0], "-") || words[0] == "flux"
}

// optionValue returns the value of a word that is the option -c or --cores-per-task, or
// --cores-per-slot of flux-batch(1), which may be in the next word.
func optionValue(word string, next []string) (value string, is bool) {
	for _, name := range []string{"--cores-per-task", "--cores-per-slot", "-c"} {
		rest, has := strings.CutPrefix(word, name)
		switch {
		case !has:
		case rest != "":
			return strings.TrimPrefix(rest, "="), true
		case len(next) > 0:
			return next[0], true
		}
	}
	return "", false
}
