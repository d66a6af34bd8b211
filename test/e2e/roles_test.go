// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/test/harness"
)

// The roles of the manager.
const (
	coreRole    = "flux-elastic"
	kueueRole   = "flux-elastic-kueue"
	jobSetRole  = "flux-elastic-jobset"
	directRole  = "flux-elastic-direct"
	scaleUpRole = "flux-elastic-scaleup"
	authRole    = "flux-elastic-auth"
	leaderRole  = "flux-elastic-leader-election"
	nobody      = ""
	managerHome = "flux-elastic-system"
)

// installs are the ways to install, as kustomizations, and the roles that each gives to the manager.
var installs = map[string]struct {
	kustomization string // with the path of config
	roles         []string
}{
	"default":         {"resources: [%[1]s/default]", []string{coreRole, kueueRole, scaleUpRole, leaderRole, authRole}},
	"embedded":        {"resources: [%[1]s/embedded]", []string{coreRole, kueueRole, scaleUpRole, leaderRole, authRole, jobSetRole}},
	"default-direct":  {"resources: [%[1]s/default]\ncomponents: [%[1]s/direct]", []string{coreRole, kueueRole, scaleUpRole, leaderRole, authRole, directRole}},
	"embedded-direct": {"resources: [%[1]s/embedded]\ncomponents: [%[1]s/direct]", []string{coreRole, kueueRole, scaleUpRole, leaderRole, authRole, jobSetRole, directRole}},
}

// What the manager may do, and by which of its roles alone: "VERB RESOURCE.GROUP/SUBRESOURCE NAME". Nothing else in this
// list is allowed.
var rights = map[string]string{
	"list miniclusters.flux-framework.org":              coreRole,
	"delete miniclusters.flux-framework.org":            coreRole,
	"patch miniclusters.flux-framework.org/status":      coreRole,
	"patch miniclusterqueues.flux-framework.org/status": coreRole,
	"watch pods":                             coreRole,
	"patch pods":                             coreRole,
	"create pods/eviction":                   coreRole,
	"create secrets":                         coreRole,
	"create configmaps":                      coreRole,
	"patch services":                         coreRole,
	"list nodes":                             coreRole,
	"list resourcequotas":                    coreRole,
	"list storageclasses.storage.k8s.io":     coreRole,
	"create jobsets.jobset.x-k8s.io":         coreRole,
	"deletecollection jobs.batch":            coreRole,
	"list jobs.batch":                        coreRole,
	"update endpointslices.discovery.k8s.io": coreRole,
	"list events":                            coreRole,
	"create events.events.k8s.io":            coreRole,
	"list leases.coordination.k8s.io 14dde902.flux-framework.org":                           coreRole,
	"list deployments.apps operator-controller-manager":                                     coreRole,
	"create workloads.kueue.x-k8s.io":                                                       kueueRole,
	"patch workloads.kueue.x-k8s.io/status":                                                 kueueRole,
	"list clusterqueues.kueue.x-k8s.io":                                                     kueueRole,
	"get localqueues.visibility.kueue.x-k8s.io/pendingworkloads":                            kueueRole,
	"create podtemplates":                                                                   scaleUpRole,
	"delete capacitybuffers.autoscaling.x-k8s.io":                                           scaleUpRole,
	"create provisioningrequests.autoscaling.x-k8s.io":                                      scaleUpRole,
	"list nodepools.karpenter.sh":                                                           scaleUpRole,
	"create jobs.batch":                                                                     coreRole,
	"update jobs.batch":                                                                     jobSetRole,
	"update jobs.batch/status":                                                              jobSetRole,
	"update jobsets.jobset.x-k8s.io/status":                                                 jobSetRole,
	"create customresourcedefinitions.apiextensions.k8s.io":                                 jobSetRole,
	"update customresourcedefinitions.apiextensions.k8s.io jobsets.jobset.x-k8s.io":         jobSetRole,
	"update customresourcedefinitions.apiextensions.k8s.io miniclusters.flux-framework.org": nobody,
	"list leases.coordination.k8s.io 6d4f6a47.jobset.x-k8s.io":                              jobSetRole,
	"create pods/binding":                                                                   directRole,
	"create tokenreviews.authentication.k8s.io":                                             authRole,
	"create subjectaccessreviews.authorization.k8s.io":                                      authRole,

	// Not what belongs to users, administrators or others.
	"get secrets":                                       nobody,
	"list secrets":                                      nobody,
	"watch secrets":                                     nobody,
	"update secrets":                                    nobody,
	"delete secrets":                                    nobody,
	"list configmaps":                                   nobody,
	"update configmaps":                                 nobody,
	"delete services":                                   nobody,
	"update pods":                                       nobody,
	"patch pods/status":                                 nobody,
	"create pods/exec":                                  nobody,
	"create pods/attach":                                nobody,
	"create pods/portforward":                           nobody,
	"patch pods/ephemeralcontainers":                    nobody,
	"get pods/log":                                      nobody,
	"get nodes/proxy":                                   nobody,
	"patch nodes":                                       nobody,
	"delete nodes":                                      nobody,
	"create nodeclaims.karpenter.sh":                    nobody,
	"patch nodepools.karpenter.sh":                      nobody,
	"create namespaces":                                 nobody,
	"patch namespaces":                                  nobody,
	"patch persistentvolumes":                           nobody,
	"create serviceaccounts/token":                      nobody,
	"impersonate users":                                 nobody,
	"impersonate serviceaccounts":                       nobody,
	"create miniclusters.flux-framework.org":            nobody,
	"patch miniclusters.flux-framework.org":             nobody,
	"patch miniclusterqueues.flux-framework.org":        nobody,
	"create miniclusterreservations.flux-framework.org": nobody,
	"update jobsets.jobset.x-k8s.io":                    nobody,
	"patch clusterqueues.kueue.x-k8s.io":                nobody,
	"create deployments.apps":                           nobody,
	"list deployments.apps":                             nobody,
	"create daemonsets.apps":                            nobody,
	"list leases.coordination.k8s.io":                   nobody,
	"get leases.coordination.k8s.io manager.flux-framework.org":             nobody, // in other namespaces than its own
	"create leases.coordination.k8s.io":                                     nobody,
	"create clusterroles.rbac.authorization.k8s.io":                         nobody,
	"bind clusterroles.rbac.authorization.k8s.io":                           nobody,
	"escalate clusterroles.rbac.authorization.k8s.io":                       nobody,
	"create rolebindings.rbac.authorization.k8s.io":                         nobody,
	"create clusterrolebindings.rbac.authorization.k8s.io":                  nobody,
	"update customresourcedefinitions.apiextensions.k8s.io":                 nobody,
	"delete customresourcedefinitions.apiextensions.k8s.io":                 nobody,
	"create mutatingwebhookconfigurations.admissionregistration.k8s.io":     nobody,
	"delete validatingadmissionpolicies.admissionregistration.k8s.io":       nobody,
	"delete validatingadmissionpolicybindings.admissionregistration.k8s.io": nobody,
	"patch networkpolicies.networking.k8s.io":                               nobody,
	"delete poddisruptionbudgets.policy":                                    nobody,
	"create certificatesigningrequests.certificates.k8s.io":                 nobody,
}

