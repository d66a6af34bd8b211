// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/test/harness"
	"github.com/flux-elastic/flux-elastic/test/harness/operator"
)

// bindAtAdmission is the flag.
const bindAtAdmission = "--binder=auto"

// policyName is the name of the policies of config/admission and of their bindings.
const policyName = "flux-elastic-placement"

// Users who may create Jobs and JobSets in the tests.
const (
	mallory       = "mallory"
	jobSetUser    = "system:serviceaccount:jobset-system:jobset-controller-manager"
	cronJobUser   = "system:serviceaccount:kube-system:cronjob-controller"
	onlyOurs      = "only flux-elastic may set the annotation"
	completionKey = batchv1.JobCompletionIndexAnnotation
)

// needsScheduler leaves the pods of a MiniCluster to kube-scheduler.
func needsScheduler(spec *v1alpha2.MiniClusterSpec) {
	spec.Pod.SchedulerName = corev1.DefaultSchedulerName
}

// binding begins a site whose operator lets the API server bind pods.
func binding(t *testing.T, nodes int) (*site, *operator.Operator) {
	t.Helper()
	t.Parallel()
	s := newOwnSite(t, nodes)
	return s, operator.Operate(s.shared, bindAtAdmission)
}

// The API server binds the pods when it creates them: they never have the gate, and nobody writes
// to them. The pod of a rank without a node has the gate, and is placed by a patch once its rank has
// a node. So is a pod that replaces another, although the Job's template still names the first node.
func TestBinderAdmission(t *testing.T) {
	s, fuse := binding(t, 4)
	give := s.withhold(s.nodes[3])
	pods := s.follow()
	mc := s.create(s.miniCluster("bound").Size(3).MaxSize(4).Launcher().PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(mc, v1alpha2.StateRunning)
	for _, pod := range pods.expect(t, 3, 1) {
		rank, _ := protocol.Rank(pod)
		if pod.Spec.NodeName != s.nodesOf(mc)[rank] || pod.Labels[v1alpha2.RankLabel] != strconv.Itoa(rank) || pod.Labels[v1alpha2.SelectorLabel] != mc.Name {
			t.Errorf("pod %s: node %s, labels %v", pod.Name, pod.Spec.NodeName, pod.Labels)
		}
		if _, kept := pod.Annotations[v1alpha2.NodesAnnotation]; kept || len(pod.ManagedFields) > 0 {
			t.Errorf("pod %s has kept the annotations %v, and %d managed fields", pod.Name, pod.Annotations, len(pod.ManagedFields))
		}
		for name := range pod.Annotations {
			if strings.HasPrefix(name, "jobset.sigs.k8s.io/") && name != jobsetapi.JobSetNameKey {
				t.Errorf("pod %s has kept the annotation %s", pod.Name, name)
			}
		}
		if rank == 0 && protocol.Read(pod).Quorum != 3 {
			t.Errorf("the lead was bound with a quorum of %d", protocol.Read(pod).Quorum)
		}
	}
	if seen := fuse.Seen(); seen["POST pods/binding"] > 0 || seen["PATCH pods"] > 0 || s.scheduled() > 0 {
		t.Errorf("the manager's writes: %v; a scheduler bound %d pods", seen, s.scheduled())
	}
	if gated := s.podOfRank(mc, 3); !protocol.IsGated(gated) || gated.Annotations[v1alpha2.NodesAnnotation] != "" || gated.Labels[v1alpha2.RankLabel] != "" {
		t.Errorf("the pod without a node is %+v", gated.ObjectMeta)
	}

	give()
	s.patch(mc, `{"spec":{"size":4}}`)
	s.awaitPod(mc, 3, "on the new node", func(pod *corev1.Pod) bool { return pod.Spec.NodeName == s.nodes[3] })
	s.endCommand(mc)
	s.awaitSuccess(mc)
	if mc.Status.Admission.Attempt != 1 || s.leadsOf(mc) != 1 {
		t.Errorf("attempt %d, the command ran %d times", mc.Status.Admission.Attempt, s.leadsOf(mc))
	}
}

// A lead without followers has no node for the pods that wait for growth: they keep their gate.
func TestBinderAdmissionOfALeadAlone(t *testing.T) {
	s, _ := binding(t, 1)
	pods := s.follow()
	mc := s.create(s.miniCluster("alone").Size(3).MinSize(1).Launcher().PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(mc, v1alpha2.StateRunning)
	eventually(t, func() error {
		if n := len(s.pods(mc)); n < 3 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	pods.expect(t, 1, 2)
	s.endCommand(mc)
	s.awaitSuccess(mc)
}

// While there is no room, no pods are made, whoever will bind them.
func TestBinderAdmissionMakesNothingAhead(t *testing.T) {
	s, _ := binding(t, 2)
	pods := s.follow()
	runs := s.create(s.miniCluster("runs").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(runs, v1alpha2.StateRunning)
	bound := s.create(s.miniCluster("bound").Size(2))
	s.await(bound, "waiting", func(mc *v1alpha2.MiniCluster) bool {
		return condition(mc, v1alpha2.ConditionAdmitted).Reason == v1alpha2.ReasonNoRoom
	})
	gated := s.create(s.miniCluster("gated").Size(2).Spec(needsScheduler))
	s.await(gated, "waiting", func(mc *v1alpha2.MiniCluster) bool { return state(mc) == v1alpha2.StateQueued && told(mc) != "" })
	pods.expect(t, 2, 0)
	s.endCommand(runs)
	for _, mc := range []*v1alpha2.MiniCluster{runs, bound, gated} {
		s.awaitSuccess(mc)
	}
	pods.expect(t, 6, 2)
}

// A follower whose pod cannot start is moved. The list in its Job still has the first node: the new pod
// is not bound by the list.
func TestBinderAdmissionMoves(t *testing.T) {
	s, _ := binding(t, 3)
	give := s.withhold(s.nodes[2])
	pods := s.follow()
	mc := s.create(s.miniCluster("moves").Size(2).PodAnnotation(simulator.NeverStart, "1").Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.QuorumTimeout = duration("10m")
	}))
	s.awaitPlaced(mc)
	give()
	s.awaitNodes(1)
	s.cannotStart(mc, 1)
	s.awaitPod(mc, 1, "on the other node", func(pod *corev1.Pod) bool { return pod.Spec.NodeName == s.nodes[2] })
	s.letStart(mc, 1)
	s.awaitSuccess(mc)
	pods.expect(t, 3, 1) // three pods were bound; the new one had the gate before
	s.awaitDecisions(mc, map[string]int{"Admitted": 1, "Moved": 1, "Started": 1, "Succeeded": 1})
}

// The pods of a node that is lost are replaced, and the new one gets another node.
func TestBinderAdmissionLosesANode(t *testing.T) {
	s, _ := binding(t, 4)
	give := s.withhold(s.nodes[3])
	pods := s.follow()
	mc := s.create(s.miniCluster("loses").Size(3).Launcher().PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(mc, v1alpha2.StateRunning)
	pods.expect(t, 3, 0)
	lost := s.nodesOf(mc)[2]
	s.delete(s.podOfRank(mc, 2))
	s.awaitPod(mc, 2, "on its node again", func(pod *corev1.Pod) bool { return pod.Spec.NodeName == lost && pod.DeletionTimestamp == nil })
	pods.expect(t, 4, 1)
	give()
	s.delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: lost}})
	s.awaitPod(mc, 2, "on another node", func(pod *corev1.Pod) bool { return pod.Spec.NodeName == s.nodes[3] })
	pods.expect(t, 5, 2)
	s.endCommand(mc)
	s.awaitSuccess(mc)
}

// A kubelet refuses the lead's pod, because a pod of somebody else was there first. This is no failed
// attempt: the MiniCluster gets other nodes.
func TestBinderAdmissionLosesARace(t *testing.T) {
	s, _ := binding(t, 3)
	give := s.withhold(s.nodes[2])
	mc := s.create(s.miniCluster("races").Size(2).PodAnnotation(simulator.NeverStart, "0"))
	s.awaitPlaced(mc)
	first, lead := s.nodesOf(s.get(mc))[0], s.podOfRank(mc, 0)
	give()
	const refusal = `{"status":{"phase":"Failed","reason":"OutOfcpu","message":"Node didn't have enough resource: cpu"}}`
	if err := env.client.Status().Patch(s.ctx, lead, client.RawPatch(types.MergePatchType, []byte(refusal))); err != nil {
		t.Fatal(err)
	}
	s.awaitPod(mc, 0, "on another node", func(pod *corev1.Pod) bool {
		return pod.UID != lead.UID && pod.Spec.NodeName != "" && pod.Spec.NodeName != first
	})
	s.letStart(mc, 0)
	s.awaitSuccess(mc)
	if mc.Status.Admission.Attempt != 2 || mc.Status.RequeueState != nil || s.leadsOf(mc) != 1 {
		t.Errorf("attempt %d, %+v, the command ran %d times", mc.Status.Admission.Attempt, mc.Status.RequeueState, s.leadsOf(mc))
	}
	s.awaitDecisions(mc, map[string]int{"Admitted": 2, "Released": 1, "Started": 1, "Succeeded": 1}, "Moved")
}

// The manager is killed at every write that comes before the pods, and one with another flag goes on.
func TestBinderAdmissionKilled(t *testing.T) {
	t.Parallel()
	var first []operator.Write
	for _, kind := range []string{"PATCH miniclusters/status", "POST jobsets", "POST secrets", "POST configmaps", "POST jobs"} {
		first = append(first, operator.Write{Kind: kind, N: 1})
	}
	first = append(first, operator.Write{Kind: "POST configmaps", N: 2}) // the first has the scripts
	killedAt(t, first, false, bindAtAdmission)
}

// The manager is killed before it has made the files of the pods. No step places the pods: the next
// manager makes the files because they are missing.
func TestBinderAdmissionMakesFiles(t *testing.T) {
	t.Parallel()
	s := newOwnSite(t, 2)
	o := operator.Operate(s.shared, "--jobset="+jobSetExternal, bindAtAdmission) // and nobody makes pods yet
	o.KillAt(operator.Write{Kind: "POST secrets", N: 1, Before: true})
	pods := s.follow()
	mc := s.create(s.miniCluster("files").Size(2))
	eventually(t, func() error {
		if !o.Killed() {
			return errors.New("the operator was not killed")
		}
		return nil
	})
	o.Mend()
	if err := o.Start("--jobset=" + jobSetExternal); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		var made corev1.SecretList
		if err := env.client.List(s.ctx, &made, client.InNamespace(s.namespace)); err != nil || len(made.Items) == 1 {
			return err
		}
		return fmt.Errorf("%d Secrets", len(made.Items))
	})
	defer s.shared.RunJobSet()()
	s.awaitSuccess(mc)
	pods.expect(t, 2, 0)
	checkLife(s, mc)
}

