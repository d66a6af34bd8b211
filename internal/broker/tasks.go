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

// Slots returns for how many tasks of the command each rank has cores and GPUs in Flux, or 0 if this
// number is not known before the brokers run. If the command submits its own jobs, or users do,
// this is the number of cores.
func Slots(s *v1alpha2.MiniClusterSpec) int {
	task, known := needs(s)
	if !known {
		return 0
	}
	return task.fitInto(cores(s), int(gpus(s)))
}

// need is what a task of the command gets: cores and GPUs.
type need struct{ cores, gpus int }

// fitInto returns how many tasks fit into so many cores and GPUs.
func (n need) fitInto(cores, gpus int) int {
	if n.gpus == 0 {
		return cores / n.cores
	}
	return min(cores/n.cores, gpus/n.gpus)
}

// checkTasks returns an error if Flux would refuse the command, because the brokers do not have
// the cores or GPUs for its tasks.
func checkTasks(mc *v1alpha2.MiniCluster) error {
	s := &mc.Spec
	task, known := needs(s)
	each, devices := cores(s), int(gpus(s))
	if !known || each == 0 || !submits(s) || s.Flux.Bursting.LeadBroker != nil {
		return nil
	}
	const wayOut = "raise the CPU in resources of the Flux container, or set flux.resources: Local"
	const gpuWayOut = "raise the GPUs in resources of the Flux container, or name their resource in flux.gpuResources"
	most := func(slots int) int64 { return int64(slots) * int64(s.Size) }
	switch {
	case each < task.cores:
		return fmt.Errorf("a task of %d cores does not fit on a broker with %d; %s", task.cores, each, wayOut)
	case int64(*s.Tasks) > most(each/task.cores):
		return fmt.Errorf("spec.tasks is %d, more than the %d for which Flux has cores (brokers: %d, cores of each: %d, cores per task: %d); %s",
			*s.Tasks, most(each/task.cores), s.Size, each, task.cores, wayOut)
	case devices < task.gpus:
		return fmt.Errorf("a task of %d GPUs does not fit on a broker with %d; %s", task.gpus, devices, gpuWayOut)
	case int64(*s.Tasks) > most(task.fitInto(each, devices)):
		return fmt.Errorf("spec.tasks is %d, more than the %d for which Flux has GPUs (brokers: %d, GPUs of each: %d, GPUs per task: %d); %s",
			*s.Tasks, most(task.fitInto(each, devices)), s.Size, devices, task.gpus, gpuWayOut)
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

// needs returns what a task of the command gets: a core, or what the user's options of the submit command say. It returns
// false if these options, or a broker configuration of the user, may say more than that.
func needs(s *v1alpha2.MiniClusterSpec) (task need, known bool) {
	task = need{cores: 1}
	if !submits(s) {
		return task, true
	}
	if s.Flux.BrokerConfig != "" {
		return need{}, false
	}
	text := s.Flux.OptionFlags
	if mode(s) == modeSubmit {
		text = s.Flux.SubmitCommand + " " + text
	}
	words := strings.Fields(text)
	for i, word := range words {
		if strings.ContainsAny(word, "$`\"'") || word == "--cores" || slices.ContainsFunc(overrides, func(o string) bool { return strings.HasPrefix(word, o) }) {
			return need{}, false
		}
		if !readOption(coreOptions, &task.cores, 1, words[i:]) || !readOption(gpuOptions, &task.gpus, 0, words[i:]) {
			return need{}, false
		}
	}
	return task, len(words) == 0 || strings.HasPrefix(words[0], "-") || words[0] == "flux"
}

// The options of flux-submit(1), and of flux-batch(1), that say what a task gets.
var (
	coreOptions = []string{"--cores-per-task", "--cores-per-slot", "-c"}
	gpuOptions  = []string{"--gpus-per-task", "--gpus-per-slot", "-g"}
)

// readOption reads the value of an option if the first of some words is one of its names. It returns false if that is no
// number, or less than a least one.
func readOption(names []string, to *int, least int, words []string) bool {
	value, is := optionValue(names, words[0], words[1:])
	if !is {
		return true
	}
	var err error
	*to, err = strconv.Atoi(value)
	return err == nil && *to >= least
}

// optionValue returns the value of a word that is one of some options. The value may be in the next word.
func optionValue(names []string, word string, next []string) (value string, is bool) {
	for _, name := range names {
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
