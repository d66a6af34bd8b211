// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	scripts "github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/test/world/apiserver"
)

// play is a cluster in memory with its models. Its time is that of a bubble.
type play struct {
	*testing.T
	client.Client
	ctx      context.Context
	jobs     *JobController
	schedule *Scheduler
	kubelets *Kubelets
	nodes    *NodeLifecycle
	models   []Model
	random   *rand.Rand
	cluster  *Cluster
	server   *apiserver.Server
}

// scheme has the kinds of Kubernetes and of Kueue.
var scheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(kueueapi.AddToScheme(scheme))
	return scheme
}()

// inBubble runs a test in a bubble, in a cluster with some nodes of 8 CPUs.
func inBubble(t *testing.T, seed uint64, nodes int, test func(p *play)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 1))
		server := apiserver.New(random, apiserver.Options{Scheme: scheme})
		cluster := &Cluster{Client: server.Client(apiserver.Admin), Random: random, Changed: server.Changed}
		p := &play{T: t, Client: cluster.Client, cluster: cluster, server: server, ctx: t.Context(), random: random, jobs: NewJobController(cluster), schedule: NewScheduler(cluster), kubelets: NewKubelets(cluster)}
		p.nodes = NewNodeLifecycle(cluster, p.kubelets)
		p.models = []Model{p.jobs, p.schedule, p.kubelets, p.nodes, apiserver.NewGarbageCollector(server)}
		for i := range nodes {
			p.create(fixture.Node(fmt.Sprintf("node-%d", i)).Obj())
		}
		test(p)
	})
}

func (p *play) create(object client.Object) {
	p.Helper()
	if err := p.Create(p.ctx, object); err != nil {
		p.Fatal(err)
	}
}

// until lets the models go on until a condition holds, for at most an hour.
func (p *play) until(what string, holds func() bool) {
	p.Helper()
	for end := time.Now().Add(time.Hour); !holds(); {
		if time.Now().After(end) {
			p.Fatalf("an hour later still not: %s\n%s", what, p.describe())
		}
		if !p.step() && !p.sleep() {
			p.Fatalf("nothing goes on, and still not: %s\n%s", what, p.describe())
		}
	}
}

// settle lets a time pass.
func (p *play) settle(lasts time.Duration) {
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		if p.step() {
			continue
		}
		next := p.next()
		if next.IsZero() || next.After(end) {
			next = end
		}
		time.Sleep(max(time.Until(next), time.Millisecond))
	}
}

// step lets one model do something.
func (p *play) step() bool {
	for _, i := range p.random.Perm(len(p.models)) {
		if p.models[i].Step(p.ctx) {
			return true
		}
	}
	return false
}

// sleep sleeps until the next time at which a model has something to do.
func (p *play) sleep() bool {
	next := p.next()
	if next.IsZero() {
		return false
	}
	time.Sleep(max(time.Until(next), time.Millisecond))
	return true
}

// next is the next time at which a model has something to do. Each has done all that was due before.
func (p *play) next() (next time.Time) {
	p.Helper()
	for _, model := range p.models {
		at := model.Next()
		if !at.IsZero() && !at.After(time.Now()) {
			p.Fatalf("%s does nothing, and has something to do at %s\n%s", model.Name(), at, p.describe())
		}
		next = soonest(next, at)
	}
	return next
}

func (p *play) pods() []corev1.Pod {
	p.Helper()
	var list corev1.PodList
	if err := p.List(p.ctx, &list); err != nil {
		p.Fatal(err)
	}
	return list.Items
}

func (p *play) describe() string {
	var out strings.Builder
	for _, pod := range p.pods() {
		fmt.Fprintf(&out, "pod %s on %q: %s %s, deleted %v, finalizers %v\n", pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.Status.Reason, pod.DeletionTimestamp, pod.Finalizers)
		for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			fmt.Fprintf(&out, "  %s ready %v started %v: %v\n", s.Name, s.Ready, s.Started != nil && *s.Started, s.State.String())
		}
		for _, c := range pod.Status.Conditions {
			fmt.Fprintf(&out, "  %s=%s %s %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	var jobs batchv1.JobList
	if err := p.List(p.ctx, &jobs); err == nil {
		for _, job := range jobs.Items {
			status, _ := json.Marshal(job.Status)
			fmt.Fprintf(&out, "job %s: %s\n", job.Name, status)
		}
	}
	return out.String()
}

// start makes the Jobs and the files of a MiniCluster, as JobSet would, without gates.
func (p *play) start(mc *v1alpha2.MiniCluster) {
	p.Helper()
	set, err := jobset.JobSet(mc, 1)
	if err != nil {
		p.Fatal(err)
	}
	files, err := scripts.Files(mc, 1)
	if err != nil {
		p.Fatal(err)
	}
	for i := range set.Spec.ReplicatedJobs {
		r := &set.Spec.ReplicatedJobs[i]
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: mc.Namespace, Name: set.Name + "-" + r.Name + "-0"}, Spec: r.Template.Spec}
		template := &job.Spec.Template
		for key, value := range map[string]string{
			jobsetapi.JobSetUIDKey: "uid-of-" + set.Name, jobsetapi.JobSetNameKey: set.Name, jobsetapi.ReplicatedJobNameKey: r.Name,
		} {
			metav1.SetMetaDataLabel(&template.ObjectMeta, key, value)
		}
		template.Spec.SchedulingGates = nil
		p.create(job)
	}
	for _, volume := range set.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			switch {
			// Another volume may have the same.
			case source.ConfigMap != nil: // the scripts, and the files
				_ = p.Create(p.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: mc.Namespace, Name: source.ConfigMap.Name}, Data: files})
			case source.Secret != nil:
				_ = p.Create(p.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: mc.Namespace, Name: source.Secret.Name}})
			}
		}
	}
}

func (p *play) jobStatus(name string) batchv1.JobStatus {
	p.Helper()
	var job batchv1.Job
	if err := p.Get(p.ctx, types.NamespacedName{Namespace: fixture.Namespace, Name: name}, &job); err != nil {
		p.Fatal(err)
	}
	return job.Status
}

func hasJobCondition(status batchv1.JobStatus, kind batchv1.JobConditionType) bool {
	c := jobCondition(status.Conditions, kind)
	return c != nil && c.Status == corev1.ConditionTrue
}

// A MiniCluster of four brokers runs its command to its end.
func TestLife(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, seed, 4, func(p *play) {
				p.start(fixture.MiniCluster("lmp").Size(4).CPU("8").Defaulted())
				p.until("the lead's Job is complete", func() bool { return hasJobCondition(p.jobStatus("lmp-0-0"), batchv1.JobComplete) })
				var runs []*Process
				for _, process := range p.kubelets.Processes() {
					if process.Command {
						runs = append(runs, process)
					}
				}
				if len(runs) != 1 || runs[0].Code != 0 || runs[0].Runs() || runs[0].Brokers != 4 {
					t.Errorf("the command ran %d times: %+v\n%s", len(runs), runs, p.describe())
				}
				p.until("the followers have ended", func() bool { return hasJobCondition(p.jobStatus("lmp-w-0"), batchv1.JobComplete) })
			})
		})
	}
}
