// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/flux-elastic/flux-elastic/dev/clog"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
)

// ticksPerSecond is the unit of CPU time in /proc, on all current platforms of Linux.
const ticksPerSecond = 100

// Names of the metrics that the meters read.
const (
	clientRequests  = "rest_client_requests_total"
	reconcilesTotal = "controller_runtime_reconcile_total"
	cycleDuration   = "flux_elastic_cycle_duration_seconds"
	queueDuration   = "workqueue_queue_duration_seconds"
)

var metricNames = []string{
	clog.RequestsTotal, clog.WatchEventsTotal, clientRequests, reconcilesTotal,
	cycleDuration + "_bucket", cycleDuration + "_count", queueDuration + "_sum", queueDuration + "_count",
}

// meters read the metrics and the CPU time of the programs of a cluster.
type meters struct {
	cluster *localcluster.Cluster
	client  *http.Client
	urls    map[string]string // the base URLs of metrics, by program
	pids    map[string]int
}

// reading has the values of the meters at one time.
type reading struct {
	metrics   map[string]clog.Metrics
	processes map[string]clog.Process
	busy      float64 // CPU seconds of the machine, of all cores
	at        time.Time
}

func newMeters(ctx context.Context, cluster *localcluster.Cluster) (*meters, error) {
	config, err := cluster.RESTConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.TLSClientConfig = rest.TLSClientConfig{Insecure: true} // every program made its certificate itself
	m := &meters{cluster: cluster, pids: map[string]int{"localcluster": os.Getpid()}}
	if m.client, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	m.urls = map[string]string{
		"kube-apiserver":          cluster.URL(),
		"kube-controller-manager": "https://" + cluster.Address(localcluster.PortControllerManager),
		"kube-scheduler":          "https://" + cluster.Address(localcluster.PortScheduler),
		"kwok":                    "http://" + cluster.Address(localcluster.PortKwok),
		"manager":                 "http://" + cluster.Address(localcluster.PortMetrics),
	}
	status, err := localcluster.GetStatus(ctx, cluster.Dir)
	if err != nil {
		return nil, err
	}
	for _, p := range status.Processes {
		m.pids[p.Name] = p.PID
	}
	if _, ok := m.pids["manager"]; !ok { // another scheduler
		delete(m.urls, "manager")
	}
	return m, nil
}

func (m *meters) read(ctx context.Context) (*reading, error) {
	out := &reading{metrics: map[string]clog.Metrics{}, processes: map[string]clog.Process{}, busy: busySeconds(), at: time.Now()}
	for name, pid := range m.pids {
		out.processes[name] = readProcess(name, pid)
	}
	for name, url := range m.urls {
		metrics, err := m.get(ctx, url+"/metrics")
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of %s: %w", name, err)
		}
		out.metrics[name] = metrics
	}
	return out, nil
}

func (m *meters) get(ctx context.Context, url string) (clog.Metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := m.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return clog.ReadMetrics(response.Body, metricNames...)
}

// readProcess returns the CPU time and the memory that a process has used so far. Without /proc
// these are 0.
func readProcess(name string, pid int) clog.Process {
	p := clog.Process{Name: name}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if stat, err := os.ReadFile(filepath.Join(dir, "stat")); err == nil {
		// proc(5): after the name, in parentheses, utime and stime are fields 12 and 13.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, field := range fields[11:13] {
			ticks, _ := strconv.ParseFloat(field, 64)
			p.CPUSeconds += ticks / ticksPerSecond
		}
	}
	if status, err := os.ReadFile(filepath.Join(dir, "status")); err == nil {
		if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
			kibibytes, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			p.PeakMiB = kibibytes / 1024
		}
	}
	return p
}

// tell sets the values of the result that were used since the reading before.
func (r *reading) tell(before *reading, result *clog.Result) {
	since := map[string]clog.Metrics{}
	for name, metrics := range r.metrics {
		since[name] = metrics.Since(before.metrics[name])
	}
	result.API = clog.NewAPI(since["kube-apiserver"], result.FinishedPods)
	result.API.Clients = map[string]map[string]float64{}
	for name, metrics := range since {
		if requests := metrics.Sum(clientRequests, "method"); len(requests) > 0 {
			result.API.Clients[name] = requests
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.processes)) {
		p := r.processes[name]
		p.CPUSeconds -= before.processes[name].CPUSeconds
		result.Processes = append(result.Processes, p)
		result.CPUPerPod += p.CPUSeconds * 1000 / float64(max(result.FinishedPods, 1))
	}
	r.tellMachine(before, result)
	manager := since["manager"]
	result.Manager = clog.Manager{
		Cycles:   manager.Sum(cycleDuration + "_count")[""],
		CycleP50: manager.Quantile(cycleDuration, 0.5), CycleP99: manager.Quantile(cycleDuration, 0.99),
		Reconciles: manager.Sum(reconcilesTotal, "controller", "result"),
		Queued:     manager.Sum(queueDuration+"_sum", "name"),
	}
	for name, count := range manager.Sum(queueDuration+"_count", "name") {
		result.Manager.Queued[name] /= count
	}
}

// tellMachine sets how busy the machine was, and which part of that other programs were.
func (r *reading) tellMachine(before *reading, result *clog.Result) {
	total := r.at.Sub(before.at).Seconds() * float64(runtime.NumCPU())
	result.Machine.Busy = (r.busy - before.busy) / total
	result.Machine.Others = result.Machine.Busy
	for _, p := range result.Processes {
		result.Machine.Others -= p.CPUSeconds / total
	}
	result.Machine.Others = max(0, result.Machine.Others)
}

// busySeconds returns the CPU time that all programs have used since the machine was started.
func busySeconds() float64 {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	// proc(5): user, nice, system, idle, iowait, irq, softirq.
	line, _, _ := strings.Cut(string(stat), "\n")
	ticks := 0.0
	for i, field := range strings.Fields(line)[1:8] {
		if i != 3 && i != 4 {
			n, _ := strconv.ParseFloat(field, 64)
			ticks += n
		}
	}
	return ticks / ticksPerSecond
}

// thisMachine returns the cores, the CPU model and the load of this machine.
func thisMachine() clog.Machine {
	m := clog.Machine{Cores: runtime.NumCPU()}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(load))[:3], " ")
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(info), "model name\t: "); ok {
			m.CPU, _, _ = strings.Cut(rest, "\n")
		}
	}
	return m
}
