// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// Life is of a MiniCluster: what is done to it, and what becomes of it.
type Life struct {
	// MiniCluster plays on simulated nodes, by its annotations, what its commands do on real
	// ones.
	MiniCluster *fixture.MiniClusterWrapper
	Then        []Step
	// Told are the decisions that are told, in their order: the reason, and of the start what
	// is said of sizes and tasks. That ranks have left is none of them: when they
	// do depends on whether their brokers run.
	Told []string
	End  End
}

// Step is something that is done to a MiniCluster once it is in a state with so many brokers
// up. With none of them it holds nothing any more.
type Step struct {
	State   string
	Brokers int32
	// Told is the last decision that was told; "" for any.
	Told string
	// Patch is a merge patch; "" deletes it.
	Patch string
	// Ends: nothing is done to it, and its command ends. On simulated nodes the command ends once the
	// MiniCluster was seen in its state, and on real nodes after a while.
	Ends bool
}

// End is what is there at the end: nothing, where there is no reason.
type End struct {
	Reason string
	// ExitCode is that of the command, where it had the last word.
	ExitCode *int32
	// Log: the lead's pod is left, with its log. No other is.
	Log bool
}

func ended(reason string, code int32) End { return End{Reason: reason, ExitCode: &code, Log: true} }

const (
	image = "flux-elastic/test:latest"
	// forEver is until it is told to end; never is that in the shell of an entry point.
	forEver = "sleep infinity"
	never   = "sleep infinity & wait"
)

// miniCluster begins one of three brokers and tasks. Its name is that of the life.
func miniCluster(name, command string) *fixture.MiniClusterWrapper {
	w := fixture.MiniCluster(name).Size(3).Tasks(3).Command(command).PodAnnotation(simulator.Runtime, "1s")
	if command == forEver {
		w.PodAnnotation(simulator.Runtime, "1h")
	}
	return w.Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Containers[0].Image, spec.Flux.Container = image, v1alpha2.FluxContainer{Disable: true, Image: image}
	})
}

// failing is a MiniCluster that ends with an exit code once it is seen to run. No event tells of the
// start if the command fails before the lead was seen to be ready.
func failing(name, command, code string) *fixture.MiniClusterWrapper {
	return miniCluster(name, command).PodAnnotation(simulator.Runtime, "1h").PodAnnotation(simulator.ExitCode, code)
}

// before lets the follower whose host has such a name run some shell before its broker.
func before(host, shell string) func(*v1alpha2.MiniClusterSpec) {
	return func(spec *v1alpha2.MiniClusterSpec) {
		spec.Containers[0].Commands.WorkerPre = "[[ $HOSTNAME != *-" + host + " ]] || { " + shell + "; }"
	}
}

func interactive(spec *v1alpha2.MiniClusterSpec) { spec.Interactive = true }

func batch(spec *v1alpha2.MiniClusterSpec) { spec.Containers[0].Batch = true }

func services(spec *v1alpha2.MiniClusterSpec) {
	spec.Services = []v1alpha2.MiniClusterContainer{{
		Name: "greeter", Image: image,
		Command: `exec perl -MIO::Socket -e 'my $s = IO::Socket::INET->new(Listen => 5, LocalPort => 7000) or die $!; while (my $c = $s->accept) { close $c }'`,
	}}
}

func sizes(spec *v1alpha2.MiniClusterSpec) {
	spec.MinSize, spec.Elastic.Sizes = 2, &v1alpha2.Sizes{Operator: "*", Operand: 8}
}

func timeouts(quorum, start time.Duration) func(*v1alpha2.MiniClusterSpec) {
	return func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.QuorumTimeout, spec.Elastic.StartTimeout = &metav1.Duration{Duration: quorum}, &metav1.Duration{Duration: start}
		spec.Elastic.Recreate = v1alpha2.Recreate{Limit: new(int32(1)), BackoffBase: &metav1.Duration{Duration: time.Second}}
	}
}

func failsBefore(spec *v1alpha2.MiniClusterSpec) { spec.Containers[0].Commands.BrokerPre = "exit 1" }

func expires(spec *v1alpha2.MiniClusterSpec) { spec.TTLSecondsAfterFinished = new(int32(2)) }

func suspended(spec *v1alpha2.MiniClusterSpec) { spec.Suspend = true }