// rightsAtHome are those in the manager's namespace, besides.
var rightsAtHome = map[string]string{
	"create leases.coordination.k8s.io":                            leaderRole,
	"get leases.coordination.k8s.io manager.flux-framework.org":    leaderRole,
	"update leases.coordination.k8s.io manager.flux-framework.org": leaderRole,
	"create events": leaderRole,
	"update leases.coordination.k8s.io other":                      nobody,
	"delete leases.coordination.k8s.io manager.flux-framework.org": nobody,
	"get secrets":                         nobody,
	"patch deployments.apps flux-elastic": nobody,
}

// What each role of the manager allows, and which roles each install gives to the manager.
func TestRights(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	users := map[string]string{} // by role
	for name, install := range installs {
		roles := s.rolesOf(name)
		if got := slices.Sorted(maps.Keys(roles)); !slices.Equal(got, slices.Sorted(slices.Values(install.roles))) {
			t.Errorf("config/%s gives the manager the roles %q", name, got)
		}
		for role, rules := range roles {
			if users[role] != "" {
				continue
			}
			users[role] = s.namespace + "-" + role
			s.grant(users[role], role == leaderRole, rules)
		}
	}
	for namespace, table := range map[string]map[string]string{s.namespace: rights, managerHome: rightsAtHome} {
		for right, by := range table {
			for role, user := range users {
				s.expectMay(user, namespace, right, role == by)
			}
		}
	}
}

// Every rule names what it allows.
func TestRightsWithoutWildcards(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	for name := range installs {
		for role, rules := range s.rolesOf(name) {
			for _, rule := range rules {
				if all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs); slices.Contains(all, "*") || len(rule.NonResourceURLs) > 0 {
					t.Errorf("config/%s: %s: %+v", name, role, rule)
				}
			}
		}
	}
}

