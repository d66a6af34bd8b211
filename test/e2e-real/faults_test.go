// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

// What breaks comes back.
func TestFaults(t *testing.T) {
	c := up(t, 2)
	ctx := t.Context()
	c.talk()
	node := localcluster.RealNodeName(1)
	here, there := c.talker(0), c.talker(1)
	address := c.addressOf(there)

	t.Run("cable", func(t *testing.T) {
		c := c.in(t)
		if err := c.Disconnect(ctx, node); err != nil {
			t.Fatal(err)
		}
		eventually(t, "pods of other nodes do not hear it", func() error {
			if err := c.hears(here, address); err == nil {
				return fmt.Errorf("%s hears %s", here, address)
			}
			return nil
		})
		if out, err := c.kubectl("logs", there, "--request-timeout=2s"); err == nil {
			t.Errorf("the API server reaches the kubelet: %s", out)
		}
		if err := c.Connect(ctx, node); err != nil {
			t.Fatal(err)
		}
		eventually(t, "pods hear it again", func() error { return c.hears(here, address) })
		eventually(t, "the API server reaches the kubelet", func() error {
			_, err := c.kubectl("logs", there)
			return err
		})
	})
	t.Run("kubelet", func(t *testing.T) {
		c := c.in(t)
		name := localcluster.KubeletOf(node)
		if err := c.Kill(ctx, name); err != nil {
			t.Fatal(err)
		}
		if err := c.hears(here, address); err != nil {
			t.Errorf("pods outlive a kubelet: %v", err)
		}
		if err := c.Start(ctx, name); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the kubelet answers", func() error {
			_, err := c.kubectl("logs", there)
			return err
		})
	})
	t.Run("containerd", func(t *testing.T) {
		c := c.in(t)
		name := localcluster.ContainerdOf(node)
		if err := c.Stop(ctx, name); err != nil {
			t.Fatal(err)
		}
		if err := c.hears(here, address); err != nil {
			t.Errorf("pods outlive a containerd: %v", err)
		}
		if err := c.Start(ctx, name); err != nil {
			t.Fatal(err)
		}
		if err := c.Start(ctx, name); err == nil || !strings.Contains(err.Error(), "already running") {
			t.Errorf("started twice: %v", err)
		}
		eventually(t, "containers can be entered", func() error {
			_, err := c.kubectl("exec", there, "--", "true")
			return err
		})
	})
	t.Run("API server", func(t *testing.T) {
		c := c.in(t)
		if err := c.Kill(ctx, "kube-apiserver"); err != nil {
			t.Fatal(err)
		}
		if out, err := c.kubectl("get", "nodes", "--request-timeout=2s"); err == nil {
			t.Errorf("it answers: %s", out)
		}
		if err := c.Start(ctx, "kube-apiserver"); err != nil {
			t.Fatal(err)
		}
		c.must("get", "nodes")
	})
	t.Run("node", func(t *testing.T) {
		c := c.in(t)
		if err := c.Kill(ctx, node); err != nil {
			t.Fatal(err)
		}
		if err := c.Start(ctx, localcluster.KubeletOf(node)); err == nil || !strings.Contains(err.Error(), "its node does not run") {
			t.Errorf("a kubelet without a node: %v", err)
		}
		eventually(t, "no pod outlives its node", func() error { // the kernel removes networks later
			if c.hears(here, address) == nil {
				return errors.New("it is heard")
			}
			return nil
		})
		if err := c.Start(ctx, node); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its pod runs again", func() error {
			out, err := c.kubectl("get", "pod", there, "--output=jsonpath={.status.containerStatuses[0].restartCount}")
			if err == nil && out == "0" {
				err = fmt.Errorf("%s did not start again", there)
			}
			if err == nil {
				_, err = c.kubectl("exec", there, "--", "true")
			}
			return err
		})
		eventually(t, "pods hear each other", func() error { return c.hears(here, c.addressOf(there)) })
	})
}
