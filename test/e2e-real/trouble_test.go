// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

const (
	launcher = "launcher: true, "
	recreate = "elastic: {onLoss: Recreate, recreate: {backoffBase: 1s, limit: 1}}"
	scratch  = ", volumes: {scratch: {emptyDir: true, path: /scratch, emptyDirSizeLimit: 1Mi}}"
	noShell  = "flux-elastic/pause:latest"
	twice    = "echo ran >>/gate/runs; [[ $(wc -l </gate/runs) == 2 ]] || exit 7; until [[ -e /gate/go ]]; do sleep 1; done"
)

// troubles are what goes wrong in pods, while their nodes are well: MiniClusters, what is
// done to them once they run, and what becomes of them.
var troubles = map[string]struct {
	image, container, spec string // the image is the double's where it is not said
	hurt, then             func(m *miniCluster)
}{
	"disk-lead-fail":     {container: command(until("go")) + scratch, hurt: fill(0), then: func(m *miniCluster) { m.tellsOfVolume(m.state(m.awaitEnd(v1alpha2.ReasonLeadLost))) }},
	"disk-lead-recreate": {container: command(until("go")) + scratch, spec: recreate, hurt: fill(0), then: (*miniCluster).onceMoreForVolume},
	"disk-fail":          {container: command(until("go")) + scratch + ", commands: {post: " + strconv.Quote(until("evicted")) + "}", hurt: fill(2), then: func(m *miniCluster) { m.tellsOfVolume(m.state(m.awaitEnd(byFluxOrNot...))) }},
	"disk-continue":      {container: launcher + command(until("go")) + scratch, hurt: fill(2), then: func(m *miniCluster) { m.goesOnWith(ready) }},
	"disk-recreate":      {container: command(until("go")) + scratch, spec: recreate, hurt: fill(2), then: (*miniCluster).onceMoreForVolume},
	// As a node does that reboots.
	"signal-lead": {container: command(until("go")), hurt: signalLead, then: func(m *miniCluster) { m.awaitEnd(v1alpha2.ReasonLeadLost) }},
	"memory": {container: command("head -c 20M /dev/zero >/dev/shm/full || exit 28") + ", volumes: {memory: {emptyDir: true, emptyDirMedium: Memory, emptyDirSizeLimit: 1Mi}}", then: func(m *miniCluster) {
		if code := m.awaitEnd(v1alpha2.ReasonCommandFailed).Status.ExitCode; code == nil || *code != 28 {
			m.Errorf("exit code %v", code)
		}
		m.says("No space left on device")
	}},
	"image-nowhere": {image: "flux-elastic/nowhere:latest", container: command("true"), spec: recreate, then: func(m *miniCluster) {
		end := m.state(m.awaitEnd(v1alpha2.ReasonStartLimit))
		if !strings.Contains(end, "of 3 brokers cannot start; rank ") || !strings.Contains(end, "ImagePull") {
			m.Errorf("it is told %q", end)
		}
		m.holdsNoNode()
	}},
	"no-secret": {container: command("true") + ", volumes: {keys: {secretName: no-such, path: /keys}}", then: func(m *miniCluster) {
		m.is("told, without nodes", func(mc *v1alpha2.MiniCluster) bool {
			return mc.Status.Admission == nil && strings.Contains(m.state(mc), `brokers cannot start: secret "no-such" not found`)
		})
		if out, err := m.kubectl("create", "secret", "generic", "no-such"); err != nil {
			m.Fatal(out, err)
		}
		if mc := m.awaitEnd(v1alpha2.ReasonSucceeded); mc.Status.Runs != 1 || mc.Status.RequeueState != nil {
			m.Errorf("the command ran %d times, %+v", mc.Status.Runs, mc.Status.RequeueState)
		}
	}},
	// Only the others have it.
	"image-lead": {image: "flux-elastic/rest:latest", container: command("true"), then: func(m *miniCluster) {
		if mc := m.awaitEnd(v1alpha2.ReasonSucceeded); mc.Status.RequeueState != nil && mc.Status.RequeueState.Count != 0 || m.pod(0).Spec.NodeName == "real-0" {
			m.Errorf("attempts %+v, the lead is on %s", mc.Status.Attempts, m.pod(0).Spec.NodeName)
		}
		if said := m.told("Released"); !strings.Contains(said, "the lead could not start on real-0; rank 0 on real-0: ") {
			m.Errorf("it was told %q", said)
		}
	}},
	// Images without a shell on some nodes: the container runtime cannot start what is in them.
	"no-shell": {image: noShell, container: command("true"), spec: recreate, then: func(m *miniCluster) {
		if end := m.state(m.awaitEnd(v1alpha2.ReasonStartLimit)); !strings.Contains(end, `bash: no such file`) {
			m.Errorf("it is told %q", end)
		}
		m.holdsNoNode()
	}},
	"no-shell-lead": {image: "flux-elastic/no-shell-0:latest", container: command("true"), spec: recreate, then: func(m *miniCluster) {
		mc := m.awaitEnd(v1alpha2.ReasonSucceeded)
		if len(mc.Status.Attempts) != 1 || mc.Status.Attempts[0].Started != nil || !strings.Contains(mc.Status.Attempts[0].Message, `exec: "/bin/bash"`) {
			m.Errorf("attempts %+v", mc.Status.Attempts)
		}
		m.isNotOn("real-0")
	}},
	"no-shell-follower": {image: "flux-elastic/no-shell-1:latest", container: command("true"), spec: recreate, then: func(m *miniCluster) {
		if mc := m.awaitEnd(v1alpha2.ReasonSucceeded); len(mc.Status.Attempts) != 0 {
			m.Errorf("attempts %+v", mc.Status.Attempts)
		}
		if said := m.told("Moved"); !strings.Contains(said, "on real-1 (StartError") {
			m.Errorf("it was told %q", said)
		}
		m.isNotOn("real-1")
	}},
	// Containers that a mesh or an agent adds: the broker's container is the broker.
	"meshed":        {container: command("true"), spec: "pod: {labels: {injected: proxy}}", then: func(m *miniCluster) { m.awaitEnd(v1alpha2.ReasonSucceeded); m.holdsNoNode() }},
	"meshed-fails":  {container: command("exit 3"), spec: "pod: {labels: {injected: proxy}}", then: func(m *miniCluster) { m.failsWith(3) }},
	"agented":       {container: command("sleep 8"), spec: "pod: {labels: {injected: agent}}", then: func(m *miniCluster) { m.awaitEnd(v1alpha2.ReasonSucceeded); m.holdsNoNode() }},
	"retry":         {container: command(twice), spec: "size: 3, tasks: 1, backoffLimit: 1, elastic: {recreate: {backoffBase: 1s}}", then: (*miniCluster).ranTwice},
	"lead-fail":     {container: command(until("go")), hurt: killLead, then: (*miniCluster).failedKilled},
	"lead-recreate": {container: command(until("go")), spec: recreate, hurt: killLead, then: (*miniCluster).failedKilled},
}

