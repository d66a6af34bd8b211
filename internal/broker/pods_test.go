// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// In these tests the scripts run as they do in pods. Each pod is a session of processes with its
// own files, volume and host name. All pods share one address of the loopback network.

const (
	deadline = 5 * time.Minute // bounds how long a test that fails hangs: a busy machine takes many times what a quiet one does
	period   = 50 * time.Millisecond
	// askPeriod is the period for what only a process can tell: each takes the machine several milliseconds.
	askPeriod = 300 * time.Millisecond
)

// fluxes returns the paths of the available implementations of Flux by name: the test double,
// and the Flux on the PATH.
var fluxes = sync.OnceValues(func() (map[string]string, error) {
	dir, err := os.MkdirTemp("", "fakeflux")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // for other users
		return nil, err
	}
	double := filepath.Join(dir, "flux")
	if out, err := exec.Command("go", "build", "-o", double, "../../test/fakeflux").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the double: %w: %s", err, out)
	}
	found := map[string]string{"fakeflux": double}
	if path, err := exec.LookPath("flux"); err == nil {
		out, err := exec.Command(path, "version").Output()
		if err == nil && !bytes.Contains(out, []byte("fakeflux")) {
			found["flux"] = path
		}
	}
	return found, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	// Tests wait for seconds to pass, and not for a core.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	// Processes that these tests start do not ignore SIGHUP, even if nohup started the tests.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	code := m.Run()
	if found, err := fluxes(); err == nil {
		os.RemoveAll(filepath.Dir(found["fakeflux"]))
	}
	os.Exit(code)
}

// cluster runs the pods of a MiniCluster.
type cluster struct {
	*testing.T
	context     context.Context
	mc          *fixture.MiniClusterWrapper
	dir         string
	flux        string // the directory with the command flux
	double      bool   // whether flux is the test double
	kills       bool   // whether a lead that was asked to end, and does not, is killed
	address     string
	certificate string
	user        uint32  // who runs the containers; 0 is the user of the test
	viewUser    *uint32 // who runs the init container; nil: as user
}

// address matches the addresses of pods in broker.toml.
var address = regexp.MustCompile(`"tcp://[^"]*"`)

// clusters and pods count the clusters and pods, so that each has its own address or directory.
var clusters, pods atomic.Int32

// withFlux runs a test with every implementation of Flux.
func withFlux(t *testing.T, mc *fixture.MiniClusterWrapper, test func(*cluster)) {
	t.Helper()
	t.Parallel()
	found, err := fluxes()
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range found {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, mc, path)
			c.double = name == "fakeflux"
			test(c)
		})
	}
}

func newCluster(t *testing.T, mc *fixture.MiniClusterWrapper, flux string) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "pods") //nolint:usetesting // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	c := &cluster{T: t, context: ctx, mc: mc, dir: dir, flux: filepath.Join(dir, "bin")}
	c.address = fmt.Sprintf("127.%d.%d.%d", 1+os.Getpid()/250%250, 1+os.Getpid()%250, clusters.Add(1))
	if c.certificate, err = Certificate("lmp", rand.Reader); err != nil {
		t.Fatal(err)
	}
	c.save(filepath.Join("bin", "flux"), fmt.Sprintf("#!/bin/bash\nexec %s \"$@\"\n", shellQuote(flux)))
	return c
}

func (c *cluster) save(name, text string) {
	c.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.Fatal(err)
	}
	// The file changes at once, as with the kubelet.
	if err := os.WriteFile(path+".new", []byte(text), 0o755); err != nil {
		c.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) read(name string) string {
	c.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.Fatal(err)
	}
	return string(data)
}

// wasCalled checks that the double was called with the arguments on the host.
func (c *cluster) wasCalled(host, args string) {
	c.Helper()
	if !c.double {
		return
	}
	for line := range strings.Lines(c.read("log")) {
		if strings.Contains(line, `"host":"`+host+`"`) && strings.Contains(line, args) {
			return
		}
	}
	c.Errorf("flux was not called with %s on %s:\n%s", args, host, c.read("log"))
}

// release lets the command end.
func (c *cluster) release() { c.save("release", "") }

// awaitBegun waits until the command has begun; each start counts once.
func (c *cluster) awaitBegun() {
	c.Helper()
	c.await("the command", func() bool { return os.Remove(filepath.Join(c.dir, "begun")) == nil })
}

// startAll starts all pods.
func (c *cluster) startAll() []*pod {
	c.Helper()
	var pods []*pod
	for rank := range int(c.mc.Defaulted().Spec.MostSize()) {
		pods = append(pods, c.pod(rank))
		pods[rank].start()
	}
	return pods
}

// beforeKill waits for a lead that was asked to end, before it is killed. On a busy machine it may not be long enough.
const beforeKill = "fe_pause 15"

