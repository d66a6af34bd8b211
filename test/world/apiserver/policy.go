// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// policies are the policies of the server's objects with their bindings. They are made anew after each change of one.
type policies struct {
	made       bool
	mutating   []policy
	validating []policy
}

// policy is one binding of a policy.
type policy struct {
	name, binding string
	constraints   *admissionv1.MatchResources
	narrower      *admissionv1.MatchResources // of the binding; may be nil
	failure       admissionv1.FailurePolicyType
	param         *admissionv1.ParamKind
	paramRef      *admissionv1.ParamRef
	denies        bool
	*compiled
}

func (s *Server) currentPolicies() *policies {
	if s.policies.made {
		return &s.policies
	}
	s.policies = policies{made: true}
	bindings := s.builtinTable("mutatingadmissionpolicybindings")
	for _, k := range bindings.sorted {
		b := bindings.objects[k].object.(*admissionv1.MutatingAdmissionPolicyBinding)
		v := s.builtinTable("mutatingadmissionpolicies").objects[key{Name: b.Spec.PolicyName}]
		if v == nil {
			continue
		}
		p := v.object.(*admissionv1.MutatingAdmissionPolicy)
		s.policies.mutating = append(s.policies.mutating, policy{
			name: p.Name, binding: b.Name, constraints: p.Spec.MatchConstraints, narrower: b.Spec.MatchResources, failure: failureOf(p.Spec.FailurePolicy),
			param: p.Spec.ParamKind, paramRef: b.Spec.ParamRef, denies: true,
			compiled: compileOnce("mutating "+p.Name, p.Spec, func() *compiled { return compileMutating(p) }),
		})
	}
	bindings = s.builtinTable("validatingadmissionpolicybindings")
	for _, k := range bindings.sorted {
		b := bindings.objects[k].object.(*admissionv1.ValidatingAdmissionPolicyBinding)
		v := s.builtinTable("validatingadmissionpolicies").objects[key{Name: b.Spec.PolicyName}]
		if v == nil {
			continue
		}
		p := v.object.(*admissionv1.ValidatingAdmissionPolicy)
		s.policies.validating = append(s.policies.validating, policy{
			name: p.Name, binding: b.Name, constraints: p.Spec.MatchConstraints, narrower: b.Spec.MatchResources, failure: failureOf(p.Spec.FailurePolicy),
			param: p.Spec.ParamKind, paramRef: b.Spec.ParamRef, denies: slices.Contains(b.Spec.ValidationActions, admissionv1.Deny),
			compiled: compileOnce("validating "+p.Name, p.Spec, func() *compiled { return compileValidating(p) }),
		})
	}
	return &s.policies
}

func failureOf(p *admissionv1.FailurePolicyType) admissionv1.FailurePolicyType {
	if p == nil {
		return admissionv1.Fail
	}
	return *p
}

// attributes are what admission knows of a write: a creation, an update of an old object, or its deletion.
func (w *write) attributes(object, old client.Object) admission.Attributes {
	if object == nil {
		return admission.NewAttributesRecord(nil, old, w.table.kind(), w.key.Namespace, old.GetName(),
			w.table.GroupVersionResource, w.subresource, admission.Delete, w.deletion, w.dryRun, userInfo(w.user))
	}
	operation, options := admission.Create, runtime.Object(&metav1.CreateOptions{})
	var before runtime.Object // not a client.Object: nil has to stay nil
	if old != nil {
		operation, options, before = admission.Update, &metav1.UpdateOptions{}, old
	}
	return admission.NewAttributesRecord(object, before, w.table.kind(), w.key.Namespace, object.GetName(),
		w.table.GroupVersionResource, w.subresource, operation, options, w.dryRun, userInfo(w.user))
}

// userInfo is a user with the groups that his name shows.
func userInfo(name string) user.Info {
	info := &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}
	if account, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(account, ":")
		info.Groups = append(info.Groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	if name == Admin {
		info.Groups = append(info.Groups, user.SystemPrivilegedGroup)
	}
	return info
}

// concerns reports whether a policy with its binding is about a write.
func (s *Server) concerns(p *policy, a admission.Attributes, object, old client.Object) bool {
	return s.matchResources(p.constraints, a, object, old, true) && s.matchResources(p.narrower, a, object, old, false)
}

func (s *Server) matchResources(m *admissionv1.MatchResources, a admission.Attributes, object, old client.Object, needsRule bool) bool {
	if m == nil {
		return !needsRule
	}
	if (len(m.ResourceRules) > 0 || needsRule) && !matchRules(m.ResourceRules, a) || matchRules(m.ExcludeResourceRules, a) {
		return false
	}
	if m.ObjectSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(m.ObjectSelector)
		selects := func(o client.Object) bool { return o != nil && selector.Matches(labelsOf(o)) }
		if err != nil || !selects(object) && !selects(old) {
			return false
		}
	}
	return m.NamespaceSelector == nil || a.GetNamespace() == "" || s.matchNamespace(m.NamespaceSelector, a.GetNamespace())
}

func matchRules(list []admissionv1.NamedRuleWithOperations, a admission.Attributes) bool {
	return slices.ContainsFunc(list, func(r admissionv1.NamedRuleWithOperations) bool {
		matcher := rules.Matcher{Rule: r.RuleWithOperations, Attr: a}
		return (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.GetName())) && matcher.Matches()
	})
}

func (s *Server) matchNamespace(by *metav1.LabelSelector, name string) bool {
	selector, err := metav1.LabelSelectorAsSelector(by)
	namespace := s.builtinTable("namespaces").objects[key{Name: name}]
	return err == nil && namespace != nil && selector.Matches(namespace.labels)
}

// params are the objects with which a policy is evaluated, once for each: one nil if it has none.
func (s *Server) params(p *policy, namespace string) (params []runtime.Object, missing bool) {
	if p.param == nil || p.paramRef == nil {
		return []runtime.Object{nil}, false
	}
	t := s.tableOf(schema.FromAPIVersionAndKind(p.param.APIVersion, p.param.Kind))
	if t == nil {
		return nil, true
	}
	sel := selector{labels: labels.Everything(), fields: noFields}
	if t.Namespaced {
		sel.namespace = namespace
		if p.paramRef.Namespace != "" {
			sel.namespace = p.paramRef.Namespace
		}
	}
	if p.paramRef.Selector != nil {
		chosen, err := metav1.LabelSelectorAsSelector(p.paramRef.Selector)
		if err != nil {
			return nil, true
		}
		sel.labels = chosen
	}
	for _, v := range s.selected(t, sel) {
		if p.paramRef.Name == "" || p.paramRef.Name == v.key.Name {
			params = append(params, v.object)
		}
	}
	isDenied := p.paramRef.ParameterNotFoundAction != nil && *p.paramRef.ParameterNotFoundAction == admissionv1.DenyAction
	return params, len(params) == 0 && isDenied
}

func (s *Server) namespaceOf(w *write) *corev1.Namespace {
	if !w.table.Namespaced {
		return nil
	}
	if v := s.builtinTable("namespaces").objects[key{Name: w.key.Namespace}]; v != nil {
		return v.object.(*corev1.Namespace)
	}
	return nil
}
