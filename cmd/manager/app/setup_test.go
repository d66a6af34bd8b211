// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
)

// starting is a cache in which no informer is synced.
type starting struct {
	cache.Cache
	started int
}

func (s *starting) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	s.started++
	return controllertest.NewFakeInformer(), nil
}

// In a manager that does not lead, the first check starts the informers of all kinds, and says which are not synced.
func TestCachesSynced(t *testing.T) {
	informers := &starting{}
	err := cachesSynced(informers)(httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if err == nil || informers.started < 10 || strings.Count(err.Error(), "not synced yet") != informers.started {
		t.Errorf("%d informers were started: %v", informers.started, err)
	}
}
