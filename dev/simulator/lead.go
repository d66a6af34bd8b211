// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator/flux"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// run is what is known of an instance or a gang. Only Reconcile of its instance reads and changes it.
type run struct {
	lead *flux.Lead
	gang flux.Gang
}

// playLead plays the lead: it checks the state of the instance once.
func (s *simulator) playLead(ctx context.Context, lead *corev1.Pod, online []*corev1.Pod) (ctrl.Result, error) {
	now := s.clock.Now()
	r := s.runOf(lead.UID, now)
	play, err := ReadPlay(lead)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Ending the lead")
		return ctrl.Result{}, s.end(ctx, lead, flux.ExitUsage, "")
	}
	told := Told(lead)
	if r.lead.Settings == nil && told.Stop == "" {
		if r.lead.Settings, err = s.settings(ctx, lead); err != nil {
			return ctrl.Result{}, err
		}
	}
	move := r.lead.Look(flux.Sight{Now: now, Told: told, Play: play, Online: brokersOf(online), Saved: s.savedOf(lead)})
	return ctrl.Result{RequeueAfter: move.Again}, s.carryOut(ctx, lead, online, r, move)
}

// Told is what the annotations of a lead's pod tell the lead.
func Told(lead *corev1.Pod) flux.Told {
	p := protocol.Read(lead)
	return flux.Told{Quorum: p.Quorum, Drain: p.Drain, Stop: p.Stop, Restarts: p.Restarts, Ranks: p.Ranks}
}

func brokersOf(online []*corev1.Pod) []flux.Broker {
	var out []flux.Broker
	for _, pod := range online {
		rank, _ := protocol.Rank(pod)
		out = append(out, flux.Broker{Pod: pod.UID, Rank: rank, Ready: isReady(pod)})
	}
	return out
}

// carryOut writes what happens in the pods.
func (s *simulator) carryOut(ctx context.Context, lead *corev1.Pod, online []*corev1.Pod, r *run, move flux.Move) error {
	if move.Saved != nil {
		s.save(lead, *move.Saved)
	}
	pods := map[types.UID]*corev1.Pod{lead.UID: lead}
	for _, pod := range online {
		pods[pod.UID] = pod
	}
	for _, ready := range move.Ready {
		if err := s.tellReady(ctx, pods[ready.Pod], ready.Ready); err != nil {
			return err
		}
	}
	var losing []*corev1.Pod
	for _, uid := range move.Lose {
		losing = append(losing, pods[uid])
	}
	if len(losing) > 0 {
		if err := s.endAll(ctx, losing, flux.ExitFailed); err != nil {
			return err
		}
		r.lead.Lost()
	}
	if move.End != nil {
		return s.end(ctx, lead, move.End.Code, move.End.Message)
	}
	return nil
}

// settings reads the ConfigMap that is mounted in the lead's pod.
func (s *simulator) settings(ctx context.Context, lead *corev1.Pod) (*flux.Settings, error) {
	name := FilesOf(lead)
	if name == "" {
		return nil, fmt.Errorf("pod %s has no files", lead.Name)
	}
	var files corev1.ConfigMap
	if err := s.live.Get(ctx, types.NamespacedName{Namespace: lead.Namespace, Name: name}, &files); err != nil {
		return nil, fmt.Errorf("reading the files of pod %s: %w", lead.Name, err)
	}
	return flux.ReadSettings(files.Data)
}

// FilesOf is the name of the ConfigMap with the files that are a MiniCluster's own; "" if its pod has none. It comes last in the
// first volume that has ConfigMaps.
func FilesOf(pod *corev1.Pod) (name string) {
	for _, volume := range pod.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ConfigMap != nil {
				name = source.ConfigMap.Name
			}
		}
		if name != "" {
			break
		}
	}
	return name
}

// save keeps a part of the work of a command as its last checkpoint.
func (s *simulator) save(lead *corev1.Pod, saved float64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.saved[lead.Labels[v1alpha2.UIDLabel]] = saved
}

// savedOf is the part of the work that is in the last checkpoint of the lead's MiniCluster.
func (s *simulator) savedOf(lead *corev1.Pod) float64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.saved[lead.Labels[v1alpha2.UIDLabel]]
}

func (s *simulator) runOf(lead types.UID, now time.Time) *run {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.runs[lead] == nil {
		s.runs[lead] = &run{lead: flux.NewLead(lead, now)}
	}
	return s.runs[lead]
}

// knows reports whether a lead has ever been up.
func (s *simulator) knows(lead types.UID) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.runs[lead] != nil
}

func (s *simulator) forget(lead types.UID) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.runs, lead)
}
