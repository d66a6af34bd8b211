// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/clog"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
)

const (
	// backoffLimit is how many pods of a Job may fail. Pods of a gang fail when they are evicted.
	backoffLimit = 1000
	// keep is how many seconds a Job and its pods stay after its end. A MiniCluster's pods are
	// deleted after its end, too.
	keep = 5
	// certificate has the size of a certificate for CurveZMQ.
	certificate = "curve\n    public-key = \"0123456789012345678901234567890123456789\"\n    secret-key = \"0123456789012345678901234567890123456789\"\n"
)

// MiniCluster returns the MiniCluster of a gang. It wants whole nodes and computes for a while, on
// fewer nodes for a longer time.
func MiniCluster(gang clog.Gang, cpu resource.Quantity) *v1alpha2.MiniCluster {
	mc := &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Name: gang.Name, Namespace: corev1.NamespaceDefault}}
	tasks := int32(gang.Size)
	mc.Spec.Size, mc.Spec.MinSize, mc.Spec.Tasks = int32(gang.Size), int32(gang.Min), &tasks
	mc.Spec.Pod.Annotations = map[string]string{simulator.Runtime: gang.Run.String()}
	if gang.NeverStart != "" {
		mc.Spec.Pod.Annotations[simulator.NeverStart] = gang.NeverStart
	}
	mc.Spec.Flux.Container.Image = "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy"
	mc.Spec.Containers = []v1alpha2.MiniClusterContainer{{
		Image: "ghcr.io/converged-computing/metric-lammps:latest", Command: "lmp -v x 2 -v y 2 -v z 2 -in in.reaxc.hns -nocite",
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: cpu}},
	}}
	return mc
}

// MiniCluster returns the MiniCluster of a gang. An elastic one starts without late pods after half of the
// time after which the start is given up.
func (r *Run) MiniCluster(gang clog.Gang, cpu resource.Quantity) *v1alpha2.MiniCluster {
	mc := MiniCluster(gang, cpu)
	if r.Scheduler.Queue != "" {
		mc.Spec.Queue = QueueName(gang.Queue)
	}
	if timeout := r.Scenario.StartTimeout; timeout.Duration > 0 {
		mc.Spec.Elastic.QuorumTimeout = &metav1.Duration{Duration: timeout.Duration / 2}
		mc.Spec.Elastic.StartTimeout = &metav1.Duration{Duration: timeout.Duration}
	}
	return mc
}

// KueueConfiguration returns a part of Kueue's configuration.
func (r *Run) KueueConfiguration() (string, error) {
	return Expand(r.Scheduler.Kueue, map[string]string{"TIMEOUT": r.Scenario.StartTimeout.String()})
}

// Objects returns the objects of a gang of another scheduler, in the order in which they are made. The
// Job owns the objects after it.
func (r *Run) Objects(gang clog.Gang, cpu resource.Quantity) ([]client.Object, error) {
	objects, job := []client.Object{}, bareJob(cpu)
	if r.Pods == Same {
		var err error
		if objects, job, err = sameObjects(gang, cpu); err != nil {
			return nil, err
		}
	}
	job.TypeMeta = metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"}
	job.ObjectMeta = metav1.ObjectMeta{Name: gang.Name, Namespace: corev1.NamespaceDefault}
	spec := &job.Spec
	spec.Parallelism, spec.Completions = ptr.To(int32(gang.Size)), ptr.To(int32(gang.Size))
	spec.CompletionMode, spec.BackoffLimit = ptr.To(batchv1.IndexedCompletion), ptr.To[int32](backoffLimit)
	spec.TTLSecondsAfterFinished = ptr.To[int32](keep)
	if spec.Template.Annotations == nil {
		spec.Template.Annotations = map[string]string{}
	}
	spec.Template.Annotations[simulator.GangSize] = strconv.Itoa(gang.Size)
	spec.Template.Annotations[simulator.Runtime] = gang.Run.String()
	if gang.NeverStart != "" {
		spec.Template.Annotations[simulator.NeverStart] = gang.NeverStart
	}
	values := variables(gang, cpu)
	groups, err := r.Scheduler.objects(r.Scheduler.Group, values)
	if err != nil {
		return nil, err
	}
	patched, err := r.Scheduler.patch(job, values)
	objects = append(objects, patched)
	for _, group := range groups {
		objects = append(objects, group)
	}
	return objects, err
}

