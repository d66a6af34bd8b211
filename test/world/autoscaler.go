// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/scaleup"
	"github.com/flux-elastic/flux-elastic/test/world/apiserver"
	"github.com/flux-elastic/flux-elastic/test/world/models"
)

// mostMade is how many nodes of its own the autoscaler has at most.
const mostMade = 4

// hasAutoscaler reports whether there is an autoscaler in the world, in some worlds beside a Kueue.
func (w *World) hasAutoscaler() bool { return w.Seed%5 == 4 || w.Seed%10 == 2 }

// providers are how queues ask the autoscaler, where there is one.
var providers = map[string]v1alpha2.ScaleUpProvider{
	"batch": v1alpha2.ProvideByRequest, "urgent": v1alpha2.ProvideByBuffer, v1alpha2.KueueQueue: v1alpha2.ProvideByRequest,
}

// installAutoscaler makes the autoscaler, and has the queues ask for nodes.
func (w *World) installAutoscaler(queues []*v1alpha2.MiniClusterQueue) {
	must(w.server.Install(models.ScaleUpDefinitions()))
	w.autoscaler = models.NewAutoscaler(&models.Cluster{
		Client: w.server.Client(apiserver.Admin), Random: rand.New(rand.NewPCG(w.Seed, 6)), Changed: w.server.Changed,
	}, func(i int) *corev1.Node { return fixture.Node(fmt.Sprint("made-", i)).Obj() }, mostMade, [2]time.Duration{5 * time.Second, time.Minute})
	w.models = append(w.models, w.autoscaler)
	for _, queue := range queues {
		queue.Spec.ScaleUp = &v1alpha2.ScaleUp{Provider: providers[queue.Name], MaxNodes: mostMade, Timeout: &metav1.Duration{Duration: 2 * time.Minute}}
		if queue.Name == v1alpha2.KueueQueue { // it asks also while other nodes are idle
			queue.Spec.ScaleUp.MaxNodes += int32(w.nodes)
		}
	}
}

// requests are the kinds by which the autoscaler is asked.
func requests() []client.ObjectList {
	var lists []client.ObjectList
	for _, queue := range queues {
		provider := providers[queue]
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(scaleup.Kind(provider, scaleup.Resources[provider].Versions[0]))
		lists = append(lists, list)
	}
	return lists
}
