// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/test/harness"
	"github.com/flux-elastic/flux-elastic/test/harness/operator"
)

// What a quota or policy refuses of what others make for a MiniCluster, is said in its own words, and nothing is held. Once
// that may be made, the MiniCluster starts.
func TestRefusedJobs(t *testing.T) {
	t.Parallel()
	refusedJobs(t, newSite)
}

// The same holds where the cluster has JobSet's controller.
func TestRefusedJobsOfExternalJobSet(t *testing.T) {
	t.Parallel()
	refusedJobs(t, func(t *testing.T, nodes int) *site {
		t.Helper()
		s := newOwnSite(t, nodes)
		operator.Operate(s.shared, "--jobset="+jobSetExternal)
		t.Cleanup(s.shared.RunJobSet())
		return s
	})
}

func refusedJobs(t *testing.T, take func(t *testing.T, nodes int) *site) {
	t.Helper()
	quota := func(s *site, most string) client.Object { return quotaOf(s, "batch", "jobs", most) }
	policy := func(expression, words string) func(s *site) client.Object {
		return func(s *site) client.Object { return policyOf(s, "batch", "jobs", expression, words) }
	}
	for name, tc := range map[string]struct {
		object      func(s *site) client.Object
		state, want string
		allow       func(s *site)
		// stays is how often it has nodes.
		stays []int
	}{
		"quota": {
			object: func(s *site) client.Object { return quota(s, "1") }, state: v1alpha2.StateQueued,
			want:  "uota jobs lets no more than 1 Job be made, 2 are needed; it is 1 in all",
			allow: func(s *site) { s.patch(quota(s, "1"), `{"spec":{"hard":{"count/jobs.batch":"2"}}}`) },
			stays: []int{1},
		},
		"policy": {
			object: policy("'cost-centre' in object.metadata.?labels.orValue({})", "every Job needs the label cost-centre"),
			state:  v1alpha2.StateRejected,
			want:   "every Job needs the label cost-centre",
			allow:  func(s *site) { s.patch(mcOf(s), `{"spec":{"jobLabels":{"cost-centre":"physics"}}}`) },
			stays:  []int{1},
		},
		"policy that the check does not meet": {
			object: policy("request.?dryRun.orValue(false)", "no Jobs today"), state: v1alpha2.StateRejected,
			want:  "the Jobs are refused: ",
			allow: func(s *site) { s.delete(policy("", "")(s)) },
			stays: twiceOrMore,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := take(t, 2)
			record := s.newRecord()
			s.createObject(tc.object(s))
			mc := s.create(s.miniCluster("two").Size(2))
			s.await(mc, "told, with no node held", func(mc *v1alpha2.MiniCluster) bool {
				return state(mc) == tc.state && strings.Contains(told(mc), tc.want) && mc.Status.Admission == nil
			})
			tc.allow(s)
			s.awaitSuccess(mc)
			if mc.Status.Runs != 1 || mc.Status.RequeueState != nil {
				t.Errorf("the command ran %d times; %+v", mc.Status.Runs, mc.Status.RequeueState)
			}
			record.hadNodes(s, mc, tc.stays...)
		})
	}
}

// Of each kind that is made for a MiniCluster, a quota, policy or webhook that allows none is told in its own words, and no node
// is held: never, when it is there before the MiniCluster, and not from then on, when it comes while the MiniCluster waits for
// nodes, after the check. Its end is noticed, and the command runs once.
func TestRefusedKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct{ group, resource string }{
		{"", "configmaps"}, {"", "secrets"}, {"", "services"}, {"", "pods"}, {"batch", "jobs"}, {"jobset.x-k8s.io", "jobsets"},
	} {
		for how, none := range noneOf(kind.group, kind.resource) {
			t.Run(kind.resource+" "+how, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, 1)
				record := s.newRecord()
				obstacle, words := none(s)
				refused := func(mc *v1alpha2.MiniCluster) {
					s.awaitRefused(mc, how, words)
					s.delete(obstacle)
					s.awaitSuccess(mc)
					if mc.Status.Runs != 1 || mc.Status.RequeueState != nil {
						t.Errorf("the command of %q ran %d times; %+v", mc.Name, mc.Status.Runs, mc.Status.RequeueState)
					}
				}
				s.createObject(obstacle)
				before := s.create(s.miniCluster("before"))
				refused(before)
				record.hadNodes(s, before, 1)

				first := s.create(s.miniCluster("first").PodAnnotation(simulator.Runtime, untilTold))
				s.awaitState(first, v1alpha2.StateRunning)
				mc := s.create(s.miniCluster("later").MaxSize(300).Launcher()) // so many pods are not made of a MiniCluster that waits
				s.await(mc, "waiting for room", func(mc *v1alpha2.MiniCluster) bool {
					return condition(mc, v1alpha2.ConditionAdmitted).Reason == v1alpha2.ReasonNoRoom
				})
				obstacle, words = none(s)
				s.createObject(obstacle)
				s.endCommand(first)
				refused(mc)
				record.hadNodes(s, mc, 1, 2)
			})
		}
	}
}

