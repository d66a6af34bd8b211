// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/scaleup"
)

// request asks the autoscaler for room for pods of 8 CPUs.
func (p *play) request(provider v1alpha2.ScaleUpProvider, pods int32) (read func() *scaleup.Request) {
	p.Helper()
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: fixture.Namespace, Name: "wish"}}
	template.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "broker", Image: "app", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")},
	}}}}
	p.create(template)
	kind := scaleup.Kind(provider, scaleup.Resources[provider].Versions[0])
	r := &scaleup.Request{ObjectMeta: metav1.ObjectMeta{Namespace: fixture.Namespace, Name: "wish"}}
	r.SetGroupVersionKind(kind)
	if provider == v1alpha2.ProvideByBuffer {
		r.Spec.PodTemplateRef, r.Spec.Replicas = &scaleup.Reference{Name: "wish"}, ptr.To(pods)
	} else {
		r.Spec.PodSets = []scaleup.PodSet{{PodTemplateRef: scaleup.Reference{Name: "wish"}, Count: pods}}
	}
	object, err := r.Unstructured()
	if err != nil {
		p.Fatal(err)
	}
	p.create(object)
	return func() *scaleup.Request {
		now := &unstructured.Unstructured{}
		now.SetGroupVersionKind(kind)
		if err := p.Get(p.ctx, nameOf(object), now); err != nil {
			p.Fatal(err)
		}
		r, err := scaleup.Read(now)
		if err != nil {
			p.Fatal(err)
		}
		return r
	}
}

// The autoscaler makes the nodes that are missing, says so, and removes them once nobody asks for them or uses them.
func TestAutoscaler(t *testing.T) {
	for provider, done := range map[v1alpha2.ScaleUpProvider]string{v1alpha2.ProvideByRequest: "Provisioned", v1alpha2.ProvideByBuffer: "Provisioning"} {
		t.Run(string(provider), func(t *testing.T) {
			for _, refuses := range []bool{false, true} {
				inBubble(t, 1, 1, func(p *play) {
					if err := p.server.Install(ScaleUpDefinitions()); err != nil {
						t.Fatal(err)
					}
					scaler := NewAutoscaler(p.cluster, func(i int) *corev1.Node { return fixture.Node(fmt.Sprint("made-", i)).Obj() }, 4, [2]time.Duration{10 * time.Second, time.Minute})
					scaler.Refuse(refuses)
					p.models = append(p.models, scaler)
					read := p.request(provider, 3)
					is := func(kind string) bool { return meta.IsStatusConditionTrue(read().Status.Conditions, kind) }
					if refuses {
						p.settle(10 * time.Minute)
						if is(done) || is("Failed") != (provider == v1alpha2.ProvideByRequest) || scaler.own(p.ctx) > 0 {
							t.Errorf("conditions %+v, %d nodes", read().Status.Conditions, scaler.own(p.ctx))
						}
						return
					}
					p.until("the nodes are there", func() bool { return is(done) })
					if n := scaler.own(p.ctx); n != 2 {
						t.Errorf("it made %d nodes", n)
					}
					if err := p.Delete(p.ctx, &unstructured.Unstructured{Object: map[string]any{
						"apiVersion": read().APIVersion, "kind": string(provider), "metadata": map[string]any{"namespace": fixture.Namespace, "name": "wish"},
					}}); err != nil {
						t.Fatal(err)
					}
					p.until("the nodes are gone", func() bool { return scaler.own(p.ctx) == 0 })
				})
			}
		})
	}
}