func testTrouble(c *cluster) {
	for _, node := range []string{"real-1", "real-2", "real-3"} {
		if err := c.inNode(node, "ctr", "--namespace=k8s.io", "images", "tag", "--force", "docker.io/"+double, "docker.io/flux-elastic/rest:latest"); err != nil {
			c.Fatal(err)
		}
	}
	nodes := []string{"real-0", "real-1", "real-2", "real-3"}
	for i, without := range nodes[:2] { // one node has no shell in it
		for _, node := range nodes {
			image := "docker.io/" + double
			if node == without {
				image = localcluster.PauseImage
			}
			if err := c.inNode(node, "ctr", "--namespace=k8s.io", "images", "tag", "--force", image, fmt.Sprintf("docker.io/flux-elastic/no-shell-%d:latest", i)); err != nil {
				c.Fatal(err)
			}
		}
	}
	c.inject("proxy", "sleep", "100000")
	c.inject("agent", "sh", "-c", "sleep 4; exit 1")
	all := map[string]*miniCluster{}
	for name, test := range troubles {
		all[name] = c.make(name, cmp.Or(test.image, double), test.container, test.spec)
	}
	for name, test := range troubles {
		if test.hurt != nil {
			all[name].awaitRunning()
			test.hurt(all[name])
		}
	}
	for name, test := range troubles {
		c.T.Run(name, func(t *testing.T) {
			test.then(&miniCluster{cluster: c.in(t), name: name, gate: all[name].gate})
		})
	}
}

