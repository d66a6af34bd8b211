// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/test/world/apiserver"
	"github.com/flux-elastic/flux-elastic/test/world/apiserver/contract"
)

// The API server in memory, on which test/world runs the manager, answers as a real one.
func TestServerInMemory(t *testing.T) {
	t.Parallel()
	if localcluster.Minor != apiserver.Minor {
		t.Skipf("the server in memory is modelled after Kubernetes %s, not %s", apiserver.Minor, localcluster.Minor)
	}
	config, err := env.cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	server, err := contract.Real(config)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := contract.InMemory(apiserver.Definitions, apiserver.Admission, apiserver.Limits)
	if err != nil {
		t.Fatal(err)
	}
	name := "contract-" + strings.ToLower(rand.Text())
	t.Cleanup(func() {
		for _, namespace := range []string{name, name + "-other", name + "-third"} {
			object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
			if err := client.IgnoreNotFound(env.client.Delete(context.Background(), object)); err != nil {
				t.Error(err)
			}
		}
	})
	differences, err := contract.Compare(t.Context(), server, memory, name, contract.Requests())
	if err != nil {
		t.Fatal(err)
	}
	for _, difference := range differences {
		t.Error(difference)
	}
}
