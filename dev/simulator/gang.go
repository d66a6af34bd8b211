// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// GangSize is an annotation of the pods of a Job without Flux: the number of pods that have to run at
// the same time. All of them succeed after Runtime. If one of them is lost, all start again.
const GangSize = prefix + "gang-size"

// GangOf returns the UID of the Job whose gang a pod belongs to, and the number of pods that the gang
// needs. The UID is "" if the pod is in no gang.
func GangOf(pod *corev1.Pod) (job types.UID, size int) {
	size, err := strconv.Atoi(pod.Annotations[GangSize])
	if err != nil || size < 1 {
		return "", 0
	}
	return types.UID(pod.Labels[batchv1.ControllerUidLabel]), size
}

// playGang plays the gang of a Job: it checks the state of the gang once.
func (s *simulator) playGang(ctx context.Context, job types.UID, size int, pods []corev1.Pod) (ctrl.Result, error) {
	var online []*corev1.Pod
	for i := range pods {
		s.forgetWrite(&pods[i])
		if pods[i].Status.Phase == corev1.PodRunning && pods[i].DeletionTimestamp == nil {
			online = append(online, &pods[i])
		}
	}
	if len(online) == 0 {
		s.forget(job)
		return ctrl.Result{}, nil
	}
	read := reader{pod: online[0]}
	runtime := read.duration(Runtime, defaultRuntime)
	if read.err != nil {
		ctrl.LoggerFrom(ctx).Error(read.err, "Playing the default")
	}
	now := s.clock.Now()
	over, again := s.runOf(job, now).gang.Look(len(online), size, runtime, now)
	if over {
		return ctrl.Result{}, s.endAll(ctx, online, 0)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}
