// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2eautoscale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// Settings of the comparison.
const (
	gangs      = 16
	largest    = 16
	every      = 6 * time.Second // a gang is submitted
	shortest   = 20 * time.Second
	boot       = 15 * time.Second // of a node
	patience   = 5 * time.Minute  // after the last submission
	limitNodes = 24
	brief      = 5 * time.Second
)

// job is a gang of the comparison: a MiniCluster, or a JobSet.
type job struct {
	name string
	size int
	run  time.Duration
}

// jobs are the same for both.
func jobs(seed uint64) []job {
	random := rand.New(rand.NewPCG(seed, 0))
	var out []job
	for i := range gangs {
		run := shortest + time.Duration(random.IntN(21))*time.Second
		out = append(out, job{fmt.Sprintf("gang-%02d", i), 1 + random.IntN(largest), run})
	}
	return out
}

// BenchmarkScaling runs the same gangs with Karpenter from zero nodes, as MiniClusters of a queue that asks for nodes, and as plain
// JobSets, whose pods Karpenter sees one by one. "enough" has no limit, and "limited" a NodePool with room for so many nodes.
// `make bench-autoscale` runs it.
func BenchmarkScaling(b *testing.B) {
	for _, scenario := range []struct {
		name   string
		limits map[string]string
		most   int32
	}{{"enough", nil, gangs * largest}, {"limited", map[string]string{"cpu": strconv.Itoa(8 * limitNodes)}, limitNodes}} {
		for seed := range uint64(3) {
			for _, system := range []struct {
				name   string
				submit func(*comparison, job) error
			}{{"ours", (*comparison).submitMiniCluster}, {"jobsets", (*comparison).submitJobSet}} {
				b.Run(fmt.Sprintf("%s/seed=%d/%s", scenario.name, seed+1, system.name), func(b *testing.B) {
					for b.Loop() {
						c := &comparison{jobs: jobs(seed), most: scenario.most, submitted: map[string]time.Time{}}
						if err := c.run(b.Context(), b.Name(), scenario.limits, system.submit); err != nil {
							b.Fatal(err)
						}
						c.report(b)
					}
				})
			}
		}
	}
}

// comparison is one run.
type comparison struct {
	*cluster
	jobs      []job
	most      int32 // nodes, for the queue
	submitted map[string]time.Time
	end       time.Time
}

// run submits all, and waits until all have ended and no node is left, but not without limit.
func (c *comparison) run(ctx context.Context, name string, limits map[string]string, submit func(*comparison, job) error) (err error) {
	pool := localcluster.NodePool{Name: "pool", Types: []string{"standard-8"}, Limits: limits}
	if c.cluster, err = up(ctx, name, []localcluster.NodePool{pool}, boot); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.down()) }()
	stop, err := c.RunJobSet(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	q := fixture.Queue("batch").New()
	q.Spec.ScaleUp = &v1alpha2.ScaleUp{Provider: v1alpha2.ProvideByBuffer, MaxNodes: c.most}
	if err := c.Client.Create(ctx, q); err != nil {
		return err
	}
	begin := harness.WallClock.Now()
	for i, job := range c.jobs {
		harness.WallClock.Sleep(begin.Add(time.Duration(i) * every).Sub(harness.WallClock.Now()))
		c.submitted[job.name] = harness.WallClock.Now()
		if err := submit(c, job); err != nil {
			return err
		}
	}
	err = harness.PollFor(patience, func() error {
		var nodes corev1.NodeList
		if err := c.Client.List(ctx, &nodes); err != nil {
			return err
		}
		if f := c.figures(harness.WallClock.Now()); f.finished < len(c.jobs) || len(nodes.Items) > 0 {
			return fmt.Errorf("%d of %d gangs have finished, and %d nodes are left", f.finished, len(c.jobs), len(nodes.Items))
		}
		return nil
	})
	c.end = harness.WallClock.Now()
	if err != nil {
		fmt.Println(name, err) // a figure
	}
	return nil
}

func (c *comparison) submitMiniCluster(j job) error {
	return c.Client.Create(context.Background(), fixture.MiniCluster(j.name).Queue("batch").Size(int32(j.size)).CPU("7").PodAnnotation(simulator.Runtime, j.run.String()).New())
}