// saves lets a command end when it is asked for a checkpoint.
func saves(spec *v1alpha2.MiniClusterSpec) {
	spec.Elastic.Checkpoint = &v1alpha2.Checkpoint{Signal: "SIGUSR1", Wait: &metav1.Duration{Duration: time.Minute}}
}

// again is saves for a command that is run again with other brokers.
func again(spec *v1alpha2.MiniClusterSpec) {
	saves(spec)
	spec.MinSize, spec.Elastic.Resize = 1, v1alpha2.ResizeRestart
}

// untilRun is a command that goes on until it is run for the last time, and then lasts for a while.
func untilRun(last string) string {
	return "trap 'exit 0' USR1; [[ $FLUX_MINICLUSTER_RESTART == " + last + " ]] || while :; do sleep 1; done; sleep 20"
}

const (
	started3  = "Started with 3 of 3 brokers, tasks 3 of 3"
	started2  = "Started with 2 of 2 brokers, tasks 2 of 2"
	succeeded = v1alpha2.ReasonSucceeded
	failed    = v1alpha2.ReasonCommandFailed
)

// All are lives that are the same on nodes of either kind. Three brokers fit; sixteen, which
// some want, never do.
func All() []Life { return slices.Concat(commands(), starts(), changes()) }

// commands are lives of a MiniCluster that ends with its command, or never does.
func commands() []Life {
	ends := []Step{{State: v1alpha2.StateRunning, Brokers: 3, Ends: true}}
	return []Life{{
		MiniCluster: miniCluster("hello-world", "echo hello world"),
		Told:        []string{"Admitted", started3, succeeded}, End: ended(succeeded, 0),
	}, {
		MiniCluster: failing("exit-code", "sleep 5; exit 7", "7"),
		Then:        ends,
		Told:        []string{"Admitted", started3, failed}, End: ended(failed, 7),
	}, {
		MiniCluster: miniCluster("launcher", "flux run -N3 -n3 true").Launcher(),
		Told:        []string{"Admitted", started3, succeeded}, End: ended(succeeded, 0),
	}, {
		MiniCluster: failing("batch", "-n1 sleep 5\n# no job\n-n1 sh -c 'exit 5'\n-n1 true", "5").Spec(batch),
		Then:        ends,
		Told:        []string{"Admitted", started3, failed}, End: ended(failed, 5),
	}, {
		MiniCluster: miniCluster("interactive", forEver).Spec(interactive),
		Then:        []Step{{State: v1alpha2.StateRunning, Brokers: 3}},
		Told:        []string{"Admitted", started3},
	}, {
		MiniCluster: miniCluster("services", "until : </dev/tcp/services-services.services/7000; do sleep 1; done").Spec(services),
		Told:        []string{"Admitted", started3, succeeded}, End: ended(succeeded, 0),
	}, {
		MiniCluster: miniCluster("deadline", forEver).Deadline(2),
		Told:        []string{"Admitted", started3, v1alpha2.ReasonDeadlineExceeded}, End: End{Reason: v1alpha2.ReasonDeadlineExceeded, Log: true},
	}, {
		MiniCluster: miniCluster("expires", "true").Spec(expires),
		Told:        []string{"Admitted", started3, succeeded},
	}}
}