// bareJob returns a Job of pause containers.
func bareJob(cpu resource.Quantity) *batchv1.Job {
	return &batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{
			Name: "pause", Image: "registry.k8s.io/pause:3.10",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: cpu}},
		}},
	}}}}
}

// sameObjects returns the Service, the ConfigMap and the Secret of a MiniCluster, and a Job with the
// pods of its followers. They also mount the scripts, which stand once in the namespace.
func sameObjects(gang clog.Gang, cpu resource.Quantity) (objects []client.Object, job *batchv1.Job, err error) {
	mc := MiniCluster(gang, cpu)
	mc.Default()
	all, err := jobset.AllObjects(mc, "bench", certificate)
	if err != nil {
		return nil, nil, err
	}
	set := all[len(all)-1].(*jobsetapi.JobSet)
	objects = all[1 : len(all)-1]
	for _, object := range objects {
		object.SetOwnerReferences(nil)
	}
	jobs := set.Spec.ReplicatedJobs
	job = &batchv1.Job{Spec: jobs[len(jobs)-1].Template.Spec}
	job.Spec.Template.Spec.SchedulingGates = nil
	return objects, job, nil
}

// patch applies the patch of the scheduler to a Job.
func (s *Scheduler) patch(job *batchv1.Job, values map[string]string) (client.Object, error) {
	text, err := Expand(s.Job, values)
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &patch); err != nil {
		return nil, fmt.Errorf("the Job of %s: %w", s.Name, err)
	}
	plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: localcluster.MergePatch(plain, patch)}, nil
}

// Prepare returns the objects that the cluster needs before the gangs come. Each node has some CPUs.
func (r *Run) Prepare(cpu resource.Quantity) ([]*unstructured.Unstructured, error) {
	values := map[string]string{}
	objects, err := r.Scheduler.objects(r.Scheduler.Setup, values)
	if err != nil {
		return nil, err
	}
	queues := r.Scenario.Queues()
	for _, queue := range queues {
		values["QUEUE"] = QueueName(queue)
		values["SHARE"] = strconv.Itoa(r.Scenario.Nodes * int(cpu.Value()) / len(queues))
		more, err := r.Scheduler.objects(r.Scheduler.Queue, values)
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	if r.Pods != Same {
		return objects, nil
	}
	mc := MiniCluster(clog.Gang{Name: "any", Size: 1}, cpu)
	mc.Default()
	all, err := jobset.AllObjects(mc, "bench", certificate)
	if err != nil {
		return nil, err
	}
	scripts, err := runtime.DefaultUnstructuredConverter.ToUnstructured(all[0])
	return append(objects, &unstructured.Unstructured{Object: scripts}), err
}

// objects reads the YAML documents of a text.
func (s *Scheduler) objects(text string, values map[string]string) ([]*unstructured.Unstructured, error) {
	text, err := Expand(text, values)
	if err != nil {
		return nil, fmt.Errorf("the objects of %s: %w", s.Name, err)
	}
	var out []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			return nil, fmt.Errorf("the objects of %s: %w", s.Name, err)
		}
		if len(object.Object) > 0 {
			out = append(out, object)
		}
	}
	return out, nil
}

// variables are the values of a gang's variables.
func variables(gang clog.Gang, cpu resource.Quantity) map[string]string {
	return map[string]string{
		"NAME": gang.Name, "SIZE": strconv.Itoa(gang.Size), "QUEUE": QueueName(gang.Queue), "CPUS": strconv.Itoa(gang.Size * int(cpu.Value())),
	}
}

// QueueName is the name of a queue in the cluster. A scenario without queues has one, too.
func QueueName(queue string) string { return "bench" + queue }

// Expand replaces variables ($NAME) of a text. It fails if a variable has no value.
func Expand(text string, values map[string]string) (string, error) {
	var err error
	out := os.Expand(text, func(name string) string {
		value, ok := values[name]
		if !ok {
			err = fmt.Errorf("there is no variable $%s", name)
		}
		return value
	})
	return out, err
}