// submitJobSet makes a JobSet whose pods end together, when all of them have run for the time.
func (c *comparison) submitJobSet(j job) error {
	set := &jobsetapi.JobSet{ObjectMeta: metav1.ObjectMeta{Name: j.name, Namespace: fixture.Namespace}}
	size, indexed := int32(j.size), batchv1.IndexedCompletion
	spec := batchv1.JobSpec{Parallelism: &size, Completions: &size, CompletionMode: &indexed}
	spec.Template.Annotations = map[string]string{
		simulator.GangSize: strconv.Itoa(j.size), simulator.Runtime: j.run.String(), "karpenter.sh/do-not-disrupt": "true",
	}
	spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
		Name: "app", Image: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")}},
	}}}
	set.Spec.SuccessPolicy = &jobsetapi.SuccessPolicy{Operator: jobsetapi.OperatorAll} // as JobSet's webhooks set it
	set.Spec.StartupPolicy = &jobsetapi.StartupPolicy{StartupPolicyOrder: jobsetapi.AnyOrder}
	set.Spec.Network = &jobsetapi.Network{EnableDNSHostnames: new(true), PublishNotReadyAddresses: new(true)}
	set.Spec.ReplicatedJobs = []jobsetapi.ReplicatedJob{{Name: "w", Replicas: 1, Template: batchv1.JobTemplateSpec{Spec: spec}}}
	return c.Client.Create(context.Background(), set)
}

// figures of a run. Times of nodes are in seconds.
type figures struct {
	finished int
	halves   int // gangs that held nodes for more than `brief` before they started, or that never started
	// paid is from when Karpenter asks for a node until the node is gone, used what the commands of finished gangs needed, and hostage from
	// when a pod gets its node until the gang starts.
	paid, used, hostage float64
	waits               []float64 // from submission to start, or to the end of the run
}

// fate is when the pods of a gang have got their nodes and run, when all of them ran, and when they ended.
type fate struct {
	bound, running map[string]time.Time
	start, end     time.Time
}

// figures are those until a time.
func (c *comparison) figures(until time.Time) figures {
	var f figures
	nodes, gone, fates := map[string]time.Time{}, map[string]time.Time{}, map[string]*fate{}
	sizes := map[string]int{}
	for _, j := range c.jobs {
		sizes[j.name], fates[j.name] = j.size, &fate{bound: map[string]time.Time{}, running: map[string]time.Time{}}
	}
	for _, e := range c.history.All() {
		switch object := e.Object.(type) {
		case *unstructured.Unstructured:
			if object.GetKind() != claimKind.Kind {
				continue
			}
			if _, known := nodes[object.GetName()]; !known {
				nodes[object.GetName()] = e.At
			}
			if e.Gone {
				gone[object.GetName()] = e.At
			}
		case *corev1.Pod:
			gang := object.Labels[jobsetapi.JobSetNameKey] // that of a MiniCluster has its name
			if fate := fates[gang]; fate != nil {
				fate.see(object, sizes[gang], e)
			}
		}
	}
	for name, made := range nodes {
		last := until
		if at, ended := gone[name]; ended {
			last = at
		}
		f.paid += last.Sub(made).Seconds()
	}
	for _, j := range c.jobs {
		fate := fates[j.name]
		started := until
		if !fate.start.IsZero() {
			started = fate.start
		}
		f.waits = append(f.waits, started.Sub(c.submitted[j.name]).Seconds())
		held := time.Duration(0)
		for _, at := range fate.bound {
			f.hostage += started.Sub(at).Seconds()
			held = max(held, started.Sub(at))
		}
		if held > brief {
			f.halves++
		}
		if !fate.end.IsZero() {
			f.finished++
			f.used += float64(j.size) * j.run.Seconds()
		}
	}
	slices.Sort(f.waits)
	return f
}

// see follows one state of a pod.
func (f *fate) see(pod *corev1.Pod, size int, e harness.Event) {
	name := string(pod.UID)
	if _, known := f.bound[name]; !known && pod.Spec.NodeName != "" {
		f.bound[name] = e.At
	}
	if _, known := f.running[name]; !known && pod.Status.Phase == corev1.PodRunning {
		if f.running[name] = e.At; len(f.running) == size && f.start.IsZero() {
			f.start = e.At
		}
	}
	if ended := pod.Status.Phase == corev1.PodSucceeded || e.Gone; ended && !f.start.IsZero() && f.end.IsZero() {
		f.end = e.At
	}
}

func (c *comparison) report(b *testing.B) {
	b.Helper()
	f := c.figures(c.end)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(f.finished), "finished")
	b.ReportMetric(f.paid, "paid-node-s")
	b.ReportMetric(f.used, "used-node-s")
	b.ReportMetric(100*f.used/f.paid, "used-%")
	b.ReportMetric(f.hostage, "hostage-node-s")
	b.ReportMetric(float64(f.halves), "half-placed")
	b.ReportMetric(f.waits[len(f.waits)/2], "wait-p50-s")
	b.ReportMetric(f.waits[len(f.waits)-1], "wait-max-s")
}
