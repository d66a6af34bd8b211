// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// Play is a scenario in a namespace of a cluster.
type Play struct {
	Client    client.Client
	Namespace string
	// Node is the node of the pods that are bound.
	Node string

	hasProbe bool // see seenByCollector
}

// Scenario is a Job, and what befalls it.
type Scenario struct {
	Name string
	Job  batchv1.JobSpec
	// Bound is true if the pods are bound to a node, and no kubelet ends them when they are deleted. The API server removes
	// pods without a node at once.
	Bound bool
	Steps []Step
}

// Step is what is done, and the states (Play.State) in one of which the cluster comes to rest then.
type Step struct {
	Do   []Act
	Want []string
}

// Act is one thing that is done.
type Act func(ctx context.Context, p *Play) error

const jobName = "job"

// Begin makes the Job.
func (p *Play) Begin(ctx context.Context, s Scenario) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: jobName}, Spec: *s.Job.DeepCopy()}
	if s.Bound {
		job.Spec.Template.Annotations = map[string]string{simulator.NoKubelet: "true"}
		job.Spec.Template.Spec.NodeName = p.Node
	}
	return p.Client.Create(ctx, job)
}

// End deletes the Job, and leaves its pods to their kubelets.
func (p *Play) End(ctx context.Context) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: jobName}}
	err := p.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	pods, err := p.pods(ctx)
	for i := range pods {
		patch := client.MergeFrom(pods[i].DeepCopy())
		delete(pods[i].Annotations, simulator.NoKubelet)
		err = errors.Join(err, client.IgnoreNotFound(p.Client.Patch(ctx, &pods[i], patch)))
	}
	return err
}

// Steps plays a scenario. `await` repeats an attempt until it succeeds, and returns its error if that takes too long.
func (p *Play) Steps(ctx context.Context, s Scenario, await func(attempt func() error) error) error {
	for i, step := range s.Steps {
		for _, act := range step.Do {
			if err := await(func() error { return act(ctx, p) }); err != nil {
				return fmt.Errorf("step %d: %w", i+1, err)
			}
		}
		err := await(arrives(ctx, p.State, step.Want...))
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

// arrives returns an attempt that succeeds in one of some states. Its error has the states before.
func arrives(ctx context.Context, look func(context.Context) (string, error), want ...string) func() error {
	var states []string
	return func() error {
		state, err := look(ctx)
		if err != nil || slices.Contains(want, state) {
			return err
		}
		if len(states) == 0 || states[len(states)-1] != state {
			states = append(states, state)
		}
		return fmt.Errorf("the states were\n\t%s\nand never\n\t%s", strings.Join(states, "\n\t"), strings.Join(want, "\nor\n\t"))
	}
}

// State says what the pods and the Job are like: for each pod its index, the failures that it was told of, and its
// phase; then the counts of the Job and its conditions in their order.
func (p *Play) State(ctx context.Context) (string, error) {
	pods, err := p.pods(ctx)
	if err != nil {
		return "", err
	}
	var all []string
	for i := range pods {
		all = append(all, describe(&pods[i]))
	}
	slices.Sort(all)
	var job batchv1.Job
	switch err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: jobName}, &job); {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("%s; no Job", strings.Join(all, ", ")), nil
	case err != nil:
		return "", err
	}
	s := job.Status
	text := fmt.Sprintf("%s; active %d, ready %d, terminating %d, succeeded %d, failed %d",
		strings.Join(all, ", "), s.Active, ptr.Deref(s.Ready, 0), ptr.Deref(s.Terminating, 0), s.Succeeded, s.Failed)
	if s.CompletedIndexes != "" || ptr.Deref(s.FailedIndexes, "") != "" {
		text += fmt.Sprintf("; done %q, broken %q", s.CompletedIndexes, ptr.Deref(s.FailedIndexes, ""))
	}
	if uncounted := s.UncountedTerminatedPods; uncounted != nil && len(uncounted.Failed)+len(uncounted.Succeeded) > 0 {
		text += "; uncounted"
	}
	for _, c := range s.Conditions {
		text += fmt.Sprintf("; %s=%s %s", c.Type, c.Status, c.Reason)
	}
	return text, nil
}

func describe(pod *corev1.Pod) string {
	text := "pod"
	if index, ok := pod.Annotations[batchv1.JobCompletionIndexAnnotation]; ok {
		text = index
		if pod.Labels[batchv1.JobCompletionIndexAnnotation] != index || pod.Spec.Hostname != jobName+"-"+index || !strings.HasPrefix(pod.Name, jobName+"-"+index+"-") {
			text += "(other names)"
		}
	}
	for _, count := range []string{batchv1.JobIndexFailureCountAnnotation, batchv1.JobIndexIgnoredFailureCountAnnotation} {
		if n, ok := pod.Annotations[count]; ok {
			text += "/" + n
		}
	}
	text += " " + string(pod.Status.Phase)
	if pod.DeletionTimestamp != nil {
		text += " deleted"
	}
	if !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
		text += " released"
	}
	if owner := metav1.GetControllerOf(pod); owner == nil {
		text += " alone"
	}
	return text
}