// starts are lives of a MiniCluster that does not start as it wants to.
func starts() []Life {
	return []Life{{
		MiniCluster: miniCluster("fails-before", "true").PodAnnotation(simulator.LeadFails, simulator.PhaseWaiting).Spec(failsBefore),
		Told:        []string{"Admitted", failed}, End: End{Reason: failed, Log: true},
	}, {
		MiniCluster: miniCluster("elastic", "[[ $FLUX_MINICLUSTER_NODES,$FLUX_MINICLUSTER_TASKS == 2,2 ]]").Size(16).Tasks(16).Spec(sizes),
		Told:        []string{"Admitted", "Started with 2 of 16 brokers, tasks 2 of 16", succeeded}, End: ended(succeeded, 0),
	}, {
		MiniCluster: miniCluster("shrunk", "true").Size(16),
		Then:        []Step{{State: v1alpha2.StateQueued, Patch: `{"spec":{"size":2,"tasks":2}}`}},
		Told:        []string{"Admitted", started2, succeeded}, End: ended(succeeded, 0),
	}, {
		MiniCluster: miniCluster("late", "true").MinSize(1).WaitForSize(time.Hour).Spec(before("w-0-0", "sleep 3")).
			PodAnnotation(simulator.StartLate, "1").PodAnnotation(simulator.StartDelay, "3s"),
		Told: []string{"Admitted", started3, succeeded}, End: ended(succeeded, 0),
	}, {
		MiniCluster: miniCluster("quorum-lowered", "[[ $FLUX_MINICLUSTER_NODES,$FLUX_MINICLUSTER_TASKS == 2,2 ]]").MinSize(2).WaitForSize(time.Hour).
			Spec(before("w-0-1", never)).PodAnnotation(simulator.NeverStart, "2").Spec(timeouts(time.Hour, time.Hour)),
		// The lead, which was told of an hour, does not start alone.
		Then: []Step{{State: v1alpha2.StateStarting, Brokers: 2, Patch: `{"spec":{"elastic":{"quorumTimeout":"1s"}}}`}},
		Told: []string{"Admitted", "QuorumLowered", "Started with 2 of 3 brokers, tasks 2 of 3", succeeded}, End: ended(succeeded, 0),
	}, {
		MiniCluster: miniCluster("never-starts", "true").Size(2).Tasks(2).
			Spec(before("w-0-0", never)).PodAnnotation(simulator.NeverStart, "1").Spec(timeouts(time.Second, 6*time.Second)),
		Told: []string{"Admitted", "GaveUp", "Admitted", v1alpha2.ReasonStartLimit}, End: End{Reason: v1alpha2.ReasonStartLimit},
	}}
}

// changes are lives of a MiniCluster that gets other brokers, or gives its nodes back, while its command runs.
func changes() []Life {
	return []Life{{
		MiniCluster: miniCluster("grows", forEver).Launcher().Size(2).Tasks(2).MaxSize(3).Grow(),
		Then:        []Step{{State: v1alpha2.StateRunning, Brokers: 3}},
		Told:        []string{"Admitted", started2, "Grew"},
	}, {
		MiniCluster: miniCluster("runs-again", untilRun("2")).WaitForSize(time.Hour).PodAnnotation(simulator.Runtime, "1h").Spec(again),
		Then: []Step{
			{State: v1alpha2.StateRunning, Brokers: 3, Patch: `{"spec":{"size":2}}`},
			{State: v1alpha2.StateRunning, Brokers: 2, Patch: `{"spec":{"size":3}}`, Told: "Restarted"},
			{State: v1alpha2.StateRunning, Brokers: 3, Ends: true, Told: "Restarted"},
		},
		Told: []string{"Admitted", started3, "Restarting", "Restarted", "Grew", "Restarting", "Restarted", succeeded}, End: ended(succeeded, 0),
	}, {
		MiniCluster: miniCluster("suspended-saved", untilRun("1")).PodAnnotation(simulator.Runtime, "1h").Spec(saves),
		Then: []Step{
			{State: v1alpha2.StateRunning, Brokers: 3, Patch: `{"spec":{"suspend":true}}`},
			{State: v1alpha2.StateSuspended, Patch: `{"spec":{"suspend":false}}`},
			{State: v1alpha2.StateRunning, Brokers: 3, Ends: true},
		},
		Told: []string{"Admitted", started3, "Warned", "Released", "Admitted", started3, succeeded}, End: ended(succeeded, 0),
	}, {
		MiniCluster: miniCluster("suspended", "[[ $FLUX_MINICLUSTER_SIZE == 2 ]] || "+forEver).PodAnnotation(simulator.Runtime, "1h").Spec(suspended),
		Then: []Step{
			{State: v1alpha2.StateSuspended, Patch: `{"spec":{"suspend":false}}`},
			{State: v1alpha2.StateRunning, Brokers: 3, Patch: `{"spec":{"suspend":true}}`},
			// What was changed in the meantime holds from the next start on.
			{State: v1alpha2.StateSuspended, Patch: `{"spec":{"suspend":false,"size":2,"tasks":2,"pod":{"annotations":{"` + simulator.Runtime + `":"1s"}}}}`},
		},
		Told: []string{"Admitted", started3, "Released", "Admitted", started2, succeeded}, End: ended(succeeded, 0),
	}}
}
