// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2eautoscale

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/test/harness"
	"github.com/flux-elastic/flux-elastic/test/harness/operator"
)

// mortal is a site in whose life the manager is killed, and started again.
type mortal struct {
	*site
	operator *operator.Operator
}

// eventually waits until an attempt succeeds, whatever is killed meanwhile.
func (m *mortal) eventually(attempt func() error) {
	m.T.Helper()
	m.operator.Eventually(attempt)
}

// reach waits until a MiniCluster is as the test expects.
func (m *mortal) reach(mc *v1alpha2.MiniCluster, what string, holds func() bool) {
	m.T.Helper()
	m.eventually(func() error {
		if err := m.Cluster.Client.Get(m.Ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
			return err
		}
		if !holds() {
			c := harness.Condition(mc, v1alpha2.ConditionAdmitted)
			return fmt.Errorf("%s is not %s, but %s: %s: %s", mc.Name, what, harness.State(mc), c.Reason, c.Message)
		}
		return nil
	})
}

// reachEnd waits until a MiniCluster runs, ends its command, and waits until it holds no node. Pods come late if the manager is killed,
// and Karpenter removes a node that has none for long, also if they come meanwhile. Then the next lead ends the command.
func (m *mortal) reachEnd(mc *v1alpha2.MiniCluster) {
	m.T.Helper()
	m.reach(mc, "running", func() bool { return harness.State(mc) == v1alpha2.StateRunning })
	m.reach(mc, "done", func() bool {
		m.endCommand(mc)
		return harness.State(mc) == v1alpha2.StateSucceeded && mc.Status.Nodes == 0
	})
	m.checkAttempts(mc)
	m.eventually(m.nothingAsked)
}

// liveByBuffer gets its nodes by a CapacityBuffer, and runs.
func liveByBuffer(m *mortal) {
	m.pool(nil)
	m.queue("batch", 2, nil)
	m.reachEnd(m.create(m.miniCluster("gang", "batch").Size(2)))
}

// liveByRequest gets its nodes by a ProvisioningRequest, and runs.
func liveByRequest(m *mortal) {
	m.newDouble(2, nil)
	m.queue("batch", 2, byRequest)
	m.reachEnd(m.create(m.miniCluster("gang", "batch").Size(2)))
}

// liveInVain asks for two nodes and for one, gets none, and pauses. Another queue would give it nodes.
func liveInVain(m *mortal) {
	m.queue("batch", 2, func(up *v1alpha2.ScaleUp) {
		up.Timeout, up.Cooldown = &metav1.Duration{Duration: time.Second}, &metav1.Duration{Duration: time.Hour}
	})
	mc := m.create(m.miniCluster("gang", "batch").Size(2).MinSize(1))
	m.reach(mc, "given up", func() bool {
		return harness.Condition(mc, v1alpha2.ConditionAdmitted).Reason == v1alpha2.ReasonNodesTimedOut
	})
	m.eventually(func() error {
		requests, err := m.requests(bufferKind)
		if err == nil && len(requests) > 0 {
			err = fmt.Errorf("CapacityBuffer %s is still there", requests[0].Name)
		}
		return err
	})
	m.Delete(mc)
	m.eventually(m.nothingAsked)
}

// The manager is killed before and after every write by which it asks an autoscaler, and started again. Nothing is lost. That nothing
// is asked twice is checked in all tests (checkHistory).
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	c.manager.Stop()
	for name, life := range map[string]struct {
		live  func(*mortal)
		kinds []string
	}{
		"by buffer":  {liveByBuffer, []string{"POST podtemplates", "POST capacitybuffers", "DELETE capacitybuffers", "DELETE podtemplates"}},
		"by request": {liveByRequest, []string{"POST podtemplates", "POST provisioningrequests", "PATCH podtemplates", "DELETE provisioningrequests", "DELETE podtemplates"}},
		"in vain":    {liveInVain, []string{"POST podtemplates", "POST capacitybuffers", "PATCH podtemplates", "DELETE capacitybuffers"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operator.AtEveryWrite(t, func(t *testing.T, at operator.Write) map[string]int {
				t.Helper()
				m := &mortal{site: c.newSite(t)}
				m.label = true
				m.operator = operator.Operate(m.Site)
				m.operator.KillAt(at)
				life.live(m)
				return m.operator.Seen()
			}, life.kinds...)
		})
	}
}

// The process of a manager is killed once a gang was given the nodes that it had asked for, and another one is started.
func TestProcessKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	s := c.newSite(t)
	s.label = true
	s.pool(nil)
	s.queue("batch", 2, nil)
	mc := s.create(s.miniCluster("gang", "batch").Size(2))
	s.AwaitState(mc, v1alpha2.StateStarting, v1alpha2.StateRunning)
	c.manager.Kill()
	if err := c.startManager(c.ManagerKubeconfig); err != nil {
		t.Fatal(err)
	}
	s.AwaitState(mc, v1alpha2.StateRunning)
	s.succeed(mc)
	harness.Eventually(t, s.nothingAsked)
}