// The policy goes away: before the pods of a JobSet are made that was made for it, and while another
// MiniCluster runs. The pods have the gate then, and are placed as without the policy.
func TestBinderAdmissionPolicyGoes(t *testing.T) {
	s := newOwnSite(t, 6)
	operator.Operate(s.shared, "--jobset="+jobSetExternal, bindAtAdmission)
	pods := s.follow()
	mc := s.create(s.miniCluster("first").Size(2).PodAnnotation(simulator.Runtime, untilTold))
	var set jobsetapi.JobSet
	eventually(t, func() error { return env.client.Get(s.ctx, client.ObjectKeyFromObject(mc), &set) })
	if set.Annotations[v1alpha2.AdmittedAnnotation] == "" {
		t.Error("the JobSet has no nodes")
	}
	back := s.removePolicy(&admissionv1.MutatingAdmissionPolicyBinding{})
	defer s.shared.RunJobSet()() // makes the pods now
	s.awaitState(mc, v1alpha2.StateRunning)
	pods.expect(t, 2, 2)
	second := s.create(s.miniCluster("second").Size(2))
	s.awaitSuccess(second)
	pods.expect(t, 4, 4)
	back()
	third := s.create(s.miniCluster("third").Size(2))
	s.awaitSuccess(third)
	pods.expect(t, 6, 4)
	s.endCommand(mc)
	s.awaitSuccess(mc)
}

