// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2etools runs the programs for development, which start clusters of their own: the demo, the experiment with
// many gangs at once, and the comparison of schedulers.
package e2etools

import (
	"context"
	"testing"

	"github.com/flux-elastic/flux-elastic/test/harness"
)

// env is what all tests share.
var env struct{ *harness.Suite }

func TestMain(m *testing.M) { harness.Main(m, "e2e-tools", start) }

func start(ctx context.Context, dir string) (end func() error, err error) {
	env.Suite, err = harness.NewSuite(ctx, dir, "make control-plane")
	return nil, err
}
