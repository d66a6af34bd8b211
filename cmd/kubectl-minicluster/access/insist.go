// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	shortestPause = time.Second
	longestPause  = 30 * time.Second
	// startsWithin is how long an API server that starts may refuse what it allows later: it has not read the roles yet.
	startsWithin = time.Minute
)

// Insist repeats a request while the API server or the way to it has trouble that passes. It tells the first trouble.
func (s *Session) Insist(ctx context.Context, tell func(error), request func() error) error {
	began := s.Clock.Now()
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		err := request()
		starts := apierrors.IsForbidden(err) && s.answered.Load() && s.Clock.Since(began) < startsWithin
		if err == nil {
			s.answered.Store(true)
		}
		if err == nil || !Passes(err) && !starts {
			return err
		}
		if tell != nil && ctx.Err() == nil {
			tell(err)
			tell = nil
		}
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			pause = max(pause, time.Duration(seconds)*time.Second)
		}
		if over := s.Sleep(ctx, pause); over != nil {
			return fmt.Errorf("%w: %w", over, err) // a caller may say what the trouble was
		}
	}
}

// TellTrouble says for which error a request is repeated.
func (s *Session) TellTrouble(err error) {
	fmt.Fprintf(s.ErrOut, "kubectl-minicluster: trying again: %s\n", Explain(err))
}

// Sleep waits for some time. It returns the cause if the context is done before.
func (s *Session) Sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.Clock.After(pause):
		return nil
	}
}

// Passes reports whether the same request may succeed later.
func Passes(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError {
		return true // also without a reason, as for a kubelet that does not answer
	}
	return apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || ExceedsQuota(err) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsTimeout(err) || utilnet.IsProbableEOF(err)
}

// ExceedsQuota reports whether a ResourceQuota of the namespace refuses an object. It may have room later.
func ExceedsQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}