// The API server takes the policies of clusters in which the manager runs JobSet's controller.
func TestBinderAdmissionWhereJobSetIsEmbedded(t *testing.T) {
	t.Parallel()
	out, err := kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-o", "yaml", "-k", filepath.Join(env.Root, "config", "embedded", "admission"))
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text := string(out); strings.Contains(text, "jobset-system") || !strings.Contains(text, "variables.jobSetAccounts") {
		t.Errorf("the policies are\n%s", out)
	}
}

// removePolicy deletes an object of config/admission, and waits until no pod is bound. The returned
// function, or the end of the test, makes the object again.
func (s *site) removePolicy(object client.Object) (back func()) {
	s.t.Helper()
	object.SetName(policyName)
	s.delete(object)
	s.awaitBinding(false)
	back = func() {
		s.t.Helper()
		if out, err := kubectl(s.ctx, "apply", "--server-side", "-f", filepath.Join(env.Root, "config", "admission", "policy.yaml")); err != nil {
			s.t.Fatalf("%v: %s", err, out)
		}
		s.awaitBinding(true)
	}
	s.t.Cleanup(back)
	return back
}

// awaitBinding waits until the API server binds pods when it creates them, or does not.
func (s *site) awaitBinding(binds bool) {
	s.t.Helper()
	eventually(s.t, func() error {
		pod := s.jobPod("dry-run")
		if err := env.client.Create(s.ctx, pod, client.DryRunAll); err != nil {
			return final(err)
		}
		if (pod.Spec.NodeName != "") != binds {
			return fmt.Errorf("a pod that is created is on %q", pod.Spec.NodeName)
		}
		return nil
	})
}