// inject lets the API server add a container to all pods whose label fixture.InjectLabel has its name.
func (c *cluster) inject(name string, command ...string) {
	c.Helper()
	c.apply(string(fixture.Injection(name, app, command...)))
	eventually(c.T, "the API server adds "+name, func() error {
		has, err := c.kubectl("run", "probe", "--image="+app, "--labels="+fixture.InjectLabel+"="+name, "--dry-run=server", "--output=jsonpath={.spec.containers[*].name}")
		return errorUnless(has == "probe "+name, has, err)
	})
}

// isNotOn: it has no pod on a node.
func (m *miniCluster) isNotOn(node string) {
	m.Helper()
	pods, err := m.listPods(m.Context())
	for i := range pods {
		if pods[i].Spec.NodeName == node {
			err = errors.Join(err, fmt.Errorf("%s is on %s", pods[i].Name, node))
		}
	}
	if err != nil {
		m.Error(err)
	}
}

// failsWith: the command failed, and nothing is held.
func (m *miniCluster) failsWith(code int32) {
	m.Helper()
	if got := m.awaitEnd(v1alpha2.ReasonCommandFailed).Status.ExitCode; got == nil || *got != code {
		m.Errorf("exit code %v", got)
	}
	m.holdsNoNode()
}

// signalLead asks all processes in the lead's container to end, and not through the pod.
func signalLead(m *miniCluster) {
	if err := m.signalContainer(0, "SIGTERM"); err != nil {
		m.Fatal(err)
	}
}

// fill makes a volume of a rank fuller than it may be, for which the kubelet evicts the
// pod.
func fill(rank int) func(m *miniCluster) {
	return func(m *miniCluster) {
		pod := m.podIs(rank, "is ready", ready)
		if out, err := m.exec(rank, "head -c 20M /dev/zero >/scratch/full"); err != nil {
			m.Logf("the kubelet may be faster: %s, %v", out, err)
		}
		eventually(m.T, "the kubelet evicts "+pod.Name, func() error {
			out, err := m.kubectl("get", "events", "--field-selector=reason=Evicted,involvedObject.name="+pod.Name, "--output=jsonpath={.items[*].message}")
			return errorUnless(strings.Contains(out, `EmptyDir volume "scratch" exceeds the limit`), out, err)
		})
		m.podIs(rank, "has failed", func(now *corev1.Pod) bool { return now.UID != pod.UID || now.Status.Phase == corev1.PodFailed })
		m.open("evicted")
	}
}

// tellsOfVolume checks a reason, and that nothing is held.
func (m *miniCluster) tellsOfVolume(told string) {
	m.Helper()
	if !strings.Contains(told, `EmptyDir volume "scratch" exceeds the limit "1Mi"`) {
		m.Errorf("%s tells %q", m.name, told)
	}
	m.holdsNoNode()
}

// onceMoreForVolume: the next attempt fills none.
func (m *miniCluster) onceMoreForVolume() {
	m.Helper()
	m.onceMore()
	m.tellsOfVolume(m.get().Status.Attempts[0].Message)
}

// failedKilled: a process of the pod was killed while its node was well, which is no loss.
func (m *miniCluster) failedKilled() {
	m.Helper()
	m.failsWith(137)
}

// killLead kills the lead's broker. That ends the container from which it was done.
func killLead(m *miniCluster) {
	pod := m.pod(0)
	if err := m.killBroker(0); err != nil {
		m.Log(err)
	}
	m.podIs(0, "has failed", func(now *corev1.Pod) bool { return now.UID != pod.UID || now.Status.Phase == corev1.PodFailed })
}

// ranTwice: it failed, and then does not, in a new attempt.
func (m *miniCluster) ranTwice() {
	m.Helper()
	eventually(m.T, m.name+" runs again", func() error {
		runs, err := os.ReadFile(filepath.Join(m.gate, "runs"))
		return errorUnless(string(runs) == "ran\nran\n", string(runs), err)
	})
	m.podIs(0, "is ready again", ready)
	m.open("go")
	if mc := m.awaitEnd(v1alpha2.ReasonSucceeded); len(mc.Status.Attempts) != 1 || mc.Status.Attempts[0].Reason != "Retrying" || mc.Status.Runs != 2 {
		m.Errorf("attempts %+v, %d runs", mc.Status.Attempts, mc.Status.Runs)
	}
	m.wrote("runs", "ran", 2)
}

