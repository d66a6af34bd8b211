// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"errors"
	"testing"

	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Something carries out every step. What a step does to nothing does not matter here.
func TestEveryStepIsCarriedOut(t *testing.T) {
	for _, properties := range life.Steps {
		err := func() (err error) {
			defer func() { _ = recover() }()
			return (&Reconciler{}).carryOut(t.Context(), &observed{}, life.Plan{Step: properties.Step})
		}()
		if errors.Is(err, errNoSuchStep) {
			t.Error(err)
		}
	}
}
