// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

// talkers are a pod on every node, which are up when the volume of their Secret is there.
// They know each other by a name, whether they are ready or not.
const talkers = `
apiVersion: v1
kind: Secret
metadata: {name: word}
stringData: {word: hello}
---
apiVersion: v1
kind: Service
metadata: {name: talkers}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: talker}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: talker}
spec:
  selector: {matchLabels: {app: talker}}
  template:
    metadata: {labels: {app: talker}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: talker
        image: flux-elastic/test:latest
        imagePullPolicy: Never
        command: [bash, -c, "cat /word/word; echo; exec sleep infinity"]
        resources: {limits: {cpu: 100m, memory: 64Mi}}
        volumeMounts: [{name: word, mountPath: /word}]
      volumes: [{name: word, secret: {secretName: word}}]
`

func (c *cluster) talk() {
	c.Helper()
	c.apply(talkers)
	c.must("rollout", "status", "daemonset/talker", "--timeout="+patience.String())
}

// talker is the pod of a node.
func (c *cluster) talker(node int) string {
	c.Helper()
	return c.must("get", "pods", "--selector=app=talker", "--field-selector=spec.nodeName="+localcluster.RealNodeName(node), "--output=jsonpath={.items[0].metadata.name}")
}

func (c *cluster) addressOf(pod string) string {
	c.Helper()
	return c.must("get", "pod", pod, "--output=jsonpath={.status.podIP}")
}

// hears says whether a pod of a node answers another. Nothing listens there: who is
// refused was answered.
func (c *cluster) hears(from, address string) error {
	out, err := c.kubectl("exec", from, "--", "bash", "-c", "timeout 2 bash -c '</dev/tcp/"+address+"/1' 2>&1 || true")
	if err == nil && !strings.Contains(out, "Connection refused") {
		err = fmt.Errorf("%s does not hear %s: %s", from, address, out)
	}
	return err
}

// What Kubernetes does for pods works for those of real nodes.
func TestPods(t *testing.T) {
	c := up(t, 2)
	c.talk()
	pods := []string{c.talker(0), c.talker(1)}
	for i, pod := range pods {
		eventually(t, "the log of "+pod, func() error {
			out, err := c.kubectl("logs", pod)
			return errorUnless(out == "hello", out, err)
		})
		if out := c.must("exec", pod, "--", "flux", "version"); !strings.Contains(out, "fakeflux") {
			t.Errorf("flux in %s: %q", pod, out)
		}
		if err := c.hears(pod, c.addressOf(pods[1-i])); err != nil {
			t.Error(err)
		}
		for _, other := range pods {
			address := c.addressOf(other)
			eventually(t, pod+" finds "+address+" by name", func() error {
				out, err := c.kubectl("exec", pod, "--", "getent", "ahostsv4", "talkers")
				return errorUnless(strings.Contains(out, address), out, err)
			})
		}
		if out, err := c.kubectl("exec", pod, "--", "getent", "hosts", "no.such.name.example"); err == nil {
			t.Errorf("a name that nobody has: %s", out)
		}
	}
	status, err := localcluster.GetStatus(t.Context(), c.Dir)
	if err != nil || status.Ready != 2 || status.Pods != 2 {
		t.Errorf("status %+v, %v", status, err)
	}
}
