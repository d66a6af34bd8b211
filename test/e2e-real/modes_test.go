// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

//go:build real

package e2ereal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// The example for real nodes is applied as it is.
func testExample(c *cluster) {
	var all []*miniCluster
	for _, name := range []string{"hello", "elastic", "pair"} {
		all = append(all, &miniCluster{cluster: c, name: name})
		c.Cleanup(all[len(all)-1].remove)
	}
	c.must("apply", "--filename="+filepath.Join(env.root, "examples", "real", "miniclusters.yaml"))
	for _, m := range all {
		m.awaitEnd(v1alpha2.ReasonSucceeded)
	}
	all[0].says("hello from task 5 of 6")
	all[2].says("a pair")
}

// Every way to run a command does so in real pods: brokers find each other, with Flux from
// the image and from a view; the log of the lead has what the command says. MPI works
// between the pods of a real Flux.
func testModes(c *cluster) {
	t := c.T
	hosts, names := []string{"hosts-0-0-0"}, []string{"names-[0-2]\n"} // the double runs all tasks on the lead's
	gpus := []string{" --gpus-per-task=1 "}                            // and gives them no GPUs
	if hasFlux() {
		gpus = append(gpus, "task 0 has 0\n", "task 1 has 1\n", "task 2 has 0\n", "task 3 has 1\n")
		hosts, names = append(hosts, "hosts-w-0-0", "hosts-w-0-1"), append(names, "names-w-0-1 is names-2\n")
	}
	for _, node := range []string{"real-0", "real-1", "real-2", "real-3"} { // as a device plugin would; the kubelet keeps them
		c.must("patch", "node", node, "--subresource=status", "--type=merge", `--patch={"status":{"capacity":{"nvidia.com/gpu":"2"}}}`)
	}
	const nodes = "size: 2, tasks: 2, placement: {exclusive: true}, network: {interface: cni0}, pod: {hostNetwork: true}"
	for name, test := range map[string]struct {
		image, container string // the image is mpi where it is not said
		spec             string
		fails            bool
		code             int32
		says             []string
	}{
		"submit":   {container: command("echo on $FLUX_MINICLUSTER_NODES nodes, $FLUX_MINICLUSTER_TASKS tasks"), says: []string{"Starting on 3 of 3 nodes: /bin/bash /flux_operator/submit.sh flux submit -N 3 -n 3 ", "on 3 nodes, 3 tasks"}},
		"hosts":    {container: command("hostname"), says: hosts},
		"names":    {container: "launcher: true, " + command("flux resource list -s all -no '{nodelist}' && flux run --requires=hosts:names-2 bash -c 'echo $HOSTNAME is $(flux getattr hostname)'"), says: names},
		"nodes":    {spec: nodes, container: "launcher: true, " + command("echo at $HOSTNAME && flux resource list -s up -no '{nodelist}' && flux run -n2 echo task"), says: []string{"at real-", "nodes-[0-1]\n", "task\ntask\n"}},
		"gpus":     {spec: "size: 2, tasks: 4, flux: {container: {disable: true, image: " + double + "}, optionFlags: --gpus-per-task=1}", container: "resources: {limits: {cpu: 2, nvidia.com/gpu: 2}}, " + command("echo task $FLUX_TASK_RANK has $CUDA_VISIBLE_DEVICES"), says: gpus},
		"image":    {image: double, container: command("type -p flux"), says: []string{"/usr/bin/flux\n"}},
		"view":     {image: app, container: command("type -p flux"), says: []string{"/mnt/flux/view/bin/flux\n"}},
		"mpi":      {container: command("if flux version | grep -q fakeflux; then mpiexec -n 3 halo 100; else halo 100; fi"), says: []string{": right"}},
		"launcher": {container: "launcher: true, " + command("flux run -N3 -n3 echo task && flux resource list -s up -no '{nnodes} nodes up'"), says: []string{"/flux_operator/command.sh\n", "task\ntask\ntask\n", "3 nodes up"}},
		"batch":    {container: "batch: true, logs: /gate, " + command("-n1 echo one\n# no job\n-N2 -n2 hostname\n-n1 sh -c 'exit 5'"), fails: true, code: 5},
		"raw":      {container: "batch: true, batchRaw: true, " + command("flux run -n1 echo first\nflux submit -n1 sh -c 'exit 4'"), fails: true, code: 4, says: []string{"first\n"}},
		"script":   {container: `commands: {pre: "export SAID=before", script: "echo first\necho $SAID second", post: "echo after"}`, says: []string{"first\n", "before second\n", "after"}},
		"no-image": {container: command("no-such-command"), fails: true, code: 127, says: []string{"no-such-command"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := c.in(t)
			image, reason := mpi, v1alpha2.ReasonSucceeded
			if test.image != "" {
				image = test.image
			}
			if test.fails {
				reason = v1alpha2.ReasonCommandFailed
			}
			m := c.make(name, image, test.container, test.spec)
			mc := m.awaitEnd(reason)
			if code := mc.Status.ExitCode; code == nil || *code != test.code {
				t.Errorf("exit code %v, and not %d", code, test.code)
			}
			m.says(test.says...)
			if name == "batch" {
				m.wrote("job-0.out", "one\n", 1)
				m.wrote("job-1.out", "batch-", 2)
			}
			if name == "mpi" {
				t.Log(m.log())
			}
		})
	}
}