// jobPod is a pod like one that a Job of a MiniCluster makes for the first node of the site.
func (s *site) jobPod(name string) *corev1.Pod {
	template := s.jobTemplate(true)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = s.namespace, name
	pod.Labels[completionKey], pod.Annotations[completionKey] = "0", "0"
	pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = "0"
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: "uid", Controller: new(true)}}
	return pod
}

// jobTemplate is the template of a pod that is bound to the first node of the site, if it has nodes.
func (s *site) jobTemplate(nodes bool) corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{v1alpha2.MiniClusterLabel: "x", jobsetapi.ReplicatedJobNameKey: v1alpha2.LeadJob},
			Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: v1alpha2.PlacementGate}},
			RestartPolicy:   corev1.RestartPolicyNever,
			Containers:      []corev1.Container{{Name: "x", Image: "x"}},
		},
	}
	if nodes {
		template.Annotations[v1alpha2.NodesAnnotation] = s.nodes[0] + "//"
	}
	return template
}

func (s *site) job(name string, nodes bool) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: batchv1.JobSpec{
			CompletionMode: new(batchv1.IndexedCompletion), Completions: new(int32(1)), BackoffLimitPerIndex: new(int32(1)),
			Template: s.jobTemplate(nodes),
		},
	}
}

func (s *site) jobSet(name string) *jobsetapi.JobSet {
	return &jobsetapi.JobSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: jobsetapi.JobSetSpec{ReplicatedJobs: []jobsetapi.ReplicatedJob{
			{Name: "plain", Replicas: 1, Template: batchv1.JobTemplateSpec{Spec: s.job("", false).Spec}},
			{Name: "nodes", Replicas: 1, Template: batchv1.JobTemplateSpec{Spec: s.job("", true).Spec}},
		}},
	}
}

// impersonate is a client of another user.
func (s *site) impersonate(user string) client.Client {
	s.t.Helper()
	config, err := env.cluster.RESTConfig()
	if err != nil {
		s.t.Fatal(err)
	}
	config.Impersonate.UserName = user
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// as is a client of another user, who may do everything with pods, Jobs and JobSets of the site.
func (s *site) as(user string) client.Client {
	s.t.Helper()
	c := s.impersonate(user)
	name := strings.ReplaceAll(user, ":", "-")
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: name}
	s.shared.Create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"", "batch", "jobset.x-k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"},
	}}})
	s.shared.Create(&rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	eventually(s.t, func() error { return c.List(s.ctx, &jobsetapi.JobSetList{}, client.InNamespace(s.namespace)) })
	return c
}

// removeJobs removes all Jobs and pods when the test ends.
func (s *site) removeJobs() {
	s.t.Cleanup(func() {
		for _, kind := range []client.Object{&batchv1.Job{}, &corev1.Pod{}} {
			err := env.client.DeleteAllOf(s.ctx, kind, client.InNamespace(s.namespace), client.PropagationPolicy(metav1.DeletePropagationBackground))
			if err != nil {
				s.t.Error(err)
			}
		}
	})
}

// podOfJob waits for the pod of a Job.
func (s *site) podOfJob(name string) *corev1.Pod {
	s.t.Helper()
	var pods corev1.PodList
	eventually(s.t, func() error {
		err := env.client.List(s.ctx, &pods, client.InNamespace(s.namespace), client.MatchingLabels{batchv1.JobNameLabel: name})
		if err == nil && len(pods.Items) == 0 {
			err = fmt.Errorf("Job %s has no pod", name)
		}
		return err
	})
	return &pods.Items[0]
}

