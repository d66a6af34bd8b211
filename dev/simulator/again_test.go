// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// againJob is an MPI job of four tasks that is run again with other brokers.
func againJob(spec *v1alpha2.MiniClusterSpec) {
	rigidJob(spec)
	spec.MinSize, spec.Tasks, spec.Elastic.Resize = 1, new(int32(4)), v1alpha2.ResizeRestart
	spec.Elastic.Checkpoint = &v1alpha2.Checkpoint{Signal: "SIGUSR1"}
}

// A command runs again with the ranks that the lead was told, after its checkpoint, and keeps its work.
func TestAgain(t *testing.T) {
	s := newStage(t, againJob, map[string]string{Checkpoint: "1s"}, 0, 1, 2, 3)
	s.at(0)
	s.want("ready ready ready ready")
	s.tell(v1alpha2.DrainAnnotation, "2-3")
	s.tell(v1alpha2.RestartAnnotation, "1 0-1")
	if again := s.at(4 * time.Second); again != time.Second {
		t.Errorf("it looks again after %s", again)
	}
	s.want("ready ready ready ready")
	s.at(5 * time.Second)
	s.want("up ready ready ready")
	s.at(5 * time.Second)
	s.at(7 * time.Second) // 4 s of the work of 10 s are done
	s.want("ready ready up up")
	if again := s.at(8 * time.Second); again != 11*time.Second {
		t.Errorf("it ends after %s, and not when 6 s of work with twice the time are done", again)
	}
	s.tell(v1alpha2.DrainAnnotation, "")
	s.tell(v1alpha2.RestartAnnotation, "2 0-3")
	s.at(9 * time.Second) // 5 s are done
	s.at(10 * time.Second)
	s.want("up ready ready ready")
	s.at(11 * time.Second)
	s.at(13 * time.Second)
	s.want("ready ready ready ready")
	if again := s.at(13 * time.Second); again != 5*time.Second {
		t.Errorf("it ends after %s, and not when 5 s of work are done", again)
	}
	s.at(18 * time.Second)
	s.want("0 ready ready ready")
}

// A command that has lost a broker runs again at once, from its last checkpoint. What the lead is told then changes nothing.
func TestAgainAfterLoss(t *testing.T) {
	s := newStage(t, againJob, nil, 0, 1, 2, 3)
	s.at(0)
	s.at(4 * time.Second)
	s.lose(3)
	s.at(5 * time.Second)
	s.want("up ready ready lost")
	s.at(6 * time.Second)
	s.at(8 * time.Second)
	s.want("ready ready ready lost")
	s.tell(v1alpha2.DrainAnnotation, "3")
	s.tell(v1alpha2.RestartAnnotation, "1 0-2")
	s.at(9 * time.Second)
	s.want("up ready ready lost")
	s.at(10 * time.Second)
	s.at(12 * time.Second)
	s.want("ready ready ready lost")
}

// A command that is asked to end keeps its work for the next attempt, if it can write a checkpoint in time.
func TestStopWithCheckpoint(t *testing.T) {
	for name, tc := range map[string]struct {
		stop string
		told string
		left time.Duration
	}{
		"in time":     {"Preempted 60", protocol.AskedMessage(true), 5 * time.Second},
		"not in time": {"DeadlineExceeded 15", protocol.AskedMessage(false), 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, againJob, nil, 0, 1, 2, 3)
			s.at(0)
			s.tell(v1alpha2.StopAnnotation, tc.stop)
			s.at(5 * time.Second)
			s.want("143 ready ready ready")
			if told := s.pod(0).Status.ContainerStatuses[0].State.Terminated.Message; told != tc.told {
				t.Errorf("the lead told %q", told)
			}
			s.at(6 * time.Second)
			s.simulator.forget(s.pod(0).UID) // the next lead has the same here
			var pods corev1.PodList
			if err := s.client.List(t.Context(), &pods); err != nil {
				t.Fatal(err)
			}
			for i := range pods.Items {
				if err := s.client.Delete(t.Context(), &pods.Items[i]); err != nil {
					t.Fatal(err)
				}
			}
			s.start(0, 1, 2, 3)
			s.at(10 * time.Second)
			if again := s.at(10 * time.Second); again != tc.left {
				t.Errorf("it ends after %s, want %s", again, tc.left)
			}
		})
	}
}
