// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2eautoscale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/internal/scaleup"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// provisioningModule has the definition of ProvisioningRequests.
const provisioningModule = "k8s.io/autoscaler/cluster-autoscaler/apis@v0.0.0-20240830133931-adfbe7e45277"

// installProvisioningRequests installs the API of ProvisioningRequests from Go's module cache.
func (c *cluster) installProvisioningRequests(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", provisioningModule).Output()
	if err != nil {
		return fmt.Errorf("downloading %s: %w\n%s", provisioningModule, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return err
	}
	file := filepath.Join(module.Dir, "config", "crd", "autoscaling.x-k8s.io_provisioningrequests.yaml")
	if _, err := os.Stat(file); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "-f", file}, {"wait", "--for=condition=Established", "--timeout=" + harness.Timeout.String(), "-f", file},
	} {
		if out, err := c.Kubectl(ctx, args...); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	return nil
}

// checkClass is the class of ProvisioningRequests for which no node is made.
const checkClass = "check-capacity.autoscaling.x-k8s.io"

// double answers the ProvisioningRequests of a site as the documentation of the Cluster Autoscaler says that it does: it accepts
// a request, and makes all of its nodes, or fails. Each pod gets a node of its own. For the class that only checks, it makes none,
// and looks again later. When a booking expires, or capacity is revoked, is up to the test.
type double struct {
	*site
	// most is how many nodes there can be. comes changes a node before it is made.
	most  atomic.Int32
	comes func(*corev1.Node)
	made  int
}

// newDouble answers until the test ends.
func (s *site) newDouble(most int32, comes func(*corev1.Node)) *double {
	s.T.Helper()
	d := &double{site: s, comes: comes}
	d.most.Store(most)
	ctx, cancel := context.WithCancel(s.Ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if err := d.answer(ctx); err != nil && ctx.Err() == nil {
				s.T.Logf("the double: %v", err) // it looks again
			}
			select {
			case <-ctx.Done():
			case <-harness.WallClock.After(pause):
			}
		}
	})
	s.T.Cleanup(func() {
		cancel()
		done.Wait()
		nodes, err := s.nodes(s.Ctx)
		for i := range nodes {
			err = errors.Join(err, client.IgnoreNotFound(s.Cluster.Client.Delete(s.Ctx, &nodes[i])))
		}
		if err != nil {
			s.T.Error(err)
		}
	})
	return d
}

// pause is how long the double waits between two looks.
const pause = 200 * time.Millisecond

// answer looks at all requests once.
func (d *double) answer(ctx context.Context) error {
	requests, err := d.requests(requestKind)
	if err != nil {
		return err
	}
	for _, r := range requests {
		if r.DeletionTimestamp != nil || isTrue(r, "Failed") || isTrue(r, "Provisioned") {
			continue
		}
		var template corev1.PodTemplate
		key := client.ObjectKey{Namespace: r.Namespace, Name: r.Spec.PodSets[0].PodTemplateRef.Name}
		if err := d.Cluster.Client.Get(ctx, key, &template); err != nil {
			return err
		}
		if !isTrue(r, "Accepted") {
			return d.say(ctx, r, "Accepted", metav1.ConditionTrue, "the request is accepted")
		}
		if err := d.provide(ctx, r, &template.Template); err != nil {
			return err
		}
	}
	return nil
}

// provide makes the nodes that are missing, all or none.
func (d *double) provide(ctx context.Context, r *scaleup.Request, template *corev1.PodTemplateSpec) error {
	nodes, err := d.nodes(ctx)
	if err != nil {
		return err
	}
	idle, err := d.idle(ctx, nodes)
	if err != nil {
		return err
	}
	missing := max(int(r.Spec.PodSets[0].Count)-idle, 0)
	switch {
	case r.Spec.Class == checkClass && missing > 0:
		return d.say(ctx, r, "Provisioned", metav1.ConditionFalse, "there is no room, which may change")
	case len(nodes)+missing > int(d.most.Load()):
		return d.say(ctx, r, "Failed", metav1.ConditionTrue, fmt.Sprintf("the node group has no more than %d nodes", d.most.Load()))
	}
	for range missing {
		if err := d.makeNode(ctx, template.Spec.NodeSelector); err != nil {
			return err
		}
	}
	return d.say(ctx, r, "Provisioned", metav1.ConditionTrue, "all nodes are provided")
}

// leaving is the taint of a node that the Cluster Autoscaler removes.
const leaving = "ToBeDeletedByClusterAutoscaler"

// idle is how many nodes have no broker, and stay.
func (d *double) idle(ctx context.Context, nodes []corev1.Node) (int, error) {
	var pods corev1.PodList
	if err := d.Cluster.Client.List(ctx, &pods, client.InNamespace(d.Namespace)); err != nil {
		return 0, err
	}
	busy := map[string]bool{}
	for i := range pods.Items {
		if phase := pods.Items[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			busy[pods.Items[i].Spec.NodeName] = true
		}
	}
	idle := 0
	for i := range nodes {
		stays := !slices.ContainsFunc(nodes[i].Spec.Taints, func(t corev1.Taint) bool { return t.Key == leaving })
		if stays && !busy[nodes[i].Name] {
			idle++
		}
	}
	return idle, nil
}

// makeNode makes a simulated node of 8 CPUs, which has what pods select nodes by.
func (d *double) makeNode(ctx context.Context, selector map[string]string) error {
	d.made++
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", d.Namespace, d.made), Labels: map[string]string{}}}
	node.Status.Capacity, node.Status.Allocatable = capacity, capacity
	maps.Copy(node.Labels, selector)
	maps.Copy(node.Labels, map[string]string{"type": "simulated", corev1.LabelHostname: node.Name, harness.SiteLabel: d.Namespace})
	if d.comes != nil {
		d.comes(node)
	}
	return d.Cluster.Client.Create(ctx, node)
}

func isTrue(r *scaleup.Request, condition string) bool {
	return meta.IsStatusConditionTrue(r.Status.Conditions, condition)
}

// say sets a condition of a request.
func (d *double) say(ctx context.Context, r *scaleup.Request, condition string, value metav1.ConditionStatus, message string) error {
	object := objectOf(requestKind)
	if err := d.Cluster.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	now, err := scaleup.Read(object)
	if err != nil || now.UID != r.UID {
		return err
	}
	if !meta.SetStatusCondition(&now.Status.Conditions, metav1.Condition{Type: condition, Status: value, Reason: condition, Message: message}) {
		return nil
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&now.Status)
	if err != nil {
		return err
	}
	object.Object["status"] = status
	return client.IgnoreNotFound(d.Cluster.Client.Status().Update(ctx, object))
}

// request waits for the ProvisioningRequest of the site.
func (d *double) request(what string, holds func(*scaleup.Request) bool) *scaleup.Request {
	d.T.Helper()
	var found *scaleup.Request
	harness.Eventually(d.T, func() error {
		requests, err := d.requests(requestKind)
		if err != nil {
			return err
		}
		for _, r := range requests {
			if holds(r) {
				found = r
				return nil
			}
		}
		return fmt.Errorf("none of %d ProvisioningRequests is %s", len(requests), what)
	})
	return found
}