// pod makes a new pod for a rank.
func (c *cluster) pod(rank int) *pod {
	c.Helper()
	host := PodHost(c.mc.Defaulted().Name, rank)
	p := &pod{cluster: c, host: host, dir: fmt.Sprintf("%d-%d", rank, pods.Add(1))}
	mc := c.mc.Defaulted()
	mc.Spec.Flux.Container.Disable = true
	mc.Spec.Flux.Container.MountPath = filepath.Join(c.dir, p.dir, "v")
	mc.Spec.FluxContainer().Logs = filepath.Join(c.dir, p.dir, "logs")
	if checkpoint := mc.Spec.Elastic.Checkpoint; checkpoint != nil && checkpoint.Path != "" {
		checkpoint.Path = filepath.Join(c.dir, checkpoint.Path)
	}
	files, err := Files(mc, 1)
	if err != nil {
		c.Fatal(err)
	}
	files["broker.toml"] = address.ReplaceAllLiteralString(files["broker.toml"], fmt.Sprintf("%q", "tcp://"+c.address+":%p"))
	files[CertificateFile] = c.certificate
	files[QuorumFile], files["termination-log"], files[JobFile], files[IndexFile] = "", "", v1alpha2.LeadJob, "0"
	if rank > 0 {
		files[JobFile], files[IndexFile] = v1alpha2.WorkersJob, strconv.Itoa(rank-1)
	}
	all := Scripts()
	maps.Copy(all, files)
	if before, after, ok := strings.Cut(all[WaitScript], beforeKill); !ok {
		c.Fatalf("%s has no %q", WaitScript, beforeKill)
	} else if !c.kills {
		all[WaitScript] = before + "fe_pause 1000" + after
	}
	for name, text := range all {
		p.write(name, text)
	}
	return p
}

// pod is a pod, and after its start also its Flux container.
type pod struct {
	*cluster
	host, dir string
	cmd       *exec.Cmd
	output    *output
	ended     chan struct{}
}

func (p *pod) write(name, text string) {
	p.Helper()
	p.save(filepath.Join(p.dir, "o", name), text)
}

// environment returns the environment of the containers.
func (p *pod) environment() []string {
	operator, host := filepath.Join(p.cluster.dir, p.dir, "o"), p.host
	if p.mc.Defaulted().Spec.Pod.HostNetwork {
		host = "node"
	}
	environment := os.Environ()
	for name, value := range p.mc.Defaulted().Spec.FluxContainer().Environment {
		environment = append(environment, name+"="+value)
	}
	// Flux runs its scripts by a shell that reads ~/.bashrc, which is none of a pod.
	return append(environment, "HOME="+p.cluster.dir, "FLUX_OPERATOR_DIR="+operator, "HOSTNAME="+host, "PATH="+p.flux+":"+os.Getenv("PATH"),
		"BEGUN="+filepath.Join(p.cluster.dir, "begun"), "RELEASE="+filepath.Join(p.cluster.dir, "release"), "RUNS="+filepath.Join(p.cluster.dir, "runs"),
		"FE_TERMINATION_LOG="+filepath.Join(p.cluster.dir, p.dir, "o", "termination-log"), "FAKEFLUX_LOG="+filepath.Join(p.cluster.dir, "log"), "FLUX_URI=")
}

func (p *pod) command(name string) *exec.Cmd {
	cmd := exec.CommandContext(p.context, "/bin/bash", filepath.Join(p.cluster.dir, p.dir, "o", name))
	cmd.Env = p.environment()
	if name == InitScript { // each container has a termination log of its own
		cmd.Env = append(cmd.Env, "FE_TERMINATION_LOG="+os.DevNull)
	}
	user := p.user
	if name == InitScript && p.viewUser != nil {
		user = *p.viewUser
	}
	beUser(cmd, user)
	return cmd
}

// beUser lets the command run as a user; 0 is the user of the test.
func beUser(cmd *exec.Cmd, user uint32) {
	if user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user}}
		cmd.Env = append(cmd.Env, "HOME=/") // as container runtimes set the variable for an unknown user
	}
}

// own gives all files to the user of the containers.
func (c *cluster) own() {
	c.Helper()
	if c.user == 0 {
		return
	}
	err := filepath.WalkDir(c.dir, func(path string, _ os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // a file of a pod that runs
		}
		return cmp.Or(err, os.Lchown(path, int(c.user), 0))
	})
	if err != nil {
		c.Fatal(err)
	}
}

// start runs the init container, and starts the Flux container.
func (p *pod) start() {
	p.Helper()
	p.own()
	if out, err := p.command(InitScript).CombinedOutput(); err != nil {
		p.Fatalf("the init container of %s: %v: %s", p.host, err, out)
	}
	p.run()
}

// again starts the Flux container again, with the volume of the last container.
func (p *pod) again() *pod {
	p.Helper()
	next := &pod{cluster: p.cluster, host: p.host, dir: p.dir}
	next.run()
	return next
}

