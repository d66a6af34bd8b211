// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// Timeout is how long anything that is waited for may take. The timeout bounds how long a test that
// fails hangs. It says nothing about speed: a busy machine takes many times what a quiet one does.
const Timeout = 10 * time.Minute

// WallClock is the clock of the machine, on which all programs of a cluster run.
var WallClock clock.WithTicker = clock.RealClock{}

type final struct{ error }

// Final returns an error that ends Poll: waiting longer does not mend it.
func Final(err error) error { return final{err} }

// Poll attempts until an attempt succeeds, and returns the last error if none does in time.
func Poll(attempt func() error) error { return PollFor(Timeout, attempt) }

// PollFor is Poll with a limit. It pauses for as long as an attempt takes, and longer the longer it has waited, so that
// questions do not keep the machine busy.
func PollFor(limit time.Duration, attempt func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	start := WallClock.Now()
	for {
		began := WallClock.Now()
		err := attempt()
		if err == nil || errors.As(err, new(final)) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", limit, err)
		case <-WallClock.After(max(50*time.Millisecond, WallClock.Since(began), min(WallClock.Since(start)/20, 500*time.Millisecond))):
		}
	}
}

// Eventually ends the test unless an attempt succeeds in time.
func Eventually(t *testing.T, attempt func() error) {
	t.Helper()
	if err := Poll(attempt); err != nil {
		t.Fatal(err)
	}
}
