// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/cmd/manager/app"
	"github.com/flux-elastic/flux-elastic/cmd/manager/options"
	"github.com/flux-elastic/flux-elastic/test/world/apiserver"
)

const identity = "system:serviceaccount:flux-elastic-system:flux-elastic"

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, jobsetapi.AddToScheme, v1alpha2.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// The real manager starts on the server, and carries a MiniCluster to the point where the Job controller would go on.
func TestManager(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(rand.New(rand.NewPCG(1, 2)), apiserver.Options{Scheme: newScheme(), AutoDeliver: true})
		if err := server.InstallConfig(apiserver.Definitions); err != nil {
			t.Fatal(err)
		}
		settings, err := options.Parse([]string{"--jobset=embedded", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false", "--kube-api-qps=0"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- app.Run(ctx, &rest.Config{Host: apiserver.Host, Transport: server.Transport(identity)}, settings, nil, clock.RealClock{})
		}()
		c := server.Client(apiserver.Admin)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"kubernetes.io/hostname": "n1"}}}
		node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("110")}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Name: "mc", Namespace: "default"}}
		mc.Spec.Size = 1
		mc.Spec.Containers = []v1alpha2.MiniClusterContainer{{Image: "a", Command: "true"}}
		for _, object := range []client.Object{node, mc} {
			if err := c.Create(ctx, object); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		var sets jobsetapi.JobSetList
		if err := c.List(ctx, &sets); err != nil {
			t.Fatal(err)
		}
		for _, e := range server.Log(0) {
			t.Log(e.Time.Format(time.TimeOnly), e.Version, e.User, e.Verb, e.Kind, e.Key)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", mc.Status)
		if len(sets.Items) != 1 {
			t.Errorf("got %d JobSets, want 1", len(sets.Items))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