// The log of the lead has what a command prints while the command runs, with the rank of each
// task if that is wanted.
func testLogs(c *cluster) {
	withFlux(c, func(c *cluster, image string) {
		m := c.make("logs", image, command(`echo "task $FLUX_TASK_RANK at $(date +%s.%N)"; `+until("go")+"; echo released; exit 3"), "logging: {labelIO: true}")
		first := regexp.MustCompile(`(?m)^(\S+) 2: task 2 at (\d+)(\.\d+)$`)
		var line []string
		eventually(c.T, "the first line of task 2", func() error {
			log, err := c.kubectl("logs", m.pod(0).Name, "--container="+m.name, "--timestamps")
			line = first.FindStringSubmatch(log)
			return errorUnless(line != nil, log, err)
		})
		m.open("go")
		m.awaitEnd(v1alpha2.ReasonCommandFailed)
		m.says("0: released", "1: released", "2: released")
		logged, err := time.Parse(time.RFC3339Nano, line[1])
		printed, err2 := strconv.ParseFloat(line[2]+line[3], 64)
		if err := errors.Join(err, err2); err != nil {
			c.Fatal(err)
		}
		c.Logf("a line took %.2f s from its task to the log", float64(logged.UnixNano())/1e9-printed)
	})
}

// wrote checks a file that was written at the gate.
func (m *miniCluster) wrote(file, word string, times int) {
	m.Helper()
	text, err := os.ReadFile(filepath.Join(m.gate, file))
	if err != nil || strings.Count(string(text), word) != times {
		m.Errorf("%s has not %q %d times: %q, %v", file, word, times, text, err)
	}
}

