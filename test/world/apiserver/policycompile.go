// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
)

// compiled is a policy with its expressions compiled by the library that the API server uses.
type compiled struct {
	compiler *plugincel.CompositedCompiler
	matcher  matchconditions.Matcher // nil without conditions
	patchers []patch.Patcher
	rules    rulesOfPolicy
	verdicts plugincel.ConditionEvaluator // one for each rule
	messages plugincel.ConditionEvaluator // one for each rule, some empty
	err      error
}

// rulesOfPolicy are what a policy demands.
type rulesOfPolicy []admissionv1.Validation

// expression is one that a policy has.
type expression struct {
	name, text string
	result     *cel.Type
}

func (e *expression) GetName() string          { return e.name }
func (e *expression) GetExpression() string    { return e.text }
func (e *expression) ReturnTypes() []*cel.Type { return []*cel.Type{e.result} }

var (
	compilations      = map[[sha256.Size]byte]*compiled{}
	compilationsMutex sync.Mutex
)

// compileOnce compiles a policy, or returns what was compiled earlier in this process for the same text.
func compileOnce(name string, spec any, compile func() *compiled) *compiled {
	text, err := json.Marshal(spec)
	if err != nil {
		return &compiled{err: err}
	}
	sum := sha256.Sum256(append([]byte(name+"\n"), text...))
	compilationsMutex.Lock()
	defer compilationsMutex.Unlock()
	if compilations[sum] == nil {
		compilations[sum] = compile()
	}
	return compilations[sum]
}

// begin compiles what both kinds of policies have.
func begin(name string, variables []admissionv1.Variable, conditions []admissionv1.MatchCondition, failure *admissionv1.FailurePolicyType, o plugincel.OptionalVariableDeclarations) *compiled {
	c := &compiled{}
	if c.compiler, c.err = plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())); c.err != nil {
		return c
	}
	named := make([]plugincel.NamedExpressionAccessor, len(variables))
	for i, v := range variables {
		named[i] = &expression{name: v.Name, text: v.Expression, result: cel.AnyType}
	}
	c.compiler.CompileAndStoreVariables(named, o, environment.StoredExpressions)
	if len(conditions) > 0 {
		expressions := make([]plugincel.ExpressionAccessor, len(conditions))
		for i := range conditions {
			expressions[i] = (*matchconditions.MatchCondition)(&conditions[i])
		}
		evaluator := c.compiler.CompileCondition(expressions, o, environment.StoredExpressions)
		c.matcher = matchconditions.NewMatcher(evaluator, failure, "policy", "validate", name)
	}
	return c
}

func compileMutating(p *admissionv1.MutatingAdmissionPolicy) *compiled {
	o := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	c := begin(p.Name, p.Spec.Variables, p.Spec.MatchConditions, p.Spec.FailurePolicy, o)
	if c.err != nil {
		return c
	}
	o.HasPatchTypes = true
	for _, m := range p.Spec.Mutations {
		switch {
		case m.JSONPatch != nil:
			evaluator := c.compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, o, environment.StoredExpressions)
			c.patchers = append(c.patchers, patch.NewJSONPatcher(evaluator))
		case m.ApplyConfiguration != nil:
			evaluator := c.compiler.CompileMutatingEvaluator(&patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression}, o, environment.StoredExpressions)
			c.patchers = append(c.patchers, patch.NewApplyConfigurationPatcher(evaluator))
		}
	}
	return c
}

func compileValidating(p *admissionv1.ValidatingAdmissionPolicy) *compiled {
	o := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	c := begin(p.Name, p.Spec.Variables, p.Spec.MatchConditions, p.Spec.FailurePolicy, o)
	if c.err != nil {
		return c
	}
	conditions := make([]plugincel.ExpressionAccessor, len(p.Spec.Validations))
	messages := make([]plugincel.ExpressionAccessor, len(p.Spec.Validations))
	for i, v := range p.Spec.Validations {
		conditions[i] = &expression{text: v.Expression, result: cel.BoolType}
		if v.MessageExpression != "" {
			messages[i] = &expression{text: v.MessageExpression, result: cel.StringType}
		}
	}
	withoutAuthorizer := plugincel.OptionalVariableDeclarations{HasParams: o.HasParams}
	c.rules = p.Spec.Validations
	c.verdicts = c.compiler.CompileCondition(conditions, o, environment.StoredExpressions)
	c.messages = c.compiler.CompileCondition(messages, withoutAuthorizer, environment.StoredExpressions)
	return c
}