func (p *pod) run() {
	p.Helper()
	p.cmd, p.output, p.ended = p.command(WaitScript), &output{changed: make(chan struct{})}, make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = cmp.Or(p.cmd.SysProcAttr, &syscall.SysProcAttr{})
	p.cmd.SysProcAttr.Setsid = true
	p.cmd.WaitDelay = 5 * time.Second // for processes that the scripts leave behind
	if err := p.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code reports the error
		close(p.ended)
	}()
	p.Cleanup(func() {
		p.kill()
		if p.Failed() {
			p.Logf("%s:\n%s", p.host, p.output)
		}
	})
}

func (p *pod) isRunning() bool {
	select {
	case <-p.ended:
		return false
	default:
		return p.ended != nil
	}
}

// terminate asks the container to end by SIGTERM, as the kubelet does.
func (p *pod) terminate() {
	p.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.Errorf("ending %s: %v", p.host, err)
	}
}

// kill ends all processes of the container at once.
func (p *pod) kill() {
	p.Helper()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		left := processes(p.cmd.Process.Pid)
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // the process may have ended
		}
		<-ticker.C
	}
	<-p.ended
}

// processes returns the processes of a session that have not ended.
func processes(session int) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// The fields are: pid (name) state parent group session. The name may have any characters.
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && len(fields) > 3 && fields[3] == strconv.Itoa(session) && fields[0] != "Z" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// await waits until the condition holds.
func (c *cluster) await(what string, holds func() bool) {
	c.Helper()
	c.awaitEach(period, what, holds)
}

func (c *cluster) awaitEach(period time.Duration, what string, holds func() bool) {
	c.Helper()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-c.context.Done():
			c.Fatalf("waiting for %s: %v", what, c.context.Err())
		}
	}
}

// awaitOnline waits until Flux says that n brokers are up.
func (p *pod) awaitOnline(n string) {
	p.Helper()
	p.awaitFlux(n, "resource", "list", "-s", "up", "-no", "{nnodes}")
}

// awaitDrained waits until Flux says that these ranks are drained, and no others.
func (p *pod) awaitDrained(ranks string) {
	p.Helper()
	p.awaitFlux(ranks, "resource", "status", "-s", "drain", "-no", "{ranks}")
}

// awaitFlux waits until flux with these arguments prints the answer.
func (p *pod) awaitFlux(answer string, args ...string) {
	p.Helper()
	p.awaitEach(askPeriod, fmt.Sprintf("%q as answer to %s", answer, args), func() bool {
		cmd := exec.CommandContext(p.context, filepath.Join(p.flux, "flux"), args...)
		cmd.Env = append(p.environment(), "FLUX_URI=local://"+strings.Join(p.sockets(), ""))
		beUser(cmd, p.user)
		out, err := cmd.Output()
		return err == nil && strings.TrimSpace(string(out)) == answer
	})
}

// awaitBroker waits until the broker of the pod listens, whether it has joined or not.
func (p *pod) awaitBroker() {
	p.Helper()
	p.await("the broker of "+p.host, func() bool { return len(p.sockets()) > 0 })
}

// sockets returns the sockets of the broker: one if the broker listens, else none.
func (p *pod) sockets() []string {
	sockets, _ := filepath.Glob(filepath.Join(p.cluster.dir, p.dir, "v/config/run/flux/local*"))
	return sockets
}

func (p *pod) awaitLine(line string) {
	p.Helper()
	for {
		has, changed := p.output.has(line)
		if has {
			return
		}
		select {
		case <-changed:
		case <-p.ended:
			p.hasLine(line)
			return
		case <-p.context.Done():
			p.Fatalf("waiting for %q of %s: %v", line, p.host, p.context.Err())
		}
	}
}

// ends waits for the end of the container, with one of the exit codes.
func (p *pod) ends(codes ...int) {
	p.Helper()
	if got := p.endsAnyhow(); !slices.Contains(codes, got) {
		p.Errorf("%s ended with exit code %d, want %d", p.host, got, codes)
	}
}

func (p *pod) endsAnyhow() int {
	p.Helper()
	select {
	case <-p.ended:
	case <-p.context.Done():
		p.Fatalf("%s does not end: %v", p.host, p.context.Err())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *pod) hasLine(line string) {
	p.Helper()
	if has, _ := p.output.has(line); !has {
		p.Errorf("%s has no line %q", p.host, line)
	}
}

func (p *pod) hasNot(text string) {
	p.Helper()
	if strings.Contains(p.output.String(), text) {
		p.Errorf("%s has %q", p.host, text)
	}
}

// output is what a container has written.
type output struct {
	sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (o *output) Write(data []byte) (int, error) {
	o.Lock()
	defer o.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(data)
}

func (o *output) String() string {
	o.Lock()
	defer o.Unlock()
	return o.text.String()
}

// has reports whether the output has the line. The channel closes when there is more output.
func (o *output) has(line string) (bool, <-chan struct{}) {
	o.Lock()
	defer o.Unlock()
	return slices.Contains(strings.Split(o.text.String(), "\n"), line), o.changed
}