// Volumes of every kind are where they were wanted, on every node.
func testVolumes(c *cluster) {
	t := c.T
	c.apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {steps: "100", cells: "7"}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {word: sesame}
`)
	m := c.make("volumes", best(), command(`set -e
echo $(</settings/steps) $(</only/deep/cells) $(</safe/word) $WORD >/gate/$(hostname)-$FLUX_TASK_RANK
echo kept >/scratch/file
echo kept >/dev/shm/file
[[ $(stat -f -c %T /dev/shm) == tmpfs ]]
if [[ ! -e /settings/cells || -e /only/steps ]]; then exit 1; fi
if echo changed >/safe/word; then exit 1; fi`)+`,
    secrets: {WORD: {name: password, key: word}},
    volumes: {settings: {configMapName: settings}, only: {configMapName: settings, items: {cells: deep/cells}},
      safe: {secretName: password, readOnly: true}, scratch: {emptyDir: true, path: /scratch},
      memory: {emptyDir: true, emptyDirMedium: Memory, emptyDirSizeLimit: 8Mi}}`, "")
	m.awaitEnd(v1alpha2.ReasonSucceeded)
	files, err := filepath.Glob(filepath.Join(m.gate, "volumes-*"))
	if err != nil || len(files) != 3 {
		t.Errorf("%q, %v", files, err)
	}
	for _, file := range files {
		m.wrote(filepath.Base(file), "100 7 sesame sesame\n", 1)
	}
}

// greeter is a service that answers whoever connects.
const greeter = `exec perl -MIO::Socket -e 'my $s = IO::Socket::INET->new(Listen => 5, LocalPort => 7000) or die $!; while (my $c = $s->accept) { print $c "welcome\n"; close $c }'`

// Containers beside Flux find the broker of their pod, and services are found by name. All
// end with the lead.
func testBeside(c *cluster) {
	t := c.T
	m := c.make("beside", best(), `runFlux: true, `+command(`until exec 3<>/dev/tcp/beside-services.beside/7000; do sleep 1; done
cat <&3
`+until("go"))+`, volumes: {}},
    {name: watcher, image: "`+best()+`", `+command("FLUX_URI=$fluxsocket flux getattr rank"), `services: [{name: greeter, image: "`+app+`", `+command(greeter)+`}]`)
	m.awaitRunning()
	for rank, want := range []string{"0", "1", "2"} {
		eventually(t, "the container beside rank "+want, func() error {
			out, err := c.kubectl("logs", m.pod(rank).Name, "--container=watcher")
			return errorUnless(out == want, out, err)
		})
	}
	m.open("go")
	m.awaitEnd(v1alpha2.ReasonSucceeded)
	m.says("welcome")
	m.followersGone()
}

// MiniClusters share a domain, in which their hosts have the Flux Operator's names and JobSet's. A
// pod that is replaced keeps its name, and the end of one MiniCluster takes no name from others.
func testNames(c *cluster) {
	const spec = "network: {headlessName: flux-service}, "
	other := c.make("other", best(), command(until("go")), spec)
	m := c.make("named", best(), command(until("go")), spec+`interactive: true, services: [{name: greeter, image: "`+app+`", `+command(greeter)+`}]`)
	m.awaitRunning()
	other.awaitRunning()
	// at checks that a name is one of a rank's pod.
	at := func(name string, of *miniCluster, rank int) {
		c.Helper()
		eventually(c.T, name+" is found", func() error {
			want := of.podIs(rank, "has an address", func(pod *corev1.Pod) bool { return pod.Status.PodIP != "" }).Status.PodIP
			out, err := m.exec(2, "getent ahostsv4 "+name+".flux-service | sort -u | cut -d' ' -f1 | uniq")
			return errorUnless(out == want, out, err)
		})
	}
	for rank, name := range []string{"named-0-0-0", "named-w-0-0", "named-w-0-1"} {
		at(name, m, rank)
		at(fmt.Sprintf("named-%d", rank), m, rank)
		at(fmt.Sprintf("other-%d", rank), other, rank)
	}
	eventually(c.T, "the services are found", func() error {
		out, err := m.exec(1, "exec 3<>/dev/tcp/named-services.flux-service/7000; cat <&3")
		return errorUnless(out == "welcome", out, err)
	})
	before := m.pod(1)
	c.must("delete", "pod", before.Name)
	m.podIs(1, "is another one, and ready", func(pod *corev1.Pod) bool { return pod.UID != before.UID && ready(pod) })
	at("named-1", m, 1)
	other.open("go")
	other.awaitEnd(v1alpha2.ReasonSucceeded)
	eventually(c.T, "the names of the other are gone", func() error {
		out, err := m.exec(2, "getent hosts other-0.flux-service || echo gone")
		return errorUnless(out == "gone", out, err)
	})
	other.remove()
	at("named-0", m, 0)
}

// Where there is nothing to run, Flux is there for people until it is deleted.
func testInteractive(c *cluster) {
	t := c.T
	for name, test := range map[string]struct{ container, spec string }{
		"interactive": {command("exit 1"), "interactive: true"},
		"no-command":  {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := c.in(t).make(name, best(), test.container, test.spec)
			m.awaitRunning()
			m.podIs(0, "is ready", ready)
			out, err := m.exec(0, ". /mnt/flux/flux-view.sh; FLUX_URI=$fluxsocket flux run -N3 -n3 echo task")
			if err != nil || out != "task\ntask\ntask" {
				t.Errorf("%s, %v", out, err)
			}
			if out, err := m.exec(1, ". /mnt/flux/flux-view.sh; FLUX_URI=$fluxsocket flux run -n1 echo from a follower"); err != nil || out != "from a follower" {
				t.Errorf("%s, %v", out, err)
			}
			if hasFlux() {
				if out, err := m.exec(0, "echo flux getattr size | bash /mnt/flux/flux-connect.sh"); err != nil || out != "3" {
					t.Errorf("flux-connect.sh: %s, %v", out, err)
				}
			}
		})
	}
}

// A user without an entry in /etc/passwd, such as OpenShift gives, can use every mode: all
// brokers get ready, and the command runs. The image with Flux may have another user than the application.
func testUnknownUser(c *cluster) {
	const all = "pod: {securityContext: {runAsUser: 12345}}"
	viewOf := func(user int) string {
		return fmt.Sprintf("flux: {container: {image: %s, securityContext: {runAsUser: %d}}}", double, user)
	}
	for name, test := range map[string]struct{ image, container, spec string }{
		"user-submit":      {best(), command(until("end")), all},
		"user-launcher":    {best(), "launcher: true, " + command("flux run -N3 -n3 true && "+until("end")), all},
		"user-batch":       {best(), "batch: true, logs: /tmp, " + command("-n1 bash -c '"+until("end")+"'"), all},
		"user-interactive": {best(), "", all},
		"user-of-view":     {app, command(until("end")), viewOf(2000)},
		"user-unlike":      {app, "securityContext: {runAsUser: 12345}, " + command(until("end")), viewOf(2000)},
		"user-unlike-root": {app, "securityContext: {runAsUser: 12345}, " + command(until("end")), viewOf(0)},
	} {
		c.T.Run(name, func(t *testing.T) {
			t.Parallel()
			m := c.in(t).make(name, test.image, test.container, test.spec)
			m.awaitRunning()
			for rank := range 3 {
				m.podIs(rank, "is ready", ready)
			}
			if test.container == "" {
				return
			}
			m.open("end")
			m.awaitEnd(v1alpha2.ReasonSucceeded)
		})
	}
}
