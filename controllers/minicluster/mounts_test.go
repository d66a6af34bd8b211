// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// What a kubelet says of a volume counts while the pod waits for that volume.
func TestUnmounted(t *testing.T) {
	const secret = `MountVolume.SetUp failed for volume "data" : secret "no-such" not found`
	for name, tc := range map[string]struct {
		uid, message string
		waited, age  time.Duration
		want         string
	}{
		"a Secret":                        {"lead", secret, 16 * time.Second, 8 * time.Second, `secret "no-such" not found`},
		"a ConfigMap":                     {"lead", `MountVolume.SetUp failed for volume "in" : configmap "in" not found`, time.Minute, 0, `configmap "in" not found`},
		"of the first seconds":            {"lead", secret, 10 * time.Second, 6 * time.Second, ""},
		"of a clock that is ahead":        {"lead", secret, 10 * time.Second, -3 * time.Second, ""},
		"beside the manager's own":        {"lead", `[configmap "flux" not found, secrets "no-such" not found]`, 16 * time.Second, 0, `secrets "no-such" not found`},
		"the kubelet tried again since":   {"lead", secret, 16 * time.Second, 11 * time.Second, ""},
		"another pod":                     {"other", secret, 16 * time.Second, 0, ""},
		"the manager's own files":         {"lead", `configmap "flux" not found`, 16 * time.Second, 0, ""},
		"something that may soon be well": {"lead", "timed out waiting for the condition", 16 * time.Second, 0, ""},
	} {
		events := []failure{{kind: "Pod", name: "lmp-0-0-0-x", uid: types.UID(tc.uid), at: fixture.Noon.Add(-tc.age), message: tc.message}}
		if got := unmounted(events, map[types.UID]time.Duration{"lead": tc.waited}, fixture.Noon, []string{"flux"}); got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAwaitsVolumes(t *testing.T) {
	is := func(status corev1.ConditionStatus) *corev1.Pod {
		pod := fixture.BrokerPod("lmp", 0).On("a").Obj()
		pod.Status.Phase = corev1.PodPending
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: status})
		return pod
	}
	if !awaitsVolumes(is(corev1.ConditionFalse)) || awaitsVolumes(is(corev1.ConditionTrue)) || awaitsVolumes(fixture.BrokerPod("lmp", 0).On("a").Up().Obj()) {
		t.Error("not the pods without a sandbox, or others too")
	}
}