// Who is halted for a while, the command waits for.
func testHalted(c *cluster) {
	m := c.make("halted", best(), command("touch /gate/begun-$FLUX_TASK_RANK; "+until("go")+"; echo $FLUX_TASK_RANK >>/gate/ended"), "")
	m.awaitRunning()
	for _, task := range []string{"begun-0", "begun-1", "begun-2"} { // Flux starts no job on a broker that is halted
		m.wait(task)
	}
	follower := m.podIs(2, "is ready", ready)
	kubelets := []string{localcluster.KubeletOf(m.pod(0).Spec.NodeName), localcluster.KubeletOf(m.pod(1).Spec.NodeName)}
	signal := func(name string) {
		if _, err := c.kubectlIn(context.WithoutCancel(c.Context()), "exec", follower.Name, "--container="+m.name, "--", "bash", "-c", processes("flux*", "kill -"+name)); err != nil {
			c.Error(err)
		}
	}
	c.Cleanup(func() {
		for _, kubelet := range kubelets {
			if err := c.Resume(kubelet); err != nil {
				c.Error(err)
			}
		}
	})
	signal("STOP")
	for _, kubelet := range kubelets {
		if err := c.Suspend(kubelet); err != nil {
			c.Fatal(err)
		}
	}
	m.open("go")
	m.wait("ended")
	signal("CONT")
	for _, kubelet := range kubelets {
		if err := c.Resume(kubelet); err != nil {
			c.Fatal(err)
		}
	}
	if mc := m.awaitEnd(v1alpha2.ReasonSucceeded); len(mc.Status.Attempts) != 0 {
		c.Errorf("attempts %+v", mc.Status.Attempts)
	}
	m.followersGone()
}

// Brokers find each other by name. Where there are no names for a while, they join when
// there are; a MiniCluster that waits no longer than that tries again. A domain that the cluster does not have is named.
func testDNS(c *cluster) {
	const (
		dns        = "coredns"
		unresolved = "too few to start; kubernetes.default.svc.%s did not resolve when the pod of rank "
		quorum     = "minSize: 2, elastic: {quorumTimeout: 5s, startTimeout: 30s, recreate: {backoffBase: 1s}}"
	)
	foreign := c.make("foreign", best(), command("true"), quorum+", network: {clusterDomain: example.org}")
	foreign.givesUp()
	if mc := foreign.get(); !strings.Contains(mc.Status.Attempts[0].Message, fmt.Sprintf(unresolved, "example.org")) {
		c.Errorf("attempts of %s: %+v", foreign.name, mc.Status.Attempts)
	}
	c.Cleanup(func() { c.startAgain(dns) })
	if err := c.Stop(c.Context(), dns); err != nil {
		c.Fatal(err)
	}
	patient := c.make("patient", best(), command(until("go")), "")
	hasty := c.make("hasty", best(), command(until("go")), quorum)
	hasty.givesUp()
	c.must("patch", "minicluster", hasty.name, "--type=merge", `--patch={"spec":{"elastic":{"startTimeout":"1h"}}}`)
	c.startAgain(dns)
	began := machineClock.Now()
	for m, attempts := range map[*miniCluster]int{patient: 0, hasty: 1} {
		m.awaitRunning()
		c.Log(m.name, "runs after", machineClock.Since(began))
		if m == patient {
			m.isInFlux("avail", "0-2")
		}
		m.open("go") // the other may have begun with two, and drained the third
		mc := m.awaitEnd(v1alpha2.ReasonSucceeded)
		if len(mc.Status.Attempts) != attempts || (attempts > 0 && !strings.Contains(mc.Status.Attempts[0].Message, fmt.Sprintf(unresolved, "cluster.local"))) {
			c.Errorf("attempts of %s: %+v", m.name, mc.Status.Attempts)
		}
	}
}