// Nobody can have a pod bound but the manager, by a JobSet, and JobSet's controller, by the Jobs of
// that JobSet.
func TestBinderAdmissionIsForNobodyElse(t *testing.T) {
	s := newSite(t, 1)
	s.removeJobs()
	s.awaitBinding(true)
	user, jobSets := s.as(mallory), s.as(jobSetUser)
	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), onlyOurs) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	accepted := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	eventually(t, func() error { // the API server may have just seen the policy
		if user.Create(s.ctx, s.job("of-user", true), client.DryRunAll) == nil {
			return errors.New("a user's Job is not refused")
		}
		return nil
	})
	refused("a user's Job", user.Create(s.ctx, s.job("of-user", true)))
	refused("a CronJob's Job", s.as(cronJobUser).Create(s.ctx, s.job("of-cron-job", true)))
	refused("a user's JobSet", user.Create(s.ctx, s.jobSet("of-user")))
	refused("a JobSet of JobSet's controller", jobSets.Create(s.ctx, s.jobSet("of-controller")))
	accepted("a JobSet of the manager", s.as(harness.SystemIdentity).Create(s.ctx, s.jobSet("of-manager"), client.DryRunAll))

	suspended := s.job("suspended", false)
	suspended.Spec.Suspend = new(true)
	accepted("a Job without nodes", user.Create(s.ctx, suspended))
	list := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:"%s//"}}}}}`, v1alpha2.NodesAnnotation, s.nodes[0])
	refused("nodes for a Job that exists", user.Patch(s.ctx, suspended, client.RawPatch(types.MergePatchType, []byte(list))))

	plain := s.jobSet("plain-jobset")
	plain.Spec.ReplicatedJobs, plain.Spec.Suspend = plain.Spec.ReplicatedJobs[:1], new(true)
	accepted("a JobSet without nodes", user.Create(s.ctx, plain))
	list = fmt.Sprintf(`[{"op":"add","path":"/spec/replicatedJobs/0/template/spec/template/metadata/annotations","value":{%q:"%s//"}}]`, v1alpha2.NodesAnnotation, s.nodes[0])
	refused("nodes for a JobSet that exists", user.Patch(s.ctx, plain, client.RawPatch(types.JSONPatchType, []byte(list))))

	accepted("a Job of JobSet's controller", jobSets.Create(s.ctx, s.job("ours", true)))
	if pod := s.podOfJob("ours"); pod.Spec.NodeName != s.nodes[0] || protocol.HasGate(pod) {
		t.Errorf("its pod is on %q, with the gates %v", pod.Spec.NodeName, pod.Spec.SchedulingGates)
	}
	ours := s.job("ours", true)
	for what, patch := range map[string]string{
		"more pods": `{"spec":{"parallelism":2,"completions":2}}`, "a pause": `{"spec":{"suspend":true}}`,
	} {
		refused(what, user.Patch(s.ctx, ours, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	accepted("a label", user.Patch(s.ctx, ours, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))

	accepted("a user's Job without nodes", user.Create(s.ctx, s.job("plain", false)))
	if pod := s.podOfJob("plain"); pod.Spec.NodeName != "" || !protocol.HasGate(pod) {
		t.Errorf("the pod of a user's Job is on %q", pod.Spec.NodeName)
	}
	for name, c := range map[string]client.Client{mallory: user, "manager": s.as("system:serviceaccount:default:manager"), "admin": env.client} {
		for _, options := range [][]client.CreateOption{nil, {client.DryRunAll}} {
			pod := s.jobPod(fmt.Sprintf("of-%s-%d", name, len(options)))
			accepted("a pod", c.Create(s.ctx, pod, options...))
			if asks := name == "admin" && options != nil; (pod.Spec.NodeName != "") != asks {
				t.Errorf("the pod of %s is on %q (%v)", name, pod.Spec.NodeName, options)
			}
		}
	}
}

// Without the policy that refuses, no pod is bound.
func TestBinderAdmissionNeedsTheRefusal(t *testing.T) {
	s := newSite(t, 1)
	s.removeJobs()
	s.awaitBinding(true)
	back := s.removePolicy(&admissionv1.ValidatingAdmissionPolicyBinding{})
	user := s.as(mallory)
	eventually(t, func() error { return user.Create(context.WithoutCancel(t.Context()), s.job("of-user", true)) })
	if pod := s.podOfJob("of-user"); pod.Spec.NodeName != "" || !protocol.HasGate(pod) {
		t.Errorf("its pod is on %q", pod.Spec.NodeName)
	}
	back()
}
