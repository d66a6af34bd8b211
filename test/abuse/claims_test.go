// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package abuse

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// A tenant's claims are as large as the API server takes them, and a pod uses one of these claims for each of very many volumes.
func TestMemoryOfClaims(t *testing.T) {
	const each, budget = 4 << 10, 4 * mebibyte
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"a class": func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: strings.Repeat("x", 250<<10)}
		},
		"a class that does not exist": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.StorageClassName = new(strings.Repeat("x", mebibyte))
		},
		"a volume that does not exist": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeName, c.Status.Phase = strings.Repeat("x", mebibyte), corev1.ClaimBound
		},
		"access modes": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = slices.Repeat([]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod}, 50_000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "noisy", Name: "c"}}
			change(claim)
			if kept := keeps(t, claim, state.StripStorage); kept > each {
				t.Errorf("the cache keeps %d KiB", kept>>10)
			}
			pod := fixture.Pod("p").Obj()
			for i := range 400 {
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
				}})
			}
			stripped, err := state.StripStorage(claim)
			if err != nil {
				t.Fatal(err)
			}
			var reach state.Reach
			used := allocated(func() {
				reach = state.ReachOf(pod, 2, state.Storage{
					Claim:  func(string) *corev1.PersistentVolumeClaim { return stripped.(*corev1.PersistentVolumeClaim) },
					Volume: func(string) *corev1.PersistentVolume { return nil },
					Class:  func(string) *storagev1.StorageClass { return nil },
				})
			})
			if used > budget || len(reach.Volumes) != 1 || len(reach.Key)+len(reach.Waits) > 1<<10 {
				t.Errorf("it takes %d KiB; %d volumes, %d bytes of the key and %d of the reason", used>>10, len(reach.Volumes), len(reach.Key), len(reach.Waits))
			}
			if reach.Waits == "" {
				t.Error("it does not wait")
			}
		})
	}
}
