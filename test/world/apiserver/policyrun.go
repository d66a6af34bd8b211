// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	noFields         = fields.Everything()
	objectInterfaces = admission.NewObjectInterfacesFromScheme(builtinScheme())
)

// mutateByPolicy lets the policies that mutate change a new object. The object that it returns may be another one.
func (w *write) mutateByPolicy(object client.Object) (client.Object, error) {
	mutating := w.server.currentPolicies().mutating
	if len(mutating) == 0 {
		return object, nil
	}
	for i := range mutating {
		p := &mutating[i]
		a := w.attributes(object, nil)
		if !w.server.concerns(p, a, object, nil) {
			continue
		}
		params, missing := w.server.params(p, w.key.Namespace)
		if missing && p.failure == admissionv1.Fail {
			return nil, denied(a, p, "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction", "")
		}
		for _, param := range params {
			next, err := w.mutateOnce(p, a, object, param)
			switch {
			case err == nil:
				object = next
			case p.failure == admissionv1.Fail:
				return nil, denied(a, p, err.Error(), "")
			}
		}
	}
	return object, nil
}

func (w *write) mutateOnce(p *policy, a admission.Attributes, object client.Object, param runtime.Object) (client.Object, error) {
	if p.err != nil {
		return nil, p.err
	}
	ctx := p.compiler.CreateContext(context.Background())
	attributes := &admission.VersionedAttributes{Attributes: a, VersionedKind: w.table.kind(), VersionedObject: admission.NewLazyObject(object)}
	if p.matcher != nil {
		switch result := p.matcher.Match(ctx, attributes, param, nil); {
		case result.Error != nil:
			return nil, result.Error
		case !result.Matches:
			return object, nil
		}
	}
	for _, patcher := range p.patchers {
		patched, err := patcher.Patch(ctx, patch.Request{
			MatchedResource: w.table.GroupVersionResource, VersionedAttributes: attributes, ObjectInterfaces: objectInterfaces,
			OptionalVariables: plugincel.OptionalVariableBindings{VersionedParams: param}, Namespace: w.server.namespaceOf(w),
		}, celconfig.RuntimeCELCostBudget)
		if err != nil {
			return nil, err
		}
		object = patched.(client.Object)
		object.GetObjectKind().SetGroupVersionKind(w.table.kind())
		if err := w.complete(object); err != nil {
			return nil, err
		}
		attributes.VersionedObject.Set(object)
	}
	return object, nil
}

// validateByPolicy asks the policies that validate. The object is nil for a deletion.
func (w *write) validateByPolicy(object, old client.Object) error {
	policies := w.server.currentPolicies().validating
	for i := range policies {
		p := &policies[i]
		a := w.attributes(object, old)
		if !p.denies || !w.server.concerns(p, a, object, old) {
			continue
		}
		if p.err != nil {
			return denied(a, p, p.err.Error(), "")
		}
		params, missing := w.server.params(p, w.key.Namespace)
		if missing && p.failure == admissionv1.Fail {
			return denied(a, p, "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction", "")
		}
		attributes := &admission.VersionedAttributes{Attributes: a, VersionedKind: w.table.kind()}
		if object != nil { // the fields are no client.Object: nil has to stay nil
			attributes.VersionedObject.Set(object)
		}
		if old != nil {
			attributes.VersionedOldObject.Set(old)
		}
		for _, param := range params {
			message, reason, err := w.judge(p, attributes, param)
			switch {
			case err != nil && p.failure == admissionv1.Fail:
				return denied(a, p, err.Error(), "")
			case message != "":
				return denied(a, p, message, reason)
			}
		}
	}
	return nil
}

// judge evaluates a policy. It returns the message of the first rule that an object breaks; "" if it breaks none.
func (w *write) judge(p *policy, a *admission.VersionedAttributes, param runtime.Object) (message string, reason metav1.StatusReason, err error) {
	ctx := p.compiler.CreateContext(context.Background())
	if p.matcher != nil {
		if result := p.matcher.Match(ctx, a, param, nil); result.Error != nil || !result.Matches {
			return "", "", result.Error
		}
	}
	bindings := plugincel.OptionalVariableBindings{VersionedParams: param}
	request := plugincel.CreateAdmissionRequest(a.Attributes, metav1.GroupVersionResource(w.table.GroupVersionResource), metav1.GroupVersionKind(a.VersionedKind))
	namespace := plugincel.CreateNamespaceObject(w.server.namespaceOf(w))
	verdicts, _, err := p.verdicts.ForInput(ctx, a, request, bindings, namespace, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return "", "", err
	}
	for i, verdict := range verdicts {
		if verdict.Error != nil {
			return "", "", verdict.Error
		}
		if verdict.EvalResult == types.True {
			continue
		}
		reason = metav1.StatusReasonInvalid
		if p.rules[i].Reason != nil {
			reason = *p.rules[i].Reason
		}
		said, _, err := p.messages.ForInput(ctx, a, request, bindings, namespace, celconfig.RuntimeCELCostBudget)
		if err != nil {
			return "", "", err
		}
		return p.rules.message(i, said[i]), reason, nil
	}
	return "", "", nil
}

// message is what is said of an object that breaks a rule.
func (r rulesOfPolicy) message(i int, said plugincel.EvaluationResult) string {
	if said.Error == nil && said.EvalResult != nil {
		if text, ok := said.EvalResult.Value().(string); ok && strings.TrimSpace(text) != "" {
			return strings.TrimSpace(text)
		}
	}
	if text := strings.TrimSpace(r[i].Message); text != "" {
		return text
	}
	return "failed expression: " + strings.TrimSpace(r[i].Expression)
}

// denied is the error of the API server for an object that a policy refuses.
func denied(a admission.Attributes, p *policy, message string, reason metav1.StatusReason) error {
	text := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", p.name, p.binding, message)
	if p.patchers != nil {
		text = fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", p.name, p.binding, message)
	}
	var refusal *apierrors.StatusError
	if err := admission.NewForbidden(a, errors.New(text)); !errors.As(err, &refusal) {
		return err
	}
	if reason == "" {
		reason = metav1.StatusReasonInvalid
	}
	refusal.ErrStatus.Reason, refusal.ErrStatus.Code = reason, http.StatusUnprocessableEntity
	switch reason {
	case metav1.StatusReasonForbidden:
		refusal.ErrStatus.Code = http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		refusal.ErrStatus.Code = http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		refusal.ErrStatus.Code = http.StatusRequestEntityTooLarge
	default:
	}
	refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{Message: text})
	return refusal
}
