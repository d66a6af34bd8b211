// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Policy is a policy about what is created of a kind in the site. It denies every object with the name probe.
func (s *Site) Policy(group, resource, expression, message string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s", s.Namespace, resource)},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{
				{Expression: expression, Message: message},
				{Expression: "object.metadata.?name.orValue('') != 'probe'", Message: "the policy is there"},
			},
		},
	}
}

// BindingOf has a policy enforced.
func BindingOf(policy *admissionregistrationv1.ValidatingAdmissionPolicy) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
}

// Deny lets nobody make objects of a kind in the site until allow is called, or the test ends. The API server learns of policies
// later: the probe, an object of the kind, says when.
func (s *Site) Deny(group, resource, message string, probe client.Object) (allow func()) {
	s.T.Helper()
	policy := s.Policy(group, resource, "false", message)
	objects := []client.Object{policy, BindingOf(policy)}
	allow = func() {
		for _, object := range objects {
			if err := s.Cluster.Client.Delete(s.Ctx, object); err != nil && !apierrors.IsNotFound(err) {
				s.T.Error(err)
			}
		}
	}
	for _, object := range objects {
		s.Create(object)
		s.T.Cleanup(func() { _ = s.Cluster.Client.Delete(s.Ctx, object) })
	}
	Eventually(s.T, func() error {
		err := s.Cluster.Client.Create(s.Ctx, probe.DeepCopyObject().(client.Object), client.DryRunAll)
		if err == nil {
			return errors.New("the policy denies nothing")
		}
		if !strings.Contains(err.Error(), message) {
			return err
		}
		return nil
	})
	return allow
}
