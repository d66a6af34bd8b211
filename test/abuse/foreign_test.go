// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package abuse

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
)

// A tenant makes pods without our labels, each with as many resources of its own as the API server takes. They are there all at
// once, or one after the other, as a quota allows.
func TestMemoryOfRequests(t *testing.T) {
	const names, budget = 27_000, 2 * mebibyte
	for name, tc := range map[string]struct {
		pods   int
		amount string
		gone   bool
	}{
		"nothing of each, one after the other": {pods: 20, amount: "0", gone: true},
		"one of each, one after the other":     {pods: 20, amount: "1", gone: true},
		"nothing of each, all at once":         {pods: 20, amount: "0"},
		"one of each, all at once":             {pods: 20, amount: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			l, amount := ledger.New(nil, nil), resource.MustParse(tc.amount)
			l.SetNode(fixture.Node("node").Obj())
			l.Foreign() // it is kept from now on
			before := live()
			for i := range tc.pods {
				pod := fixture.Pod(fmt.Sprint("p", i)).CPU("1").On("node").Obj()
				pod.UID = types.UID(pod.Name)
				for k := range names {
					pod.Spec.Containers[0].Resources.Requests[corev1.ResourceName(fmt.Sprintf("a%d/%d", i, k))] = amount
				}
				l.Set(pod.UID, ledger.PodOf(pod, false))
				if cpu := l.Foreign()["cpu"]; !tc.gone && cpu != int64(1000*(i+1)) {
					t.Fatalf("%d pods hold %d mCPU", i+1, cpu)
				}
				if tc.gone {
					l.Gone(pod)
				}
			}
			kept := live() - before
			if after := len(l.Foreign()); tc.gone && after > 0 {
				t.Errorf("what is held by nobody has %d names", after)
			}
			runtime.KeepAlive(l)
			t.Logf("%d pods take %d KiB", tc.pods, kept>>10)
			if kept > budget {
				t.Errorf("%d pods take %d KiB, more than %d", tc.pods, kept>>10, budget>>10)
			}
		})
	}
}