func (p *Play) pods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := p.Client.List(ctx, &list, client.InNamespace(p.Namespace))
	return list.Items, err
}

// find finds a pod of an index ("" in a Job without indexes) that is as wanted: the last one that was made.
func (p *Play) find(ctx context.Context, index string, wanted func(*corev1.Pod) bool) (*corev1.Pod, error) {
	pods, err := p.pods(ctx)
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		return pod.Annotations[batchv1.JobCompletionIndexAnnotation] != index || !wanted(&pod)
	})
	if len(pods) == 0 {
		return nil, fmt.Errorf("no pod of index %q is as wanted", index)
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return &pods[0], nil
}

func isActive(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// write writes the status of the active pod of an index.
func write(index string, change func(*corev1.PodStatus)) Act {
	return func(ctx context.Context, p *Play) error {
		pod, err := p.find(ctx, index, isActive)
		if err != nil {
			return err
		}
		change(&pod.Status)
		return p.Client.Status().Update(ctx, pod)
	}
}

// Run lets the pod of an index run, and be ready.
func Run(index string) Act {
	return write(index, func(s *corev1.PodStatus) {
		s.Phase, s.StartTime = corev1.PodRunning, ptr.To(metav1.Now())
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Ready: true, Started: ptr.To(true), State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()},
		}}}
	})
}

// End lets the container of an index end with an exit code.
func End(index string, code int32) Act {
	return write(index, func(s *corev1.PodStatus) { ended(s, code) })
}

func ended(s *corev1.PodStatus, code int32) {
	s.Phase = corev1.PodSucceeded
	if code != 0 {
		s.Phase = corev1.PodFailed
	}
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()},
	}}}
}

// Disrupt lets the pod of an index fail since the cluster disturbs it.
func Disrupt(index string) Act {
	return write(index, func(s *corev1.PodStatus) {
		ended(s, 137)
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	})
}

// Restarted says that the container of an index was restarted some times.
func Restarted(index string, times int32) Act {
	return write(index, func(s *corev1.PodStatus) { s.ContainerStatuses[0].RestartCount = times })
}

// Delete deletes the active pod of an index. A pod with a node stays until Gone.
func Delete(index string) Act {
	return func(ctx context.Context, p *Play) error {
		pod, err := p.find(ctx, index, isActive)
		if err != nil {
			return err
		}
		return p.Client.Delete(ctx, pod)
	}
}

// Gone ends the deleted pod of an index as its kubelet would: with an exit code, and then for good.
func Gone(index string, code int32) Act {
	return func(ctx context.Context, p *Play) error {
		pod, err := p.find(ctx, index, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		if err != nil {
			return err
		}
		ended(&pod.Status, code)
		if err := p.Client.Status().Update(ctx, pod); err != nil {
			return err
		}
		return client.IgnoreNotFound(p.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)))
	}
}

// Change changes the spec of the Job.
func Change(change func(*batchv1.JobSpec)) Act {
	return func(ctx context.Context, p *Play) error {
		var job batchv1.Job
		if err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: jobName}, &job); err != nil {
			return err
		}
		change(&job.Spec)
		return p.Client.Update(ctx, &job)
	}
}

// DeleteJob deletes the Job.
func DeleteJob(policy metav1.DeletionPropagation) Act {
	return func(ctx context.Context, p *Play) error {
		return p.Client.Delete(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: jobName}}, client.PropagationPolicy(policy))
	}
}

// seenByCollector fails until the garbage collector knows all pods that there are: it has deleted a later one, whose owner
// does not exist. It would delete those of which it hears only after their Job has gone. A play has one such pod, so that a
// second step with seenByCollector would wait for nothing.
func seenByCollector(ctx context.Context, p *Play) error {
	probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: "probe",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: "none", UID: "none"}},
	}}
	probe.Spec = spec(func(*batchv1.JobSpec) {}).Template.Spec
	if !p.hasProbe {
		if err := p.Client.Create(ctx, probe); err != nil {
			return err
		}
		p.hasProbe = true
	}
	err := p.Client.Get(ctx, client.ObjectKeyFromObject(probe), probe)
	if err == nil {
		return errors.New("a pod whose owner does not exist is still there")
	}
	return client.IgnoreNotFound(err)
}

// waitFor fails unless the Job has so many active pods, as its status says.
func waitFor(n int) Act {
	return func(ctx context.Context, p *Play) error {
		var job batchv1.Job
		if err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: jobName}, &job); err != nil {
			return err
		}
		if int(job.Status.Active) != n {
			return fmt.Errorf("%d pods are active, and not yet %d", job.Status.Active, n)
		}
		return nil
	}
}