// noneOf are a quota, a policy and a webhook that let nobody make objects of a kind, each with words that are told.
func noneOf(group, resource string) map[string]func(s *site) (none client.Object, words string) {
	return map[string]func(s *site) (client.Object, string){
		"quota": func(s *site) (client.Object, string) { return quotaOf(s, group, resource, "0"), resource },
		"policy": func(s *site) (client.Object, string) {
			words := fmt.Sprintf("no %s today", resource)
			return policyOf(s, group, resource, "false", words), words
		},
		"webhook": func(s *site) (client.Object, string) {
			words := fmt.Sprintf("no %s today", resource)
			return webhookOf(s, group, resource, func() string { return words }), words
		},
	}
}

// awaitRefused waits until a MiniCluster without nodes tells which quota, policy or webhook keeps it from starting.
func (s *site) awaitRefused(mc *v1alpha2.MiniCluster, how, words string) {
	s.t.Helper()
	s.await(mc, "told, with no node held", func(mc *v1alpha2.MiniCluster) bool {
		waits := state(mc) == v1alpha2.StateQueued && how == "quota" || state(mc) == v1alpha2.StateRejected && how != "quota"
		return waits && mc.Status.Nodes == 0 && mc.Status.Admission == nil && strings.Contains(told(mc), words) && strings.Contains(strings.ToLower(told(mc)), how)
	})
}

// The names of pods are made last, when the pods have addresses. Whether they would be refused is known before there are nodes.
// If it becomes so later, brokers that wait for each other give their nodes back.
func TestRefusedNames(t *testing.T) {
	t.Parallel()
	for how, none := range noneOf("discovery.k8s.io", "endpointslices") {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 2)
			record := s.newRecord()
			obstacle, words := none(s)
			s.createObject(obstacle)
			mc := s.create(s.waiting("two", 2, "1"))
			s.awaitRefused(mc, how, words)
			s.delete(obstacle)
			s.await(mc, "with a lead", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 1 })
			obstacle, _ = none(s)
			s.createObject(obstacle)
			if err := env.client.DeleteAllOf(s.ctx, &discoveryv1.EndpointSlice{}, client.InNamespace(s.namespace)); err != nil {
				t.Fatal(err)
			}
			s.awaitRefused(mc, how, words)
			s.delete(obstacle)
			s.awaitSuccessOf(mc, 1)
			if mc.Status.Runs != 1 || mc.Status.RequeueState != nil {
				t.Errorf("the command ran %d times; %+v", mc.Status.Runs, mc.Status.RequeueState)
			}
			record.hadNodes(s, mc, twiceOrMore...)
		})
	}
}

// waiting begins a MiniCluster of which some ranks do not start until they are told, and the others wait for these.
func (s *site) waiting(name string, size int32, ranks string) *fixture.MiniClusterWrapper {
	return s.miniCluster(name).Size(size).PodAnnotation(simulator.NeverStart, ranks).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.QuorumTimeout, spec.Elastic.StartTimeout = duration("1h"), duration("2h")
	})
}

// A policy that refuses the placement of pods is told in its own words, and no node is held meanwhile.
func TestRefusedPlacement(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	const words = "no pod leaves its gate today"
	policy := policyOf(s, "", "pods", "request.operation == 'CREATE' || !oldObject.spec.?schedulingGates.hasValue() || object.spec.?schedulingGates.hasValue()", words)
	rules := &policy.Spec.MatchConstraints.ResourceRules[0]
	rules.Operations = append(rules.Operations, admissionregistrationv1.Update)
	s.createObject(policy)
	mc := s.create(s.miniCluster("gated").Spec(needsScheduler))
	s.await(mc, "told, with no node held", func(mc *v1alpha2.MiniCluster) bool {
		return state(mc) == v1alpha2.StateRejected && mc.Status.Nodes == 0 && mc.Status.Admission == nil && strings.Contains(told(mc), words)
	})
	s.delete(policy)
	s.awaitSuccess(mc)
	if mc.Status.Runs != 1 || mc.Status.RequeueState != nil {
		t.Errorf("the command ran %d times; %+v", mc.Status.Runs, mc.Status.RequeueState)
	}
}

// What is too large for etcd, the API server refuses without a reason: the manager knows the refusal by these words.
func TestTooLargeForEtcd(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	for _, tc := range []struct {
		bytes int
		want  string
	}{
		{1700 << 10, "etcdserver: request is too large"},
		{2500 << 10, "trying to send message larger than max"},
	} {
		set := &jobsetapi.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "large"}}
		job := jobsetapi.ReplicatedJob{Name: "job", Replicas: 1}
		job.Template.Spec.Template.Spec = corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "x", Image: "x", Env: []corev1.EnvVar{{Name: "X", Value: strings.Repeat("x", tc.bytes)}}}},
		}
		set.Spec.Suspend, set.Spec.ReplicatedJobs = ptr.To(true), []jobsetapi.ReplicatedJob{job}
		err := env.client.Create(s.ctx, set)
		if err == nil || !strings.Contains(err.Error(), tc.want) || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			t.Errorf("%q was told: %v, want: %s", apierrors.ReasonForError(err), err, tc.want)
		}
	}
}