// right is how a right is written in a table.
var right = regexp.MustCompile(`^(\w+) (\w+)\.?([^/ ]*)/?(\w*) ?(\S*)$`)

// expectMay waits until the API server says that a user may do something, or may not. It learns of new roles, and a
// controller puts the roles of users together.
func (s *site) expectMay(user, namespace, what string, want bool) {
	s.t.Helper()
	m := right.FindStringSubmatch(what)
	if m == nil {
		s.t.Fatalf("%q is no right", what)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: m[1], Resource: m[2], Group: m[3], Subresource: m[4], Name: m[5],
		},
	}}
	err := poll(func() error {
		asked := review.DeepCopy()
		if err := env.client.Create(s.ctx, asked); err != nil {
			return final(err)
		}
		if asked.Status.Allowed != want {
			return fmt.Errorf("may %s %s in %q: %t", user, what, namespace, asked.Status.Allowed)
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
}

// rolesOf are the rules of the roles that an install gives to the manager, by role.
func (s *site) rolesOf(install string) map[string][]rbacv1.PolicyRule {
	s.t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	given := map[string][]rbacv1.PolicyRule{}
	var bindings []string
	for _, object := range s.kustomize(installs[install].kustomization) {
		switch object := object.(type) {
		case *rbacv1.ClusterRole:
			rules[object.Name] = object.Rules
		case *rbacv1.Role:
			rules[object.Name] = object.Rules
		case *rbacv1.ClusterRoleBinding:
			if toManager(object.Subjects) {
				bindings = append(bindings, object.RoleRef.Name)
			}
		case *rbacv1.RoleBinding:
			if toManager(object.Subjects) {
				bindings = append(bindings, object.RoleRef.Name)
			}
		}
	}
	for _, name := range bindings {
		given[name] = rules[name]
	}
	return given
}

func toManager(subjects []rbacv1.Subject) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return s.Namespace+":"+s.Name == harness.Account })
}

// kustomize returns the objects of a kustomization that the client knows. The text has the path of config in it.
func (s *site) kustomize(text string) []runtime.Object {
	s.t.Helper()
	dir := s.t.TempDir()
	config, err := filepath.Rel(dir, filepath.Join(env.Root, "config"))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), fmt.Appendf(nil, text, config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	out, err := kubectl(s.ctx, "kustomize", dir)
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	var objects []runtime.Object
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096)
	for {
		var raw runtime.RawExtension
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			s.t.Fatal(err)
		}
		object, _, err := serializer.NewCodecFactory(env.Scheme).UniversalDeserializer().Decode(raw.Raw, nil, nil)
		if err == nil {
			objects = append(objects, object)
		} else if !runtime.IsNotRegisteredError(err) {
			s.t.Fatal(err)
		}
	}
}

// grant gives rights to a user until the test ends: everywhere, or in the manager's namespace alone.
func (s *site) grant(user string, atHome bool, rules []rbacv1.PolicyRule) {
	s.t.Helper()
	meta := metav1.ObjectMeta{Name: strings.ReplaceAll(user, ":", "-")}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	objects := []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}},
	}
	if atHome {
		meta.Namespace = managerHome
		objects = []client.Object{
			&rbacv1.Role{ObjectMeta: meta, Rules: rules},
			&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}},
		}
	}
	for _, object := range objects {
		s.shared.Create(object)
		s.t.Cleanup(func() { s.delete(object) })
	}
}

// installed gives the rights of an install to the account flux-elastic of the site's namespace, and returns a
// kubeconfig of it. The test fails at its end if the account asked for more.
func (s *site) installed(install string) (kubeconfig string) {
	s.t.Helper()
	account := s.namespace + ":flux-elastic"
	user := "system:serviceaccount:" + account
	var rules []rbacv1.PolicyRule
	for role, of := range s.rolesOf(install) {
		if role != leaderRole {
			rules = append(rules, of...)
		}
	}
	s.grant(user, false, rules)
	s.t.Cleanup(func() {
		if err := harness.CheckRights(s.ctx, env.cluster.Cluster, account); err != nil {
			s.t.Error(err)
		}
	})
	kubeconfig = filepath.Join(s.t.TempDir(), "kubeconfig")
	if err := harness.WriteKubeconfig(env.cluster.Cluster, kubeconfig, env.cluster.URL(), user); err != nil {
		s.t.Fatal(err)
	}
	s.expectMay(user, "", "list miniclusters.flux-framework.org", true)
	return kubeconfig
}
