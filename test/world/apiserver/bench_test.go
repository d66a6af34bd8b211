// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What a manager writes most: the status of a MiniCluster.
func BenchmarkStatusPatch(b *testing.B) {
	s := New(random(), Options{})
	if err := s.InstallConfig(Definitions); err != nil {
		b.Fatal(err)
	}
	c, mc := s.Client(Admin), newMiniCluster()
	if err := c.Create(b.Context(), mc); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		patch := fmt.Sprintf(`{"status":{"size":%d,"conditions":[{"type":"A","status":"True","reason":"A","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, i%1000)
		if err := c.Status().Patch(b.Context(), mc, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPod(b *testing.B) {
	c := New(random(), Options{}).Client(Admin)
	for b.Loop() {
		pod := newPod("p")
		if err := c.Create(b.Context(), pod); err != nil {
			b.Fatal(err)
		}
		if err := c.Delete(b.Context(), pod); err != nil {
			b.Fatal(err)
		}
	}
}