// Policies and webhooks see a pod as its Job makes it.
func TestPodsHaveAController(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.createObject(policyOf(s, "", "pods", "object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false))", "a pod needs a controller"))
	s.awaitSuccess(s.create(s.miniCluster("two").Size(2)))
}

// onlyJobsMakePods is a rule that only the Job controller meets.
const onlyJobsMakePods = "request.userInfo.username == 'system:serviceaccount:kube-system:job-controller'"

// A policy that lets only Kubernetes make pods refuses the check, and not the pods. These are made behind their gates to find
// out. Others that are alike do not have to.
func TestPodsOfTheJobController(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.createObject(policyOf(s, "", "pods", onlyJobsMakePods, "only Jobs make pods"))
	first, second := s.create(s.miniCluster("one").Size(2)), s.create(s.miniCluster("two").Size(2))
	s.awaitSuccess(first)
	s.awaitSuccess(second)
	for _, mc := range []*v1alpha2.MiniCluster{first, second} {
		if events := s.events(mc); events["Admitted"] != 1 || events["Released"] > 0 {
			t.Errorf("MiniCluster %q has the events %v", mc.Name, events)
		}
	}
}

// A policy that refuses the check and the pods refuses the MiniCluster: no pods stay, and no nodes are held.
func TestPodsOfNobody(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.createObject(policyOf(s, "", "pods", "request.userInfo.username == 'nobody'", "nobody makes pods"))
	mc := s.create(s.miniCluster("two").Size(2))
	s.await(mc, "told", func(mc *v1alpha2.MiniCluster) bool {
		return state(mc) == v1alpha2.StateRejected && strings.HasPrefix(told(mc), "the pods are refused: ") && strings.Contains(told(mc), "nobody makes pods")
	})
	if mc.Status.Admission != nil || len(mc.Status.Attempts) > 0 {
		t.Errorf("it has the admission %+v", mc.Status.Admission)
	}
}

// A policy that the check does not meet is told once the pods are made, and the nodes go back.
func TestRefusedAfterAll(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.createObject(policyOf(s, "", "pods", "request.?dryRun.orValue(false)", "no pods today"))
	mc := s.create(s.miniCluster("two").Size(2))
	s.await(mc, "told", func(mc *v1alpha2.MiniCluster) bool {
		return state(mc) == v1alpha2.StateRejected && mc.Status.Admission == nil && strings.Contains(told(mc), "no pods today")
	})
}

// told is what a MiniCluster that waits is told.
func told(mc *v1alpha2.MiniCluster) string {
	return condition(mc, v1alpha2.ConditionAdmitted).Message + condition(mc, v1alpha2.ConditionAccepted).Message
}

func mcOf(s *site) *v1alpha2.MiniCluster {
	return &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "two"}}
}

// quotaOf is a quota for how many objects of a kind the namespace of a site may have.
func quotaOf(s *site, group, resource, most string) *corev1.ResourceQuota {
	count := strings.TrimSuffix("count/"+resource+"."+group, ".")
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: resource},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceName(count): *quantity(most)}},
	}
}

// policyOf is a policy about what is created in the namespace of a site.
func policyOf(s *site, group, resource, expression, message string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	return s.shared.Policy(group, resource, expression, message)
}

// createObject creates a quota, policy or webhook for as long as the test runs. What breaks it is denied from then on.
func (s *site) createObject(object client.Object) {
	s.t.Helper()
	objects := []client.Object{object}
	if policy, isPolicy := object.(*admissionregistrationv1.ValidatingAdmissionPolicy); isPolicy {
		objects = append(objects, harness.BindingOf(policy))
	}
	for _, object := range objects {
		_, isBinding := object.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding) // it may be that of before
		if err := env.client.Create(s.ctx, object); err != nil && (!isBinding || !apierrors.IsAlreadyExists(err)) {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { _ = env.client.Delete(s.ctx, object) })
	}
	eventually(s.t, func() error {
		if quota, isQuota := object.(*corev1.ResourceQuota); isQuota {
			return s.isCounted(quota)
		}
		return s.isDenied(object.GetName())
	})
}

// isDenied reports whether the API server has learned of a policy or webhook of a name: it learns of them later.
func (s *site) isDenied(name string) error {
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: "probe"}
	port := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}
	for _, probe := range []client.Object{
		s.jobPod("probe"), s.job("probe", false), s.jobSet("probe"),
		&corev1.ConfigMap{ObjectMeta: meta}, &corev1.Secret{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta, Spec: port},
		&discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4},
	} {
		if err := env.client.Create(s.ctx, probe, client.DryRunAll); err != nil && strings.Contains(err.Error(), name) {
			return nil
		}
	}
	return errors.New("nothing is denied")
}

// isCounted reports whether a quota holds: it does once it has been counted.
func (s *site) isCounted(quota *corev1.ResourceQuota) error {
	if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
		return err
	}
	if len(quota.Status.Hard) == 0 {
		return errors.New("the quota has not been counted")
	}
	return nil
}
